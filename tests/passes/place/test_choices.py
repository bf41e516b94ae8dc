"""How a root of a region serves its users."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle, islice, product

import numpy as np
import onnx_ir

from castsmith.ir.ops.casts import CastNode
from castsmith.numerics.cast.convert import cast
from castsmith.passes.place.chains import Casting, start, type_of
from castsmith.passes.place.choices import Choice, ChosenDemand, Mode, plan_of
from tests.sampling import check_all

HALF, SINGLE, CODE = onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT, onnx_ir.DataType.INT8
CASTING, INTO_CODES = (
    Casting(tuple(CastNode(each, saturate=True, round_mode="up") for each in types), 21)
    for types in ((HALF, SINGLE), (CODE, SINGLE))
)
NUMBERS = np.array([0, -0.0, 1, 1 + 2**-12, 65504, 1e6, 2**-24, 2**-30, np.inf, np.nan], np.float32)


def test_a_plan_makes_the_casts_that_its_demands_need_and_no_more() -> None:
    given = start(SINGLE)
    for paths, casts, unit in (
        ([()], 0, 0),
        ([(HALF,)], 1, 6),
        ([(), (HALF,), (HALF,)], 1, 6),
        ([(HALF, SINGLE), (HALF,)], 2, 12),
    ):
        plan = plan_of(CASTING, given, None, tuple((path, None) for path in paths))
        assert plan is not None
        assert (len(plan.casts), plan.unit) == (casts, unit)
        assert [type_of(chain) for chain in plan.served] == [path[-1] if path else SINGLE for path in paths]


def test_a_cast_that_rounds_can_be_made_earlier_but_not_undone() -> None:
    given, rounded = start(SINGLE), ((HALF,), Choice(SINGLE, Mode.BEFORE))
    plan = plan_of(CASTING, given, None, (rounded,))
    assert plan is not None
    assert not plan.casts
    assert plan_of(CASTING, given, Choice(HALF, Mode.AFTER), (((), None),)) is None


def through(array: np.ndarray, types: Iterable[onnx_ir.DataType]) -> np.ndarray:
    for dtype in types:
        array = cast(array, dtype)
    return array


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


def require_fewest_casts(history: tuple[onnx_ir.DataType, ...], own: Choice | None, demand: ChosenDemand) -> None:
    """Compare the plan with the fewest casts that give numbers what each user of the root needs."""
    value = through(NUMBERS, history)
    given = value
    if own is not None and own.mode is Mode.AFTER:
        given = cast(value, own.dtype)
    if own is not None and own.mode is Mode.BEFORE:
        given = cast(NUMBERS, own.dtype)
        value = cast(given, history[-1])
    path, user = demand
    wanted = through(value, path)

    def serves(offered: np.ndarray) -> bool:
        if user is None or user.mode is Mode.KEEP:
            return same(offered, wanted)
        if user.mode is Mode.AFTER:
            return same(offered, cast(wanted, user.dtype))
        of_type = offered.dtype == user.dtype.numpy()
        return of_type and same(cast(offered, onnx_ir.DataType.from_numpy(wanted.dtype)), wanted)

    order = (HALF, SINGLE) if given.dtype == np.float32 else (SINGLE, HALF)
    fewest = next((count for count in range(3) if serves(through(given, islice(cycle(order), count)))), None)
    chain = start(history[0])
    for dtype in history[1:]:
        chain = CASTING.extend(chain, dtype) or chain
    plan = plan_of(CASTING, chain, own, (demand,))
    assert (None if plan is None else len(plan.casts)) == fewest


def test_plans_are_those_that_numbers_need() -> None:
    choices = [None, *(Choice(dtype, mode) for dtype in (HALF, SINGLE) for mode in Mode)]
    histories = ((SINGLE,), (HALF,), (HALF, SINGLE), (SINGLE, HALF), (SINGLE, HALF, SINGLE))
    demands = product(((), (HALF,), (SINGLE,), (HALF, SINGLE), (SINGLE, HALF)), choices)
    check_all(require_fewest_casts, product(histories, choices, demands))


def test_no_plan_has_a_cast_that_the_standard_leaves_open() -> None:
    after, before, plain = Choice(CODE, Mode.AFTER), Choice(SINGLE, Mode.BEFORE), ((), None)
    cases: list[tuple[onnx_ir.DataType, Choice | None, ChosenDemand]] = [
        (SINGLE, after, plain),
        (CODE, before, plain),
        *(
            (SINGLE, None, demand)
            for demand in (((CODE,), None), ((CODE, SINGLE), None), ((), after), ((CODE,), after))
        ),
        (SINGLE, None, ((CODE,), before)),
    ]
    for dtype, own, demand in cases:
        assert plan_of(INTO_CODES, start(dtype), own, (demand,)) is None, (dtype, own, demand)
