"""The sets of inputs, and the sizes that are tried."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.compare import interfaces
from castsmith.verification.evaluate import limits
from castsmith.verification.evaluate.engines import Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.indices import RangeError
from castsmith.verification.evaluate.limits import Budget
from castsmith.verification.inputs.drawn import MILD_SETS
from castsmith.verification.inputs.reach import Reach
from castsmith.verification.inputs.sets import Sets, _neighbours  # pyright: ignore[reportPrivateUsage]
from tests.verification.inputs.test_drawn import maker, model_of


def test_the_plan_of_sets() -> None:
    plan = list(maker("float[4] x").plan(6))
    assert plan == [
        ("adversarial", 1), ("finite", 1), ("adversarial", 2), ("sparse", 1), ("adversarial", 3), ("finite", 2),
        *(("mild", number) for number in range(1, MILD_SETS + 1)),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", ["3", "2,5", "1"])
def test_more_sets_feed_every_value_once(shape: str) -> None:
    """Of a small input, the adversarial sets together hold every value that a test must cover."""
    inputs = maker(f"float16[{shape}] x")
    planned = [each for each in inputs.plan(2) if each[0] == "adversarial"]
    sets = [*planned, *inputs.more(2)]
    assert [number for _, number in sets] == list(range(1, len(sets) + 1))
    fed = {
        number
        for kind, at in sets
        for number in np.asarray(inputs.make(kind, at)["x"]).reshape(-1).view(np.uint16).tolist()
    }
    must = inputs._pool(inputs.values[0], onnx_ir.DataType.FLOAT16)[0]  # pyright: ignore[reportPrivateUsage]
    assert set(must.view(np.uint16).tolist()) <= fed
    size = math.prod(int(dim) for dim in shape.split(","))
    assert len(sets) == max(len(planned), math.ceil(len(must) / size))
    special = {0x0000, 0x8000, 0x7C00, 0xFC00, 0x0001, 0x7BFF, 0x3C00}
    assert special <= fed


def test_sizes_that_are_tried() -> None:
    model = model_of("float[N,M] x")
    array = np.zeros((7, 11), np.float32)
    model.graph.initializers.add(onnx_ir.Value(name="w", const_value=onnx_ir.tensor(array, name="w")))
    model.graph.initializers.add(
        onnx_ir.Value(name="v", const_value=onnx_ir.tensor(np.zeros(13, np.float32), name="v"))
    )
    sizes = {"N": 5, "M": 3, "K": 9}
    found = list(_neighbours(sizes, ["N", "M"], model))
    assert all(each["K"] == 9 for each in found)
    tried = [each["N"] for each in found if each["M"] == 3]
    assert tried[:2] == [3, 4]  # that of the other dimension, and one more
    assert {7, 11} <= set(tried)
    usual = {1, 2, 3, 4, 8, 16, 32, 64, 128, 224, 256, 512, 1024, 4096, 16000}
    assert {each["K"] for each in _neighbours({"K": 9}, ["K"], model)} == {*usual, 7, 11}
    assert 13 not in tried
    assert 5 not in tried
    both = [each for each in found if each["N"] == each["M"]]
    assert {7, 11} <= {each["N"] for each in both}
    three = [each["N"] for each in _neighbours({"N": 5, "M": 20, "K": 31}, ["N", "M", "K"], model)]
    assert three[:5] == [20, 31, 51, 21, 32]


def test_sizes_that_were_made_up_are_varied() -> None:
    """One more and one less of all, and each by itself twice as large; those that are given stay."""
    model = model_of("float[N] x, float[M] w")
    evaluator = Evaluator(model, PromotionRules(), Engine("reference"), Budget(20))
    for dims, changes in (
        ({}, {(0, 0), (1, 1), (-1, -1), (512, 0), (0, 512)}),
        ({"N": 8}, {(0, 0), (0, 1), (0, -1), (0, 512)}),
        ({"N": 8, "M": 24}, {(0, 0)}),
    ):
        sets = Sets(model, model, evaluator, evaluator.budget, interfaces(model, model), 0, [])
        fed = {
            tuple(np.asarray(feeds[name]).size for name in "xw") for _, feeds in sets.made(20, dims, [], lambda: False)
        }
        assert sets.made_up == {name: 512 for name in "NM" if name not in dims}
        plain = {"N": 512, "M": 512, **dims}
        assert fed == {(plain["N"] + n, plain["M"] + m) for n, m in changes}


def test_no_set_is_made_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 9 planned sets, 3 more for the other values, and those of one number; the last are dropped without a note."""
    clock = [0.0]
    monkeypatch.setattr(limits, "_now", lambda: clock[0])
    model = model_of("float16[16] x")
    planned = ("adversarial 1", "finite 1", "adversarial 2", "sparse 1", "adversarial 3", "finite 2")
    names = [*planned, "mild 1", "mild 2", "mild 3", "adversarial 4", "adversarial 5", "adversarial 6", "uniform 1"]
    for after, left in product(range(1, len(names) + 1), (1, 0, -1)):
        clock[0], budget = 0.0, Budget(20, started=0.0)
        evaluator = Evaluator(model, PromotionRules(), Engine("reference"), budget)
        sets = Sets(model, model, evaluator, budget, interfaces(model, model), 0, [])
        fed: list[str] = []
        for name, _ in sets.made(6, {}, fed, lambda: True):
            fed.append(name)
            if len(fed) == after:
                clock[0] = 20.0 - left
        if left > 0:
            assert fed[: len(names)] == names
            assert len(fed) > len(names)
            assert (sets.unread, sets.notes) == ("", [])
            continue
        assert fed == names[:after]
        late = "" if after >= len(names) - 1 else f"was exceeded before inputs {names[after]} (`seconds=` allows more)"
        is_planned = after < 9
        assert sets.unread == (f"the time limit of 20 s {late}" if is_planned else "")
        assert sets.notes == ([f"the time limit {late}"] if late and not is_planned else [])


