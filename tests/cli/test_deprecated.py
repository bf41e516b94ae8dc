"""Commands and options under their former names: the same result, and a sentence on stderr."""

from __future__ import annotations

from pathlib import Path

import pytest

from castsmith.cli.deprecated import MOVED, RENAMED, RETIRED, renamed
from castsmith.cli.parser import flags_of
from tests.cli.helpers import CLEAN, MIXED, Command, parsers, write_model

MOVES = {
    "trunc": ["7", "--in-bitwidth", "8", "--out-bitwidth", "4"],
    "promote": ["i8", "i16"],
    "conformance": [],
}


def test_a_command_that_moved_does_the_same_and_says_where_it_is(castsmith: Command) -> None:
    assert set(MOVES) == set(MOVED)
    for name, words in MOVES.items():
        former, now = castsmith(name, *words), castsmith(*MOVED[name], *words)
        assert (former.code, former.out, now.err) == (0, now.out, "")
        assert former.err == f"castsmith: castsmith {name} is now castsmith dev {name}.\n"


RENAMES = {
    ("bounds", "--report"): ["a.onnx", "--report=a.html"],
    ("convert", "--force"): ["a.onnx", "-o", "out.onnx", "--to", "float16", "--force=Relu"],
    ("convert", "--link-data"): ["a.onnx", "-o", "out.onnx", "--to", "float16", "--link-data"],
    ("fit", "--link-data"): ["a.onnx", "-o", "out.onnx", "--target", "onnxruntime-cpu", "--link-data"],
    ("optimize", "--link-data"): ["a.onnx", "-o", "out.onnx", "--link-data"],
    ("verify", "--allow-type-change"): ["a.onnx", "a.onnx", "--allow-type-change", "x", "--sets=1"],
    ("verify", "--time-limit"): ["a.onnx", "a.onnx", "--time-limit", "9", "--sets=1"],
}


def test_an_option_that_was_renamed_does_the_same(
    castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "a.onnx", CLEAN)
    renames = {(command, now): name for command, table in RENAMED.items() for name, now in table.items()}
    assert set(renames) == set(RENAMES)
    for (command, now), words in RENAMES.items():
        former = renames[command, now]
        old = castsmith(command, *(word.replace(now, former) for word in words))
        assert (old.code, old.err) == (0, f"castsmith: {former} is now {now}.\n")
        assert castsmith(command, *words).out == old.out
        assert f"{former} " not in castsmith(command, "--help-all").out


def test_what_stands_after_two_hyphens_is_no_option() -> None:
    words = ["a", "--accept=x", "--", "--accept=y", "--time"]
    assert renamed("verify", words, quiet=True) == ["a", "--allow-type-change=x", *words[2:]]
    assert renamed("verify", ["--time", "--"], quiet=True) == ["--time-limit", "--"]


def test_a_retired_option_works_and_no_help_shows_it(castsmith: Command, tmp_path: Path) -> None:
    model = write_model(tmp_path / "a.onnx", MIXED)
    values = {
        "--max-total-growth": ["9"],
        "--fold-as": ["reference"],
        "--pytorch-scalar-promotion": [],
        "--u64-integer-promotion-target": ["float"],
    }
    assert set(values) == RETIRED
    for flag, extra in values.items():
        needed = ["--promote-unsafe"] if flag == "--u64-integer-promotion-target" else []
        ended = castsmith("optimize", model, "-o", tmp_path / "b.onnx", flag, *extra, *needed)
        assert (ended.code, ended.err) == (0, "")
        assert all(flag not in castsmith(*words.split(), "--help-all").out for words in parsers())
    assert {flag for parser in parsers().values() for flag in flags_of(parser)} >= RETIRED
