"""Chains of casts, up to their longest."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.ops.casts import CastNode
from castsmith.passes.place.chains import Casting, start


def test_chains_of_at_most_two_casts() -> None:
    half, single = onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT
    casting = Casting(tuple(CastNode(each, saturate=True, round_mode="up") for each in (half, single)), 21)
    lines = [[tuple(step.to for step in chain) for chain in casting.line(start(each))] for each in (single, half)]
    assert lines == [[(single,), (single, half), (single, half, single)], [(half,), (half, single)]]
    assert casting.extend(start(single), single) == start(single)
