"""QONNX Trunc nodes: which nodes they are, which version each is, and what their inputs mean.

Source: qonnx 1.0.0, `custom_op/general/trunc.py` and `docs/qonnx-custom-ops/trunc_v1.md`, `trunc_v2.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.text import site_of

TRUNC_DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")

_INPUTS_OF_VERSION = {1: 5, 2: 6}


@dataclass(frozen=True, slots=True)
class TruncNode:
    """What a Trunc node says. `guessed` where its domain is not imported and the version follows from its inputs."""

    version: int
    guessed: bool
    rounding_mode: str
    signed: bool
    narrow: bool


def is_trunc(node: onnx_ir.Node) -> bool:
    return node.op_type == "Trunc" and node.domain in TRUNC_DOMAINS


def read_trunc(node: onnx_ir.Node, imports: Mapping[str, int]) -> TruncNode:
    """The version and attributes of a Trunc node. The version is that of the domain's opset import; where the model
    does not import the domain it follows from the number of inputs, and `guessed` is set.

    Raises ModelError where the inputs do not fit the version, or `rounding_mode` is absent (QONNX requires it).
    """
    count = len(node.inputs)
    imported = imports.get(node.domain)
    by_inputs = next((version for version, inputs in _INPUTS_OF_VERSION.items() if inputs == count), None)
    version = by_inputs if imported is None else min(imported, max(_INPUTS_OF_VERSION))
    if version is None or _INPUTS_OF_VERSION.get(version) != count or None in node.inputs:
        raise ModelError(
            f"{site_of(node)}: Trunc has {count} inputs, which fits no version of it that {node.domain}"
            f" {'has' if imported is None else f'{imported} has'}."
        )
    mode = node.attributes.get_string("rounding_mode")
    if mode is None:
        raise ModelError(f"{site_of(node)}: Trunc has no rounding_mode, which QONNX requires.")
    signed, narrow = node.attributes.get_int("signed", 1), node.attributes.get_int("narrow", 0)
    return TruncNode(version, imported is None, mode, bool(signed), bool(narrow))


def trunc_operands(node: onnx_ir.Node, version: int) -> dict[str, onnx_ir.Value]:
    """The inputs by the names that `castsmith.numerics.trunc.trunc` gives them."""
    names = ("x", "scale", "zero_point", "in_bitwidth", "out_bitwidth")
    if version == 2:
        names = ("x", "scale", "zero_point", "in_bitwidth", "out_scale", "out_bitwidth")
    return {name: value for name, value in zip(names, node.inputs, strict=True) if value is not None}
