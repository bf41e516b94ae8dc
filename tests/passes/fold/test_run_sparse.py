"""Sparse constants: loaded as operators that mean the same, folded with the conversion behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.helper as make
import onnx_ir
import pytest
from onnx import TensorProto

import castsmith
from castsmith.ir.io.loading import from_proto
from castsmith.passes.fold.run import FoldConstants
from tests.evaluator import evaluate

FLAT = make.make_tensor("i", TensorProto.INT64, [2], [1, 5])
PAIRS = make.make_tensor("i", TensorProto.INT64, [2, 2], [0, 1, 1, 2])
DENSE = [[0, 1.5, 0], [0, 0, 2.5]]


def _sparse(indices: onnx.TensorProto, dims: list[int]) -> onnx.SparseTensorProto:
    return make.make_sparse_tensor(make.make_tensor("w", TensorProto.FLOAT, [2], [1.5, 2.5]), indices, dims)


def _model(nodes: list[onnx.NodeProto], dims: list[int], opset: int = 21, **parts: Any) -> onnx.ModelProto:
    output = make.make_tensor_value_info("y", TensorProto.FLOAT16, dims)
    graph = make.make_graph(nodes, "g", [], [output], **parts)
    return make.make_model(graph, opset_imports=[make.make_opsetid("", opset)], ir_version=10)


CAST = make.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT16)


def _as_initializer(sparse: onnx.SparseTensorProto) -> onnx.ModelProto:
    return _model([CAST], list(sparse.dims), sparse_initializer=[sparse])


def _as_constant(sparse: onnx.SparseTensorProto) -> onnx.ModelProto:
    return _model([make.make_node("Constant", [], ["w"], sparse_value=sparse), CAST], list(sparse.dims))


@pytest.mark.parametrize("indices", [FLAT, PAIRS], ids=["flat", "pairs"])
@pytest.mark.parametrize("build", [_as_initializer, _as_constant])
def test_sparse_constants_fold(build: Any, indices: onnx.TensorProto) -> None:
    model = from_proto(build(_sparse(indices, [2, 3])))
    onnx.checker.check_model(onnx_ir.to_proto(model), full_check=True)
    assert evaluate(model, {})[0].tolist() == DENSE
    FoldConstants()(model)
    (constant,) = model.graph.initializers.values()
    assert constant.const_value is not None
    assert constant.const_value.numpy().tolist() == DENSE
    assert constant.const_value.numpy().dtype == np.float16
    assert [node.op_type for node in model.graph] == ["Identity"]


@pytest.mark.parametrize("build", [_as_initializer, _as_constant])
def test_a_sparse_tensor_of_a_trillion_elements_is_refused(build: Any) -> None:
    model = from_proto(build(_sparse(PAIRS, [10**6, 10**6])))
    result = FoldConstants()(model)
    assert not result.modified


def test_the_model_given_is_not_changed() -> None:
    proto = _as_initializer(_sparse(FLAT, [2, 3]))
    before = proto.SerializeToString(deterministic=True)
    from_proto(proto)
    assert proto.SerializeToString(deterministic=True) == before


def test_before_opset_11_there_are_none() -> None:
    with pytest.raises(castsmith.ModelError, match="sparse constants need opset 11"):
        from_proto(_model([CAST], [2, 3], 10, sparse_initializer=[_sparse(FLAT, [2, 3])]))
