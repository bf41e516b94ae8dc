"""Casts of large constants: judged and computed in pieces, with the same result as at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_ir import DataType

import castsmith
from castsmith.ir.io import streaming as pieces

COUNT = 1000
TARGETS = [DataType.FLOAT16, DataType.FLOAT8E4M3FN, DataType.INT4, DataType.DOUBLE, DataType.UINT8]


@pytest.fixture(autouse=True)
def pieces_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 64)


def cast_model(array: np.ndarray, to: DataType) -> onnx.ModelProto:
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=int(to)), helper.make_node("Shape", ["x"], ["s"])]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"]),
        helper.make_tensor_value_info("y", int(to), list(array.shape)),
        helper.make_tensor_value_info("s", TensorProto.INT64, [1]),
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(array, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


@pytest.mark.parametrize("to", TARGETS)
def test_a_cast_in_pieces_is_the_cast(tmp_path: Path, to: DataType) -> None:
    array = (np.arange(COUNT, dtype=np.float32) % 7).reshape(50, 20)
    result = castsmith.optimize(cast_model(array, to), max_growth=1 << 20)
    assert [rewrite.rule for rewrite in result.rewrites] == ["fold-constant"]
    castsmith.save(result.model, tmp_path / "m.onnx")
    folded = only_constant(castsmith.load(tmp_path / "m.onnx"))
    assert folded.numpy().tobytes() == castsmith.cast(array, to).tobytes()


def only_constant(model: onnx_ir.Model) -> onnx_ir.TensorProtocol:
    """The one constant: an initializer, or a Constant node where the runtime has no Identity for the type."""
    (tensor,) = [
        *(value.const_value for value in model.graph.initializers.values()),
        *(node.attributes["value"].as_tensor() for node in model.graph if node.op_type == "Constant"),
    ]
    assert tensor is not None
    return tensor


SHAPE = (4, 30, 10)


def test_the_element_that_cannot_be_quantized_is_named() -> None:
    x = np.ones(SHAPE, np.float32)
    x[2, 20, 5] = np.nan
    zero, scale = np.zeros(30, np.uint8), np.ones(30, np.float32)
    names = [helper.make_tensor_value_info("y", TensorProto.UINT8, SHAPE)]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], "n", axis=1)
    weights = [numpy_helper.from_array(array, name) for array, name in ((x, "x"), (scale, "s"), (zero, "z"))]
    graph = helper.make_graph([node], "g", [], names, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    (refusal,) = castsmith.optimize(proto).refusals
    assert "element [2, 20, 5] of x" in refusal.reason


@pytest.mark.parametrize(("place", "bad"), [(0, np.nan), (64, 1e9), (999, -1.0), (500, np.inf)])
def test_one_element_without_meaning_is_found(place: int, bad: float) -> None:
    array = np.ones(COUNT, np.float32)
    array[place] = bad
    result = castsmith.optimize(cast_model(array.reshape(50, 20), DataType.UINT8))
    (refusal,) = result.refusals
    assert f"element {[place // 20, place % 20]} of w" in refusal.reason
    assert not result.rewrites


def test_the_worst_element_is_named_not_the_first() -> None:
    array = np.ones((50, 20), np.float32)
    array[3, 3], array[49, 19] = -1.0, np.nan
    whole = castsmith.optimize(cast_model(array[:3], DataType.UINT8)).refusals
    assert not whole
    reasons = [castsmith.optimize(cast_model(part, DataType.UINT8)).refusals[0].reason for part in (array, array[3:])]
    assert reasons[0].partition(": ")[2] == reasons[1].partition(": ")[2]
