"""How a root of a region serves its users."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.casts import CastNode
from castsmith.passes.place.chains import Casting, start, type_of
from castsmith.passes.place.choices import Choice, Mode, plan_of

HALF, SINGLE = onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT
CASTING = Casting(tuple(CastNode(each, saturate=True, round_mode="up") for each in (HALF, SINGLE)), 21)


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
