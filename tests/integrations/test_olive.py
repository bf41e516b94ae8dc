"""Workflows of Olive with Castsmith's passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

run = pytest.importorskip("olive.workflows").run

from castsmith.integrations.olive import package_config

FLOAT, HALF, FLOAT8 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT8E4M3FN
MODEL = """<ir_version: 10, opset_import: ["": 21]>
g (float[4, 4] x) => (float[4, 4] y) {
    [first] a = MatMul (x, x)
    [small] b = Cast <to = 17> (a)
    [back] c = Cast <to = 1> (b)
    [second] d = MatMul (c, c)
    [last] y = Softmax (d)
}"""


def lowered(folder: Path, passes: list[dict[str, Any]], **workflow: Any) -> onnx.ModelProto:
    """Return the model that a workflow with these passes makes."""
    model = onnx.parser.parse_model(MODEL)
    model.graph.node[3].name = "second, third"  # a comma separates the patterns of `keep`
    onnx.save(model, folder / "model.onnx")
    config = {
        "input_model": {"type": "ONNXModel", "model_path": str(folder / "model.onnx")},
        "passes": {f"pass{index}": settings for index, settings in enumerate(passes)},
        "output_dir": str(folder / "out"),
        "cache_dir": str(folder / "cache"),
        **workflow,
    }
    output = run(config, package_config=dict(package_config()))
    result = onnx.load(output.get_best_candidate().model_path)
    onnx.checker.check_model(result, full_check=True)
    return result


def types(model: onnx.ModelProto) -> dict[str, int]:
    """The element type of each value."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    return {
        value.name: value.type.tensor_type.elem_type
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    }


def test_a_workflow_lowers_and_converts(tmp_path: Path) -> None:
    """Olive's own passes are there as well, and Castsmith's take a target that lacks float8."""
    lower = {"type": "CastsmithOptimize", "target": "onnxruntime-android"}
    model = lowered(tmp_path, [lower, {"type": "CastsmithConvert"}, {"type": "OnnxPeepholeOptimizer"}])
    assert FLOAT8 not in types(model).values()
    assert types(model)["x"] == types(model)["y"] == HALF


@pytest.mark.parametrize(
    ("settings", "halves"),
    [
        ({}, {"x", "a", "c", "d", "y"}),
        ({"keep_io_types": ["x"]}, {"a", "c", "d", "y"}),
        ({"op_block_list": ["MatMul", "Conv"], "keep_io_types": True}, set()),
        ({"op_include_list": ["MatMul"], "keep_io_types": True}, {"a", "d"}),
        ({"node_block_list": ["second, third"], "keep_io_types": True}, {"a"}),
        ({"node_include_list": ["second, third"], "keep_io_types": True}, {"d"}),
        ({"keep_io_types": True, "options": {"keep": ["*"]}}, set()),
    ],
)
def test_options_of_olive_select_what_is_converted(tmp_path: Path, settings: dict[str, Any], halves: set[str]) -> None:
    model = lowered(tmp_path, [{"type": "CastsmithConvert", **settings}])
    assert {name for name, dtype in types(model).items() if dtype == HALF and len(name) == 1} == halves


def test_the_target_follows_from_the_execution_provider(tmp_path: Path) -> None:
    system = {
        "type": "LocalSystem",
        "accelerators": [{"device": "gpu", "execution_providers": ["WebGpuExecutionProvider"]}],
    }
    model = lowered(tmp_path, [{"type": "CastsmithFit"}], systems={"web": system}, target="web")
    assert FLOAT8 not in types(model).values()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "CastsmithFit"}, "needs a `target`"),
        ({"type": "CastsmithConvert", "node_block_list": ["a"], "node_include_list": ["b"]}, "exclude each other"),
        ({"type": "CastsmithConvert", "node_block_list": ["absent"]}, "matches no node"),
    ],
)
def test_errors_say_what_to_do(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        lowered(tmp_path, [settings])