class Scripted:
    """A first model that answers each run as it is told, for tests of what is tried next."""

    def __init__(self, *answers: Exception | None, progress: int = 0) -> None:
        self.answers, self.progress, self.fed = [*answers], progress, list[dict[str, object]]()

    def run(self, feeds: dict[str, object]) -> dict[str, object]:
        self.fed.append(feeds)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return {}


def sets_of(model: onnx_ir.Model, first: Scripted, budget: Budget) -> Sets:
    evaluator: Any = first
    return Sets(model, model, evaluator, budget, interfaces(model, model), 0, [])


@pytest.mark.parametrize(("kind", "mild"), [("mild", False), ("adversarial", True)])
def test_integers_of_a_set_that_does_not_run_are_mild(kind: str, mild: bool) -> None:
    """Its other inputs stay; a mild set that does not run is left as it is."""
    model = model_of("float[9] x, int64[9] n")
    inputs, first, budget = maker("float[9] x, int64[9] n"), Scripted(EngineError("no")), Budget(20)
    fed = sets_of(model, first, budget)._feeds(inputs, [Reach(model)], (kind, 1), None)  # pyright: ignore[reportPrivateUsage]
    own, other = inputs.make(kind, 1), inputs.make("mild", 1)
    assert np.asarray(fed["x"]).tobytes() == np.asarray(own["x"]).tobytes()
    assert np.asarray(fed["n"]).tobytes() == np.asarray((other if mild else own)["n"]).tobytes()
    assert budget.part == (0.025 if mild else 0.25)


def test_a_range_that_changes_nothing_is_not_tried_again() -> None:
    """An index is brought into range once: an error that says nothing new ends the trials of a set."""
    model = model_of("int64[9] x", output="int64[N] y")
    inputs, first = maker("int64[9] x", output="int64[N] y"), Scripted(*(RangeError("no") for _ in range(99)))
    sets = sets_of(model, first, Budget(20))
    sets._feeds(inputs, [Reach(model)], ("adversarial", 1), None)  # pyright: ignore[reportPrivateUsage]
    assert len(first.fed) == 1
    sets._fit(inputs, [Reach(model)], [])  # pyright: ignore[reportPrivateUsage]
    assert len(first.fed) == 2


