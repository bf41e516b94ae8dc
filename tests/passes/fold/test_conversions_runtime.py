"""With `fold_as`, what the standard leaves open folds to what the runtime gives when it runs the cast itself."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import castsmith
from castsmith.ir.io.protos import to_proto

CASES = [
    (np.array([1, np.inf, -np.inf, 0.3], np.float32), TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT),
    (np.array([0.5, 2, -1.5, 2.5], np.float32), TensorProto.INT4, TensorProto.INT32),
]


def model(array: np.ndarray, to: int, back: int, *, constant: bool) -> onnx.ModelProto:
    weight = numpy_helper.from_array(array, "w")
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=to), helper.make_node("Cast", ["c"], ["y"], to=back)]
    shape = list(array.shape)
    inputs = [] if constant else [helper.make_tensor_value_info("w", weight.data_type, shape)]
    outputs = [helper.make_tensor_value_info("y", back, shape)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weight] if constant else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def run(proto: onnx.ModelProto, **inputs: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (result,) = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, inputs)
    return np.asarray(result)


@pytest.mark.parametrize(("array", "to", "back"), CASES)
def test_folds_to_what_the_runtime_gives(array: np.ndarray, to: int, back: int) -> None:
    result = castsmith.optimize(model(array, to, back, constant=True), fold_as="onnxruntime")
    folded = to_proto(result.model)
    assert [node.op_type for node in folded.graph.node] == ["Identity"]
    wanted = run(model(array, to, back, constant=False), w=array)
    assert run(folded).tobytes() == wanted.tobytes()


def test_a_runtime_nobody_knows() -> None:
    with pytest.raises(
        castsmith.CastsmithError, match="unknown fold_as 'tensorrt'; expected one of '', 'onnxruntime', 'reference'"
    ):
        castsmith.optimize(model(*CASES[0], constant=True), fold_as="tensorrt")  # pyright: ignore[reportArgumentType]
