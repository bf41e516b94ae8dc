"""QuantizeLinear and DequantizeLinear of constants, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.codec import Array
from castsmith.numerics.quantize import dequantize_linear, quantize_linear
from castsmith.numerics.quantize_status import dequantize_reason, quantize_reason
from castsmith.numerics.status import Finding
from castsmith.numerics.types import type_name
from castsmith.passes.fold_conversions import Reading
from castsmith.passes.fold_moves import Dims


@dataclass(frozen=True, slots=True)
class QuantizeTo:
    """QuantizeLinear; its operands are x, scale and, where there is one, the zero point."""

    opset: int
    axis: int
    block_size: int
    saturate: bool
    output_dtype: DataType | None
    precision: DataType | None

    def result(self, types: Sequence[DataType], shapes: Sequence[Dims]) -> tuple[DataType, Dims]:
        return types[2] if len(types) > 2 else self.output_dtype or DataType.UINT8, shapes[0]

    def finding(self, arrays: Sequence[Array]) -> Finding | None:
        return quantize_reason(
            *arrays,
            axis=self.axis,
            block_size=self.block_size,
            saturate=self.saturate,
            output_dtype=self.output_dtype,
            precision=self.precision,
            opset=self.opset,
        )

    def compute(self, arrays: Sequence[Array]) -> Array:
        return quantize_linear(
            *arrays,
            axis=self.axis,
            block_size=self.block_size,
            saturate=self.saturate,
            output_dtype=self.output_dtype,
            precision=self.precision,
            opset=self.opset,
        )

    def text(self, types: Sequence[DataType]) -> str:
        return f"{type_name(types[0])} constant, quantized as opset {self.opset} defines it"


@dataclass(frozen=True, slots=True)
class DequantizeTo:
    """DequantizeLinear; its operands are x, scale and, where there is one, the zero point."""

    opset: int
    axis: int
    block_size: int
    output_dtype: DataType | None

    def result(self, types: Sequence[DataType], shapes: Sequence[Dims]) -> tuple[DataType, Dims]:
        return self.output_dtype or types[1], shapes[0]

    def finding(self, arrays: Sequence[Array]) -> Finding | None:
        axis, block_size, output_dtype = self.axis, self.block_size, self.output_dtype
        return dequantize_reason(*arrays, axis=axis, block_size=block_size, output_dtype=output_dtype, opset=self.opset)

    def compute(self, arrays: Sequence[Array]) -> Array:
        axis, block_size, output_dtype = self.axis, self.block_size, self.output_dtype
        return dequantize_linear(*arrays, axis=axis, block_size=block_size, output_dtype=output_dtype, opset=self.opset)

    def text(self, types: Sequence[DataType]) -> str:
        return f"{type_name(types[0])} constant, dequantized as opset {self.opset} defines it"


def read_quantize(node: onnx_ir.Node, opset: int) -> tuple[Reading, ...] | None:
    """The conversion that a QuantizeLinear or DequantizeLinear is; None where a parameter of a function decides."""
    if any(attribute.is_ref() for attribute in node.attributes.values()) or None in node.inputs[:2]:
        return None
    operands = tuple(value for value in node.inputs if value is not None)
    axis, block_size = node.attributes.get_int("axis", 1) or 0, node.attributes.get_int("block_size", 0) or 0
    output_dtype = _type(node, "output_dtype")
    if node.op_type == "DequantizeLinear":
        return ((DequantizeTo(opset, axis, block_size, output_dtype), operands),)
    saturate, precision = bool(node.attributes.get_int("saturate", 1)), _type(node, "precision")
    return ((QuantizeTo(opset, axis, block_size, saturate, output_dtype, precision), operands),)


def _type(node: onnx_ir.Node, name: str) -> DataType | None:
    return DataType(node.attributes.get_int(name, 0) or 0) or None
