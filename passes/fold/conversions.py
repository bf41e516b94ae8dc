"""Conversions of constants that fold, as plain data: their results, and whether the standard fixes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.io.streaming import computed, is_large, streamed
from castsmith.ir.ops.moves import Dims
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import bit_cast, cast
from castsmith.numerics.errors import TruncError
from castsmith.numerics.quantize.linear import dequantize_linear, dequantized_pieces, quantize_linear, quantized_pieces
from castsmith.numerics.quantize.status import judge_dequantize, judge_quantize
from castsmith.numerics.runtimes.dispatch import cast_as
from castsmith.numerics.status import Definedness, Finding, cast_status, status_reason
from castsmith.numerics.trunc import trunc
from castsmith.numerics.types import type_name


class Conversion(Protocol):
    """The conversion by which a node computes one of its outputs from constants. Equal conversions compare equal."""

    def result(self, types: Sequence[DataType], shapes: Sequence[Dims], /) -> tuple[DataType, Dims]:
        """Return the type and shape of the result. Raises ValueError if the shapes do not fit."""
        ...

    def finding(self, arrays: Sequence[Array], /) -> Finding | None:
        """Return the first element that the standard does not fix. This and `compute` raise CastsmithError."""
        ...

    def compute(self, arrays: Sequence[Array], /) -> Array: ...

    def text(self, types: Sequence[DataType], /) -> str:
        """Return a description for records."""
        ...


@dataclass(frozen=True, slots=True)
class CastTo:
    """Cast, CastLike, and either output of ConvertPromoteTypes."""

    to: DataType
    opset: int
    saturate: bool = True
    round_mode: str = "up"

    def result(self, _types: Sequence[DataType], shapes: Sequence[Dims]) -> tuple[DataType, Dims]:
        return self.to, shapes[0]

    def finding(self, arrays: Sequence[Array]) -> Finding | None:
        saturate, round_mode = self.saturate, self.round_mode
        return status_reason(arrays[0], self.to, saturate=saturate, round_mode=round_mode, opset=self.opset)

    def compute(self, arrays: Sequence[Array]) -> Array:
        saturate, round_mode = self.saturate, self.round_mode
        return cast(arrays[0], self.to, saturate=saturate, round_mode=round_mode, opset=self.opset)

    def compute_as(self, runtime: str, array: Array, tolerated: Definedness) -> Array:
        """Compute, but elements whose status is worse than `tolerated` as the runtime computes them."""
        saturate, round_mode, opset = self.saturate, self.round_mode, self.opset
        status = cast_status(array, self.to, saturate=saturate, round_mode=round_mode, opset=opset)
        theirs = cast_as(array, self.to, runtime, saturate=saturate, round_mode=round_mode, opset=opset)
        result = self.compute([array])
        result[status > tolerated] = theirs[status > tolerated]
        return result

    def text(self, types: Sequence[DataType]) -> str:
        kinds = f"{type_name(types[0])} to {type_name(self.to)}"
        return f"{kinds} of a constant; every element is as opset {self.opset} defines it"


@dataclass(frozen=True, slots=True)
class BitCastTo:
    """BitCast: other values, the same bits."""

    to: DataType
    opset: int

    def result(self, _types: Sequence[DataType], shapes: Sequence[Dims]) -> tuple[DataType, Dims]:
        return self.to, shapes[0]

    def finding(self, arrays: Sequence[Array]) -> Finding | None:
        if self.to != DataType.BOOL:
            return None
        strange = arrays[0].view(np.uint8) > 1
        if not strange.any():
            return None
        index = tuple(int(place) for place in np.unravel_index(int(strange.argmax()), strange.shape))
        reason = "the standard does not define a bool that is neither 0 nor 1"
        return Finding(index, str(arrays[0][index]), Definedness.UNDEFINED, reason)

    def compute(self, arrays: Sequence[Array]) -> Array:
        return bit_cast(arrays[0], self.to, opset=self.opset)

    def text(self, types: Sequence[DataType]) -> str:
        return f"the bits of a constant, read as {type_name(self.to)} and not as {type_name(types[0])}"


@dataclass(frozen=True, slots=True)
class TruncOf:
    """QONNX Trunc. `names` are the parameters of `castsmith.numerics.trunc.trunc` for its operands."""

    names: tuple[str, ...]
    version: int
    rounding_mode: str
    signed: bool
    narrow: bool
    to: DataType

    def result(self, _types: Sequence[DataType], shapes: Sequence[Dims]) -> tuple[DataType, Dims]:
        try:
            return self.to, np.broadcast_shapes(*shapes)
        except ValueError:
            listed = ", ".join(map(str, shapes))
            raise TruncError(f"the shapes of the operands of Trunc do not fit together: {listed}.") from None

    def finding(self, _arrays: Sequence[Array]) -> Finding | None:
        return None

    def compute(self, arrays: Sequence[Array]) -> Array:
        operands, mode, version = dict(zip(self.names, arrays, strict=True)), self.rounding_mode, self.version
        result = trunc(**operands, rounding_mode=mode, signed=self.signed, narrow=self.narrow, version=version)
        # QONNX declares the output float32, whatever numpy computes from its parameters.
        return result.astype(self.to.numpy())

    def text(self, _types: Sequence[DataType]) -> str:
        return f"QONNX Trunc version {self.version} of constants"


Reading = tuple[Conversion, tuple[onnx_ir.Value, ...]]
"""A conversion and the values that it converts."""


@dataclass(frozen=True, slots=True)
class Linear:
    """QuantizeLinear or DequantizeLinear of x, scale and, if present, the zero point.

    Attributes:
        quantizes: True for QuantizeLinear.
        settings: Those of the function in `castsmith.numerics.quantize`, as pairs.
    """

    quantizes: bool
    settings: tuple[tuple[str, Any], ...]

    def result(self, types: Sequence[DataType], shapes: Sequence[Dims]) -> tuple[DataType, Dims]:
        settings = dict(self.settings)
        if self.quantizes:
            return types[2] if len(types) > 2 else settings["output_dtype"] or DataType.UINT8, shapes[0]
        return settings["output_dtype"] or types[1], shapes[0]

    def finding(self, arrays: Sequence[Array]) -> Finding | None:
        return (judge_quantize if self.quantizes else judge_dequantize)(*arrays, **dict(self.settings)).finding()

    def compute(self, arrays: Sequence[Array]) -> Array:
        return (quantize_linear if self.quantizes else dequantize_linear)(*arrays, **dict(self.settings))

    def pieces(self, arrays: Sequence[Array]) -> Iterator[Array]:
        """Yield the elements of the result in C order, in one-dimensional arrays."""
        return (quantized_pieces if self.quantizes else dequantized_pieces)(*arrays, **dict(self.settings))

    def text(self, types: Sequence[DataType]) -> str:
        participle, opset = "quantized" if self.quantizes else "dequantized", dict(self.settings)["opset"]
        return f"{type_name(types[0])} constant, {participle} as opset {opset} defines it"


def tensor_of(
    conversion: Conversion, source: onnx_ir.TensorProtocol | None, arrays: Sequence[Array], dtype: DataType
) -> onnx_ir.TensorProtocol:
    """Return what the conversion makes of constants: of a large one what is computed in pieces when it is read.

    Args:
        conversion: The conversion.
        source: The first of the constants, if it is one of the model.
        arrays: All of them.
        dtype: The type of the result.
    """
    if source is not None and is_large(source) and DataType.STRING not in (source.dtype, dtype):
        if isinstance(conversion, CastTo):
            return computed(source, dtype, lambda array: conversion.compute([array]), source.name or "")
        if isinstance(conversion, Linear):
            return streamed(arrays[0].shape, dtype, lambda: conversion.pieces(arrays), source.name or "")
    return constant_of(conversion.compute(arrays), dtype)


def constant_of(array: Array, dtype: DataType) -> onnx_ir.TensorProtocol:
    """Return the array as a tensor."""
    if dtype == DataType.STRING:
        texts = [text.encode() for text in array.ravel().tolist()]
        return onnx_ir.StringTensor(texts, shape=onnx_ir.Shape(array.shape))
    return onnx_ir.Tensor(array, dtype)


def read_quantize(node: onnx_ir.Node, opset: int) -> tuple[Reading, ...] | None:
    """Return the conversion of a QuantizeLinear or DequantizeLinear; None if a parameter of a function decides."""
    if any(attribute.is_ref() for attribute in node.attributes.values()) or None in node.inputs[:2]:
        return None
    operands = tuple(value for value in node.inputs if value is not None)
    axis, block_size = node.attributes.get_int("axis", 1) or 0, node.attributes.get_int("block_size", 0) or 0
    settings: dict[str, Any] = {"opset": opset, "axis": axis, "block_size": block_size}
    settings["output_dtype"] = _type(node, "output_dtype")
    if node.op_type == "QuantizeLinear":
        settings |= {"saturate": bool(node.attributes.get_int("saturate", 1)), "precision": _type(node, "precision")}
    return ((Linear(node.op_type == "QuantizeLinear", tuple(settings.items())), operands),)


def _type(node: onnx_ir.Node, name: str) -> DataType | None:
    return DataType(node.attributes.get_int(name, 0) or 0) or None
