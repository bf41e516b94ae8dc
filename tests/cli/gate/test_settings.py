"""Settings of a file, and how options override them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import onnx
import pytest

from castsmith.cli.arguments import Parser
from castsmith.cli.gate.settings import KEYS, _find  # pyright: ignore[reportPrivateUsage]
from tests.cli.gate.samples import found
from tests.cli.helpers import Command, is_one_sentence, parsers


def test_settings_are_found_and_give_way_to_options(
    castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.castsmith]\nfail-on = "note"\nignore = ["value-type-mismatch"]\nbaseline = "b.json"\n'
        '[tool.castsmith.severity]\nlossy-cast-chain = "error"\n'
        '[tool.castsmith.per-file-ignores]\n"models/foll*" = ["mixed-operand-types"]\n'
    )
    (folder / "b.json").write_text('{"findings": []}')
    codes = [each["code"] for each in found(castsmith, "models")]
    assert codes == ["output-type-mismatch", "lossy-cast-chain"]
    monkeypatch.chdir(folder / "models")  # the file is found above, and its paths are relative to it
    assert [each["severity"] for each in found(castsmith, "lossy.onnx")] == ["error"]
    assert castsmith("check", "lossy.onnx", "--fail-on", "error").code == 1
    assert len(found(castsmith, "followed.onnx", "--ignore=mixed-operand-types")) == 3
    assert len(found(castsmith, "followed.onnx", "--no-config")) == 5
    (folder / "models" / "castsmith.toml").write_text('target = "onnxruntime-android"\npromotion = "torch"')
    data = json.loads(castsmith("check", "followed.onnx", "--json").out)
    assert data["target"] == "onnxruntime-android"
    done = json.loads(castsmith("optimize", "followed.onnx", "-o", "o.onnx", "--json", "--storage", "byte").out)
    assert done["target"] == "onnxruntime-android"
    assert onnx.load("o.onnx").graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    (folder / "models" / ".git").mkdir()
    (folder / "models" / "castsmith.toml").unlink()
    assert len(found(castsmith, "followed.onnx")) == 5  # the root of a repository ends the search


def test_which_settings_name_files(castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline always does, a target and a promotion if there is such a file, and no other key."""
    for name in ("error", "openvino", "iree"):
        (folder / name).mkdir()
    (folder / "c.toml").write_text('fail-on = "error"\npromotion = "openvino"\ntarget = "iree"\nbaseline = "b.json"\n')
    (folder / "b.json").write_text('{"findings": []}')
    monkeypatch.chdir(folder / "models")
    words = ("check", "clean.onnx", "--config", "../c.toml", "--json")
    assert json.loads(castsmith(*words).out)["target"] == "iree"  # a folder is no file
    for name in ("error", "openvino", "iree"):
        (folder / name).rmdir()
    (folder / "error").touch()
    assert castsmith(*words).code == 1
    (folder / "iree").write_text('{"name": "mine", "description": ""}')
    assert json.loads(castsmith(*words).out)["target"] == f"..{os.sep}iree"
    (folder / "iree").unlink()
    (folder / "openvino").write_text("{")
    assert "openvino" in castsmith(*words[:-1]).err


def test_where_the_search_for_settings_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the root of a repository, else at the home folder, else where it starts; pyproject.toml needs the table."""
    (tmp_path / ".git").rmdir()
    home, start = tmp_path / "home", tmp_path / "home" / "a" / "b"
    start.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    top = tmp_path / "castsmith.toml"
    top.touch()
    assert _find(start) is None
    (home / "castsmith.toml").touch()
    assert (_find(start), _find(home), _find(tmp_path)) == (home / "castsmith.toml", home / "castsmith.toml", top)
    (tmp_path / "other").mkdir()
    assert _find(tmp_path / "other") is None
    (tmp_path / ".git").mkdir()
    assert _find(tmp_path / "other") == top
    shared = home / "a" / "pyproject.toml"
    for text, found_file in (
        ("", home / "castsmith.toml"),
        ("[tool.other]", home / "castsmith.toml"),
        ("[tool.castsmith]\nall = true", shared),
    ):
        shared.write_text(text)
        assert _find(start) == found_file, text
    (start / "castsmith.toml").mkdir()  # a folder is none
    assert _find(start) == shared


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targt = "x"', "c.toml: targt: unknown key; did you mean 'target'?"),
        ('target = "onnxruntime-andriod"', "c.toml: target: unknown target 'onnxruntime-andriod'; did you mean"),
        ('promotion = "torhc"', "c.toml: promotion: "),
        ("target = 4", "c.toml: target: must be a string, not 4"),
        ('ignore = ["lossy-cast-chian"]', "c.toml: ignore: unknown code 'lossy-cast-chian' of a finding; did you mean"),
        ("ignore = []", "c.toml: ignore: must be a list of codes"),
        ('fail-on = "fatal"', "c.toml: fail-on: unknown value 'fatal'"),
        ('promote-unsafe = "yes"', "c.toml: promote-unsafe: must be true or false"),
        ('[severity]\nlossy-cast-chain = "fatal"', "c.toml: severity.lossy-cast-chain: unknown severity 'fatal'"),
        ('[severity]\nlossy = "note"', "c.toml: severity.lossy: unknown code 'lossy'"),
        ("severity = 4", "c.toml: severity: must be a table"),
        ('[per-file-ignores]\n"*" = "x"', "c.toml: per-file-ignores.*: unknown code 'x'"),
        ("[", "c.toml: not TOML"),
    ],
)
def test_what_is_wrong_in_settings_is_named(castsmith: Command, folder: Path, text: str, said: str) -> None:
    (folder / "c.toml").write_text(text)
    ended = castsmith("check", "models/clean.onnx", "--config", "c.toml")
    assert (ended.code, is_one_sentence(ended.err)) == (2, True)
    assert ended.err.startswith(f"castsmith: {said}")


def test_every_key_is_an_option() -> None:
    options = {each for action in actions(parsers()["check"]) for each in action.option_strings}
    assert {f"--{key}" for key in KEYS} <= options


def actions(parser: Any) -> list[Any]:
    assert isinstance(parser, Parser)
    return parser._actions  # pyright: ignore[reportPrivateUsage]
