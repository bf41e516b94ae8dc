"""castsmith info: what a model holds, as text and as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from castsmith.cli.commands.info import _lines, _verdict  # pyright: ignore[reportPrivateUsage]
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.targets.target import target_names
from tests.cli.helpers import MIXED, Command, write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with a function, a subgraph, weights of two types, and a type that most targets lack."""
    text = """<ir_version: 10, opset_import: ["" : 21, "own" : 1], producer_name: "tool", producer_version: "3">
    main (float[N, 2] x, bool c) => (float[N, 2] z, float8e4m3fn[N, 2] q) {
        a = own.twice (x)
        q = Cast <to = 17> (a)
        b = If (c) <then_branch = t () => (float[N, 2] u) { u = Add (a, w) },
                    else_branch = e () => (float[N, 2] v) { v = Neg (a) }>
        z = Relu (b)
    }
    <domain: "own", opset_import: ["" : 21]> twice (x) => (y) { y = Add (x, x) }"""
    proto = onnx.parser.parse_model(text)
    weights = {"w": np.ones(2, np.float32), "n": np.ones((3, 5), np.int64)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    return path


def test_the_data(castsmith: Command, model: Path) -> None:
    ended = castsmith("info", model, "--json")
    data = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert (data["producer"], data["ir_version"], data["opsets"]) == ("tool 3", 10, {"": 21, "own": 1})
    assert data["inputs"] == [{"name": "x", "type": "float[N, 2]"}, {"name": "c", "type": "bool[]"}]
    assert data["outputs"][1] == {"name": "q", "type": "float8e4m3fn[N, 2]"}
    assert (data["nodes"], data["functions"]) == (7, 1)
    assert data["operators"] == {"Add": 2, "twice": 1, "Cast": 1, "If": 1, "Relu": 1, "Neg": 1}
    assert (data["tensor_bytes"], data["tensor_types"]) == (128, {"int64": 120, "float": 8})
    assert (data["file_bytes"], data["data_files"]) == (model.stat().st_size, {})
    assert set(data["targets"]) == set(target_names())


WRONG = """<ir_version: 10, opset_import: ["" : 18]>
wrong (float[N] x) => (int64[N] z, int8[1] i) <float[1] w = {1000.0}> { z = Relu (x) i = Cast <to = 3> (w) }"""
"""An output that is declared wrongly, and a cast that the standard leaves open."""


def test_each_target_says_what_check_says(castsmith: Command, model: Path, tmp_path: Path) -> None:
    for path in (model, write_model(tmp_path / "w.onnx", WRONG), write_model(tmp_path / "x.onnx", MIXED)):
        verdicts = json.loads(castsmith("info", path, "--json").out)["targets"]
        for name in ("onnxruntime-cpu", "tract", "tensorrt-11"):
            found = json.loads(castsmith("check", path, "--target", name, "--json").out)["findings"]
            levels = [finding["severity"] for finding in found]
            counts = verdicts[name]["errors"], verdicts[name]["warnings"]
            assert counts == (levels.count("error"), levels.count("warning")), (path, name)


def test_the_text(castsmith: Command, model: Path) -> None:
    out = castsmith("info", model).out
    for line in (
        "  producer   tool 3",
        "  version    IR 10, opset 21, own 1",
        "  input      x: float[N, 2]",
        "  output     q: float8e4m3fn[N, 2]",
        "  nodes      7: Add 2, twice 1, Cast 1, If 1, Neg 1, Relu 1",
        "  weights    128 B: int64 120 B, float 8 B",
    ):
        assert line in out.splitlines()
    assert len(out.partition("\ntargets")[2].splitlines()) == 1 + len(target_names())


def test_a_mixed_model_is_accepted_by_no_target(castsmith: Command, tmp_path: Path) -> None:
    data = json.loads(castsmith("info", write_model(tmp_path / "a.onnx", MIXED), "--json").out)
    assert all(verdict["errors"] for verdict in data["targets"].values())


def test_the_data_files(castsmith: Command, model: Path, tmp_path: Path) -> None:
    proto = onnx.load(model)
    other = tmp_path / "o.onnx"
    onnx.save(proto, other, save_as_external_data=True, location="o.bin", size_threshold=0)
    size = (tmp_path / "o.bin").stat().st_size
    assert list(json.loads(castsmith("info", other, "--json").out)["data_files"].values()) == [size]
    assert "o.bin 128 B" in castsmith("info", other).out


def test_a_model_without_anything(castsmith: Command, tmp_path: Path) -> None:
    graph = helper.make_graph([], "empty", [], [])
    onnx.save(helper.make_model(graph), tmp_path / "e.onnx")
    out = castsmith("info", tmp_path / "e.onnx").out
    assert "  producer   not stated\n" in out
    assert "  nodes      0\n" in out
    assert "  weights    none\n" in out
    assert json.loads(castsmith("info", tmp_path / "e.onnx", "--json").out)["producer"] is None


def test_several_models(castsmith: Command, model: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "w.onnx", WRONG)
    single = [castsmith("info", path) for path in (model, other)]
    assert castsmith("info", model, other).out == f"{single[0].out}\n{single[1].out}"
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    ended = castsmith("info", tmp_path, "--json")
    assert ended.code == 2
    assert ended.err.count("bad.onnx") == 1
    bad, *rest = json.loads(ended.out)["models"]
    assert (bad["model"], bad["error"]["code"]) == (str(tmp_path / "bad.onnx"), "model")
    for entry, path in zip(rest, (model, other), strict=True):
        assert {"schema": 1, **entry} == {**json.loads(castsmith("info", path, "--json").out), "error": None}


def facts(**changes: Any) -> dict[str, Any]:
    """Return what is told of a model without anything."""
    empty: dict[str, Any] = {"producer": None, "ir_version": 10, "opsets": {}, "inputs": [], "outputs": []}
    empty |= {"nodes": 0, "operators": {}, "functions": 0, "tensor_bytes": 0, "tensor_types": {}, "data_files": {}}
    return {**empty, "file_bytes": 812, "targets": {"t": _verdict([])}, **changes}


def rows(**changes: Any) -> list[str]:
    return [line.plain for line in _lines("m", facts(**changes))]


def test_the_rows_at_their_limits() -> None:
    ports = [{"name": f"i{index}", "type": "float"} for index in range(21)]
    for count, more in ((20, []), (21, ["  {}... and 1 more"])):
        for key in ("input", "output"):
            told = [row for row in rows(**{f"{key}s": ports[:count]}) if row.startswith(f"  {key} ")]
            assert told == [
                *(f"  {key:9}  i{index}: float" for index in range(20)),
                *(text.format(f"{key:9}  ") for text in more),
            ]
    operators = {f"Op{index}": 14 - index for index in range(14)}
    for count, more in ((12, ""), (13, ", 1 other operator"), (14, ", 2 other operators")):
        names = dict(list(operators.items())[:count])
        listed = ", ".join(f"Op{index} {14 - index}" for index in range(12))
        assert f"  nodes      {sum(names.values())}: {listed}{more}" in rows(nodes=sum(names.values()), operators=names)
    assert rows()[0] == "m  812 B"
    assert rows(data_files={"a": 1000, "b": 2})[0] == "m  812 B, a 1.0 KB, b 2 B"
    assert "  version    IR 10, no opset" in rows()
    assert "  weights    unknown" in rows(tensor_bytes=None)
    assert "  functions  3" in rows(functions=3)


def test_what_targets_say() -> None:
    def said(errors: int, warnings: int, unknown: int = 0) -> str:
        verdict = {"errors": errors, "warnings": warnings, "unknown": unknown, "first": "why"}
        return rows(targets={"t": verdict})[-1]

    assert said(0, 0) == "  t  can run it"
    assert said(0, 0, 1) == "  t  no problem known, but the facts are incomplete"
    assert said(1, 0, 1) == "  t  1 error: why"
    assert said(0, 2) == "  t  2 warnings: why"
    assert said(2, 1) == "  t  2 errors, 1 warning: why"
    assert rows()[-3:] == ["", "targets (castsmith check --target T says more)", "  t  can run it"]

    def finding(severity: Severity, code: str = "c") -> Diagnostic:
        return Diagnostic(code, severity, Site("g"), f"{severity.value} {code}")

    note, warning, error = map(finding, Severity)
    unknown = finding(Severity.WARNING, "target-unknown")
    assert [_verdict(found) for found in ([note, warning, error, error], [unknown, warning], [note], [])] == [
        {"errors": 2, "warnings": 1, "unknown": 0, "first": "error c"},
        {"errors": 0, "warnings": 2, "unknown": 1, "first": "warning target-unknown"},
        *([{"errors": 0, "warnings": 0, "unknown": 0, "first": None}] * 2),
    ]
