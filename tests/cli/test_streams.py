"""`-` as standard input and output: the bytes of a model and nothing else, or a sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from castsmith.cli import entry
from castsmith.cli.main import main
from tests.cli.helpers import CLEAN, MIXED, Command, Ended, is_one_sentence, write_model
from tests.cli.process import run_fork


def write_external(folder: Path) -> tuple[bytes, onnx.ModelProto]:
    """A model with one weight of 64 KiB and one of 2 KiB in a data file beside it, and the same all in one."""
    arrays = {"w": np.arange(1 << 14, dtype=np.float32), "s": np.arange(512, dtype=np.float32)}
    info = {name: helper.make_tensor_value_info(name, 1, [None]) for name in "xyz"}
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Add", ["x", "s"], ["z"])]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", [info["x"]], [info["y"], info["z"]], weights)
    whole = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    outside = onnx.ModelProto()
    outside.CopyFrom(whole)
    onnx.save(outside, folder / "a.onnx", save_as_external_data=True, location="a.data", size_threshold=0)
    return (folder / "a.onnx").read_bytes(), whole


def test_a_model_goes_in_and_out(tmp_path: Path) -> None:
    a = write_model(tmp_path / "a.onnx", MIXED).read_bytes()
    assert main(["optimize", str(tmp_path / "a.onnx"), "-o", str(tmp_path / "b.onnx")]) == 0
    b = (tmp_path / "b.onnx").read_bytes()
    for words, given in (("-", a), ("a.onnx", b"")):
        ended = run_fork(f"optimize {words} -o - --diff --report r.json", tmp_path, given)
        assert (ended.returncode, ended.stdout) == (0, b)
        assert "-> standard output" in ended.stderr.decode()
    ended = run_fork("optimize - -o c.onnx --verify", tmp_path, a)
    assert (ended.returncode, (tmp_path / "c.onnx").read_bytes()) == (0, b)
    assert b"standard input -> c.onnx" in ended.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "c.onnx", "r.json"]


Look = Callable[[str, bytes], Ended]


@pytest.fixture
def look(castsmith: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Look:
    """The command in this process, which reads bytes as its standard input and prints text."""
    monkeypatch.chdir(tmp_path)

    def run_here(words: str, given: bytes) -> Ended:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(given)))
        return castsmith(*words.split())

    return run_here


def test_a_model_to_look_at_comes_from_standard_input(look: Look, tmp_path: Path) -> None:
    mixed = write_model(tmp_path / "a.onnx", MIXED).read_bytes()
    write_model(tmp_path / "b.onnx", CLEAN)
    for words, code in (
        *[("check -", 1), ("check b.onnx - --json", 1), ("check - --format sarif", 1), ("diff - b.onnx", 1)],
        *[("diff b.onnx - --format html", 1), ("diff - a.onnx", 0), ("verify - a.onnx --sets 1 --json", 0)],
    ):
        ended = look(words, mixed)
        summary = "castsmith: 1 error in 1 of 1 model.\n" if words == "check -" else ""
        assert (ended.code, ended.err) == (code, summary), words
        assert ended.out


def test_weights_of_a_stream(look: Look, tmp_path: Path) -> None:
    given, whole = write_external(tmp_path)
    ended = run_fork("optimize - -o -", tmp_path, given)
    assert ended.returncode == 0
    (tmp_path / "a.data").unlink()
    found = onnx.ModelProto.FromString(ended.stdout)
    for got, want in zip(found.graph.initializer, whole.graph.initializer, strict=True):
        assert got.data_location == onnx.TensorProto.DEFAULT
        assert numpy_helper.to_array(got).tobytes() == numpy_helper.to_array(want).tobytes()
    refused = look("check -", given)
    assert refused.code == 2
    assert "standard input: tensor 'w' keeps its data in 'a.data', which is missing" in refused.err


def test_arrays_come_from_standard_input(look: Look, tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx", CLEAN)
    np.savez(tmp_path / "x.npz", x=np.array([1, -1], np.float32))
    ended = look("verify a.onnx a.onnx --inputs -", (tmp_path / "x.npz").read_bytes())
    assert (ended.code, ended.err) == (0, "")
    assert "standard input: not an .npz" in look("verify a.onnx a.onnx --inputs -", b"x").err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        *[(words, "only once") for words in ("check - -", "diff - -", "verify - -", "verify - a --inputs -")],
        *[
            ("optimize - -o b --verify --inputs -", "only once"),
            ("optimize - a -o d", "several models"),
            ("optimize a b -o -", "several models"),
        ],
        *[
            ("optimize a b -o d --report -", "several models"),
            ("optimize a -o b --report -", "--json"),
            ("optimize a -o b --external-data -", "name a file"),
            ("convert a -o b --to float16 --external-data -", "name a file"),
            ("optimize a b -o d --external-data -", "several models"),
            ("bounds a --report -", "--json prints the report"),
            ("verify a b --report -", "--json prints the report"),
            ("diff a b --report -", "--json prints the report"),
            ("check ./-", "no such"),
        ],
        *[(f"optimize a -o - {more}", "-o -") for more in ("--json", "--external-data x", "--shard-bytes 9")],
        *[("optimize a -o - --link-data", "-o -"), ("check -", "empty, expected")],
        *[
            ("optimize - -o b", "empty, expected"),
            ("diff a -", "empty, expected"),
            ("optimize - -o -", "empty, expected"),
        ],
    ],
)
def test_what_has_no_meaning_is_refused_in_a_sentence(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, reason: str
) -> None:
    write_model(tmp_path / "a", CLEAN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO()))
    ended = castsmith(*words.split())
    assert ended.code == 2
    assert is_one_sentence(ended.err)
    assert reason in ended.err
    assert "--json" in words or not ended.out
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_model_goes_to_a_terminal(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = write_model(tmp_path / "a.onnx", CLEAN)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ended = castsmith("optimize", a, "-o", "-")
    assert (ended.code, ended.out) == (2, "")
    assert "which is a terminal" in ended.err


def test_a_refused_model_writes_nothing(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx", MIXED.replace("int16", "int64"))
    ended = run_fork("optimize a.onnx -o -", tmp_path)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert is_one_sentence(ended.stderr.decode())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", ["--help", "--version", "cast --help", "passes"])
def test_what_cannot_be_printed_is_an_error(words: str, tmp_path: Path) -> None:
    for unbuffered in (False, True):
        ended = run_fork(words, tmp_path, streams={"stdout": "/dev/full"}, unbuffered=unbuffered)
        assert ended.returncode == 2
        assert is_one_sentence(ended.stderr.decode())
        assert "standard output cannot be written" in ended.stderr.decode()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(("more", "code"), [("", 0), (" --json", 2), (" --diff", 0)])
def test_a_model_is_written_though_nothing_can_be_printed(more: str, code: int, tmp_path: Path) -> None:
    """With --json, what reads the output has nothing to read."""
    write_model(tmp_path / "a.onnx", MIXED)
    ended = run_fork(f"optimize a.onnx -o b.onnx{more}", tmp_path, streams={"stdout": "/dev/full"})
    text = "b.onnx is written, but standard output cannot be written (No space left on device)"
    assert (ended.returncode, text in ended.stderr.decode()) == (code, True)
    assert onnx.load(tmp_path / "b.onnx").graph.node


def test_closed_streams_are_opened_to_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that are closed; what is printed where nobody could get it is an error, but for messages."""
    opened: list[tuple[str, int]] = []
    monkeypatch.setattr(entry, "open", lambda *words, closefd: (*words, closefd), raising=False)  # pyright: ignore
    for closed, flags, mode in (
        ("", 0, ""),
        ("stdin", os.O_RDONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_RDWR, "w"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", lambda *words: opened.append(words))  # pyright: ignore
            if closed:
                patch.setattr(sys, closed, None)
            entry._open_closed_streams()  # pyright: ignore[reportPrivateUsage]
            streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
        assert opened == ([(os.devnull, flags)] if closed else [])
        new = {name: stream for name, stream in streams.items() if isinstance(stream, tuple)}
        assert new == ({closed: ([*streams].index(closed), mode, False)} if closed else {})
        opened.clear()