TEN = ", ".join(f"float[{name}] {name.lower()}" for name in "XABCDEFGHI")
"""Inputs whose sizes have more than 160 neighbours."""


def sizes_tried(first: Scripted, budget: Budget) -> int:
    model, inputs = model_of(TEN), maker(TEN)
    sets_of(model, first, budget)._fit(inputs, [Reach(model)], inputs.made_up)  # pyright: ignore[reportPrivateUsage]
    return len(first.fed)


@pytest.mark.parametrize(
    ("runs", "failing", "expected"),
    [
        (0.0, 0, 9),  # it runs at once, and on eight other sizes, of twelve
        (2_000.0, 0, 1),  # a tenth of the work is done: no other sizes
        (0.0, 999, 160),  # it never runs
        (10_000.0, 999, 1),  # half of the work is done
    ],
)
def test_how_many_sizes_are_tried(runs: float, failing: int, expected: int) -> None:
    first = Scripted(*(EngineError("no") for _ in range(failing)))
    assert sizes_tried(first, Budget(20, runs=runs)) == expected


def test_no_sizes_are_tried_in_the_second_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(limits, "_now", lambda: clock[0])
    for now, expected in ((9.0, 160), (11.0, 1)):
        clock[0] = now
        first = Scripted(*(EngineError("no") for _ in range(999)))
        assert sizes_tried(first, Budget(20, started=0.0)) == expected


def test_sizes_that_do_not_run_are_no_variants() -> None:
    """Of five sizes the second and the last fail; without sizes that were made up there is nothing to vary."""
    model = model_of("float[N] x, float[M] w")
    for answers, made_up, expected in (
        ((None, EngineError("no"), None, None, EngineError("no")), ["N", "M"], 2),
        ((None,), [], 0),
        ((EngineError("no"),), [], 0),
    ):
        first = Scripted(*answers)
        sets = sets_of(model, first, Budget(20))
        found = sets._fit(maker("float[N] x, float[M] w"), [Reach(model)], made_up)  # pyright: ignore[reportPrivateUsage]
        assert (len(found), len(first.fed)) == (expected, 5 if made_up else 1)


def test_sizes_of_too_many_elements_are_not_tried() -> None:
    model, first = model_of("float[5000, 5000] x"), Scripted()
    sets_of(model, first, Budget(20))._fit(maker("float[5000, 5000] x"), [Reach(model)], [])  # pyright: ignore[reportPrivateUsage]
    assert first.fed == []


def test_ordinary_sets_and_those_of_a_model_that_never_ran_have_no_more() -> None:
    """The sets that feed all other values run only where one ran before; how many were left out is noted."""
    model = model_of("float16[16] x")
    for runs, ordinary, more in ((["mild 1"], False, True), ([], False, False), (["mild 1"], True, False)):
        evaluator = Evaluator(model, PromotionRules(), Engine("reference"), Budget(20))
        sets = Sets(model, model, evaluator, evaluator.budget, interfaces(model, model), 0, [])
        names = [name for name, _ in sets.made(6, {}, runs, lambda: False, ordinary=ordinary)]
        assert ("adversarial 4" in names, sets.notes) == (more, [])


def test_only_sets_that_are_affordable_run() -> None:
    """8000 nodes: 2 models of 1000 nodes and half of the default number of sets allow 2 more."""
    model = model_of(
        "float16[1] x", " ".join(["v = Neg (x)"] + [f"v{i} = Neg (v)" for i in range(998)] + ["y = Neg (v)"])
    )
    sets = sets_of(model, Scripted(), Budget(20))
    names = [name for name, _ in sets.made(6, {}, ["mild 1"], lambda: False)]
    assert [name for name in names if name.startswith("adversarial")] == [f"adversarial {n}" for n in range(1, 6)]
    (note,) = sets.notes
    assert note.endswith("more sets to cover every useful value; 2 were run (`sets=`)")
