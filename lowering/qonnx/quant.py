"""lower-quant: Replace QONNX Quant (IntQuant), BipolarQuant and FloatQuant by standard operators.

Exact: each step of the operator becomes one operator, in the order and the type in which QONNX computes; a FloatQuant,
which QONNX computes by a logarithm, becomes the ladder, with a table of the distance below a power of two from which
that logarithm gives the power. Refused: bit widths and, for FloatQuant, parameters that are not constant; opsets before
11, which have no Round.

    y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0> (x, scale, zeropt, bitwidth)
becomes
    Div (x, scale), Add zeropt, two selections that clip, Round, Sub zeropt, Mul scale
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.qonnx import flag
from castsmith.ir.records import RewriteResult
from castsmith.lowering.builder import Builder, ReplacementBuilder, as_replacement, at_least
from castsmith.lowering.encodings.ladder import to_the_grid
from castsmith.lowering.float8.casts import required_operand
from castsmith.lowering.inlining import INLINE_FUNCTIONS
from castsmith.lowering.qonnx.nodes import MAKE_CONSTANT, Parameter, lower_quantizers
from castsmith.lowering.qonnx.steps import binade_ends, clip, combine, with_zero_point
from castsmith.lowering.qonnx.trunc import round_as
from castsmith.numerics.trunc import clip_bounds
from castsmith.numerics.types import ElementType, Kind, element_type, type_name
from castsmith.passes.core.rewrite_pass import DROP_UNUSED, SessionPass
from castsmith.passes.core.rewriting import Replacement
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

_TO_NEAREST = ("ROUND", "HALF_EVEN", "HALF_UP", "HALF_DOWN")
_MOST_MANTISSA_BITS, _MOST_BIAS, _LEAST_EXPONENT = 15, 127, -100

LOWER_QUANT = Rule(
    "lower-quant",
    "A QONNX Quant, BipolarQuant or FloatQuant becomes ONNX operators. Skipped if a parameter is not constant.",
    why="Only qonnx runs them; each step becomes one operator, in the order and type in which QONNX computes.",
    example="- y = qonnx.custom_op.general.Quant (x, scale, zeropt, bits)\n+ Div, Add, two Where, Round, Sub, Mul",
    advice="If it is skipped, the reason names the parameter that must be constant, or the inexact rounding mode.",
    certified=False,
)


@dataclass(frozen=True)
class LowerQuant(SessionPass):
    """Replace these operators of the QONNX domains by standard operators.

    Attributes:
        target: The runtime that the model is for.
    """

    codes = (
        DROP_UNUSED,
        LOWER_QUANT,
        MAKE_CONSTANT,
        INLINE_FUNCTIONS,
    )

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        return lower_quantizers(session, LOWER_QUANT, _WRITERS, _lowered, self.target)


def _lowered(node: onnx_ir.Node, _imports: Mapping[str, int], parameter: Parameter) -> Replacement:
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        raise ModelError("an attribute is a parameter of the enclosing function")
    build = ReplacementBuilder(node)
    y = build.cast(_WRITERS[node.op_type](build, node, parameter), node.outputs[0].dtype or DataType.FLOAT)
    return as_replacement(build, LOWER_QUANT.code, f"QONNX {node.op_type}, step by step in standard operators", y)


def _integer(build: Builder, node: onnx_ir.Node, parameter: Parameter) -> onnx_ir.Value:
    x, scale, zero = (required_operand(node, index) for index in range(3))
    bits, tensor = _known(node, 3, "bitwidth", parameter), parameter(zero)
    signed, narrow = (flag(node, name) for name in ("signed", "narrow"))
    zero_array = None if tensor is None else tensor.numpy()
    y = with_zero_point(build, "Add", combine(build, "Div", x, scale), zero, zero_array)
    if float(bits) == 1 and signed:
        y = _sign(build, y)
    else:
        y = clip(build, y, *clip_bounds(bits, signed=signed, narrow=narrow))
        y = round_as(build, y, node.attributes.get_string("rounding_mode", "ROUND") or "ROUND")
    y = with_zero_point(build, "Sub", y, zero, zero_array)
    return combine(build, "Mul", y, scale)


def _bipolar(build: Builder, node: onnx_ir.Node, _parameter: Parameter) -> onnx_ir.Value:
    return combine(build, "Mul", _sign(build, required_operand(node, 0)), required_operand(node, 1))


def _sign(build: Builder, y: onnx_ir.Value) -> onnx_ir.Value:
    """Return 1 for numbers of at least 0, -1 otherwise, including NaN."""
    dtype = y.dtype or DataType.FLOAT
    if not element_type(dtype).signed:
        raise ModelError(f"{type_name(dtype)} has no -1")
    return build.op("Where", at_least(build, y, 0.0), 1.0, -1.0, dtype=y.dtype)


def _float(build: Builder, node: onnx_ir.Node, parameter: Parameter) -> onnx_ir.Value:
    """Return the quotient on the grid of a float format without special codes, clipped; infinity gives NaN."""
    mode = (node.attributes.get_string("rounding_mode", "ROUND") or "ROUND").upper()
    names = ("exponent_bitwidth", "mantissa_bitwidth", "exponent_bias", "max_val")
    exponent, mantissa, bias, largest = (
        float(_known(node, index, name, parameter)) for index, name in enumerate(names, 2)
    )
    if not all(value.is_integer() for value in (exponent, mantissa, bias)) or mantissa > _MOST_MANTISSA_BITS:
        raise ModelError(f"a format of {exponent} exponent and {mantissa} mantissa bits has no exact replacement")
    if not 1 <= exponent <= 8 or not -_MOST_BIAS < bias <= _MOST_BIAS:
        raise ModelError(f"an exponent of {exponent} bits with bias {bias} exceeds the range of float")
    bits = 1 + int(exponent) + int(mantissa)
    row = ElementType(DataType.FLOAT, Kind.FLOATING, bits, True, int(exponent), int(mantissa), int(bias))
    x, scale = required_operand(node, 0), required_operand(node, 1)
    quotient = combine(build, "Div", x, scale)
    if quotient.dtype != DataType.FLOAT:
        raise ModelError("only operands of type float have an exact replacement")
    if mode not in _TO_NEAREST and row.min_exponent < _LEAST_EXPONENT:
        raise ModelError(
            f"with bias {bias}, the 2**-126 that QONNX adds before its logarithm changes the result of {mode}"
        )
    if mode not in _TO_NEAREST and mantissa == 0:
        raise ModelError(f"without mantissa bits, QONNX's {mode} of numbers beyond the format's range may give 0")
    y = to_the_grid(build, quotient, row, mode, None if mode in _TO_NEAREST else binade_ends)
    end = float(min(row.max, largest))
    y = build.op("Where", build.op("IsInf", quotient), float("nan"), y)
    low, high = -end, end
    if not flag(node, "saturation"):
        if not (flag(node, "has_inf") or flag(node, "has_nan")):
            raise ModelError("without saturation the format has neither infinity nor NaN to overflow to")
        high = float("inf") if flag(node, "has_inf") else float("nan")
        low = -high
    y = build.op("Where", build.op("Greater", y, end), high, y)
    y = build.op("Where", build.op("Less", y, -end), low, y)
    return combine(build, "Mul", y, scale)


def _known(node: onnx_ir.Node, index: int, name: str, parameter: Parameter) -> NDArray[Any]:
    tensor = parameter(required_operand(node, index))
    if tensor is None or tensor.size != 1:
        raise ModelError(f"{name} must be one constant number")
    return tensor.numpy().reshape(())


_WRITERS = {"Quant": _integer, "IntQuant": _integer, "BipolarQuant": _bipolar, "FloatQuant": _float}
