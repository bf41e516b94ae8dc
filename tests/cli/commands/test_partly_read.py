"""show, info, diff and check read what can be read of a model that cannot be loaded, and say why on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser

from tests.cli.helpers import Command
from tests.sampling import check_all


def _model(nodes: str = "y = Neg (x)") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {{ {nodes} }}'
    )


def _with_weight(change: Callable[[onnx.TensorProto], object], count: int = 1) -> onnx.ModelProto:
    model = _model("y = Add (x, w)")
    for _ in range(count):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(2, np.float32), "w"))
    change(model.graph.initializer[0])
    return model


def _put_outside(tensor: onnx.TensorProto) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="absent.data")


def _with_unknown_type() -> onnx.ModelProto:
    model = _model()
    model.graph.input[0].type.tensor_type.elem_type = 99
    return model


def _with_opset(version: int) -> onnx.ModelProto:
    model = _model()
    model.opset_import[0].version = version
    return model


def _with_two_inputs() -> onnx.ModelProto:
    model = _model()
    model.graph.input.append(model.graph.input[0])
    return model


_MODELS: dict[str, onnx.ModelProto] = {
    "one operand too few": _model("y = Add (x)"),
    "no such value": _model("y = Add (x, z)"),
    "no output": _model("z = Neg (x)"),
    "a cycle": _model("a = Neg (y) y = Abs (a)"),
    "a value made twice": _model("y = Neg (x) y = Abs (x)"),
    "inputs of one name": _with_two_inputs(),
    "constants of one name": _with_weight(lambda tensor: setattr(tensor, "data_type", 12), count=2),
    "a constant too short": _with_weight(lambda tensor: setattr(tensor, "raw_data", b"abc")),
    "data that is missing": _with_weight(_put_outside),
    "an unknown type": _with_unknown_type(),
    "an opset to come": _with_opset(99),
}
_LOADS = ("one operand too few", "no such value", "no output", "an opset to come")


def test_what_can_be_read_is_shown(castsmith: Command, tmp_path: Path) -> None:
    def check(name: str) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(_MODELS[name].SerializeToString())
        told = castsmith("show", path)
        assert told.code == 0
        assert _MODELS[name].graph.node[-1].op_type in told.out
        told = castsmith("info", "--json", path)
        facts = json.loads(told.out)
        assert (told.code, facts["nodes"]) == (0, len(_MODELS[name].graph.node))
        assert all(verdict["errors"] for verdict in facts["targets"].values())
        assert castsmith("info", path).code == 0
        found = castsmith("check", path)
        assert found.code == 1
        same = castsmith("diff", path, path)
        assert same.code == (0 if name in _LOADS else 3)
        assert "Traceback" not in told.err + found.err + same.err
        if name != "an opset to come":
            assert path.name in told.err
            assert path.name in same.err

    check_all(check, _MODELS)


def test_nodes_in_branches_of_what_cannot_be_loaded_are_counted(castsmith: Command, tmp_path: Path) -> None:
    branches = "<then_branch = t () => (a) { b = Abs (x) a = Neg (b) }, else_branch = e () => (d) { d = Abs (x) }>"
    model = _model(f"c = Cast <to = 9> (y) y = If (c) {branches}")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    facts = json.loads(castsmith("info", "--json", path).out)
    assert (facts["nodes"], facts["operators"]) == (5, {"Abs": 2, "Cast": 1, "If": 1, "Neg": 1})


def test_models_that_cannot_be_loaded_are_compared_as_texts(castsmith: Command, tmp_path: Path) -> None:
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    a.write_bytes(_MODELS["a cycle"].SerializeToString())
    b.write_bytes(_model().SerializeToString())
    told = castsmith("diff", a, b)
    assert told.code == 1
    assert "+  y = Neg (x)  # (float[2]) -> float[2]" in told.out
    assert "a.onnx: nodes of graph 'g' form a cycle." in told.err
    assert json.loads(castsmith("diff", "--json", a, b).out)["same"] is False
    assert json.loads(castsmith("diff", "--json", a, a).out)["same"] is None
    assert castsmith("diff", "--format", "html", a, b).code == 2


def test_what_is_no_model_is_refused(castsmith: Command, tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("not a model")
    for command in (["show"], ["info"], ["diff", path]):
        assert castsmith(*command, path).code == 2


def test_both_what_data_and_what_nodes_lack_is_told(castsmith: Command, tmp_path: Path) -> None:
    model = _with_weight(_put_outside)
    model.graph.node[0].input.append("x")
    path = tmp_path / "a.onnx"
    onnx.save(model, path)
    told = f"castsmith: {path}: tensor 'w' keeps its data in 'absent.data', which is missing."
    more = f"castsmith: {path}: g: y (Add): Add has 3 inputs, expected 2."
    ended = castsmith("info", path)
    assert (ended.code, ended.err.splitlines()) == (0, [told, more])
    assert castsmith("show", path).err.splitlines() == [more]
