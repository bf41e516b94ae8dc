"""The sets of inputs, and the sizes that are tried."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import onnx_ir
import pytest

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.compare import interfaces
from castsmith.verification.evaluate import limits
from castsmith.verification.evaluate.engines import Engine
from castsmith.verification.evaluate.evaluator import Evaluator
from castsmith.verification.evaluate.limits import Budget
from castsmith.verification.inputs.drawn import MILD_SETS
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
