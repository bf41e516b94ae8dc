"""The plan of fit and the ways that were tried, as lines and as data, made of records at each limit."""

from __future__ import annotations

from typing import Any

import onnx_ir

from castsmith.cli.report.fit import plan_data
from castsmith.cli.text.fit import cost_text, plan_lines, way_lines
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering.fit.cost import Cost
from castsmith.lowering.fit.results import FitResult, Step, Way
from castsmith.lowering.results import Accuracy, OutputError
from castsmith.passes.place.problem import LAUNCH_BYTES
from tests.cli.helpers import marked

MODEL = onnx_ir.Model(onnx_ir.Graph([], [], nodes=[]), ir_version=10)
ERROR = Accuracy(("one",), (OutputError("y", 0.5, 0.123456, 0.9, None),))
STEPS = (
    Step("convert", {"to": "float"}, Cost(3, 2, 1500, 20, 1)),
    Step("optimize", {"narrow": ("double",)}, Cost(1, 0, 8, 0)),
)
HELP = "pass `promote_unsafe`"
FINDINGS = [
    Diagnostic(code, severity, Site("g", "n", "Abs"), f"what {code} says", HELP)
    for code, severity in (("a", Severity.ERROR), ("b", Severity.WARNING), ("a", Severity.ERROR), ("c", Severity.NOTE))
]
WAYS = [
    Way(STEPS, True, Cost(1, 0, 8, 0), ("a sum is in another order",), True, ERROR),
    Way(STEPS[:1], True, None, (), True),
    Way((Step("optimize", {}),), False, None, (), False, None, ("it needs `max_error`",)),
]
COMMANDS = "castsmith convert IN --to float -o OUT.1.onnx", "castsmith optimize OUT.1.onnx --narrow double -o OUT.onnx"
COSTS = "3 nodes, 2 casts, 1.5 KB moved per run, 20 B of tensors", "1 node, 0 casts, 8 B moved per run, 0 B of tensors"


def fitted(**changes: Any) -> FitResult:
    facts: dict[str, Any] = {"plan": [*STEPS], "changes": ("y is float",), "before": Cost(4, 1, 10, 2), "ways": WAYS}
    return FitResult(MODEL, **{**facts, **changes})


def test_the_plan() -> None:
    result = fitted(error=ERROR, findings=FINDINGS, hint="with `max_error`")
    steps = [line for pair in zip(COMMANDS, COSTS, strict=True) for line in (f"    {pair[0]}", f"      {pair[1]}")]
    assert [*plan_lines(result, "IN", "OUT.onnx")] == [
        "  the same, as plain commands:",
        *steps,
        "  changed: y is float",
        "  error on 1 set of inputs, relative to the largest element:",
        "    output  relative  absolute  cosine    top-1",
        "    y       0.123     0.5       0.900000",
        "  check: 2 errors; 2 a, 1 b, 1 c",
        "  with --max-error",
    ]
    exact = [*plan_lines(fitted(changes=(), findings=FINDINGS[1:2]), "-", "-")]
    assert exact[1] == "    castsmith convert 'standard input' --to float -o OUT.1.onnx"
    assert exact[5:] == ["  no value is rounded to another precision", "  check: no error; 1 b"]
    assert [*plan_lines(fitted(findings=FINDINGS[:1]), "IN", "OUT.onnx")][-1] == "  check: 1 error; 1 a"
    assert [*plan_lines(fitted(), "IN", "OUT.onnx")][-1] == "  check: no error"


def test_the_ways() -> None:
    said = [marked(line) for line in way_lines(fitted(hint="with `max_error`"), "IN", "qonnx")]
    assert said == [
        "IN for qonnx, now 4 nodes, 1 cast, 10 B moved per run, 2 B of tensors|2",
        "1. legal, error 0.12 on 1 set of inputs (this one is taken)|3",
        *(f"   {COMMANDS[0]}|7", f"     {COSTS[0]}|7", f"   {COMMANDS[1]}|7", f"     {COSTS[1]}|7"),
        "   changed: a sum is in another order|5",
        "2. legal, rounds values|3",
        *("   castsmith convert IN --to float -o OUT.onnx|7", f"     {COSTS[0]}|7"),
        "3. not legal, exact|3",
        *("   castsmith optimize IN -o OUT.onnx|7", "     not made|7"),
        "   it needs --max-error|5",
        "with --max-error|2",
    ]
    none = [marked(line) for line in way_lines(fitted(plan=[], diagnostics=FINDINGS[:1]), "IN", "qonnx")]
    assert "taken" not in "".join(none)
    assert none[-1] == "IN: g: n (Abs): a what a says (pass --promote-unsafe)|2"
    empty = [marked(line) for line in way_lines(fitted(plan=[], ways=[Way(())]), "IN", "qonnx")]
    assert empty[1:] == ["1. not legal, exact|3"]
    assert cost_text(None) == "not made"


def test_the_data() -> None:
    data = plan_data(fitted(error=ERROR, findings=FINDINGS[:1], hint="with `max_error`"), "IN", None)
    cost = {"nodes": 3, "casts": 2, "moved_bytes": 1500, "tensor_bytes": 20, "loaded_casts": 1}
    cost["total"] = 3 * LAUNCH_BYTES + 1520  # a cast counts twice, and not one of a constant
    assert data["plan"][0] == {"command": COMMANDS[0], "cost": cost}
    assert [step["command"] for step in data["plan"]] == [*COMMANDS]
    assert (data["changes"], data["hint"], data["cost_before"]["nodes"]) == (["y is float"], "with --max-error", 4)
    assert data["error"]["sets"] == ["one"]
    assert [finding["code"] for finding in data["findings"]] == ["a"]
    first, second, third = data["ways"]
    assert (first["legal"], first["lossy"], first["changes"], first["error"]["sets"]) == (
        True, True, ["a sum is in another order"], ["one"],
    )  # fmt: skip
    assert first["steps"] == data["plan"]
    assert (second["error"], second["obstacles"], third["legal"], third["lossy"]) == (None, [], False, False)
    assert (third["obstacles"], third["steps"][0]["cost"]) == (["it needs --max-error"], None)
    named = plan_data(fitted(before=None), "IN", "to.onnx")
    assert named["plan"][1]["command"].endswith("-o to.onnx")
    assert named["ways"][1]["steps"][0]["command"].endswith("-o to.onnx")
    assert (named["cost_before"], named["error"]) == (None, None)
