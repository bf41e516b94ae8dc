"""Random products with quantized weights, as MatMulNBits and in standard operators: from each to the other.

    python -m tests.lowering.quantized.random_products COUNT [FIRST]    the models of COUNT seeds from FIRST on

A MatMulNBits of 2 or 4 bits comes back from standard operators with the same bytes and attributes. DequantizeLinear in
blocks and MatMul give the exact product when they have become a MatMulNBits, and when that is in standard operators
again. Drawn are the type of the codes, their layout, the size, the block size, whether the last block is shorter, zero
points, the type of the numbers and the rank of x.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.defs
import onnx_ir
from onnx import helper, numpy_helper

import castsmith
from tests.lowering.quantized.test_microsoft import model_of
from tests.lowering.runtime import LEVELS, Array, run, session

MICROSOFT: dict[str, Any] = {"target": "onnxruntime-cpu", "vendor": "com.microsoft"}
WITHOUT = "tflite"
"""A target without operators of vendors."""
TYPES: dict[str, tuple[int, int, int]] = {
    "uint8": (8, 0, 21),
    "int8": (8, -128, 21),
    "uint4": (4, 0, 21),
    "int4": (4, -8, 21),
    "uint2": (2, 0, 25),
    "int2": (2, -2, 25),
}
"""Bits, least number and first opset of each type."""


def tensors(proto: onnx.ModelProto) -> list[Array]:
    """Return the initializers that the first node reads, in its order."""
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    return [held[name] for name in proto.graph.node[0].input if name in held]


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def packed_model(seed: int) -> onnx.ModelProto:
    """Return a random MatMulNBits of 2 or 4 bits, packed as ONNX Runtime's quantizer packs: unused codes are 0, unused
    zero points the middle."""
    rng = np.random.default_rng(seed)
    bits, block = int(rng.choice([2, 4])), int(rng.choice([16, 32, 64, 128]))
    depth, width = int(rng.integers(1, 150)), int(rng.integers(1, 9))
    blocks, floats = -(-depth // block), (np.float32, np.float16)[int(rng.integers(2))]
    codes = rng.integers(0, 2**bits, (width, blocks * block), dtype=np.uint8)
    codes[:, depth:] = 0
    held = {"b": pack(codes, bits).reshape(width, blocks, -1), "s": rng.normal(0, 1, (width, blocks)).astype(floats)}
    if rng.integers(2):
        points = np.full((width, -(-blocks * bits // 8) * 8 // bits), 2 ** (bits - 1), np.uint8)
        points[:, :blocks] = rng.integers(0, 2**bits, (width, blocks))
        held["z"] = pack(points, bits)
    x = np.zeros((2, depth), floats)
    return model_of("MatMulNBits", x, held, 25, K=depth, N=width, bits=bits, block_size=block)


def pack(codes: Array, bits: int) -> Array:
    """Return codes in the bits of bytes, the first in the lowest."""
    shifted = codes.reshape(len(codes), -1, 8 // bits).astype(int) << (np.arange(8 // bits) * bits)
    return shifted.sum(axis=2).astype(np.uint8)


def blocked_model(
    name: str, *, transposed: bool = False, points: bool = False, size: tuple[int, int, int] = (70, 5, 32), **given: Any
) -> tuple[onnx.ModelProto, Array]:
    """Return DequantizeLinear in blocks and MatMul, and the weight; sums of 0 and 1 times it are exact in any order."""
    bits, least, _ = TYPES[name]
    depth, width, block = size
    rng = np.random.default_rng([bits, depth])
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    codes = rng.integers(least, least + 2**bits, (depth, width))
    scales = 2.0 ** rng.integers(-2, 1, (-(-depth // block), width))
    zeros = rng.integers(least, least + 2**bits, scales.shape) if points else np.zeros(scales.shape, int)

    def spread(array: Array) -> Array:
        return np.repeat(array, block, 0)[:depth]

    weight = ((codes - spread(zeros)) * spread(scales)).astype(np.float32)
    floats = given.get("floats", np.float32)
    held: dict[str, Array] = {"q": codes.astype(dtype), "s": scales.astype(floats)}
    held |= {"z": zeros.astype(dtype)} if points else {}
    initializers = [
        onnx_ir.to_proto(onnx_ir.tensor(np.ascontiguousarray(array.T) if transposed else array, name=key))
        for key, array in held.items()
    ]
    layout: dict[str, Any] = {"axis": 1 if transposed else 0, "block_size": block}
    nodes = [helper.make_node("DequantizeLinear", list(held), ["d"], **layout)]
    if transposed:
        nodes.append(helper.make_node("Transpose", ["d"], ["w"], perm=[1, 0]))
    else:
        nodes[0].output[0] = "w"
    nodes += given.get("nodes", [helper.make_node("MatMul", ["x", "w"], ["y"])])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(floats))
    inputs = [helper.make_tensor_value_info("x", kind, ["M", depth]), *given.get("inputs", [])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", kind, None)], initializers)
    opset = max(TYPES[name][2], given.get("opset", 0))
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13 if opset > 23 else 10
    )
    return model, weight


def check(seed: int) -> str:
    """Take one model both ways; return a short form of it. Raises AssertionError."""
    return check_packed(seed) if seed % 2 else check_blocked(seed)


def check_packed(seed: int) -> str:
    model = packed_model(seed)
    standard = castsmith.optimize(model, target=WITHOUT, passes=["lower-custom"]).model
    assert not any(node.domain for node in standard.graph)
    back = onnx_ir.to_proto(castsmith.optimize(standard, **MICROSOFT).model)
    (node,) = back.graph.node
    assert (node.op_type, node.domain) == ("MatMulNBits", "com.microsoft")
    assert attributes(node) == attributes(model.graph.node[0])
    for new, old in zip(tensors(back), tensors(model), strict=True):
        assert (new.dtype, new.shape) == (old.dtype, old.shape)
        np.testing.assert_array_equal(new.view(np.uint8), old.view(np.uint8))
    return f"packed {attributes(node)}"


def check_blocked(seed: int) -> str:
    rng = np.random.default_rng(seed)
    names = [name for name, (_, _, first) in TYPES.items() if first <= onnx.defs.onnx_opset_version()]
    name, floats = names[int(rng.integers(len(names)))], (np.float32, np.float16)[int(rng.integers(2))]
    form: dict[str, Any] = {"transposed": bool(rng.integers(2)), "points": bool(rng.integers(2)), "floats": floats}
    size = (int(rng.integers(1, 150)), int(rng.integers(1, 9)), int(2 ** rng.integers(4, 8)))
    model, weight = blocked_model(name, size=size, **form)
    new = onnx_ir.to_proto(castsmith.optimize(model, **MICROSOFT).model)
    assert [node.op_type for node in new.graph.node] == ["MatMulNBits"]
    standard = onnx_ir.to_proto(castsmith.optimize(new, target=WITHOUT, passes=["lower-custom"]).model)
    x = np.eye(size[0], dtype=floats)
    for each in (x, x[None], x[size[0] // 2]):
        wanted = (each.astype(np.float32) @ weight).astype(floats)
        for made, level in ((new, LEVELS[0]), (new, LEVELS[-1]), (standard, LEVELS[0])):
            for tensor in (*made.graph.input, *made.graph.output):
                tensor.type.tensor_type.ClearField("shape")
            np.testing.assert_array_equal(run(session(made, level), {"x": each})[0], wanted)
    return f"{name} {size} {form}"


def main() -> None:
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception as error:
            raise SystemExit(f"seed {seed}: {error!r}") from error
    print(f"{count} of {count}")


if __name__ == "__main__":
    main()
