"""Elements on which parts of two models differ: which are demanded, where, and when a run has met them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.verification.checker import Terms
from castsmith.verification.evaluate.coverage import Coverage
from castsmith.verification.inputs.demands import Demand, Demands, _operands, demands  # pyright: ignore[reportPrivateUsage]
from castsmith.verification.prove.functions import source_of_type
from castsmith.verification.prove.proof import prove

_HEAD = '<ir_version: 10, opset_import: ["" : 21]> '
_ROUNDED = "g (float[N] x) => (float[N] y) {{ a = Neg (x) {} y = Abs (b) }}"
_PAIR = (_ROUNDED.format("b = Identity (a)"), _ROUNDED.format("h = Cast <to = 10> (a) b = Cast <to = 1> (h)"))


def _demands(a: str, b: str, **options: Any) -> tuple[Demands, tuple[Coverage, Coverage]]:
    proof = prove(
        *(as_model(onnx.parser.parse_model(_HEAD + text)) for text in (a, b)), rules=castsmith.PromotionRules()
    )
    found, coverages = demands(proof, nan_bits=False, **options), (Coverage(), Coverage())
    found.watch(coverages)
    return found, coverages


def test_elements_that_a_rounding_changes_are_demanded_of_its_operand() -> None:
    found, coverages = _demands(*_PAIR)
    (demand,) = found.all
    assert found.complete
    numbers = demand.elements.astype(np.float64)
    with np.errstate(over="ignore"):
        assert (numbers.astype(np.float16) != numbers).all()
    assert demand.place is not None
    assert (demand.place.graph, demand.place.node or demand.place.output, demand.place.op) == ("g", "a", "Neg")
    assert [len(coverage.watched) for coverage in coverages] == [0, 1]  # the second model is watched
    said = f"no input gave g: a (Neg) an element for which the models differ, such as {demand.elements[0]}"
    assert list(found.unmet()) == [said]
    for array in (np.array([1.0, 0.5], np.float32), np.array([0.1]), np.array([0.1], np.float16)):
        demand.note(array)  # what float16 holds, and elements of other types
        assert list(found.unmet()) == [said]
    demand.note(np.array([[1.0, 0.1]], np.float32))
    assert list(found.unmet()) == []
    demand.note(np.array([1.0], np.float32))
    assert demand.met


def test_equal_outputs_demand_nothing() -> None:
    found, coverages = _demands(_PAIR[0], _PAIR[0])
    assert (found.all, found.complete, list(found.unmet())) == ([], True, [])
    assert list(found.values(0)) == list(found.values(1)) == []
    assert coverages[0].watched == coverages[1].watched == {}


def test_a_search_that_ends_early_is_said() -> None:
    found, _ = _demands(*_PAIR, may_search=lambda: False)
    assert (found.all, found.complete) == ([], False)
    text = "the time limit ended the search for inputs that expose a difference (`seconds=` allows more)"
    assert list(found.unmet()) == [text]


def test_parts_are_searched_operand_by_operand() -> None:
    """Behind operators that are the same on both sides, and no other way."""
    text = "g (float[N] x, float[N] z) => (float[N] y) {{ {} s = Softmax (b) y = {} (s, z) }}"
    same = text.format("b = Identity (x)", "Add")
    rounded = "h = Cast <to = 10> (x) b = Cast <to = 1> (h)"
    assert len(_demands(same, text.format(rounded, "Add"))[0].all) == 1
    assert _demands(same, text.format("b = Identity (x)", "Mul"))[0].all == []
    other = text.format(rounded, "Add").replace("Softmax", "LogSoftmax")
    assert _demands(same, other)[0].all == []
    assert (
        len(_demands(same.replace("(s, z)", "(z, s)"), text.format(rounded, "Add").replace("(s, z)", "(z, s)"))[0].all)
        == 1
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "count"),
    [
        ("s = Concat <axis = 0> (b, z)", "s = Concat <axis = 0> (b, z)", 1),
        ("s = Concat <axis = 0> (b, z)", "s = Concat <axis = 0> (b, z, z)", 0),
        ("s = Concat <axis = 0> (b, z)", "s = Concat <axis = -1> (b, z)", 0),
        ("s = Resize (b, , , n)", "s = Resize (b, , , n)", 1),
        ("s = Resize (b, , , n)", "s = Resize (b, k, , n)", 1),
        ("s = Resize (b, k, , n)", "s = Resize (b, , , n)", 1),
    ],
)
def test_operators_that_correspond(ours: str, theirs: str, count: int) -> None:
    text = "g (float[4] x, float[4] z, float[2] k, int64[1] n) => (float[N] y) {{ {} {} y = Neg (s) }}"
    rounded = text.format("h = Cast <to = 10> (x) b = Cast <to = 1> (h)", theirs)
    assert len(_demands(text.format("b = Identity (x)", ours), rounded)[0].all) == count


TERMS = Terms(0)
X, Z = (source_of_type(TERMS, dtype) for dtype in (1, 10))


@pytest.mark.parametrize(
    ("args", "axis", "expected"),
    [
        ([Z, X, None], 0, [(X, Z), (Z, X)]), ([X, None, Z], 0, [(X, X)]), ([X, Z], 0, []), ([X, Z, None], 1, []),
    ],
)  # fmt: skip
def test_operands_that_correspond(args: list[Any], axis: int, expected: list[Any]) -> None:
    """Those of terms of one operator, with as many operands and the same attributes."""
    ours = TERMS.term("Concat", [X, Z, None], {"axis": 0}, (1, ()))
    assert _operands(ours, TERMS.term("Concat", args, {"axis": axis}, (1, ()))) == expected
    assert _operands(ours, TERMS.term("Stack", [X, Z, None], {"axis": 0}, (1, ()))) == []


def test_elements_of_an_unknown_function_meet_every_demand() -> None:
    unknown = TERMS.term("Unknown", [X], {}, (1, ()))
    for theirs, met in ((unknown, True), (X, False)):
        demand = Demand(TERMS, (X, X), ({X}, {X}), (X, theirs), np.ones(1, np.float32), nan_bits=False)
        demand.note(np.ones(1, np.float32))
        assert demand.met is met
