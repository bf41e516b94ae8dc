"""Conversions in Castsmith's own arithmetic, and the elements of a result that the standard leaves undefined.

Undefined elements are tracked one by one: arithmetic on each element spreads them in their places, and for any other
operator they are replaced by others to find the results that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.qonnx import QONNX_DOMAINS, flag, is_trunc, read_trunc, trunc_operands
from castsmith.ir.ops.schemas import op_formals
from castsmith.ir.ops.table import LINEAR, operators
from castsmith.ir.ops.traits import Answer
from castsmith.numerics.cast.convert import bit_cast, cast
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import CastsmithError, present
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from castsmith.numerics.quantize.status import judge_quantize
from castsmith.numerics.status import Definedness, cast_status
from castsmith.numerics.trunc import clip_bounds, rounding_function, trunc
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.evaluate.engines import EngineError
from castsmith.verification.evaluate.promotion import Array, dtype_of

Mask = NDArray[np.bool_] | None
"""True if the standard leaves the element undefined; None if all are defined."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array, and a mask of its undefined elements."""

    array: Array
    undefined: Mask = None


Content = Tensor | list["Content"] | None
"""The content of a value: a tensor, a sequence, or an empty optional."""

_BY_ELEMENT = operators(lambda row: row.elementwise and row.answer is not Answer.LOGIC) - {"Where"}
"""Operators of which each element depends on those of all operands in its place."""


def convert(node: onnx_ir.Node, inputs: Sequence[Array | None], imports: Mapping[str, int]) -> Tensor | None:
    """Return the result of a conversion or of a QONNX quantizer, with its undefined elements; None for other nodes."""
    if node.domain not in ("", "ai.onnx", *QONNX_DOMAINS) or not inputs or inputs[0] is None:
        return None
    try:
        if node.domain in QONNX_DOMAINS:
            return _quantizer(node, inputs, imports)
        return _convert(node, inputs, min(imports.get("", imports.get("ai.onnx", 1)), NEWEST_OPSET))
    except CastsmithError as error:
        raise EngineError(str(error)) from None


