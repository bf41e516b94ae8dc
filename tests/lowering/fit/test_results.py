"""What `fit` returns: the steps as commands and as calls, and the records of all of them."""

from __future__ import annotations

from typing import Any

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Diagnostic, Refusal, Rewrite, Severity, Site, TextItem
from castsmith.ir.text import site_of
from castsmith.lowering.fit.cost import Cost
from castsmith.lowering.fit.results import FitResult, Step, Way, commands_of
from castsmith.lowering.fit.run import (
    _Attempt,  # pyright: ignore[reportPrivateUsage]
    _joined,  # pyright: ignore[reportPrivateUsage]
    _obstacles,  # pyright: ignore[reportPrivateUsage]
    _retyped_ports,  # pyright: ignore[reportPrivateUsage]
    _rounded_up,  # pyright: ignore[reportPrivateUsage]
    _Search,  # pyright: ignore[reportPrivateUsage]
)
from castsmith.lowering.fit.ways import Traits
from castsmith.lowering.results import Result
from castsmith.targets.target import Target
from tests.lowering.fit.models import HEAD
from tests.lowering.fit.test_run import fitted
from tests.sampling import check_all


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


OBSTACLES: list[tuple[str, Severity, str, bool]] = [
    ("target-lacks-operator", Severity.ERROR, "mine", True),
    ("target-lacks-operator", Severity.WARNING, "mine", False),
    *((code, Severity.ERROR, name, name == "theirs")
      for code in ("unregistered-operator", "invalid-model", "malformed-operator", "target-miscomputes-cast")
      for name in ("mine", "theirs")),
]  # fmt: skip


def require_obstacle(code: str, severity: Severity, name: str, stands: bool) -> None:
    text = f"{HEAD} g (float[2] x) => (y, z) {{ [mine] y = com.acme.F (x) [theirs] z = com.microsoft.QGemm (x) }}"
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    (node,) = (node for node in model.graph if node.name == name)
    finding = Diagnostic(code, severity, site_of(node), "wrong", "")
    assert _obstacles(model, [finding, finding]) == (("wrong",) if stands else ())


def test_the_errors_that_stand_in_the_way() -> None:
    """Those of the model itself do not, but for operators of another runtime."""
    check_all(require_obstacle, OBSTACLES)


def test_inputs_and_outputs_of_another_type() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(f"{HEAD} g (float[2] x) => (int32[2] y) {{ y = F (x) }}"))
    before = {"x": DataType.FLOAT, "y": DataType.INT64, "gone": DataType.FLOAT}
    assert list(_retyped_ports(before, model)) == [("y", "y is int32 instead of int64")]


def test_a_search_is_over_where_a_legal_way_with_the_same_ports_costs_hardly_more() -> None:
    model = fitted("plain").model
    traits, target = Traits(frozenset(), {}), Target("t", newest_opset=21, newest_ir_version=10)
    step, before = (Step("optimize", {}),), Cost(10, 0, 10**6, 0)
    near, far = Cost(11, 0, 10**6, 0), Cost(12, 0, 10**6, 0)
    for attempt, is_good in (
        (_Attempt(Way(step, True, near)), True),
        (_Attempt(Way(step, True, far)), False),
        (_Attempt(Way(step, False, near)), False),
        (_Attempt(Way(step, True, near), keeps_ports=False), False),
    ):
        search = _Search(model, traits, target, True, {}, False, print, before, None, None, None, [attempt])
        assert search.is_good == is_good


def test_a_way_of_two_steps_has_the_records_of_both() -> None:
    first, second = Step("convert", {"to": "float"}), Step("optimize", {})
    models = [onnx_ir.from_proto(onnx.parser.parse_model(f"{HEAD} g{i} () => () {{ }}")) for i in (1, 2)]
    rewrites = [Rewrite("p", f"rule {i}", Site("g"), TextItem("old"), TextItem("new"), "why") for i in (1, 2)]
    refusals = [Refusal("p", f"rule {i}", Site("g"), "why not") for i in (1, 2)]
    findings = [Diagnostic(f"code-{i}", Severity.WARNING, Site("g"), "told", "") for i in (1, 2)]
    one, two = (Result(models[i], [rewrites[i]], [refusals[i]], [findings[i]]) for i in (0, 1))
    steps, joined = _joined(first, one, second, two)
    assert steps == (first, second)
    assert joined == Result(models[1], rewrites, refusals, findings[1:])
    steps, joined = _joined(first, one, second, Result(models[1], [], [refusals[1]], []))
    assert (steps, joined) == ((first,), Result(models[1], rewrites[:1], refusals, []))
    assert _joined(first, one, second, "impossible") == ((first, second), "impossible")
