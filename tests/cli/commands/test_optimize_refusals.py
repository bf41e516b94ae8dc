"""What a command says that writes nothing: the reason, and what works if it is known."""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith.cli.commands.optimize import _tell_refusal  # pyright: ignore[reportPrivateUsage]
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering.fit.results import FitResult
from castsmith.lowering.results import Result
from tests.cli.helpers import CLEAN, write_model

INVALID = "castsmith: the result would be invalid for {}, so nothing was written.\n"
INFINITE = "castsmith: the error of the result is infinite, so nothing was written.\n"
NO_WAY = "castsmith: no way was found to make the model run on iree, so nothing was written.\n"


def diagnostics(*findings: tuple[str, Severity]) -> list[Diagnostic]:
    return [Diagnostic(code, severity, Site("g"), "why") for code, severity in findings]


def _tried(*_: object) -> str:
    return "try that"


def test_why_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_model(tmp_path / "a.onnx", CLEAN))
    model = onnx_ir.from_proto(onnx.parser.parse_model(CLEAN))
    monkeypatch.setattr("castsmith.cli.advice.tried_way_out", _tried)
    infinite, other = ("infinite-error", Severity.ERROR), ("other", Severity.ERROR)
    optimize, convert, many = {"command": "optimize"}, {"command": "convert"}, {"outcome": 1}
    tried = "castsmith: try that.\n"
    for options, findings, said in (
        ({"target": None} | convert, [other], INVALID.format("any runtime")),
        ({"target": "iree"} | convert, [other], INVALID.format("iree")),
        ({"target": None} | convert, [infinite], INFINITE),
        ({"target": None} | convert, [infinite, ("other", Severity.WARNING)], INFINITE),
        ({"target": None} | convert, [infinite, other], INVALID.format("any runtime")),
        ({"target": None} | optimize, [other], INVALID.format("any runtime")),
        ({"target": "iree"} | optimize, [other], INVALID.format("iree") + tried),
        ({"target": "iree", "passes": None, "until": None} | optimize, [other], INVALID.format("iree") + tried),
        ({"target": "iree", "passes": "fold-shapes"} | optimize, [other], INVALID.format("iree")),
        ({"target": "iree", "until": "fold-shapes"} | optimize, [other], INVALID.format("iree")),
        ({"target": "iree"} | optimize | many, [other], INVALID.format("iree")),
    ):
        arguments = argparse.Namespace(**{"outcome": None, "input": path, "output": "b.onnx", **options})
        _tell_refusal(arguments, Result(model, diagnostics=diagnostics(*findings)), path)
        assert capsys.readouterr().err == said, options
    fitting = argparse.Namespace(outcome=None, input=path, output="b.onnx", target="iree", command="fit")
    for hint, more in (("", ""), ("pass `max_error`", "castsmith: pass --max-error.\n")):
        _tell_refusal(fitting, FitResult(model, diagnostics=diagnostics(infinite), hint=hint), path)
        assert capsys.readouterr().err == NO_WAY + more
