"""Weights of 4 and 2 bits packed in bytes as they are in a file, and unpacked by the graph.

Two or four codes are in each byte, the first in the lowest bits. With the bytes as a column, shifted by a row of 0, 4
or of 0, 2, 4, 6, and all but the low bits masked out, the codes lie in their order; where the target is not known to
shift bytes, each byte is looked up in a table of its codes.

    w_packed [n, 1]   0x21 0x43      BitShift by [0, 4]   0x21 0x02      BitwiseAnd 15   1 2     Reshape   1 2 3 4
                                                          0x43 0x04                      3 4
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ranges import stored_as
from castsmith.lowering.builder import Builder, ConstantHome
from castsmith.lowering.errors import OptionError
from castsmith.numerics.types import element_type

if TYPE_CHECKING:
    from castsmith.ir.targets import Target

BYTE, PACKED = "byte", "packed"
_LEAST_SAVED = 1024
"""Bytes below which a few nodes more are not worth it."""


def require_storage(text: str) -> None:
    """Raises OptionError for anything but the two."""
    if text not in (BYTE, PACKED):
        raise OptionError(f"{text!r} is no storage; weights below a byte are kept {PACKED} or one in each {BYTE}.")


def can_be_packed(value: onnx_ir.Value) -> bool:
    """Whether packing saves a KiB: of an initializer of 4 or 2 bits that is no input or output."""
    tensor = value.const_value
    if tensor is None or not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return False
    bits = element_type(tensor.dtype).bits
    return bits in (2, 4) and tensor.size - math.ceil(tensor.size * bits / 8) >= _LEAST_SAVED


def packed_tensor(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """The bytes of the tensor's file form as a column of uint8; an external tensor stays where it is."""
    count = math.ceil(tensor.size * element_type(tensor.dtype).bits / 8)
    if isinstance(tensor, onnx_ir.ExternalTensor):
        packed = stored_as(tensor, DataType.UINT8, onnx_ir.Shape([count, 1]))
        packed.name = f"{tensor.name}_packed"
        return packed
    whole = tensor.numpy_packed() if isinstance(tensor, onnx_ir.PackedTensor) else None
    codes = np.frombuffer(tensor.tobytes(), np.uint8) if whole is None else whole.view(np.uint8)
    return onnx_ir.Tensor(
        codes.reshape(count, 1), DataType.UINT8, name=f"{tensor.name}_packed", doc_string=tensor.doc_string
    )


def unpacked(
    packed: onnx_ir.Value, dtype: DataType, shape: onnx_ir.Shape, target: Target, opset: int, home: ConstantHome
) -> tuple[list[onnx_ir.Node], onnx_ir.Value]:
    """The nodes that give the codes, a byte each and in `shape`, of the type of 4 or 2 bits that is packed."""
    build, bits = Builder(home), element_type(dtype).bits
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    if all(_shifts_bytes(target, op_type, opset) for op_type in ("BitShift", "BitwiseAnd")):
        rows = build.op("BitShift", packed, build.constant(shifts, "shifts"), direction="RIGHT")
        rows = build.op("BitwiseAnd", rows, 2**bits - 1)
    else:
        table = np.arange(256, dtype=np.uint8)[:, None] >> shifts & np.uint8(2**bits - 1)
        rows = build.op("Gather", build.constant(table, "codes_of_bytes"), build.cast(packed, DataType.INT32))
    count = math.prod(shape.numpy())
    if count % len(shifts):
        flat = build.op("Reshape", rows, build.constant(np.array([-1], np.int64), "flat"))
        ends = [build.constant(np.array([end], np.int64), "end") for end in (0, count)]
        rows = build.op("Slice", flat, *ends)
    codes = build.op("Reshape", rows, build.constant(np.array(shape.numpy(), np.int64), "shape"))
    codes.shape = shape.copy()
    for node in build.nodes[:-1]:
        node.outputs[0].shape = None
    return build.nodes, codes


def _shifts_bytes(target: Target, op_type: str, opset: int) -> bool:
    known = "kernels" not in target.unknown and onnx.defs.has(op_type, opset, "")
    return known and target.has_kernel(op_type, DataType.UINT8, opset)
