"""Each example runs as written, from an empty directory, and prints what its page shows."""

from __future__ import annotations

import io
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
GOOD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) { y = Relu (x) }'
BAD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x, int64[4] n) => (float[4] y) { y = Add (x, n) }'


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_an_example_prints_what_its_page_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := [name for name in IMPORT.findall(path.read_text()) if find_spec(name) is None]:
        pytest.skip(f"{path.name} needs {', '.join(missing)}, as make examples has it")
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(path))
    assert printed.getvalue() == path.with_suffix(".out").read_text(), f"if this is meant, write {path.stem}.out anew"


def test_every_output_has_its_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.out")} == {path.stem for path in EXAMPLES.glob("*.py")}


def models(folder: Path, *texts: str) -> list[str]:
    names = [f"{index}.onnx" for index in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        onnx.save(onnx.parser.parse_model(text), folder / name)
    return names


def shell(folder: Path, monkeypatch: pytest.MonkeyPatch, *command: str) -> int:
    """The exit code of a command that finds `castsmith` on its path."""
    script = folder / "bin" / "castsmith"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m castsmith "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_gate_lets_only_right_models_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = str(EXAMPLES / "ci_gate.sh")
    models(tmp_path, GOOD)
    assert shell(tmp_path, monkeypatch, "sh", gate, ".", "onnxruntime-android") == 0
    models(tmp_path, GOOD, BAD)
    assert shell(tmp_path, monkeypatch, "sh", gate, ".", "onnxruntime-android") == 1


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_the_pre_commit_hook_checks_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = (line for line in (ROOT / ".pre-commit-hooks.yaml").read_text().splitlines() if "entry: " in line)
    entry = shlex.split(line.partition("entry: ")[2])
    good, bad = models(tmp_path, GOOD, BAD)
    assert shell(tmp_path, monkeypatch, *entry, "--target", "onnxruntime-cpu", good) == 0
    assert shell(tmp_path, monkeypatch, *entry, bad, good) == 1
