"""Every option of every command with values that it does not take: a sentence, exit code 1 or 2, and no output file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, cast

import pytest

from castsmith.cli.main import whole_parser
from tests.cli.helpers import CLEAN, Command, is_one_sentence, write_model

ALWAYS = {
    "optimize": ["in.onnx", "-o", "out.onnx"],
    "check": ["in.onnx"],
    "diff": ["in.onnx", "in.onnx"],
    "verify": ["in.onnx", "in.onnx", "--sets=1"],
    "cast": ["1", "--from", "f32", "--to", "i8"],
    "trunc": ["1", "--in-bitwidth", "8", "--out-bitwidth", "4"],
    "promote": ["f32", "f32"],
}
FILES = {
    "deep.json": b"[" * 200_000,
    "deep_object.json": b'{"name":' * 100_000,
    "not_utf8.json": b"\xff\xfe{",
    "empty.json": b"",
    "list.json": b"[]",
    "null.json": b"null",
    "digits.json": b'{"name": ' + b"9" * 10_000 + b"}",
    "infinite.json": b'{"name":"x","description":"d","newest_opset":1e999,"newest_ir_version":9}',
}
ODD = [
    *["", " ", "-1", "1.5", "1e3", "1_0", "9" * 5000, "nan", "True", "--"],
    *["\u00b2", "\u0663", "\u00e9", "\ud800", "a\0b"],
    *["N=\u00b2", "N=", "=4", "N=-1", "N=" + "9" * 30, "fold-constants{", "fold-constants{max_growth=\u00b2}"],
    *["/dev/null", "/dev/full", "folder", "folder.json", "missing.json", "loop.json", "pipe", "pipe.json"],
    *FILES,
]


def options(command: str) -> list[str]:
    commands = next(action.choices for action in _actions(whole_parser()) if isinstance(action.choices, dict))
    found = _actions(cast("dict[str, argparse.ArgumentParser]", commands)[command])
    named = [action.option_strings[-1] for action in found if action.option_strings and action.nargs != 0]
    return [name for name in named if name != "--dask"]


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return parser._actions  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "in.onnx", CLEAN)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    for name in ("folder", "folder.json"):
        (tmp_path / name).mkdir()
    (tmp_path / "loop.json").symlink_to("loop.json")
    for name in ("pipe", "pipe.json"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def require_a_sentence(folder: Path, ended: Any, words: list[str]) -> None:
    assert ended.code in (0, 1, 2), words
    assert "internal error" not in ended.err, words
    assert "Traceback" not in ended.err, words
    if ended.code == 2:
        assert is_one_sentence(ended.err), words
        assert not (folder / "out.onnx").exists(), words
    (folder / "out.onnx").unlink(missing_ok=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("command", ALWAYS)
def test_an_odd_value_of_an_option_is_refused_in_a_sentence(castsmith: Command, folder: Path, command: str) -> None:
    for option in options(command):
        for value in ODD:
            words = [command, *ALWAYS[command], f"{option}={value}"]
            require_a_sentence(folder, castsmith(*words), words)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_an_odd_file_is_refused_in_a_sentence(castsmith: Command, folder: Path) -> None:
    for value in ODD:
        for words in (["check", value], ["optimize", value, "-o", "out.onnx"], ["verify", "in.onnx", value]):
            ended = castsmith(*words)
            assert ended.code == 2, words
            require_a_sentence(folder, ended, words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "in.onnx", "in.onnx", "--seed", "-1"], "--seed: must be at least 0"),
        (["verify", "in.onnx", "in.onnx", "--dim", "N=\u00b2"], "not of the form NAME=SIZE"),
        (["verify", "in.onnx", "in.onnx", "--inputs", "/dev/null"], "not an ordinary file"),
        (["verify", "in.onnx", "in.onnx", "--sets", "0"], "--sets: must be at least 1"),
        (["optimize", "in.onnx", "-o", "out.onnx", "--target", "deep.json"], "nested too deep"),
        (["optimize", "in.onnx", "-o", "out.onnx", "--promotion", "deep_object.json"], "nested too deep"),
        (["optimize", "in.onnx", "-o", "out.onnx", "--shard-bytes", "0"], "must be at least 1"),
        (["optimize", "in.onnx", "-o", "out.onnx", "-j", "0"], "must be at least 1"),
        (["check", "in.onnx", "--select=--"], "--select: expected a value"),
        (["check", "pipe"], "not an ordinary file"),
    ],
)
def test_what_is_wrong_is_named(castsmith: Command, folder: Path, words: list[str], said: str) -> None:
    ended = castsmith(*words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    require_a_sentence(folder, ended, words)


@pytest.mark.parametrize("name", ["double", "f64", "float64", "11"])
def test_options_take_every_name_of_a_type(castsmith: Command, folder: Path, name: str) -> None:
    narrow = ["optimize", folder / "in.onnx", "-o", "out.onnx", "--narrow", name]
    assert castsmith(*narrow).code == 0
    assert castsmith("promote", name, name).out == "double\n"
    assert castsmith("cast", "1", "--from", name, "--to", name).code == 0
    target = ["--promote-unsafe", "--u64-integer-promotion-target", name]
    assert castsmith("promote", "u64", "i8", *target).out == "double\n"
