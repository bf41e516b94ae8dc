"""--skip-unchanged: a model is done again if any one thing changed that its result depends on, and else skipped."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from castsmith.cli.collisions import settings_files
from castsmith.targets.target import TARGETS_FOLDER
from tests.cli.helpers import Command

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
g (float[512] x, int16[512] y) => (float[512] z) { a = Add (x, y) z = Mul (a, w) }"""
RULES = '{"name": "mine", "library": "torch"}'
WORDS = (
    *("optimize", "in", "-o", "out", "--skip-unchanged", "--external-data", "weights", "--target", "target.json"),
    *("--promotion", "rules.json", "--verify", "--inputs", "sets", "--jobs", "1"),
)


def write(value: float = 1.0, bias: float = 1.0) -> None:
    """Write the model, whose weights are a data file: `bias` is an element of it, and `value` one of the model."""
    model = onnx.parser.parse_model(MODEL)
    model.graph.doc_string = str(value)
    weights = np.full(512, bias, np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    Path("in/m.bin").unlink(missing_ok=True)
    onnx.save_model(
        model, "in/m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0, convert_attribute=False
    )


def edit_target() -> None:
    data = json.loads(Path("target.json").read_text())
    Path("target.json").write_text(json.dumps({**data, "description": "Another one."}))


def save_set(name: str, value: float) -> None:
    np.savez(Path("sets") / name, x=np.full(512, value, np.float32), y=np.full(512, 3, np.int16))


def append(file: str) -> Callable[[], object]:
    return lambda: Path(file).write_bytes(Path(file).read_bytes() + b"\0")


CHANGES: dict[str, Callable[[], object]] = {
    "the model": lambda: write(value=2.0),
    "the data file of the model": lambda: write(bias=2.0),
    "the model, which is now the result": lambda: shutil.copytree("out", "in", dirs_exist_ok=True),
    "the data file is gone": lambda: Path("in/m.bin").unlink(),
    "the result": append("out/m.onnx"),
    "the result is gone": lambda: Path("out/m.onnx").unlink(),
    "the data file of the result": append("out/weights"),
    "the data file of the result is gone": lambda: Path("out/weights").unlink(),
    "the target file": edit_target,
    "the promotion file": lambda: Path("rules.json").write_text(RULES.replace("mine", "yours")),
    "the inputs": lambda: save_set("a.npz", 2.0),
    "more inputs": lambda: save_set("b.npz", 1.0),
    "the note of what was done": lambda: Path("out/.castsmith.jsonl").unlink(),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    for name in ("in", "sets"):
        Path(name).mkdir()
    write()
    save_set("a.npz", 1.0)
    shutil.copy(TARGETS_FOLDER / "onnxruntime-cpu.json", "target.json")
    Path("rules.json").write_text(RULES)
    return tmp_path


def skipped(castsmith: Command, *more: str) -> bool:
    return "1 unchanged" in castsmith(*WORDS, *more).out


@pytest.mark.usefixtures("folder", "one_process")
def test_each_thing_that_the_result_depends_on_is_changed_alone(
    castsmith: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not skipped(castsmith)
    shutil.copytree(".", "../kept")
    for name, change in CHANGES.items():
        assert skipped(castsmith), name
        change()
        assert not skipped(castsmith), name
        for part in ("in", "out", "sets"):
            shutil.rmtree(part)
        shutil.copytree("../kept", ".", dirs_exist_ok=True)
    assert not skipped(castsmith, "--max-growth", "3")
    assert not skipped(castsmith)
    monkeypatch.setattr("castsmith.__version__", "0.0.0")
    assert not skipped(castsmith)


def test_each_file_that_an_option_names_is_among_them() -> None:
    assert {*settings_files(Namespace())} <= {*CHANGES}
