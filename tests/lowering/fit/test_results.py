"""What `fit` returns: the steps as commands and as calls, and the records of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from castsmith.lowering.fit.cost import Cost
from castsmith.lowering.fit.results import FitResult, Step, Way, commands_of
from castsmith.lowering.fit.run import _Attempt, _rounded_up  # pyright: ignore[reportPrivateUsage]
from tests.lowering.fit.test_run import fitted


def test_the_records_and_the_provenance_are_those_of_all_steps() -> None:
    result = fitted("double")
    assert {rewrite.pass_name for rewrite in result.rewrites} >= {"convert-precision"}
    assert result.summary().startswith("convert(to='float'")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ""),
        ({"target": "t"}, "--target t"),
        ({"weights_only": True}, "--weights-only"),
        ({"weights_only": False}, ""),
        ({"narrow": ("int64", "double")}, "--narrow int64 --narrow double"),
        ({"narrow": ()}, ""),
        ({"max_error": 0.5}, "--max-error 0.5"),
        ({"ranges": {"a": (0.0, 7.0), "b": (-1.5, 2)}}, "--range a=0:7 --range b=-1.5:2"),
        ({"ranges": {"a": (10.0, 100.0)}}, "--range a=10:100"),
        ({"to": "float16", "io": "x,y"}, "--to float16 --io x,y"),
    ],
)
def test_a_step_is_a_command(options: dict[str, Any], words: str) -> None:
    expected = ["castsmith", "convert", "in.onnx", *words.split(), "-o", "out.onnx"]
    assert Step("convert", options).words("in.onnx", "out.onnx") == expected


def test_a_step_is_a_call() -> None:
    assert str(Step("optimize", {})) == "optimize()"
    assert str(Step("convert", {"to": "float", "lower": ("*",)})) == "convert(to='float', lower=('*',))"


def test_all_commands_but_the_last_write_a_file_beside_the_output() -> None:
    one, two, three = Step("convert", {"to": "float"}), Step("optimize", {}), Step("optimize", {"target": "t"})
    assert commands_of((), "a.onnx", "b.onnx") == []
    assert commands_of((two,), "a.onnx", "d/b.onnx") == ["castsmith optimize a.onnx -o d/b.onnx"]
    expected = [
        "castsmith convert a.onnx --to float -o 'd/b b.1.onnx'",
        "castsmith optimize 'd/b b.1.onnx' -o 'd/b b.2.onnx'",
        "castsmith optimize 'd/b b.2.onnx' --target t -o 'd/b b.onnx'",
    ]
    steps = (one, two, three)
    assert commands_of(steps, "a.onnx", "d/b b.onnx") == Way(steps).commands("a.onnx", "d/b b.onnx") == expected
    result = FitResult(fitted("plain").model, plan=list(steps))
    assert result.commands("a.onnx", "d/b b.onnx") == expected
    assert result.summary().startswith("convert(to='float'), then optimize(), then optimize(target='t'); 0 rewrites")
    assert FitResult(fitted("plain").model).summary().startswith("no way found; 0 rewrites")


def test_ways_are_ranked() -> None:
    """Legal before illegal, exact before lossy, with its inputs and outputs before without, cheap, and short."""
    step, cheap, dear = Step("optimize", {}), Cost(1, 0, 0, 0), Cost(2, 0, 0, 0)
    best_first = [
        _Attempt(Way((step,), True, cheap)),
        _Attempt(Way((step, step), True, cheap)),
        _Attempt(Way((step,), True, dear)),
        _Attempt(Way((step,), True, cheap), keeps_ports=False),
        _Attempt(Way((step,), True, cheap, lossy=True)),
        _Attempt(Way((step,), False, cheap)),
        _Attempt(Way((step,), False, None)),
    ]
    worst_first = best_first[::-1]
    assert sorted(worst_first, key=lambda attempt: attempt.rank) == best_first


@pytest.mark.parametrize(
    ("error", "text"),
    [(0.0123, "2e-2"), (0.02, "2e-2"), (0.0999, "1e-1"), (9.5, "1e1"), (9.0, "9e0"), (1.0, "1e0"), (3.2e-5, "4e-5"),
     (0.0, "1e-7"), (float("inf"), "1e-7"), (float("nan"), "1e-7"), (150.0, "2e2")],
)  # fmt: skip
def test_an_error_is_rounded_up_to_a_digit(error: float, text: str) -> None:
    assert _rounded_up(error) == text
    assert not 0 < error < float("inf") or float(text) >= error
