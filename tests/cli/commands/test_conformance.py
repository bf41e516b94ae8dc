"""castsmith dev conformance: which vectors and types are taken, and how the wrong ones are shown."""

from __future__ import annotations

import argparse
import json

import pytest
from onnx_ir import DataType

from castsmith.cli.commands import conformance
from castsmith.cli.commands.conformance import _lines, _types, _vectors  # pyright: ignore[reportPrivateUsage]
from castsmith.conformance.engines.running import Run
from castsmith.conformance.exporting import suite
from castsmith.conformance.judging import Deviation, Outcome, Status
from castsmith.numerics.errors import OptionError


def test_the_vectors_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those between the types, all without any, whose name contains the text; from a folder too."""

    def names(match: str, *types: str, folder: str | None = None) -> list[str]:
        arguments = argparse.Namespace(types=types, match=match, input=folder)
        return [vector.name for vector in _vectors(arguments)]

    both = names("cast_", "bool", "int8")
    assert any("cast_bool_to_int8" in name for name in both)
    assert not [name for name in both if "float" in name]
    assert all("cast_int8_to_bool" in name for name in names("cast_int8_to_bool", "bool", "int8"))
    every_vector = list(suite((DataType.BOOL, DataType.INT8, DataType.FLOAT)))
    monkeypatch.setattr(conformance, "read_suite", lambda *_: every_vector)  # pyright: ignore
    assert names("cast_", "bool", "int8", folder="vectors") == both
    for match, types in (("cast_bool_to_float", ("bool", "int8")), ("nothing", ("bool",))):
        with pytest.raises(OptionError):
            names(match, *types)
    assert _types(argparse.Namespace(types=["i8", "bool"])) == (DataType.BOOL, DataType.INT8)
    every = _types(argparse.Namespace(types=[]))
    assert {DataType.FLOAT, DataType.FLOAT8E4M3FN, DataType.INT4} <= {*every}
    assert DataType.COMPLEX64 not in every


def test_how_wrong_vectors_are_shown() -> None:
    right, wrong = Outcome("a", "right", 4), Outcome("b", "wrong", 4, 1, first=Deviation(0, "1.5", "2", "1"))
    crash = Outcome("c", "crashes", reason="signal 11")
    table = [
        ["vector", "wrong", "of", "input", "expected", "got"],
        ["b", "1", "4", "1.5", "2", "1"],
        ["c", "crashes", "(signal", "11)"],
    ]
    head = ["own", "1.0:"]
    for bad, rows in (([], []), ([wrong, crash], table), ([wrong] * 40, [table[0], *[table[1]] * 40])):
        lines = [line.plain.split() for line in _lines(Run("own", "1.0", [right, *bad]), bad)]
        assert (lines[0][:2], lines[1:]) == (head, rows)
    lines = [line.plain for line in _lines(Run("own", "1.0", [wrong] * 41), [wrong] * 41)]
    assert (len(lines), lines[-1]) == (43, "and 1 more; --json lists all")


def test_what_a_run_prints_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: dict[Status, int] = {"right": 0, "refuses": 0, "wrong": 1, "crashes": 1}
    for status, code in codes.items():
        outcome = Outcome("b", status, 4)
        monkeypatch.setattr(conformance, "run", lambda *_, outcome=outcome: Run("own", "1.0", [outcome]))  # pyright: ignore
        for as_json in (False, True):
            arguments = argparse.Namespace(
                engine="reference", python=None, types=[], match="", input=None, json=as_json
            )
            assert conformance.run_engine(arguments) == code
            printed = capsys.readouterr().out
            if as_json:
                assert [vector["status"] for vector in json.loads(printed)["vectors"]] == [status]
            else:
                assert printed.startswith("own 1.0: ")
