"""MatMul or Gemm of a weight in dequantized blocks as MatMulNBits of com.microsoft, the inverse of its lowering.

    w = DequantizeLinear <axis = 0, block_size = 32> (codes, scales)    # int4[K, N], float[K / 32, N]
    y = MatMul (x, w)
becomes
    y = com.microsoft.MatMulNBits <K, N, bits = 4, block_size = 32> (x, packed, scales)    # uint8[N, K / 32, 16]

The weights are the same numbers, packed as ONNX Runtime's quantizer packs them: a row for each column of the weight,
the first code in the low bits of a byte, codes of 0 after the last one of the last block, and after the last zero point
of a row that of the middle, 2 ** (bits - 1). Signed codes are unsigned ones less the middle, which is the zero point of
a MatMulNBits without one. The products are added in another order than MatMul adds them. What a
Gemm adds is added by an Add.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.records import Effect
from castsmith.lowering.builder import Builder, ReplacementBuilder, as_replacement
from castsmith.lowering.operators.scene import Scene
from castsmith.lowering.quantized.operands import FLOATS, operand
from castsmith.lowering.quantized.scene import constant_array, producer_of, require_kernel, swaps, whole_number
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.core.rewriting import NodeRule, Replacement

_OPERATOR = "MatMulNBits"
_SIGNED = (DataType.INT8, DataType.INT4, DataType.INT2)
_UNSIGNED = (DataType.UINT8, DataType.UINT4, DataType.UINT2)
_SIGNED_ARRAYS = tuple(dtype.numpy() for dtype in _SIGNED)
_LEAST_BLOCK = 16
_REASON = "the same weights, packed for the kernel; it adds the products in a different order from MatMul"


def matmul_nbits(node: onnx_ir.Node, scene: Scene) -> Replacement | None:
    """Return the replacement of a product; None for other nodes. Raises ModelError with the reason for a refusal."""
    turned = _turned_weight(node)
    if turned is None:
        return None
    x, w = node.inputs[0], node.inputs[1]
    turn = None if w is None or not swaps(w.producer()) else w.producer()
    transposed = (turn is not None) != turned
    dequantize = producer_of(w if turn is None else turn.inputs[0], "DequantizeLinear")
    codes = None if dequantize is None else dequantize.inputs[0]
    held_as = scene.type_of(codes)
    if dequantize is None or codes is None or x is None or held_as is None:
        return None
    if held_as not in (*_SIGNED, *_UNSIGNED):
        return None
    if not whole_number(dequantize, "block_size", 0):
        return None
    layout = _Layout(dequantize, codes, held_as.bitwidth, transposed)
    dtype = require_kernel(node, f"{CONTRIB_DOMAIN}.{_OPERATOR}", scene.type_of(x), scene)
    scales = scene.type_of(dequantize.inputs[1])
    if dtype not in FLOATS or scales != dtype:
        of_scales = "an unknown type" if scales is None else type_name(scales)
        raise ModelError(f"{_OPERATOR} has no input of {type_name(dtype)} with scales of {of_scales}")
    user = _other_user(codes)
    if user is not None:
        raise ModelError(f"{codes.name} is also used by {user}, so that it would be stored twice")
    build = ReplacementBuilder(node, f"{codes.name}_")
    inputs, sizes = layout.operands(scene, build)
    y = build.typed(_OPERATOR, [x, *inputs], dtype, **sizes)
    build.nodes[-1].domain = CONTRIB_DOMAIN
    y.shape = node.outputs[0].shape
    added = operand(node, 2)
    y = y if added is None else build.op("Add", y, added)
    replacement = as_replacement(build, USE_MATMUL_NBITS.code, _REASON, y, effect=Effect.AS_DEFINED)
    return replace(replacement, beside=layout.home())


USE_MATMUL_NBITS = NodeRule(
    "use-matmul-nbits",
    "A MatMul or Gemm of a constant weight that is dequantized in blocks becomes MatMulNBits of com.microsoft.",
    why=(
        "The option `vendor` requests it, and the target runs the operator: the weight stays in 2, 4 or 8 bits, and "
        "the kernel dequantizes it as it multiplies."
    ),
    example=(
        "- w = DequantizeLinear <axis = 0, block_size = 32> (codes, scales)\n"
        "- y = MatMul (x, w)\n"
        "+ y = com.microsoft.MatMulNBits <K = 64, N = 8, bits = 4, block_size = 32> (x, packed, scales)"
    ),
    advice=(
        "The weights are the same numbers; products are added in a different order. If it is skipped, the reason "
        "names the form."
    ),
    safety=(Effect.AS_DEFINED,),
    silence="Leave out --vendor.",
    operators=frozenset({"MatMul", "Gemm"}),
    apply=matmul_nbits,
)


def _turned_weight(node: onnx_ir.Node) -> bool | None:
    """Return True for a Gemm that transposes its weight, False for other products with one, None for other nodes."""
    if node.op_type not in ("MatMul", "Gemm") or node.domain not in DEFAULT_DOMAINS:
        return None
    attributes = node.attributes
    if any(attribute.is_ref() for attribute in attributes.values()) or attributes.get_int("transA", 0):
        return None
    if attributes.get_float("alpha", 1.0) != 1 or attributes.get_float("beta", 1.0) != 1:
        return None
    return bool(attributes.get_int("transB", 0))


@dataclass(frozen=True)
class _Layout:
    """A weight as DequantizeLinear holds it.

    Attributes:
        node: The DequantizeLinear.
        codes: Its first input.
        bits: The bits of a code.
        transposed: The weight is (N, K), and transposed before or by the product.
    """

    node: onnx_ir.Node
    codes: onnx_ir.Value
    bits: int
    transposed: bool

    def home(self) -> onnx_ir.Node:
        """Return a node of the graph that holds the codes, where all their users see what is made from them."""
        return self.codes.producer() or present(self.codes.graph, "the graph of a constant")[0]

    def operands(self, scene: Scene, build: Builder) -> tuple[list[onnx_ir.Value], dict[str, int]]:
        """Return the inputs of MatMulNBits after the first one, and its attributes."""
        tensor = constant_tensor(self.codes)
        if tensor is None or len(tensor.shape) != 2 or not tensor.size:
            raise ModelError(f"{self.codes.name} is not a constant matrix, so it cannot be packed")
        width, depth = tensor.shape.numpy() if self.transposed else tensor.shape.numpy()[::-1]
        block = self._block()
        blocks = -(-depth // block)
        zero, is_given = self._operand(2, (width, blocks))
        if zero is not None and is_given is None:
            raise ModelError(f"the zero points {zero.name} are not constant, so they cannot be packed")
        scales = self._scales(scene, build, (width, blocks))

        def packed() -> NDArray[Any]:
            rows = _packed(self._unsigned(self._turned(tensor.numpy())), self.bits, blocks * block, 0)
            return rows.reshape(width, blocks, block * self.bits // 8)

        def points() -> NDArray[Any]:
            per_byte = 8 // self.bits
            codes = np.zeros((width, blocks), np.uint8) if is_given is None else self._unsigned(is_given)
            return _packed(codes, self.bits, -(-blocks // per_byte) * per_byte, self.middle)

        inputs = [self._constant(scene, build, self.codes, "packed", packed), scales]
        if zero is not None or tensor.dtype in _UNSIGNED:
            inputs.append(self._constant(scene, build, zero or self.codes, "zero_points", points))
        return inputs, {"K": depth, "N": width, "bits": self.bits, "block_size": block}

    @property
    def middle(self) -> int:
        """The zero point of a MatMulNBits without one."""
        return 2 ** (self.bits - 1)

    def _block(self) -> int:
        """Return the block size. Raises ModelError if MatMulNBits has no such blocks."""
        if any(attribute.is_ref() for attribute in self.node.attributes.values()):
            raise ModelError("an attribute of DequantizeLinear is a parameter of the enclosing function")
        block, axis = self.node.attributes.get_int("block_size", 0), self.node.attributes.get_int("axis", 1)
        if axis % 2 != (1 if self.transposed else 0):
            raise ModelError("the blocks lie along the outputs of the product, not along its sums")
        if block < _LEAST_BLOCK or block & (block - 1):
            raise ModelError(f"blocks of {block}: {_OPERATOR} takes powers of two from {_LEAST_BLOCK} on")
        return block

    def _operand(self, index: int, shape: tuple[int, int]) -> tuple[onnx_ir.Value | None, NDArray[Any] | None]:
        """Return an input of the DequantizeLinear, and a constant in rows of the weight's columns."""
        value = operand(self.node, index)
        array = constant_array(value)
        turned = None if array is None else self._turned(array)
        if array is not None and turned is not None and turned.shape != shape:
            expected = list(shape if self.transposed else shape[::-1])
            raise ModelError(
                f"input {index} of DequantizeLinear has the shape {list(array.shape)}, expected {expected}"
            )
        return value, turned

    def _turned(self, array: NDArray[Any]) -> NDArray[Any]:
        return array if self.transposed else array.T

    def _unsigned(self, array: NDArray[Any]) -> NDArray[np.uint8]:
        wide = array.astype(np.int16)
        return (wide + self.middle if array.dtype in _SIGNED_ARRAYS else wide).astype(np.uint8)

    def _scales(self, scene: Scene, build: Builder, shape: tuple[int, int]) -> onnx_ir.Value:
        """Return the scales in rows of the weight's columns."""
        scales, turned = self._operand(1, shape)
        scales = present(scales, "the scale, whose type is known")
        if turned is not None:
            return self._constant(scene, build, scales, "scales", lambda: np.ascontiguousarray(turned))
        if self.transposed:
            return scales
        turn = scales.producer()
        before = turn.inputs[0] if turn is not None and swaps(turn) else None
        if before is not None:
            return before
        return build.typed("Transpose", [scales], scene.type_of(scales) or DataType.UNDEFINED, perm=[1, 0])

    def _constant(
        self, scene: Scene, build: Builder, value: onnx_ir.Value, name: str, make: Callable[[], NDArray[Any]]
    ) -> onnx_ir.Value:
        """Return the constant that is made from the value, one for all that need the same."""
        key = (self.home().graph, value, f"{name}, {self.transposed}")
        if key not in scene.constants:
            scene.constants[key] = build.constant(make(), name)
        return scene.constants[key]


def _packed(rows: NDArray[np.uint8], bits: int, length: int, filler: int) -> NDArray[np.uint8]:
    """Return rows of codes as bytes, the first in the low bits, each row filled up to a length."""
    filled = np.full((len(rows), length), filler, np.uint8)
    filled[:, : rows.shape[1]] = rows
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    return np.bitwise_or.reduce(filled.reshape(len(rows), -1, 8 // bits) << shifts, axis=2)


def _other_user(value: onnx_ir.Value) -> str | None:
    """Return what uses codes, or what is dequantized from them, other than as the second operand of a product."""
    if value.is_graph_output():
        return "the outputs of a graph"
    for user, index in value.uses():
        dequantizes = user.op_type == "DequantizeLinear" and user.domain in DEFAULT_DOMAINS and index == 0
        if dequantizes or swaps(user):
            further = _other_user(user.outputs[0])
            if further is not None:
                return further
        elif index != 1 or _turned_weight(user) is None:
            return f"{user.op_type}{f' {user.name}' if user.name else ''}"
    return None
