"""No result leaves what is said of it, in any rule, version and type, nor in random whole graphs: the oracle is exact.

`python -m tests.soak.bounds` runs more of both.
"""

from __future__ import annotations

import contextlib
from collections import Counter

import numpy as np
import onnx
import pytest

import castsmith
from castsmith.analysis.bounds.analysis import FOREIGN, RULES
from castsmith.analysis.bounds.interval import MINUS, NAN, NONE, PLUS, Interval, constant_interval
from castsmith.analysis.bounds.step import NO_OVERFLOW
from tests.analysis.bounds import operators
from tests.analysis.bounds.cases import adversarial, numpy_type
from tests.analysis.bounds.containment import intervals, outside, violations
from tests.analysis.bounds.damage import damaged
from tests.analysis.bounds.graphs import Graph
from tests.analysis.bounds.test_step_tightness import LIMITS, SPECIAL_INPUTS, SPECIALS, limit_model
from tests.sampling import check_all, sampled, shortened

_CASES = sampled(
    "rules of bounds",
    operators.every(),
    350,
    cover=lambda case: [case[1], (case[1], case[3] in operators.FLOATS), case[3]],
)


def check_rule(domain: str, op_type: str, opset: int, dtype: int) -> None:
    case = operators.case_of(domain, op_type, opset, dtype, 0)
    assert violations(case.model(), case.ranges, list(case.feeds(6)), reference=case.reference) == []


def test_every_rule_in_every_version_and_type() -> None:
    pytest.importorskip("onnxruntime")
    check_all(check_rule, _CASES)


def test_every_rule_has_cases() -> None:
    """A rule that is new is in the registry, and has to be among the cases."""
    assert set(RULES) == set(operators.OPERATORS)
    assert {op_type for _, op_type in FOREIGN} == set(operators.FOREIGN)
    made = {op_type for _, op_type, _, _ in operators.every()}
    assert made == set(operators.OPERATORS) | set(operators.FOREIGN)


def check_limit(text: str) -> None:
    opset, inputs, nodes = text.split(" | ")[:3]
    if inputs == "specials":
        inputs, nodes = SPECIAL_INPUTS, f"{SPECIALS} {nodes}"
    model, ranges = limit_model(opset, inputs, nodes)
    rng, feeds = np.random.default_rng(0), dict[str, np.ndarray]()
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = tuple(dim.dim_value or 3 for dim in kind.shape.dim)
        low, high = ranges.get(value.name, (0, 1))
        feeds[value.name] = adversarial(rng, shape, low, high, numpy_type(kind.elem_type), 1)
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    assert violations(model, ranges, [feeds]) == [], text


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="onnx 1.21 ends the process at nodes that do not fit")
def test_the_limits_that_are_written_hold() -> None:
    pytest.importorskip("onnxruntime")
    written = [text for text in LIMITS.read_text(encoding="utf-8").splitlines() if text[0] != "#" and ",0]" not in text]
    check_all(check_limit, sampled("limits of bounds", written, 24))


def check_graph(seed: int) -> None:
    graph = Graph(seed)
    assert violations(graph.model(), graph.ranges, list(graph.feeds(6)), reference=graph.reference) == []


def test_random_graphs() -> None:
    pytest.importorskip("onnxruntime")
    check_all(check_graph, range(shortened("random graphs with bounds", 600, 40)))


def check_damaged(seed: int) -> None:
    model, ranges = damaged(seed)
    with contextlib.suppress(castsmith.CastsmithError):
        castsmith.bounds(model, ranges=ranges)


def test_damaged_models_are_answered_or_refused() -> None:
    """No error of the analysis is taken for an unknown bound, so that none may come from what a file holds."""
    check_all(check_damaged, range(shortened("damaged models with bounds", 3000, 150)))


def test_nothing_is_assumed_to_be_finite_where_all_ranges_are_declared() -> None:
    for seed in range(40):
        graph = Graph(seed)
        said = intervals(graph.model(), graph.ranges)
        assert all(NO_OVERFLOW not in x.assumes and x.bounded for x in said.values()), seed


def test_the_graphs_lead_to_all_that_is_said() -> None:
    """Values that are finite for certain, and others that may be each of NaN and the infinities."""
    counts = Counter[int]()
    for seed in range(40):
        graph = Graph(seed)
        counts.update(int(x.bits) for x in intervals(graph.model(), graph.ranges).values())
    assert counts[int(NONE)] > 100
    assert all(sum(count for bits, count in counts.items() if bits & bit) > 50 for bit in (NAN, PLUS, MINUS))


def test_what_is_outside_is_found() -> None:
    def said(special: np.uint8 = NONE) -> Interval:
        return constant_interval(0.0, 1.0, (2,), None, special=special)

    assert outside(said(), np.array([0.0, 1.0])) is None
    for number, bit in ((-0.5, NONE), (1.5, NONE), (np.nan, NAN), (np.inf, PLUS), (-np.inf, MINUS)):
        for special in (NONE, NAN, PLUS, MINUS):
            fault = outside(said(special), np.array([0.5, number]))
            assert (fault is None) == (special == bit != NONE), (number, special)
    assert outside(said(), np.zeros(3))
    assert outside(said(), np.zeros((2, 1)))
    assert outside(said(), np.zeros(3), shaped=False) is None
