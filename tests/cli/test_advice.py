"""Ways out that optimize and convert print after a refusal: carried out, they work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import onnx
import pytest

from tests.cli.helpers import CLEAN, Command, write_model
from tests.lowering.fit.models import doubles


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_optimize_names_an_error_that_suffices(castsmith: Command) -> None:
    onnx.save(doubles(), "in.onnx")
    ended = castsmith("optimize", "in.onnx", "--target", "tensorrt-11", "-o", "out.onnx")
    assert ended.code == 1
    told = re.search(r"castsmith: with castsmith fit, --max-error (\S+) allows convert", ended.err)
    assert told is not None, ended.err
    fitted = castsmith("fit", "in.onnx", "--target", "tensorrt-11", "-o", "out.onnx", "--max-error", told[1])
    assert (fitted.code, fitted.err) == (0, "")


def test_optimize_says_where_nothing_was_found(castsmith: Command) -> None:
    write_model(Path("in.onnx"), CLEAN.replace("float[N]", "string[N]").replace("Relu", "Identity"))
    ended = castsmith("optimize", "in.onnx", "--target", "tensorrt-11", "-o", "out.onnx")
    assert ended.code == 1
    assert "castsmith: castsmith fit finds no other way either: 1 tried." in ended.err


def test_the_commands_that_convert_prints_make_its_result_legal(castsmith: Command) -> None:
    target = {"name": "old", "types": ["float", "float16", "int64"], "newest_opset": 17, "newest_ir_version": 10}
    Path("old.json").write_text(json.dumps({**target, "kernels": {}}))
    write_model(Path("in.onnx"), CLEAN.replace("float[N]", "double[N]"))
    ended = castsmith("convert", "in.onnx", "--to", "float16", "--target", "old.json", "-o", "out.onnx")
    assert ended.code == 0
    told = re.search(r"\(this makes it run there: (.*)\)", ended.err)
    assert told is not None, ended.err
    for command in told[1].split(" && "):
        assert castsmith(*shlex.split(command)[1:]).code == 0
    checked = castsmith("check", "out.onnx", "--target", "old.json")
    assert (checked.code, checked.out) == (0, "")
