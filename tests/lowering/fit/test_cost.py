"""The cost by which ways are compared."""

from __future__ import annotations

import onnx.parser
from onnx_ir import from_proto

from castsmith.lowering.fit.cost import Cost, cost_of
from castsmith.passes.place.problem import LAUNCH_BYTES
from tests.lowering.fit.models import HEAD


def cost(body: str) -> Cost:
    return cost_of(
        from_proto(onnx.parser.parse_model(f"{HEAD} g (float[2, 3] x, float[n] z) => (float[2, 3] y) {body}"))
    )


def test_a_node_moves_what_it_reads_and_writes() -> None:
    assert cost("{ y = Relu (x) }") == Cost(1, 0, 48, 0)
    assert cost("<float[3] w = {1, 2, 3}> { y = Add (x, w) }") == Cost(1, 0, 60, 12)


def test_a_cast_counts_twice() -> None:
    casts = cost("{ a = Cast <to = 10> (x) y = Cast <to = 1> (a) }")
    assert casts == Cost(2, 2, 2 * 2 * (24 + 12), 0)
    assert casts.total == 4 * LAUNCH_BYTES + casts.moved_bytes


def test_a_cast_of_a_constant_runs_once() -> None:
    casts = cost("<float16[3] w = {1, 2, 3}> { c = Cast <to = 1> (w) y = Add (x, c) }")
    assert casts == Cost(2, 1, 48 + 12, 6, 1)
    assert casts.launches == cost("{ y = Relu (x) }").launches


def test_a_view_moves_nothing() -> None:
    assert cost("<int64[2] s = {2, 3}> { a = Identity (x) y = Reshape (a, s) }") == Cost(2, 0, 0, 16)


def test_only_the_operators_of_onnx_are_views_and_casts() -> None:
    for name in ("Identity", "Cast"):
        assert cost(f"{{ y = com.acme.{name} (x) }}") == Cost(1, 0, 48, 0)


def test_elements_of_mixed_operands_of_unknown_type_and_of_half_a_byte() -> None:
    mixed = cost("<int32[3] i = {1, 2, 3}> { a = Mul (x, i) y = Relu (a) }")
    assert mixed == Cost(2, 0, 24 + 12 + 24 + 48, 12)
    assert cost("{ a = com.acme.Thing (x) y = com.acme.Thing (a) }") == Cost(2, 0, 48, 0)
    assert cost("<int4[3] w = {1, 2, 3}> { t = Transpose (w) y = Relu (x) }") == Cost(2, 0, 48 + 2 + 2, 2)


def test_unknown_dimensions_are_64() -> None:
    assert cost("{ y = Identity (x) w = Relu (z) }") == Cost(2, 0, 2 * 4 * 64, 0)


def test_the_shape_of_a_value_follows_from_the_operands() -> None:
    assert cost("{ a = Relu (x) b = Relu (a) y = Relu (b) }").moved_bytes == 3 * 48


def test_a_cost_is_within_a_share_of_another_in_total_and_in_launches() -> None:
    small, wide, many = Cost(10, 0, 10, 0), Cost(10, 0, 10**9, 0), Cost(20, 0, 10**9, 0)
    assert small.is_within(1, wide)
    assert not wide.is_within(1.1, small)
    assert not many.is_within(1.1, wide)
