"""QONNX nodes: their operators, the version of a Trunc, and the meaning of its inputs.

Source: qonnx 1.0.0, `custom_op/general/trunc.py` and `docs/qonnx-custom-ops/trunc_v1.md`, `trunc_v2.md`; the documents
name the domain `qonnx.custom_ops.general`. Defaults of attributes are those of the documents: the executor of qonnx
refuses a node without an attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.text import site_of

QONNX_DOMAINS = (
    "qonnx.custom_op.general",
    "onnx.brevitas",
    "finn.custom_op.general",
    "qonnx.custom_ops.general",
)

TRUNCS = ("Trunc", "TruncQuant")
QUANTIZERS = frozenset({"Quant", "IntQuant", "BipolarQuant", "FloatQuant", *TRUNCS})
"""Domains whose operators are standard operators in a row. Brevitas exports Trunc of version 2 as TruncQuant."""

DEFAULTS = {
    "signed": 1,
    "narrow": 0,
    "has_inf": 0,
    "has_nan": 0,
    "has_subnormal": 1,
    "saturation": 1,
}
"""Default values of the flags of these operators."""

_TRUNC_ROUNDING = "FLOOR"
_INPUTS_OF_VERSION = {1: 5, 2: 6}
_FIRST_VERSION_ONLY = "finn.custom_op.general"
"""qonnx renames the domain of these nodes, but not its import, and runs version 1 of Trunc."""

_REQUIRED = {
    "Quant": ("signed", "narrow"),
    "IntQuant": ("signed", "narrow"),
    "BipolarQuant": (),
    "FloatQuant": ("has_inf", "has_nan", "has_subnormal", "saturation"),
    "Trunc": ("rounding_mode",),
}
"""The operators that the executor of qonnx has, each with the attributes without which it refuses a node."""


@dataclass(frozen=True, slots=True)
class TruncNode:
    """Meaning of a Trunc node. `guessed`: its domain is not imported and the version follows from its inputs."""

    version: int
    guessed: bool
    rounding_mode: str
    signed: bool
    narrow: bool


def is_quantizer(node: onnx_ir.Node) -> bool:
    """True for an operator of QONNX that quantizes, including Trunc."""
    return node.op_type in QUANTIZERS and node.domain in QONNX_DOMAINS


def is_trunc(node: onnx_ir.Node) -> bool:
    """True for a Trunc of QONNX, whatever its version."""
    return node.op_type in TRUNCS and node.domain in QONNX_DOMAINS


def runs_in_qonnx(node: onnx_ir.Node, main: onnx_ir.Graph, imports: Mapping[str, int]) -> bool:
    """True if the executor of qonnx runs the node, with the meaning that `read_trunc` gives a Trunc.

    It runs nodes of the main graph only: subgraphs and functions are left to ONNX Runtime. A Trunc whose domain is not
    imported is run as version 1.
    """
    required = _REQUIRED.get(node.op_type)
    if required is None or node.graph is not main or any(name not in node.attributes for name in required):
        return False
    if node.op_type != "Trunc":
        return True
    version = 1 if node.domain == _FIRST_VERSION_ONLY else imports.get(node.domain, 1)
    return _INPUTS_OF_VERSION.get(min(version, max(_INPUTS_OF_VERSION))) == len(node.inputs)


def read_trunc(node: onnx_ir.Node, imports: Mapping[str, int]) -> TruncNode:
    """Return the version and attributes of a Trunc node.

    The version is that of the domain's opset import; if the model does not import the domain it follows from the number
    of inputs, and `guessed` is set.

    Raises:
        ModelError: The inputs do not fit the version.
    """
    count = len(node.inputs)
    imported = imports.get(node.domain) if node.op_type == "Trunc" else max(_INPUTS_OF_VERSION)
    by_inputs = next((version for version, inputs in _INPUTS_OF_VERSION.items() if inputs == count), None)
    version = by_inputs if imported is None else min(imported, max(_INPUTS_OF_VERSION))
    if version is None or _INPUTS_OF_VERSION.get(version) != count or None in node.inputs:
        raise ModelError(
            f"{site_of(node)}: {node.op_type} has {count} inputs, which fits no version of it in"
            f" {node.domain}{'' if imported is None else f' {imported}'}."
        )
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        raise ModelError(f"{site_of(node)}: an attribute of {node.op_type} is a parameter of the function around it.")
    mode = node.attributes.get_string("rounding_mode", "") or _TRUNC_ROUNDING
    return TruncNode(version, imported is None, mode, flag(node, "signed"), flag(node, "narrow"))


def flag(node: onnx_ir.Node, name: str) -> bool:
    """Return the attribute of a QONNX node, or its default."""
    return bool(node.attributes.get_int(name, DEFAULTS[name]))


def trunc_operands(node: onnx_ir.Node, version: int) -> dict[str, onnx_ir.Value]:
    """Return the inputs by their parameter names in `castsmith.numerics.trunc.trunc`."""
    names = ("x", "scale", "zero_point", "in_bitwidth", "out_bitwidth")
    if version == 2:
        names = ("x", "scale", "zero_point", "in_bitwidth", "out_scale", "out_bitwidth")
    return {name: value for name, value in zip(names, node.inputs, strict=True) if value is not None}
