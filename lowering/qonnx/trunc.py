"""lower-trunc: Replace QONNX Trunc by standard operators, for runtimes that support no other domain.

Exact: each step of the operator becomes one operator, in the order and the type in which QONNX computes, so the bits
are the qonnx executor's; signs of zero are kept where a runtime's optimizer would lose them. Refused: bit widths, or
for version 2 scales, that are not constant, since the power of two between them must be known; opsets before 11,
which have no Round.

    y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, scale, zeropt, in_bitwidth, out_bitwidth)
becomes
    Div (x, scale), Add zeropt, Round, Div by 2**(in_bitwidth - out_bitwidth), Floor, Sub zeropt, Mul scale
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.qonnx import TRUNCS, TruncNode, read_trunc, trunc_operands
from castsmith.ir.records import RewriteResult
from castsmith.lowering.builder import Builder, ReplacementBuilder, as_replacement
from castsmith.lowering.check.trunc import TRUNC_VERSION_GUESSED, trunc_findings
from castsmith.lowering.inlining import INLINE_FUNCTIONS
from castsmith.lowering.qonnx.nodes import MAKE_CONSTANT, Parameter, lower_quantizers
from castsmith.lowering.qonnx.steps import clip, combine, with_zero_point
from castsmith.numerics.trunc import clip_bounds, power_of_two, rounding_function
from castsmith.passes.core.rewrite_pass import DROP_UNUSED, SessionPass
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

# The seven rounding modes of QONNX in ONNX operators, signs of zero included. ONNX Runtime's Where turns -0 into +0 in
# the branch of a true condition, so no branch that can be -0 is used there: in DOWN, Floor of a positive number cannot.

Rounding = Callable[[Builder, onnx_ir.Value], onnx_ir.Value]


LOWER_TRUNC = Rule(
    "lower-trunc",
    ("A QONNX Trunc becomes standard operators. Skipped if its parameters are not constant, or below opset 11."),
    why="Only qonnx runs Trunc. The replacement gives the same bits.",
    example=(
        "- y = qonnx.custom_op.general.Trunc (x, scale, zeropt, in_bits, out_bits)\n+ Div, Add, Round, Floor, Mul ..."
    ),
    advice="If it is skipped, raise the opset to 11, or make the parameters named in the reason constants.",
    certified=False,
)


def _operator(op_type: str) -> Rounding:
    return lambda build, x: build.op(op_type, x)


def _up(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    return build.op("Mul", build.op("Sign", x), build.op("Ceil", build.op("Abs", x)))


def _down(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    return build.op("Where", build.op("Greater", x, 0.0), build.op("Floor", x), build.op("Ceil", x))


def _half_up(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    nearest = build.op("Floor", build.op("Add", build.op("Abs", x), 0.5))
    return build.op("Mul", build.op("Sign", x), nearest)


def _half_down(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    nearest = build.op("Ceil", build.op("Sub", build.op("Abs", x), 0.5))
    return build.op("Mul", build.op("Sign", x), nearest)


ROUNDINGS: dict[str, Rounding] = {
    "ROUND": _operator("Round"),
    "HALF_EVEN": _operator("Round"),
    "CEIL": _operator("Ceil"),
    "FLOOR": _operator("Floor"),
    "UP": _up,
    "DOWN": _down,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}
"""Each mode under its name in `castsmith.numerics.trunc.ROUNDING_MODES`."""


def round_as(build: Builder, x: onnx_ir.Value, mode: str) -> onnx_ir.Value:
    """Round `x` by the mode, in upper or lower case. Raises TruncError for an unknown mode."""
    rounding_function(mode)
    return ROUNDINGS[mode.upper()](build, x)


_FOR_RATIO = {
    1: ("in_bitwidth", "out_bitwidth"),
    2: ("scale", "out_scale", "out_bitwidth"),
}
"""The parameters that must be constant, by version, for the power of two and, in version 2, the clip bounds.

Version 2 does not use its in_bitwidth.
"""


@dataclass(frozen=True)
class LowerTrunc(SessionPass):
    """Replace every Trunc of the QONNX domains by standard operators.

    Attributes:
        target: The runtime that the model is for.
    """

    codes = (
        DROP_UNUSED,
        LOWER_TRUNC,
        MAKE_CONSTANT,
        INLINE_FUNCTIONS,
        TRUNC_VERSION_GUESSED,
    )

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        findings = trunc_findings(session.nodes, session.imports)
        guessed = [finding for finding in findings if finding.code == TRUNC_VERSION_GUESSED.code]
        result = lower_quantizers(session, LOWER_TRUNC, TRUNCS, _lowered, self.target)
        result.records.diagnostics += guessed
        return result


def _lowered(node: onnx_ir.Node, imports: Mapping[str, int], parameter: Parameter) -> Replacement:
    """Return the operators that replace one Trunc."""
    meaning = read_trunc(node, imports)
    operands, needed = trunc_operands(node, meaning.version), _FOR_RATIO[meaning.version]
    tensors = {name: parameter(operands[name]) for name in needed}
    if missing := [name for name in needed if tensors[name] is None]:
        raise ModelError(f"{' and '.join(missing)} must be constant")
    tensors["zero_point"] = parameter(operands["zero_point"])
    arrays = {name: tensor.numpy() for name, tensor in tensors.items() if tensor is not None}
    return _expand(node, meaning, operands, arrays)


def _expand(
    node: onnx_ir.Node, meaning: TruncNode, operands: dict[str, onnx_ir.Value], arrays: dict[str, NDArray[Any]]
) -> Replacement:
    build = ReplacementBuilder(node)
    parameters = (arrays.get(name) for name in ("scale", "in_bitwidth", "out_bitwidth", "out_scale"))
    t = build.constant(np.asarray(power_of_two(*parameters)), "ratio")
    q = combine(build, "Div", operands["x"], operands["scale"])
    q = build.op("Round", with_zero_point(build, "Add", q, operands["zero_point"], arrays.get("zero_point")))
    y = combine(build, "Div", q, t)
    if meaning.version == 2:
        y = clip(build, y, *clip_bounds(arrays["out_bitwidth"], signed=meaning.signed, narrow=meaning.narrow))
    y = round_as(build, y, meaning.rounding_mode)
    zero, zero_array = operands["zero_point"], arrays.get("zero_point")
    if meaning.version == 2 and (zero_array is None or zero_array.any()):
        zero = combine(build, "Div", zero, t)
    y = with_zero_point(build, "Sub", y, zero, zero_array)
    y = combine(build, "Mul", y, operands["scale" if meaning.version == 1 else "out_scale"])
    y = build.cast(y, node.outputs[0].dtype or DataType.FLOAT)
    reason = f"QONNX Trunc version {meaning.version}, {meaning.rounding_mode}, step by step in standard operators"
    return as_replacement(build, LOWER_TRUNC.code, reason, y)
