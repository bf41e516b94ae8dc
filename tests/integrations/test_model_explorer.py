"""The extension of Model Explorer, loaded and called as its server does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

ExtensionManager = pytest.importorskip("model_explorer.extension_manager").ExtensionManager

import castsmith
from castsmith.cli.main import main

MODEL = """<ir_version: 10, opset_import: ["": 21]>
main (float[4] x) => (float[4] y) {
    [there] a = Cast <to = 11> (x)
    [back] b = Cast <to = 1> (a)
    [large] c = Mul (b, b)
    [root] y = Sqrt (c)
}"""


@pytest.fixture
def manager() -> Any:
    manager = ExtensionManager(["model_explorer_onnx", "castsmith.integrations.model_explorer"])
    manager.load_extensions()
    return manager


def test_a_diff_is_two_graphs_with_the_changes_in_colour(
    manager: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "a.onnx")
    castsmith.optimize(tmp_path / "a.onnx").save(tmp_path / "b.onnx")
    main(["diff", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--format", "json"])
    file = tmp_path / "diff.castsmith.json"
    file.write_text(capsys.readouterr().out)
    command = {"cmdId": "convert", "extensionId": "castsmith_diff", "modelPath": str(file), "settings": {}}
    before, after = manager.run_cmd(command | {"deleteAfterConversion": False})["graphs"]
    coloured = {node["id"]: node["style"]["backgroundColor"] for node in before["nodes"] if node.get("style")}
    assert coloured.keys() >= {"a", "b"}
    assert [node["label"] for node in after["nodes"]] == ["Input", "Mul", "Sqrt", "Output"]
    file.write_text(json.dumps({"graphs": []}))
    with pytest.raises(castsmith.ModelError, match="choose another adapter"):
        manager.run_cmd(command | {"deleteAfterConversion": False})


@pytest.mark.parametrize(
    ("provider", "settings", "expected"),
    [
        ("bounds", {"ranges": "x=-1000:1000"}, {"large": 1e6, "root": 1000}),
        ("precision", {"to": "float16", "ranges": "x=-1:1"}, {"large": "float16"}),
        ("rewrites", {}, {"back"}),
    ],
)
def test_what_is_known_of_nodes_is_laid_over_the_graph(
    manager: Any, tmp_path: Path, provider: str, settings: dict[str, str], expected: Any
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(MODEL), path)
    convert = {"cmdId": "convert", "extensionId": "onnx_adapter", "modelPath": str(path), "settings": {}}
    graph = manager.run_cmd(convert | {"deleteAfterConversion": False})["graphs"][0]
    command = {"extensionId": f"castsmith_{provider}", "modelPath": str(path), "graphId": graph["id"], "graph": graph}
    assert manager.run_cmd(command | {"cmdId": "get_config_editors"})["configEditors"]
    answer = manager.run_cmd(command | {"cmdId": "run", "configValues": settings})
    assert not answer["error"]
    values = {name: data["value"] for name, data in answer["result"]["results"].items()}
    if isinstance(expected, set):
        assert values.keys() >= expected
    else:
        assert {name: values.get(name) for name in expected} == expected
    wrong = manager.run_cmd(command | {"cmdId": "run", "configValues": {"ranges": "x", "target": "absent"}})
    assert wrong["error"]
