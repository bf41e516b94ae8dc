"""castsmith optimize: what it writes, what it prints, and that a run that fails leaves no trace."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import numpy_helper

from castsmith.cli.commands import optimize
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering import pipeline
from castsmith.lowering.fit.results import FitResult
from tests.cli.helpers import CHAIN, CLEAN, MIXED, UNSAFE, Command, is_one_sentence, write_model

UNDEFINED = """<ir_version: 10, opset_import: ["" : 18]>
constant () => (int8[2] z) <float[2] w = {1.0, 1000.0}> {
    z = Cast <to = 3> (w)
}"""


def test_a_mixed_model_becomes_one_that_the_checker_accepts(castsmith: Command, tmp_path: Path) -> None:
    source, out = write_model(tmp_path / "a.onnx", MIXED), tmp_path / "b.onnx"
    ended = castsmith("optimize", source, "-o", out)
    assert (ended.code, ended.err) == (0, "")
    onnx.checker.check_model(onnx.load_model(out), full_check=True)
    assert "promote-operands" in ended.out
    assert "    Cast   0       1\n" in ended.out
    assert "file " in ended.out


def test_nothing_to_change(castsmith: Command, tmp_path: Path) -> None:
    ended = castsmith("optimize", write_model(tmp_path / "a.onnx", CLEAN), "-o", tmp_path / "b.onnx", "--diff")
    assert ended.code == 0
    assert "nothing to change" in ended.out
    assert ended.out.startswith(f"{tmp_path / 'a.onnx'} -> {tmp_path / 'b.onnx'}")


def test_the_output_may_be_the_input(castsmith: Command, tmp_path: Path) -> None:
    model = write_model(tmp_path / "a.onnx", MIXED)
    assert castsmith("optimize", model, "-o", model).code == 0
    assert castsmith("check", model).code == 0
    assert list(tmp_path.iterdir()) == [model]


def test_a_refused_promotion_writes_nothing(castsmith: Command, tmp_path: Path) -> None:
    source, out, report = write_model(tmp_path / "a.onnx", UNSAFE), tmp_path / "b.onnx", tmp_path / "r.json"
    ended = castsmith("optimize", source, "-o", out, "--report", report)
    assert (ended.code, ended.out) == (1, "")
    assert is_one_sentence(ended.err)
    assert "x (float, an input) and y (int64, an input)" in ended.err
    assert "--promote-unsafe" in ended.err
    assert list(tmp_path.iterdir()) == [source]
    assert castsmith("optimize", source, "-o", out, "--promote-unsafe").code == 0


def test_an_error_diagnostic_is_a_refusal(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: object, *_: object) -> pipeline.Result:
        return pipeline.Result(model, diagnostics=[Diagnostic("x-code", Severity.ERROR, Site("g"), "no", "help")])  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "optimize_loaded", fail)
    source = write_model(tmp_path / "a.onnx", CLEAN)
    ended = castsmith("optimize", source, "-o", tmp_path / "b.onnx")
    assert (ended.code, ended.out) == (1, "")
    first, second = ended.err.splitlines()
    assert first == f"{source}: g: x-code no (help)"
    assert second.startswith("castsmith: ")
    data = json.loads(castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--json").out)
    assert (data["output"], data["diagnostics"][0]["code"]) == (None, "x-code")
    assert list(tmp_path.iterdir()) == [source]


def test_diagnostics_go_to_stderr_one_a_line(castsmith: Command, tmp_path: Path) -> None:
    source = write_model(tmp_path / "a.onnx", UNDEFINED)
    ended = castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--explain")
    assert ended.code == 0
    assert ended.err.count("\n") == 1
    assert ended.err.startswith(f"{source}: constant: ")
    assert "undefined-constant-cast" in ended.err
    assert "skipped: " in ended.out
    assert "example value: 1000.0" in ended.out


def test_diff_in_a_pipe_is_neither_coloured_nor_wrapped(castsmith: Command, tmp_path: Path) -> None:
    name = "v" * 200
    source = write_model(tmp_path / "a.onnx", MIXED.replace(" y", f" {name}").replace("y)", f"{name})"))
    lines = castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--diff").out.splitlines()
    assert not any("\x1b" in line for line in lines)
    before = [line for line in lines if line.startswith("    - z = Add")]
    assert before == [f"    - z = Add (x, {name})  # (float[N], int16[N]) -> float[N]"]
    assert "insert-promote-types + resolve-promote-types, promote-operands + resolve-promotion (1)" in lines
    assert any(line.startswith("    + ") for line in lines)
    assert any(line.endswith("[repair]") for line in lines)


def test_diff_on_a_terminal_fits_it(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    source = write_model(tmp_path / "a.onnx", MIXED)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--diff").out
    assert "\x1b[32m" in text
    assert "\x1b[31m" in text


def test_an_escape_sequence_in_a_name_is_not_obeyed(castsmith: Command, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(MIXED)
    proto.graph.name = "\x1b[2Jgone"
    proto.graph.node[0].name = "two\nlines"
    onnx.save_model(proto, tmp_path / "a.onnx")
    text = castsmith("optimize", tmp_path / "a.onnx", "-o", tmp_path / "b.onnx", "--diff").out
    assert "\x1b" not in text
    assert "\\x1b[2Jgone: two lines (Add)" in text


def test_report_and_json_say_the_same(castsmith: Command, tmp_path: Path) -> None:
    source, out, report = write_model(tmp_path / "a.onnx", MIXED), tmp_path / "b.onnx", tmp_path / "r.json"
    ended = castsmith("optimize", source, "-o", out, "--report", report, "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert json.loads(report.read_text()) == data
    assert data["schema"] == 1
    assert data["summary"]["before"]["casts"] == 0
    assert data["summary"]["after"] == {
        "nodes": 2,
        "operators": {"Add": 1, "Cast": 1},
        "tensor_types": {},
        "casts": 1,
        "tensor_bytes": 0,
        "file_bytes": out.stat().st_size,
    }
    assert [rewrite["rule"] for rewrite in data["rewrites"]] == ["promote-operands", "resolve-promotion"]
    assert data["rewrites"][0]["effect"] == "repair"
    assert set(data) >= {"refusals", "diagnostics", "input", "output", "target"}


def test_passes_and_until(castsmith: Command, tmp_path: Path) -> None:
    source, out = write_model(tmp_path / "a.onnx", MIXED), tmp_path / "b.onnx"
    assert castsmith("optimize", source, "-o", out, "--until", "insert-promote-types").code == 0
    assert [node.op_type for node in onnx.load_model(out).graph.node] == ["ConvertPromoteTypes", "Add"]
    chain = write_model(tmp_path / "c.onnx", CHAIN)
    assert castsmith("optimize", chain, "-o", out, "--passes", "fold-constants{max_growth=1}, simplify-casts").code == 0
    assert [node.op_type for node in onnx.load_model(out).graph.node] == ["Relu"]
    assert castsmith("optimize", chain, "-o", out, "--passes", "fold-constants").code == 0
    assert len(onnx.load_model(out).graph.node) == 3


def test_external_data(castsmith: Command, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(CLEAN.replace("Relu (x)", "Add (x, w)"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1024, np.float32), "w"))
    source, out = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save_model(model, source)
    assert castsmith("optimize", source, "-o", out, "--external-data", "b.bin").code == 0
    assert (tmp_path / "b.bin").stat().st_size >= 4096
    assert castsmith("diff", source, out).code == 0
    ended = castsmith("optimize", source, "-o", tmp_path / "c.onnx", "--external-data", "../c.bin")
    assert ended.code == 2
    assert is_one_sentence(ended.err)
    assert not (tmp_path / "c.onnx").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--target", "abacus"),
        ("--passes", "mend"),
        ("--passes", "fold-constants{size=1}"),
        ("--passes", "fold-constants{max_growth=much}"),
        ("--passes", "lower-float8"),
        ("--until", "mend"),
        ("--u64-integer-promotion-target", "i65"),
        ("--report", "{folder}/none/r.json"),
        ("--report", "{folder}/b.onnx"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_exist(castsmith: Command, tmp_path: Path, options: tuple[str, ...]) -> None:
    source = write_model(tmp_path / "a.onnx", MIXED)
    words = [option.replace("{folder}", str(tmp_path)) for option in options]
    ended = castsmith("optimize", source, "-o", tmp_path / "b.onnx", *words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("out", ["", "none/b.onnx", "a.onnx/b.onnx", "/dev/null"])
def test_an_output_that_cannot_be_written(castsmith: Command, tmp_path: Path, out: str) -> None:
    source = write_model(tmp_path / "a.onnx", MIXED)
    ended = castsmith("optimize", source, "-o", tmp_path / out)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert list(tmp_path.iterdir()) == [source]


def test_a_disk_that_fails_late_keeps_the_old_files(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    source, out, report = write_model(tmp_path / "a.onnx", MIXED), tmp_path / "b.onnx", tmp_path / "r.json"
    out.write_text("old")
    report.write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    ended = castsmith("optimize", source, "-o", out, "--report", report)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert "No space left on device" in ended.err
    assert (out.read_text(), report.read_text()) == ("old", "old")
    assert sorted(tmp_path.iterdir()) == [source, out, report]


def test_how_many_steps_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading, and each pass: with a target also those that need one."""
    monkeypatch.setattr(optimize, "PIPELINE", ("one", "two", "lower"))
    monkeypatch.setattr(optimize, "REPAIR", ("one", "two", "three", "four"))
    monkeypatch.setattr(optimize, "needs_target", lambda name: name == "lower")  # pyright: ignore[reportUnknownLambdaType]
    for options, steps in (
        ({}, 3),
        ({"target": "iree"}, 4),
        ({"repair_only": True, "target": "iree"}, 5),
        ({"passes": "fold-constants{max_growth=1,limit=2}, simplify-casts"}, 3),
    ):
        arguments = argparse.Namespace(**{"repair_only": False, "passes": None, "target": None, **options})
        assert optimize._steps(arguments) == steps, options  # pyright: ignore[reportPrivateUsage]