def _convert(node: onnx_ir.Node, inputs: Sequence[Array | None], opset: int) -> Tensor | None:
    x = inputs[0]
    x = present(x, "the operand")
    like = dtype_of(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    meaning = read_cast(node, like)
    if meaning is not None and meaning.to is not None:
        if dtype_of(x) == meaning.to:
            return Tensor(x)
        settings: dict[str, Any] = {"saturate": meaning.saturate, "round_mode": meaning.round_mode, "opset": opset}
        status = cast_status(x, meaning.to, **settings)
        return Tensor(cast(x, meaning.to, **settings), _or_none(status == Definedness.UNDEFINED))
    attributes = node.attributes
    if node.op_type == "BitCast" and op_formals("", "BitCast", opset) is not None:
        return Tensor(bit_cast(x, DataType(attributes["to"].as_int())))
    if node.op_type not in LINEAR:
        return None
    operands = [array for array in inputs if array is not None]
    shape = {"axis": attributes.get_int("axis", 1) or 0, "block_size": attributes.get_int("block_size", 0) or 0}
    output = DataType(attributes.get_int("output_dtype", 0) or 0) or None
    if node.op_type == "DequantizeLinear":
        return Tensor(dequantize_linear(*operands, output_dtype=output, opset=opset, **shape))
    saturate, precision = (attributes.get_int(name, default) for name, default in (("saturate", 1), ("precision", 0)))
    compute = DataType(precision or 0) or None
    settings = {"saturate": bool(saturate), "output_dtype": output, "precision": compute, "opset": opset}
    result = quantize_linear(*operands, **shape, **settings)
    status = judge_quantize(*operands, **shape, **settings).status()
    # NaN has no integer. Runtimes ignore the zero point of float8, to which the formula adds -0: either zero is
    # accepted.
    zero = (status == Definedness.DISPUTED) & (result.astype(np.float32) == 0)
    return Tensor(result, _or_none((status == Definedness.UNDEFINED) | zero))


def _quantizer(node: onnx_ir.Node, inputs: Sequence[Array | None], imports: Mapping[str, int]) -> Tensor | None:
    """Return the result of QONNX's Quant (IntQuant), BipolarQuant or Trunc, in QONNX's order and types."""
    if is_trunc(node):
        meaning = read_trunc(node, imports)
        places = dict(zip(node.inputs, inputs, strict=True))
        operands: dict[str, Any] = {k: places[v] for k, v in trunc_operands(node, meaning.version).items()}
        how: dict[str, Any] = {"signed": meaning.signed, "narrow": meaning.narrow, "version": meaning.version}
        return Tensor(trunc(**operands, rounding_mode=meaning.rounding_mode, **how).astype(np.float32))
    present: list[Any] = [array for array in inputs if array is not None]
    if node.op_type == "BipolarQuant":
        x, scale = (np.asarray(array) for array in present)
        return Tensor(np.asarray(np.where(x >= 0, np.ones_like(x), -np.ones_like(x)) * scale))
    if node.op_type not in ("Quant", "IntQuant"):
        return None
    x, scale, zero, bits = (np.asarray(array) for array in present)
    signed, narrow = flag(node, "signed"), flag(node, "narrow")
    with np.errstate(all="ignore"):
        y = np.asarray(x / scale + zero)
        if signed and np.all(bits == 1):
            y = np.where(y >= 0, np.ones_like(y), -np.ones_like(y))
        else:
            low, high = clip_bounds(bits, signed=signed, narrow=narrow)
            y = np.where(y > high, high.astype(y.dtype), y)
            y = np.where(y < low, low.astype(y.dtype), y)
            y = rounding_function(node.attributes.get_string("rounding_mode", "ROUND") or "ROUND")(y)
        return Tensor(np.asarray((y - zero) * scale))


def spread(
    node: onnx_ir.Node,
    operands: Sequence[Tensor | None],
    results: Sequence[Array],
    run: Callable[[list[Array | None]], Sequence[Array]],
) -> list[Mask]:
    """Return the elements of each result that depend on undefined ones; `run` computes the node on other operands.

    Arithmetic depends on each operand: trials with a few numbers need not show that, as the greater of two does not.
    """
    masks = [None if operand is None else operand.undefined for operand in operands]
    if all(mask is None for mask in masks):
        return [None] * len(results)
    if node.domain in ("", "ai.onnx") and node.op_type in _BY_ELEMENT:
        try:
            undefined = np.logical_or.reduce(np.broadcast_arrays(*(mask for mask in masks if mask is not None)))
            return [_or_none(np.broadcast_to(undefined, results[0].shape).copy())]
        except ValueError:  # before opset 7 an axis may align them
            pass
    return _by_trial([None if operand is None else operand.array for operand in operands], masks, results, run)


_OTHERS: tuple[float, ...] = (np.nan, 0.0, 1.0)


def _by_trial(
    arrays: Sequence[Array | None],
    masks: Sequence[Mask],
    results: Sequence[Array],
    run: Callable[[list[Array | None]], Sequence[Array]],
) -> list[Mask]:
    """Return the elements that change when the undefined ones do; all of them if that cannot be tried."""
    undefined = [np.zeros(result.shape, np.bool_) for result in results]
    for trial in _OTHERS:
        replaced: list[Array | None] = []
        for array, mask in zip(arrays, masks, strict=True):
            if array is None or mask is None:
                replaced.append(array)
                continue
            dtype, copy = dtype_of(array), array.copy()
            number = 2.0 if np.isnan(trial) and element_type(dtype).kind is not Kind.FLOATING else trial
            copy[mask] = str(trial) if dtype is DataType.STRING else np.float32(number).astype(array.dtype)
            replaced.append(copy)
        try:
            again = run(replaced)
        except EngineError:
            return [np.ones(result.shape, np.bool_) for result in results]
        for index, (result, changed) in enumerate(zip(results, again, strict=True)):
            if result.shape != changed.shape:
                undefined[index][...] = True
            elif result.size:
                undefined[index] |= np.asarray(bits_of(result) != bits_of(changed)).reshape(*result.shape, -1).any(-1)
    return [_or_none(mask) for mask in undefined]


def bits_of(array: Array) -> NDArray[Any]:
    """Return the bits of each element as an unsigned integer; of a complex number as two, along another dimension."""
    if array.dtype.kind in "OSU":
        texts = [e.decode(errors="replace") if isinstance(e, bytes) else str(e) for e in array.reshape(-1).tolist()]
        return np.array(texts, object).reshape(array.shape)
    parts = (2,) if array.dtype.kind == "c" else ()
    size = array.dtype.itemsize // (2 if parts else 1)
    return np.ascontiguousarray(array).view(f"u{size}").reshape((*array.shape, *parts))


def _or_none(mask: NDArray[np.bool_]) -> Mask:
    return mask if mask.any() else None
