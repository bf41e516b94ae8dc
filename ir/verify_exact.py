"""The conversions by Castsmith's own arithmetic, and which elements of a result the standard leaves undefined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.casts import read_cast
from castsmith.ir.schemas import op_formals
from castsmith.ir.verify_engines import EngineError
from castsmith.ir.verify_promotion import Array, dtype_of
from castsmith.numerics.bitcast import bit_cast
from castsmith.numerics.cast import cast
from castsmith.numerics.definedness import Definedness
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.opsets import NEWEST_OPSET
from castsmith.numerics.quantize import dequantize_linear, quantize_linear
from castsmith.numerics.status import cast_status

Mask = NDArray[np.bool_] | None
"""True where the standard leaves the element undefined; None where it nowhere does."""

_BY_ELEMENT = {
    *("Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Floor"),
    *("Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log"),
    *("Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign"),
    *("Sin", "Sqrt", "Sub", "Sum", "Tanh", "Trunc", "Where", "Xor", "BitCast", "BitShift", "BitwiseAnd"),
    *("BitwiseNot", "BitwiseOr", "BitwiseXor"),
}
"""Operators of which an element of the result depends on the elements in its place alone."""


def convert(node: onnx_ir.Node, inputs: Sequence[Array | None], opset: int) -> tuple[Array, Mask] | None:
    """The result of a conversion, and what of it is undefined; None for any other operator."""
    try:
        return _convert(node, inputs, min(opset, NEWEST_OPSET))
    except CastsmithError as error:
        raise EngineError(str(error)) from None


def _convert(node: onnx_ir.Node, inputs: Sequence[Array | None], opset: int) -> tuple[Array, Mask] | None:
    if not inputs or inputs[0] is None:
        return None
    x = inputs[0]
    like = dtype_of(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    meaning = read_cast(node, like)
    if meaning is not None and meaning.to is not None:
        if dtype_of(x) == meaning.to:
            return x, None
        settings = {"saturate": meaning.saturate, "round_mode": meaning.round_mode, "opset": opset}
        status = cast_status(x, meaning.to, **settings)  # type: ignore[arg-type]
        return cast(x, meaning.to, **settings), status == Definedness.UNDEFINED  # type: ignore[arg-type]
    attributes = node.attributes
    if node.op_type == "BitCast" and op_formals("", "BitCast", opset) is not None:
        return bit_cast(x, DataType(attributes["to"].as_int())), None
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    operands = [array for array in inputs if array is not None]
    shape = {"axis": attributes.get_int("axis", 1) or 0, "block_size": attributes.get_int("block_size", 0) or 0}
    output = DataType(attributes.get_int("output_dtype", 0) or 0) or None
    if node.op_type == "DequantizeLinear":
        return dequantize_linear(*operands, output_dtype=output, opset=opset, **shape), None
    saturate, precision = (attributes.get_int(name, default) for name, default in (("saturate", 1), ("precision", 0)))
    compute = DataType(precision or 0) or None
    settings = {"saturate": bool(saturate), "output_dtype": output, "precision": compute, "opset": opset}
    result = quantize_linear(*operands, **shape, **settings)  # type: ignore[arg-type]
    # NaN has no integer; every other number saturates.
    return result, np.isnan(x.astype(np.float32)) if result.dtype.kind in "iu" else None


def spread(node: onnx_ir.Node, masks: Sequence[Mask], result: Array) -> Mask:
    """Where an element of the result depends on an undefined one; everywhere, where it is not known to depend less."""
    present = [mask for mask in masks if mask is not None]
    if not any(mask.any() for mask in present):
        return None
    if node.op_type in _BY_ELEMENT:
        try:
            return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*present)), result.shape).copy()
        except ValueError:
            pass
    if node.op_type == "Reshape" and present[0].size == result.size:
        return present[0].reshape(result.shape)
    return np.ones(result.shape, np.bool_)
