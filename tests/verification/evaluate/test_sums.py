"""Sums on the way to the result of a product, checked with operands whose sums only grow: the last is the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from castsmith.verification.evaluate.sums import scales_a_sum, sums_on_the_way
from tests.lowering.runtime import run, session

CONVOLUTIONS: list[tuple[list[int], list[int], Mapping[str, Any]]] = [
    ([2, 3, 9], [4, 3, 3], {}),
    ([1, 4, 7, 8], [6, 2, 3, 2], {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ([1, 4, 9, 9], [4, 1, 3, 3], {"group": 4, "dilations": [2, 1]}),
    ([2, 2, 6, 7], [3, 2, 4, 3], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ([1, 2, 6, 7], [3, 2, 4, 3], {"auto_pad": "SAME_LOWER"}),
    ([1, 2, 5, 5], [3, 2, 2, 2], {"auto_pad": "VALID"}),
    ([1, 2, 4, 5, 6], [3, 2, 2, 3, 1], {"strides": [1, 2, 3], "pads": [0, 1, 0, 1, 0, 0]}),
]
TRANSPOSED: list[tuple[list[int], list[int], Mapping[str, Any]]] = [
    ([2, 3, 9], [3, 4, 3], {}),
    ([1, 4, 5, 6], [4, 3, 3, 2], {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 3]}),
    ([1, 4, 5, 5], [4, 1, 3, 3], {"group": 4, "dilations": [2, 1], "strides": [1, 2], "output_padding": [0, 1]}),
    ([1, 2, 4, 5], [2, 3, 4, 3], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ([1, 2, 4, 5], [2, 3, 3, 4], {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    ([1, 2, 4, 5], [2, 3, 4, 3], {"output_shape": [9, 10], "strides": [2, 2]}),
    ([1, 2, 3, 3], [2, 3, 1, 1], {"pads": [1, 0, 0, 1], "strides": [2, 2], "output_padding": [1, 1]}),
    ([1, 2, 3, 4, 2], [2, 3, 2, 3, 1], {"strides": [1, 2, 3], "pads": [0, 1, 0, 1, 0, 0]}),
]
PRODUCTS: list[tuple[str, list[int], list[int], Mapping[str, Any]]] = [
    *(("Conv", *convolution) for convolution in CONVOLUTIONS),
    *(("ConvTranspose", *convolution) for convolution in TRANSPOSED),
    ("Gemm", [5, 3], [5, 4], {"transA": 1}),
    ("Gemm", [3, 5], [4, 5], {"transB": 1}),
    ("MatMul", [2, 3, 100], [100, 4], {}),
    ("MatMul", [2, 3, 100], [2, 100, 4], {}),
    ("MatMul", [7], [7], {}),
]


def drawn(shape: list[int], seed: int) -> NDArray[np.float32]:
    return np.random.default_rng([seed, *shape]).integers(0, 9, shape).astype(np.float32)


@pytest.mark.parametrize(("operator", "x", "w", "attributes"), PRODUCTS, ids=str)
def test_sums_that_only_grow_end_with_the_result(
    operator: str, x: list[int], w: list[int], attributes: Mapping[str, Any]
) -> None:
    proto = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xwy"]
    graph = helper.make_graph([proto], "g", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": drawn(x, 1), "w": drawn(w, 2)}
    (expected,) = run(session(model), feeds)
    sums = sums_on_the_way(onnx_ir.serde.deserialize_node(proto), [feeds["x"], feeds["w"]])
    assert sums is not None
    assert np.array_equal(sums, expected)


@pytest.mark.parametrize("stated", [{"bits": 4}, {}], ids=["stated", "by default"])
def test_weights_of_four_bits(stated: Mapping[str, Any]) -> None:
    node = onnx_ir.node("MatMulNBits", [], {"K": 32, "N": 2, "block_size": 16, **stated}, domain="com.microsoft")
    codes = np.arange(32, dtype=np.uint8).reshape(2, 2, 8) * 7
    low, high = codes.reshape(2, 16) & 15, codes.reshape(2, 16) >> 4
    weights = np.stack([low, high], -1).reshape(2, 32) * np.float32(2)
    sums = sums_on_the_way(
        node, [np.ones((1, 32), np.float16), codes, np.full(4, 2, np.float16), np.zeros((2, 1), np.uint8)]
    )
    assert sums is not None
    assert np.array_equal(sums, [weights.sum(1)])


def test_a_sum_that_falls_again_counts_at_its_height() -> None:
    node, x = onnx_ir.node("Conv", [], outputs=[onnx_ir.val("y")]), np.ones((1, 4, 1), np.float32)
    sums = sums_on_the_way(node, [x, np.array([[[3], [4], [-5], [-2]]], np.float32)])
    assert sums is not None
    assert sums.tolist() == [[[7.0]]]
    assert sums_on_the_way(onnx_ir.node("Add", []), [x, x]) is None
    for operands in ([x], [x, None], [None, x]):
        assert sums_on_the_way(onnx_ir.node("MatMul", []), operands) is None


@pytest.mark.parametrize(
    ("operator", "alpha", "expected"),
    [
        ("Gemm", 0.5, True), ("Gemm", -0.5, True), ("Gemm", 0.0, True), ("Gemm", 1.0, False), ("Gemm", -1.0, False),
        ("Gemm", 2.0, False), ("Gemm", None, False), ("MatMul", None, False), ("LeakyRelu", 0.01, False),
    ],
)  # fmt: skip
def test_products_that_are_made_smaller(operator: str, alpha: float | None, expected: bool) -> None:
    assert scales_a_sum(onnx_ir.node(operator, [], {} if alpha is None else {"alpha": alpha})) is expected
