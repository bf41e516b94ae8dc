"""How a command ends: each exception becomes a sentence, a code and an exit code."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from typing import Any

import onnx_ir
import pytest

from castsmith.cli.failures import failure_of
from castsmith.cli.outcome import Failure
from castsmith.cli.parser import UsageError
from castsmith.cli.running import ended
from castsmith.ir.errors import ModelError, VerificationError
from castsmith.numerics.errors import OptionError, PromotionError
from castsmith.verification.evaluate.engines import EngineError
from tests.sampling import check_all

ONE, MANY = {"command": "optimize", "input": "in.onnx"}, {"command": "check", "input": ["a.onnx", "b.onnx"]}
DIFF, VERIFY = ({"command": name, "a": "a.onnx", "b": "b.onnx"} for name in ("diff", "verify"))
SERDE = type("SerdeError", (Exception,), {})
FAILURES: list[tuple[Exception, dict[str, Any], Failure]] = [
    (ModelError("no graph."), ONE, Failure("model", "in.onnx: no graph.", "in.onnx", 2)),
    (ModelError("in.onnx: no graph."), ONE, Failure("model", "in.onnx: no graph.", "in.onnx", 2)),
    (ModelError("standard input: no graph."), {"input": "-"}, Failure("model", "standard input: no graph.", "-", 2)),
    (ModelError("no graph."), {"input": "-"}, Failure("model", "standard input: no graph.", "-", 2)),
    (ModelError("no graph."), {"input": ["x"]}, Failure("model", "x: no graph.", "x", 2)),
    (ModelError("no graph."), MANY, Failure("model", "no graph.", "", 2)),
    (ModelError("b.onnx: no graph."), MANY, Failure("model", "b.onnx: no graph.", "b.onnx", 2)),
    (ModelError("b.onnx: no graph."), VERIFY, Failure("model", "b.onnx: no graph.", "b.onnx", 2)),
    *(
        (ModelError("f: full."), {"input": ["x", "y"], name: "f"}, Failure("model", "f: full.", "f", 2))
        for name in ("model", "output", "inputs", "report", "baseline")
    ),
    (PromotionError("no type."), ONE, Failure("promotion", "in.onnx: no type.", "in.onnx", 1)),
    (VerificationError("they differ."), ONE, Failure("verification", "in.onnx: they differ.", "in.onnx", 1)),
    *((PromotionError("no type."), words, Failure("promotion", "no type.", "", 2)) for words in (DIFF, VERIFY)),
    (VerificationError("they differ."), VERIFY, Failure("verification", "they differ.", "", 2)),
    (EngineError("it died."), ONE, Failure("engine", "it died.", "in.onnx", 2)),
    (OptionError("pass `promote_unsafe`."), MANY, Failure("option", "pass --promote-unsafe.", "", 2)),
    (FileNotFoundError(2, "not there", "f"), ONE, Failure("file", "f: not there.", "f", 2)),
    (PermissionError(13, "not allowed"), ONE, Failure("file", "not allowed.", "", 2)),
    (MemoryError(), ONE, Failure("memory", "not enough memory.", "", 2)),
    (
        SERDE("why"),
        ONE,
        Failure(
            "model", "text in the model is not UTF-8, or something else in it cannot be written (why).", "in.onnx", 2,
        ),
    ),
]  # fmt: skip


def require_failure(error: Exception, arguments: dict[str, Any], failure: Failure) -> None:
    assert failure_of(error, arguments) == failure


def test_the_failure_of_each_exception() -> None:
    check_all(require_failure, FAILURES)


def run(error: BaseException | int, **arguments: Any) -> int:
    def work() -> int:
        if isinstance(error, int):
            return error
        raise error

    return ended(work, argparse.Namespace(**{"outcome": None, "json": False, **arguments}))


def test_each_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = list[object]()  # standard output is a file of pytest
    monkeypatch.setattr("castsmith.cli.running.drop", dropped.append)
    written = {"written": "b.onnx"}
    full = OSError(errno.ENOSPC, "no space")
    lost = "standard output cannot be written (no space)"
    ends: list[tuple[BaseException | int, dict[str, Any], int, str]] = [
        (3, {}, 3, ""),
        (KeyboardInterrupt(), {}, 130, ""),
        (BrokenPipeError(), {}, 141, ""),
        (UsageError("no such option."), {}, 2, "no such option."),
        (full, {}, 2, f"{lost}."),
        (full, written, 0, f"b.onnx is written, but {lost}."),
        (full, {**written, "json": True}, 2, f"b.onnx is written, but {lost}."),
        (full, {**written, "format": "json"}, 2, f"b.onnx is written, but {lost}."),
        *((OSError(number, "no"), written, 0, "b.onnx is written, but standard output cannot be written (no).")
          for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)),
        (OSError(errno.ENOSPC, "no space", "f"), written, 2, "f: no space."),
        (OSError(errno.ENOENT, "not there"), written, 2, "not there."),
    ]  # fmt: skip
    for error, arguments, code, sentence in ends:
        assert run(error, **arguments) == code
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == ("", f"castsmith: {sentence}\n" if sentence else "")
        assert dropped == ([sys.stdout] if isinstance(error, BrokenPipeError) or "standard output" in sentence else [])
        dropped.clear()


def test_an_internal_error_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    for error, text in ((KeyError("x\ny"), "KeyError: 'x\\ny'"), (ValueError("first\nsecond"), "ValueError: first")):
        assert run(error) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"castsmith: internal error ({text} at test_running.py:")
        assert said.endswith("): please report this.\n")
    assert run(ValueError()) == 2
    assert capsys.readouterr().err.startswith("castsmith: internal error (ValueError at test_running.py:")


def test_programs_get_the_failure_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    for error, code, file in ((UsageError("no."), "usage", None), (ModelError("no."), "model", "m")):
        assert run(error, json=True, input="m") == 2
        message = "no." if file is None else "m: no."
        facts = {"code": code, "message": message, "file": file, "exit_code": 2}
        assert json.loads(capsys.readouterr().out) == {"schema": 1, "error": facts}


def test_a_part_of_a_run_notes_its_failure() -> None:
    outcome = argparse.Namespace(failure=None)
    assert run(ModelError("no."), outcome=outcome, input="m") == 2
    assert outcome.failure == Failure("model", "m: no.", "m", 2)


def test_that_error_of_onnx_ir_has_its_name() -> None:
    assert onnx_ir.serde.SerdeError.__name__ == SERDE.__name__
