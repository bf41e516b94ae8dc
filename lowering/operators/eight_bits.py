"""QuantizeLinear and DequantizeLinear of 8 bits that the target does not take: of the other sign, or written out.

A code less 128 with a zero point less 128 is the same number, per tensor, per axis and in blocks. The code is shifted
where it is stored: in a constant, or in the QuantizeLinear that makes it, if only DequantizeLinear read it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import ReplacementBuilder, as_replacement
from castsmith.lowering.operators.scene import Scene
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import Replacement, detach

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_BYTES = (DataType.UINT8, DataType.INT8)
_MIDDLE = 128
_ONLY_ZERO = "constant-zero-points-of-zero"

SHIFT_TO_INT8 = Rule(
    "shift-to-int8",
    "QuantizeLinear or DequantizeLinear of uint8 becomes that of int8: codes and zero points become 128 smaller.",
    why="The target supports only int8 codes, or only zero points of 0, which a uint8 zero point of 128 becomes.",
    example="- y = DequantizeLinear (codes, scale, zero)\n+ y = DequantizeLinear (codes_int8, scale, zero_int8)",
    advice="Needs a constant zero point, and codes that only quantizers make and read.",
)
QUANTIZE_IN_FLOAT = Rule(
    "quantize-in-float",
    "QuantizeLinear or DequantizeLinear of 8 bits becomes arithmetic in float.",
    why="The target supports neither uint8 nor int8 codes, or only zero points of 0.",
    example="- y = DequantizeLinear (codes, scale, zero)\n+ n = Cast <to = float> (codes)\n+ d = Sub (n, zero)\n"
    "+ y = Mul (d, scale)",
    advice="Quantize the model symmetrically to keep the target's own kernels, which are faster.",
)

Replacements = dict[onnx_ir.Node, Replacement]


def lowered_quantizer(node: onnx_ir.Node, scene: Scene) -> Replacements | None:
    """Return the replacements of a quantizer that the target does not take, and of those that change with it."""
    codes = node.outputs[0] if node.op_type == _QUANTIZE else node.inputs[0]
    dtype = scene.type_of(codes)
    if codes is None or dtype is None or dtype not in _BYTES or _is_taken(node, dtype, _zero_of(node), scene):
        return None
    if dtype == DataType.UINT8 and (together := _sharing(codes)):
        shifted = {value: _shifted(value, scene) for value in together}
        possible = {value: shift for value, shift in shifted.items() if shift is not None}
        if len(possible) == len(shifted):
            return possible
        for shift in possible.values():
            detach(shift.nodes)
    written = _written_out(node, dtype, scene)
    return None if written is None else {node: written}


def _zero_of(node: onnx_ir.Node) -> onnx_ir.Value | None:
    return node.inputs[2] if len(node.inputs) > 2 else None


def _is_taken(node: onnx_ir.Node, dtype: DataType, zero: onnx_ir.Value | None, scene: Scene) -> bool:
    """True if the target takes the node, with codes of this type."""
    if not scene.has(node.op_type, dtype):
        return False
    tensor = constant_tensor(zero)
    only_zero = zero is None or (tensor is not None and not np.any(tensor.numpy()))
    return only_zero or _ONLY_ZERO not in scene.target.quantization


def _sharing(codes: onnx_ir.Value) -> list[onnx_ir.Node]:
    """Return the quantizers that make and read the codes; empty if others do, too."""
    maker, readers = codes.producer(), [user for user, _ in codes.uses()]
    stored = constant_tensor(codes) is not None
    is_quantized = maker is not None and maker.op_type == _QUANTIZE and not stored
    dequantized = all(user.op_type == _DEQUANTIZE and index == 0 for user, index in codes.uses())
    if not (stored or is_quantized) or not dequantized or codes.is_graph_output():
        return []
    return [*([maker] if maker is not None and is_quantized else []), *readers]


def _shifted(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    """Return the quantizer with codes of int8; None if its zero point is not constant, or the target refuses it too."""
    scale, zero = node.inputs[1], _zero_of(node)
    tensor = constant_tensor(zero)
    if scale is None or (zero is not None and tensor is None) or (zero is None and not _has_shape(scale)):
        return None
    build = ReplacementBuilder(node)
    before = np.zeros(_shape(scale), np.uint8) if tensor is None else tensor.numpy()
    inputs = list(node.inputs[:2])
    shifted = _less_the_middle(before)
    inputs.append(build.constant(shifted, "zero_point_int8"))
    if not _is_taken(node, DataType.INT8, inputs[2], scene):
        return None
    if node.op_type == _DEQUANTIZE and (stored := constant_tensor(node.inputs[0])) is not None:
        inputs[0] = build.constant(_less_the_middle(stored.numpy()), "int8")
    attributes = [
        attribute
        for attribute in node.attributes.values()
        if attribute.name != "output_dtype" or node.op_type == _DEQUANTIZE
    ]
    copied = onnx_ir.Node("", node.op_type, inputs, attributes)
    build.nodes.append(copied)
    y, old = copied.outputs[0], node.outputs[0]
    y.shape, y.type = old.shape, onnx_ir.TensorType(DataType.INT8) if node.op_type == _QUANTIZE else old.type
    reason = f"{_why(node, DataType.UINT8, scene)}: as int8, with codes and zero point reduced by {_MIDDLE}"
    return as_replacement(build, SHIFT_TO_INT8.code, reason, y)


def _less_the_middle(
    codes: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    return (codes.astype(np.int16) - _MIDDLE).astype(np.int8)


def _has_shape(value: onnx_ir.Value) -> bool:
    return value.shape is not None and value.shape.is_static()


def _shape(value: onnx_ir.Value) -> tuple[int, ...]:
    return () if value.shape is None else tuple(int(dim) for dim in value.shape.numpy())


def _why(node: onnx_ir.Node, dtype: DataType, scene: Scene) -> str:
    if scene.has(node.op_type, dtype):
        return f"{scene.target} requires a zero point of 0 in {node.op_type}"
    return scene.lacks(node, dtype)


def _written_out(node: onnx_ir.Node, dtype: DataType, scene: Scene) -> Replacement | None:
    """Return the quantizer as arithmetic in float; None if it has none."""
    try:
        build, y = scene.written_out(node)
    except ModelError:
        return None
    reason = f"{_why(node, dtype, scene)}: {type_name(dtype)} written out in float"
    return as_replacement(build, QUANTIZE_IN_FLOAT.code, reason, y)
