"""Engines in processes of their own: right, wrong, refusing, crashing, and held to one setting."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.conformance.engines import running, worker
from castsmith.conformance.engines.running import _one_setting_each, run  # pyright: ignore[reportPrivateUsage]
from castsmith.conformance.exporting import raw_bytes, suite
from castsmith.conformance.judging import Outcome, judge
from castsmith.conformance.vectors import Vector
from castsmith.ir.errors import ModelError
from castsmith.numerics.status import Definedness

FLOATS = (DataType.FLOAT, DataType.FLOAT8E4M3FN, DataType.INT4)


def vector_named(name: str) -> Vector:
    return next(vector for vector in suite(FLOATS) if vector.name == name)


def test_installed_engines_give_what_is_known_of_them() -> None:
    vectors = [vector for vector in suite(FLOATS) if vector.op == "Cast" and vector.output_type is not DataType.FLOAT]
    for engine in ("onnxruntime", "onnxruntime-all", "reference", "ml_dtypes"):
        report = run(engine, vectors)
        assert report.version[0].isdigit()
        assert [outcome.name for outcome in report.outcomes] == [vector.name for vector in vectors]
        right = {outcome.name for outcome in report.outcomes if outcome.status == "right"}
        assert "cast_int4_to_float8e4m3fn_opset21" in right or engine != "reference"
        assert {outcome.status for outcome in report.outcomes} <= {"right", "wrong", "refuses"}
    library = {outcome.name: outcome for outcome in report.outcomes}
    assert library["cast_float_to_float8e4m3fn_no_saturate_opset19"].status == "right"
    assert (
        library["cast_float_to_float8e4m3fn_opset19"].reason == "the library casts with the other setting of saturate"
    )


def test_engines_without_a_package_are_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the engine gfloat does not start: No module named"):
        run("gfloat", [vector_named("cast_float_to_int4_opset21")])
    with pytest.raises(ModelError, match="cannot be started"):
        run("gfloat", [vector_named("cast_float_to_int4_opset21")], str(tmp_path / "none"))


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for the interpreter")
def test_a_process_that_dies_costs_one_vector(tmp_path: Path) -> None:
    """The interpreter is a script that runs another worker, which dies of a result of int4."""
    script, dying = tmp_path / "python", tmp_path / "dying.py"
    dying.write_text(
        f"import os, sys; sys.path.insert(0, {str(Path(worker.__file__).parent)!r}); import worker\n"
        "real = worker.raw\n"
        "worker.raw = lambda a: os.kill(os.getpid(), 9) if a.dtype.name == 'int4' else real(a)\n"
        "answerer = worker.answerer\n"
    )
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$2" {dying}\n')
    script.chmod(0o755)
    vectors = [vector for vector in suite(FLOATS) if vector.op == "Cast"]
    outcomes = run("ml_dtypes", vectors, str(script)).outcomes
    crashed = {outcome.name for outcome in outcomes if outcome.status == "crashes"}
    assert crashed == {vector.name for vector in vectors if vector.output_type is DataType.INT4}
    assert {outcome.reason for outcome in outcomes if outcome.status == "crashes"} == {"crashed its process (signal 9)"}
    assert {outcome.status for outcome in outcomes} > {"crashes", "right"}


def test_wrong_disputed_and_undefined_elements_are_kept_apart() -> None:
    vector = vector_named("cast_float_to_int4_opset21")
    output = vector.output.copy()
    kinds = {span.standing: span.start for span in vector.spans}
    fixed = int(np.flatnonzero(vector.defined())[3])
    for at in (fixed, kinds[Definedness.DISPUTED], kinds[Definedness.UNDEFINED]):
        output[at] = 7 if output[at] != 7 else 1
    outcome = judge(vector, raw_bytes(output))
    assert (outcome.status, outcome.wrong, outcome.disputed, outcome.undefined) == ("wrong", 1, 1, 1)
    assert outcome.first is not None
    assert outcome.first.index == fixed
    assert judge(vector, raw_bytes(vector.output)).status == "right"
    assert judge(vector, b"\0").status == "refuses"


def test_a_library_is_held_to_the_setting_that_it_fits_better() -> None:
    """Whichever comes first, at any opset; of other vectors nothing changes."""
    names = {"a_opset19": 3, "a_no_saturate_opset19": 0, "b_opset19": 1, "b_no_saturate_opset24": 5, "c_opset13": 2,
             "e_opset19": 1}  # fmt: skip
    outcomes = [Outcome(name, "wrong" if wrong else "right", wrong=wrong) for name, wrong in names.items()]
    refuses = Outcome("d_opset13", "refuses", reason="why")
    others = [refuses, Outcome("e_no_saturate_opset19", "refuses"), Outcome("e_opset24", "crashes")]
    for given in ([*outcomes, *others], [*outcomes[::-1], *others]):
        found = {each.name: each for each in _one_setting_each(given)}
        assert {name: each.status for name, each in found.items()} == {
            "a_opset19": "refuses", "a_no_saturate_opset19": "right", "b_opset19": "wrong",
            "b_no_saturate_opset24": "refuses", "c_opset13": "wrong", "d_opset13": "refuses",
            "e_opset19": "wrong", "e_no_saturate_opset19": "refuses", "e_opset24": "crashes",
        }  # fmt: skip
        assert found["a_opset19"].reason == "the library casts with the other setting of saturate"
        assert found["d_opset13"] is refuses


class _Answers:
    """A process whose engine lacks something for every vector (torch), or gives NaN."""

    closed = 0

    def __init__(self, *_words: object) -> None:
        pass

    def ask(self, engine: str, job: dict[str, Any] | None = None, *, seconds: float) -> Any:
        if job is None:
            return "1.0"
        assert seconds > 0
        return (b"", "lacks it") if engine == "torch" else (b"\x7f" * job["output"]["shape"][0], "")

    def close(self) -> None:
        _Answers.closed += 1


def test_what_a_process_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that know `saturate` are held to both settings; one that refuses begins anew."""
    monkeypatch.setattr(running, "Process", _Answers)
    vectors = [vector for vector in suite(FLOATS) if vector.name.startswith("cast_float_to_float8e4m3fn_")]
    assert {outcome.status for outcome in run("onnxruntime", vectors).outcomes} == {"wrong"}
    assert _Answers.closed == 1
    assert sorted(outcome.status for outcome in run("ml_dtypes", vectors).outcomes) == ["refuses", "wrong"]
    found = run("torch", vectors)
    assert (found.version, [(outcome.status, outcome.reason) for outcome in found.outcomes]) == (
        "1.0",
        [("refuses", "lacks it")] * 2,
    )
    assert _Answers.closed == 2 + len(vectors) + 1  # the process of each run, and after each refusal


def test_other_nan_are_right_and_counted() -> None:
    vector = vector_named("cast_float8e4m3fn_to_float_opset19")
    codes = vector.output.view(np.uint32).copy()
    codes[np.isnan(vector.output)] ^= 1
    outcome = judge(vector, codes.tobytes())
    assert (outcome.status, outcome.nan_bits) == ("right", 2)
