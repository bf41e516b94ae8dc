"""Chains of casts, up to their longest."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.casts import CastNode
from castsmith.passes.place.chains import Casting, start


def test_chains_of_at_most_two_casts() -> None:
    half, single, double = onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT, onnx_ir.DataType.DOUBLE
    casting = Casting(tuple(CastNode(each, saturate=True, round_mode="up") for each in (half, single, double)), 21)
    given = start(double)
    reached = casting.reach(given)
    assert {tuple(step.to for step in chain) for chain in reached} == {
        (double, single),
        (double, half),
        (double, single, half),
        (double, single, double),
        (double, half, single),
        (double, half, double),
    }
    assert all(base == given or base in reached for base in reached.values())
    assert casting.reach(given) is reached
    assert casting.extend(given, double) == given
    assert {tuple(step.to for step in chain) for chain in casting.reach(start(half))} == {
        (half, single),
        (half, double),
    }
