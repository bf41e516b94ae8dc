"""No command writes a file over one that it reads: models, their data, and what options name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

from castsmith.cli.collisions import require_apart
from castsmith.numerics.errors import OptionError
from castsmith.targets.target import TARGETS_FOLDER
from tests.cli.helpers import Command, is_one_sentence, parsers

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
g (float[512] x) => (float[512] z) { a = Add (x, w) z = Relu (a) }"""

READING = {
    "optimize": "a.onnx -o out.onnx --target target.json --promotion rules.json --verify --inputs x.npz",
    "convert": "a.onnx -o out.onnx --to float16 --target target.json --inputs x.npz",
    "fit": "a.onnx -o out.onnx --target target.json --max-error 0.5 --inputs x.npz",
    "verify": "a.onnx b.onnx --promotion rules.json --inputs x.npz",
    "diff": "a.onnx b.onnx",
    "bounds": "a.onnx --promotion rules.json --inputs x.npz",
}
"""Commands that write a file, each with all files that it may read."""
WRITING = {"--report": READING, "--certificate": ("optimize",), "-o": ("optimize", "convert", "fit")}
"""Options that name a file to write, and the commands that have them."""

ELSEWHERE = {"--certificate": {"verify"}}
"""Commands with such an option for a file that they read."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files for all of the commands; the weights of each model lie in a file whose name a report may have."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        model = onnx.parser.parse_model(TEXT)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(512, np.float32), "w"))
        onnx.save_model(model, f"{name}.onnx", save_as_external_data=True, location=f"{name}.json", size_threshold=0)
    np.savez("x.npz", x=np.ones(512, np.float32))
    shutil.copy(TARGETS_FOLDER / "onnxruntime-cpu.json", "target.json")
    Path("rules.json").write_text('{"name": "mine", "library": "torch"}')
    return tmp_path


def test_the_options_that_write_are_among_them() -> None:
    for option, commands in WRITING.items():
        found = {
            name
            for name, parser in parsers().items()
            if any(option in action.option_strings for action in parser._actions)  # pyright: ignore[reportPrivateUsage]
        }
        assert found - {*commands} <= ELSEWHERE.get(option, set()), option


@pytest.mark.parametrize("command", READING)
def test_no_file_is_written_over_one_that_is_read(castsmith: Command, folder: Path, command: str) -> None:
    words = READING[command].split()
    read = [word for word in words if (folder / word).exists()]
    read += [f"{name}.json" for name in "ab" if f"{name}.onnx" in read]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for option in (option for option, commands in WRITING.items() if command in commands):
        kept = [word for at, word in enumerate(words) if option != "-o" or "-o" not in words[max(at - 1, 0) : at + 1]]
        for file in read:
            if (option, file) == ("-o", "a.onnx"):  # which is allowed, and replaces the model
                continue
            ended = castsmith(command, *kept, option, file)
            assert (ended.code, is_one_sentence(ended.err)) == (2, True), (option, file)
            assert {path: path.read_bytes() for path in folder.iterdir()} == before, (option, file)
            if option != "--report" or file.endswith(".json"):  # a report has to be .json or .html
                assert "would overwrite" in ended.err, (option, file, ended.err)


def test_links_lead_to_the_file(folder: Path) -> None:
    """A hard link, which has another name, and a symbolic one; not a copy, and not a missing file of another name."""
    os.link("a.onnx", "hard.onnx")
    os.symlink("a.onnx", "soft.onnx")
    os.symlink("missing.onnx", "nowhere.onnx")
    shutil.copy("a.onnx", "copy.onnx")
    reads = {"the model": [Path("a.onnx"), None], "the other": [Path("missing.onnx")]}
    for name, read in (
        ("hard.onnx", "the model a.onnx"), ("soft.onnx", "the model a.onnx"), ("./a.onnx", "the model a.onnx"),
        ("nowhere.onnx", "the other missing.onnx"), ("missing.onnx", "the other missing.onnx"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=f"^-o {Path(name)} would overwrite {read}: choose another name"):
            require_apart(reads, {"-o": [None, Path(name)]})
    require_apart(reads, {"-o": [None, Path("copy.onnx"), Path("none.onnx"), Path("b.onnx")]})
    assert (folder / "copy.onnx").exists()