def test_what_the_report_holds_and_who_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made only where somebody asks for it; that of fit has the plan."""

    def report(*words: Any) -> dict[str, Any]:
        return {"report": words}

    def plan(result: object, *files: Any) -> Any:
        del result
        return files

    model = onnx_ir.from_proto(onnx.parser.parse_model(CLEAN))
    result, fitted = pipeline.Result(model), FitResult(model)
    monkeypatch.setattr(optimize, "report_data", report)
    monkeypatch.setattr(optimize, "plan_data", plan)
    sizes: Any = None
    for options, given, data in (
        ({}, fitted, {}),
        ({"json": True}, result, {"report": ("a", "b", "iree", result, None)}),
        ({"report": "r.json"}, fitted, {"report": ("a", "b", "iree", fitted, None), "fit": ("a", "b")}),
        ({"outcome": 1}, fitted, {"report": ("a", "b", "iree", fitted, None), "fit": ("a", "b")}),
    ):
        words = {"outcome": None, "json": False, "report": None, "input": "a", "target": "iree", **options}
        assert optimize._data(argparse.Namespace(**words), "b", given, sizes) == data, options  # pyright: ignore[reportPrivateUsage]
    for options, wanted in (
        ({}, False),
        ({"diff": "net"}, True),
        ({"report": "r.json"}, True),
        ({"json": True}, True),
        ({"outcome": SimpleNamespace(task=SimpleNamespace(wanted="figures"))}, False),
        ({"outcome": SimpleNamespace(task=SimpleNamespace(wanted="page"))}, True),
    ):
        arguments = argparse.Namespace(**{"outcome": None, "diff": None, "report": None, "json": False, **options})
        assert optimize._savings_wanted(arguments) is wanted, options  # pyright: ignore[reportPrivateUsage]


def test_the_heads_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(title: str, sub: str, *rest: Any) -> dict[str, Any]:
        return {"title": title, "sub": sub.partition(" ")[2].partition(" ")[2], "rest": rest}

    def plan(result: object, *files: str) -> tuple[str, ...]:
        del result
        return files

    model = onnx_ir.from_proto(onnx.parser.parse_model(CLEAN))
    monkeypatch.setattr("castsmith.cli.page.data.report_page", page)
    monkeypatch.setattr(optimize, "plan_lines", plan)
    drawn: Any = "drawn"
    sizes: Any = "sizes"
    for target, command, result, sub, more in (
        (None, "optimize", pipeline.Result(model), "optimize, without a target", {}),
        ("iree", "convert", pipeline.Result(model), "convert, for iree", {}),
        ("iree", "fit", FitResult(model), "fit, for iree", {"plan": ["a", "b"]}),
    ):
        arguments = argparse.Namespace(input="a", output="b", target=target, command=command)
        expected = {"title": "a \u2192 b", "sub": sub, "rest": ("drawn", result, "sizes"), **more}
        assert optimize._page(arguments, drawn, result, sizes) == expected  # pyright: ignore[reportPrivateUsage]


def test_the_file_that_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is beside the output, where there is room for it, under its name; a dry run writes nothing there."""
    monkeypatch.setattr("castsmith.verification.run.verify", lambda *_, **options: options)  # pyright: ignore
    monkeypatch.setattr("castsmith.verification.run.require_no_difference", lambda verdict, _: verdict)  # pyright: ignore
    monkeypatch.setattr(pipeline, "retyped", lambda rewrites: [*rewrites, "y"])  # pyright: ignore
    model = onnx_ir.from_proto(onnx.parser.parse_model(CLEAN))
    source = write_model(tmp_path / "a.onnx", CLEAN)
    files: list[tuple[Path, bool]] = []

    def save(model: object, path: Path, **options: object) -> None:
        del model
        assert options == {"external_data": "b.bin", "shard_bytes": 7}
        files.append((path, path.parent.is_dir()))

    monkeypatch.setattr(optimize, "save", save)
    options: dict[str, Any] = {
        "engine": "reference", "external_data": "b.bin", "shard_bytes": 7, "promotion": None, "promote_unsafe": False,
        "pytorch_scalar_promotion": False, "u64_integer_promotion_target": None, "inputs": None, "dim": ["N=3"],
        "shape": [],
    }  # fmt: skip
    for output, is_dry, name, is_beside in (
        (str(tmp_path / "b.onnx"), False, "b.onnx", True),
        (str(tmp_path / "b.onnx"), True, "b.onnx", False),
        ("-", False, "model.onnx", False),
    ):
        arguments = argparse.Namespace(output=output, dry_run=is_dry, **options)
        result = optimize._verified(arguments, source, pipeline.Result(model))  # pyright: ignore
        verdict: Any = result.verdict
        assert (verdict["engine"], verdict["dims"], verdict["inputs"]) == ("reference", {"N": 3}, None)
        assert verdict["promotion"].promote_unsafe
        assert verdict["accept"] == ["y"]
        path, was_there = files.pop()
        assert (path.name, path.parent.parent == tmp_path, was_there) == (name, is_beside, True), output
        assert not path.parent.exists()
