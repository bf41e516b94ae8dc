"""castsmith.convert: every structure of a model stays valid and loads, whichever nodes are converted."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx_ir
import onnxruntime
import pytest

from castsmith import convert
from castsmith.ir.io.protos import to_proto
from castsmith.numerics.errors import OptionError
from tests.passes.precision.models import TEXTS, model

_NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(bool)": bool}
Port = tuple[str, str]


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def ports(found: onnxruntime.InferenceSession) -> tuple[list[Port], list[Port]]:
    return [(p.name, p.type) for p in found.get_inputs()], [(p.name, p.type) for p in found.get_outputs()]


def feeds(found: onnxruntime.InferenceSession) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for port in found.get_inputs():
        shape = [dim if isinstance(dim, int) else 2 for dim in port.shape]
        dtype = _NUMPY[port.type]
        small = np.asarray(draw.integers(0, 2, shape) if shape else 2).astype(dtype)
        made[port.name] = small if dtype in (bool, np.int64) else np.asarray(draw.normal(0, 0.5, shape)).astype(dtype)
    return made


def flat(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for result in results for each in (result if isinstance(result, list) else [result])]


def require_alike(before: onnx.ModelProto, after: onnx.ModelProto, within: float = 0.02) -> None:
    onnx.checker.check_model(after, full_check=True)
    old, new = session(before), session(after)
    assert ports(new) == ports(old)
    given = feeds(old)
    for expected, found in zip(flat(old.run(None, given)), flat(new.run(None, given)), strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if expected.dtype.kind == "f":
            assert np.isfinite(found[np.isfinite(expected)]).all()
            np.testing.assert_allclose(found, expected, atol=within * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("name", TEXTS)
def test_every_structure_stays_valid_and_loads(name: str) -> None:
    before = model(name)
    result = convert(before, to="float16")
    assert not result.diagnostics
    require_alike(before, to_proto(result.model))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", TEXTS)
def test_any_choice_of_nodes_stays_valid_and_loads(name: str, seed: int) -> None:
    draw, before = random.Random(f"{name} {seed}"), model(name)
    names = [node.name for node in before.graph.node]
    chosen = {each: draw.random() < 0.5 for each in names}
    result = convert(
        before,
        to="float16",
        lower=[f"name:{each}" for each in names if chosen[each]],
        keep=[f"name:{each}" for each in names if not chosen[each] and draw.random() < 0.7],
    )
    assert not result.diagnostics
    require_alike(before, to_proto(result.model), within=0.05)


@pytest.mark.parametrize("name", TEXTS)
def test_inputs_and_outputs_change_where_asked(name: str) -> None:
    before = model(name)
    after = to_proto(convert(before, to="float16", keep_io_types=False).model)
    onnx.checker.check_model(after, full_check=True)
    session(after)
    weights = {tensor.name for tensor in before.graph.initializer}
    olds, news = (*before.graph.input, *before.graph.output), (*after.graph.input, *after.graph.output)
    for old, new in zip(olds, news, strict=True):
        assert new.name == old.name
        if old.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and old.name not in weights:
            assert new.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


@pytest.mark.parametrize("to", ["bfloat16", "float"])
@pytest.mark.parametrize("name", TEXTS)
def test_other_precisions_stay_valid(name: str, to: str) -> None:
    before = model(name)
    try:
        result = convert(before, to=to)
    except OptionError as refused:
        assert "already in" in str(refused) or "bfloat16" in str(refused)  # noqa: PT017
        return
    assert not result.diagnostics
    after = to_proto(result.model)
    onnx.checker.check_model(after, full_check=True)
    if to == "float":
        require_alike(before, after)


def test_names_of_nodes_and_values_stay() -> None:
    before = model("chain")
    after = convert(before, to="float16").model
    names = {node.name for node in after.graph}
    assert names > {node.name for node in before.graph.node}
    assert {"w"} == set(after.graph.initializers)
    assert after.graph.initializers["w"].dtype == onnx_ir.DataType.FLOAT16
