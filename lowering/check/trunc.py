"""QONNX Trunc nodes that are malformed or have suspicious parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.qonnx import TruncNode, is_trunc, read_trunc, trunc_operands
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import Scope, graph_of
from castsmith.numerics.errors import TruncError
from castsmith.numerics.trunc import rounding_function

Parameters = dict[str, NDArray[np.float64]]

_FINN = "finn.custom_op.general"

TRUNC_MALFORMED = FindingCode(
    "trunc-malformed",
    "A QONNX Trunc node matches no version of Trunc.",
    why="Its number of inputs or its attributes fit neither version.",
    example="y = qonnx.custom_op.general.Trunc (x, scale)",
    advice="Export the model again with qonnx or brevitas.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never: the result of the node is not defined.",
)
TRUNC_VERSION_GUESSED = FindingCode(
    "trunc-version-guessed",
    "The domain of a Trunc node is not imported, so its version follows from its number of inputs.",
    why="The two versions of QONNX Trunc compute different results.",
    example="five inputs: treated as version 1",
    advice="Import the domain with the intended version.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="manual",
    silence="If the version in the message is the intended one.",
)
TRUNC_SUSPICIOUS = FindingCode(
    "trunc-suspicious",
    "The parameters of a QONNX Trunc are probably wrong.",
    why=(
        "QONNX accepts them: with more output bits than input bits nothing is truncated, and version 2 divides by the "
        "power of two nearest to out_scale / scale for every ratio."
    ),
    example="y = qonnx.custom_op.general.Trunc (x, scale {1}, zeropt {0}, in_bits {4}, out_bits {8})",
    advice="Correct the parameter that the message names, or export the model again.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="manual",
    silence="If the message describes the intended parameters.",
)


def trunc_findings(nodes: Iterable[onnx_ir.Node], imports: Mapping[Scope, Mapping[str, int]]) -> Iterator[Diagnostic]:
    """Yield Trunc nodes of no version, of a guessed one, and suspicious ones; arguments as in `result_findings`."""
    for node in nodes:
        if not is_trunc(node):
            continue
        try:
            meaning = read_trunc(node, imports[graph_of(node)])
            rounding_function(meaning.rounding_mode)
        except (ModelError, TruncError) as error:
            text = str(error).removeprefix(f"{site_of(node)}: ").rstrip(".")
            yield Diagnostic(TRUNC_MALFORMED.code, Severity.ERROR, site_of(node), text, "change the node in the model")
            continue
        if meaning.guessed:
            message = (
                f"{node.domain} is not imported, so version {meaning.version} of Trunc is inferred from its inputs"
            )
            yield Diagnostic(TRUNC_VERSION_GUESSED.code, Severity.WARNING, site_of(node), message, "import the domain")
        for message, way_out in _suspicions(node, meaning):
            yield Diagnostic(TRUNC_SUSPICIOUS.code, Severity.WARNING, site_of(node), message, way_out)


def _suspicions(node: onnx_ir.Node, meaning: TruncNode) -> Iterator[tuple[str, str]]:
    """Yield suspicious parameters of the node, each with the fix.

    Source: qonnx 1.0.0, `custom_op/general/trunc.py`.
    """
    if node.domain == _FINN and meaning.version > 1:
        yield f"QONNX runs Trunc of {_FINN} as version 1 for every import", "use qonnx.custom_op.general"
    constants = {name: constant_tensor(value) for name, value in trunc_operands(node, meaning.version).items()}
    parameters = {n: np.asarray(t.numpy(), np.float64) for n, t in constants.items() if t is not None and t.size}
    yield from _odd_widths(parameters, meaning)
    if "scale" in parameters and not (parameters["scale"] > 0).all():
        yield f"scale is {parameters['scale'].min():g}, expected a positive finite number", "export the model again"
    if meaning.version == 1 and (parameters.get("zero_point", np.zeros(1)) != 0).any():
        message = "version 1 subtracts the zero point unscaled, after the division by 2**(in_bitwidth - out_bitwidth)"
        yield message, "use version 2, which divides it too"
    if {"scale", "out_scale"} <= parameters.keys():
        yield from _odd_ratio(parameters)


def _odd_widths(parameters: Parameters, meaning: TruncNode) -> Iterator[tuple[str, str]]:
    for name in ("in_bitwidth", "out_bitwidth"):
        widths = parameters.get(name, np.ones(1))
        wrong = widths[~(np.isfinite(widths) & (widths >= 1) & (widths == np.floor(widths)))]
        if wrong.size:
            yield f"{name} is {wrong[0]:g}, expected a number of bits", "export the model again"
    if not {"in_bitwidth", "out_bitwidth"} <= parameters.keys():
        return
    wide, narrow = parameters["in_bitwidth"].min(), parameters["out_bitwidth"].max()
    if narrow > wide:
        yield f"{wide:g} bits in and {narrow:g} out: nothing is truncated", "swap the widths, or remove the node"
    elif narrow == wide and meaning.version == 1:
        yield f"{wide:g} bits in and out: it only rounds", "remove the node, or correct the widths"


def _odd_ratio(parameters: Parameters) -> Iterator[tuple[str, str]]:
    """Yield a suspicious ratio: version 2 divides by the power of two nearest out_scale / scale.

    It multiplies by out_scale itself.
    """
    with np.errstate(all="ignore"):
        ratio = (parameters["out_scale"] / parameters["scale"]).reshape(-1)
    for value in ratio[np.isfinite(ratio) & (ratio > 0)].tolist():
        nearest = 2.0 ** round(math.log2(value))
        if not math.isclose(value, nearest, rel_tol=1e-5):
            message = f"out_scale is {value:g} times scale, not a power of two: it divides by {nearest:g}"
            yield message, "make out_scale a power of two times scale"
            return
        if value < 1:
            yield f"out_scale is {value:g} times scale, so nothing is truncated", "make out_scale the larger"
            return
