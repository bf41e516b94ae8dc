"""Casts across Max, Min, MaxPool and Sign: every permitted one keeps the order and signs of all values that come."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import pytest
from onnx_ir import DataType

from castsmith import optimize
from castsmith.ir.ops.casts import CastNode
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type
from castsmith.passes.place.chains import Casting, Chain, start, type_of
from castsmith.passes.place.choices import Mode, choice_of, keeps_order

STARTS = ["bool", "int2", "uint2", "int4", "int8", "uint8", "int16", "float4e2m1", "float8e4m3fn", "float8e5m2"]
VIA = ["bool", "int8", "uint8", "uint16", "int32", "float8e4m3fn", "float8e5m2", "float16", "bfloat16", "float"]


def every_value(dtype: DataType) -> Array:
    """All values of a type of at most 16 bits."""
    bits = element_type(dtype).bits
    codes = np.arange(1 << bits, dtype=np.uint16 if bits > 8 else np.uint8)
    if dtype is DataType.BOOL:
        return codes[:2].astype(np.bool_)
    return codes.view(dtype.numpy()) if bits in (8, 16) else codes.astype(np.uint8).view(dtype.numpy())


@cache
def values(chain: Chain) -> Array:
    """All values at the end of a chain."""
    if len(chain) == 1:
        return every_value(type_of(chain))
    return cast(values(chain[:-1]), type_of(chain), saturate=chain[-1].saturate)


def chains(casting: Casting) -> list[Chain]:
    edge = [start(DataType[name.upper()]) for name in STARTS]
    found = dict.fromkeys(edge)
    for _ in range(2):
        longer = [casting.extend(chain, dtype) for chain in edge for dtype in casting.types()]
        edge = [chain for chain in dict.fromkeys(longer) if chain is not None and chain not in found]
        found.update(dict.fromkeys(edge))
    return [chain for chain in found if element_type(type_of(chain)).kind is not Kind.BOOLEAN]


def breaks(chain: Chain, step: CastNode, any_float: bool) -> bool:
    """True if the cast changes an order or a sign; NaN and zeros of both signs count unless they may change."""
    come = values(chain)
    numbers = come.astype(np.float64)
    known = ~np.isnan(numbers)
    if not any_float and (not known.all() or np.signbit(numbers[numbers == 0]).any()):
        return True
    come, numbers = come[known], numbers[known]
    became = cast(come, step.target, saturate=step.saturate).astype(np.float64)
    changed = np.sign(became) != np.sign(numbers)  # true of a NaN too
    ordered = became[np.argsort(numbers, kind="stable")]
    return bool(changed.any() or (ordered[1:] < ordered[:-1]).any())


@pytest.mark.parametrize("any_float", [False, True])
@pytest.mark.parametrize("saturate", [True, False])
def test_every_permitted_cast_keeps_order_and_signs(saturate: bool, any_float: bool) -> None:
    steps = tuple(CastNode(DataType[name.upper()], saturate=saturate, round_mode="up") for name in VIA)
    casting, permitted = Casting(steps, 26), 0
    for chain in chains(casting):
        for step in steps:
            choice = choice_of(step.target, Mode.AFTER)
            if type_of(chain) == step.target or casting.extend(chain, step.target) is None:
                continue
            if keeps_order(choice, type_of(chain), [chain], any_float=any_float):
                permitted += 1
                assert not breaks(chain, step, any_float), (chain, step)
    assert permitted > 500


@pytest.mark.parametrize("through_order", [False, True])
def test_histories_of_bool_and_integers_together(through_order: bool) -> None:
    """Of a cast that wraps for one operand, it counts that it wraps, whatever the other operand is."""
    steps = tuple(CastNode(DataType[name.upper()], saturate=True, round_mode="up") for name in VIA)
    casting = Casting(steps, 26)
    wraps = casting.extend(casting.extend(start(DataType.INT8), DataType.UINT8) or (), DataType.INT32)
    flag = casting.extend(start(DataType.BOOL), DataType.INT32)
    assert wraps is not None
    assert flag is not None
    choice = choice_of(DataType.INT8, Mode.AFTER)
    assert not keeps_order(choice, DataType.INT32, [wraps, flag], any_float=through_order)


@pytest.mark.parametrize("order", ["y = Max (c, d)", "y = Min (c, d)", "y = Sign (c)"])
def test_integers_that_become_nan_stay_where_they_are(order: str) -> None:
    """A cast to float8e4m3fn without saturation makes NaN of 1000, for which Max is undefined in any type."""
    casts = " ".join(
        f"{a} = Cast <to = 17, saturate = 0> ({x}) {b} = Cast <to = 1> ({a})" for x, a, b in ("xac", "zbd")
    )
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g (int32[64,64] x, int32[64,64] z) => (float16[64,64] r) '
        f"{{ {casts} {order} r = Cast <to = 10> (y) }}"
    )
    assert [node.op_type for node in optimize(model).model.graph][-2:] == [order[4:8].strip(" ("), "Cast"]
