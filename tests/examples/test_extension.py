"""The worked example of a package that extends Castsmith: what it adds is there by name, in Python and the command."""

from __future__ import annotations

import io
import json
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import onnx_ir
import pytest

import castsmith as package
from tests.cli.conftest import castsmith
from tests.cli.helpers import Command, write_model
from tests.packaging.installed import install_project

__all__ = ["castsmith"]
ACME = Path(__file__).parents[2] / "examples" / "acme"
MODEL = """<ir_version: 10, opset_import: ["": 21, "com.example": 1]>
g (float16[4] x, int64[4] n) => (float16[4] y) <float scale = {0.5}> {
    sum = Add (x, n)
    seen = com.example.Probe (sum)
    small = com.example.ScaledFloat8Cast (seen, scale)
    y = Cast <to = 10> (small)
}"""
PASSES = "drop-probes,insert-promote-types,resolve-promote-types,lower-custom,fold-constants,lower-float8"


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_project(monkeypatch, tmp_path / "installed", ACME)


def test_it_prints_what_its_page_shows() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(ACME / "use.py"))
    assert printed.getvalue() == (ACME / "use.out").read_text()


def test_the_command_knows_what_it_adds(castsmith: Command, tmp_path: Path) -> None:
    passes = json.loads(castsmith("passes", "--json").out)
    assert {"name": "drop-probes", "options": ["keep"]}.items() <= passes["passes"][-1].items()
    assert passes["lowered_operators"] == [{"name": "com.example.ScaledFloat8Cast", "package": "castsmith-acme 1.0"}]
    assert "lowers com.example.ScaledFloat8Cast (castsmith-acme 1.0)" in castsmith("passes").out
    assert "acme-npu " in castsmith("targets").out
    assert "castsmith-acme" not in castsmith("targets", "show", "acme-npu").err
    assert castsmith("dev", "promote", "i64", "f16", "--promotion", "acme").out == "float16\n"
    source, output, report = write_model(tmp_path / "a.onnx", MODEL), tmp_path / "b.onnx", tmp_path / "r.json"
    words = ("--passes", PASSES, "--target", "acme-npu", "--promotion", "acme", "--report", report)
    ended = castsmith("optimize", source, "-o", output, *words)
    assert (ended.code, ended.err) == (0, "")
    rules = [rewrite["rule"] for rewrite in json.loads(report.read_text())["rewrites"]]
    assert {"drop-probe", "promote-operands", "lower-custom", "fold-constant", "lower-Cast"} <= set(rules)
    assert set(package.load(output).opset_imports) == {""}


def test_an_option_of_its_pass(castsmith: Command, tmp_path: Path) -> None:
    model = onnx_ir.from_onnx_text(MODEL)
    model.graph.node(1).name = "loud"
    kept = package.optimize(model, passes=["drop-probes{keep=loud}"])
    assert kept.rewrites == []
    source = write_model(tmp_path / "a.onnx", MODEL)
    ended = castsmith("optimize", source, "-o", tmp_path / "b.onnx", "--passes", "drop-probes{loud=1}")
    assert (ended.code, ended.err) == (2, "castsmith: drop-probes has no option 'loud'; it has keep.\n")


def test_files_by_path_need_no_package(castsmith: Command) -> None:
    files = ACME / "castsmith_acme"
    assert castsmith("dev", "promote", "i64", "f16", "--promotion", files / "acme-promotion.json").out == "float16\n"
    shown = castsmith("targets", "show", files / "acme-npu.json").out
    assert shown == castsmith("targets", "show", "acme-npu").out
