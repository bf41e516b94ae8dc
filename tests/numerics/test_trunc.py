"""Trunc against the qonnx package, bit for bit, and against values worked out by hand."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from qonnx.custom_op.general.trunc import trunc_v1, trunc_v2

from castsmith.numerics.errors import TruncError
from castsmith.numerics.trunc import ROUNDING_MODES, trunc
from tests.sampling import sampled

Array = NDArray[Any]

SPECIALS = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 3.4e38, -3.4e38]
HALVES = np.arange(-300, 300, 0.25)
MODES = [*ROUNDING_MODES, "floor", "Half_Up"]
PARAMETERS = list(itertools.product([1.0, 0.5, 0.1], [0.0, -0.0, 3.0, -1600.0, 0.5], [np.float32, np.float64]))

WIDTHS = [(8, 4), (10, 4), (4, 4), (32, 1), (2, 6)]


def inputs(dtype: Any) -> Array:
    return np.concatenate([HALVES, HALVES * 7.3, HALVES - 1600, SPECIALS]).astype(dtype)


def assert_same_bits(ours: Array, theirs: Any) -> None:
    theirs = np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    nan = np.isnan(ours) & np.isnan(theirs)
    same = ours.view(f"u{ours.itemsize}") == theirs.view(f"u{ours.itemsize}")
    assert np.all(same | nan), (ours[~(same | nan)][:5], theirs[~(same | nan)][:5])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width_type", [np.int32, np.int64, np.float32, np.float64, int])
def test_version_1_has_the_bits_of_qonnx(mode: str, width_type: Any) -> None:
    for (scale, zero, dtype), widths in itertools.product(PARAMETERS, WIDTHS):
        wide, narrow = widths if width_type is int else [np.array(width, width_type) for width in widths]
        x, s, z = inputs(np.float32), np.array(scale, dtype), np.array(zero, dtype)
        with np.errstate(all="ignore"):
            theirs = trunc_v1(x, s, z, wide, narrow, mode)
        assert_same_bits(trunc(x, s, z, wide, narrow, rounding_mode=mode), theirs)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("signed", "narrow"), [(True, True), (True, False), (False, True), (False, False)])
def test_version_2_has_the_bits_of_qonnx(mode: str, signed: bool, narrow: bool) -> None:
    some = sampled(
        f"parameters of Trunc [{mode} {signed:d} {narrow:d}]",
        itertools.product(PARAMETERS, [16.0, 1.0, 6.0, 0.25], [1, 2, 4, 8, 24, 31]),
        40,
        cover=lambda case: enumerate((*case[0], *case[1:])),
    )
    for (scale, zero, dtype), ratio, out in some:
        x, s, z, t = inputs(np.float32), np.array(scale, dtype), np.array(zero, dtype), np.array(ratio * scale, dtype)
        for width in (np.array(out), np.array(out, np.float32)) if out <= 24 else (np.array(out),):
            with np.errstate(all="ignore"):
                theirs = trunc_v2(x, s, z, np.array(8), narrow, signed, t, width, mode)
            ours = trunc(x, s, z, 8, width, t, rounding_mode=mode, signed=signed, narrow=narrow)
            assert_same_bits(ours, theirs)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_parameters_for_each_channel_broadcast_as_in_qonnx(dtype: Any) -> None:
    x = np.linspace(-300, 300, 120).reshape(2, 3, 20).astype(dtype)
    scale, zero = (np.array(v, dtype).reshape(3, 1) for v in ([1.0, 0.5, 0.3], [0.0, 2.0, -7.0]))
    wide, narrow, outer = np.full((3, 1), 8, np.float32), np.array([[4], [3], [2]], np.float32), scale * 16
    assert_same_bits(trunc(x, scale, zero, wide, narrow), trunc_v1(x, scale, zero, wide, narrow, "FLOOR"))
    theirs = trunc_v2(x, scale, zero, wide, False, True, outer, narrow, "FLOOR")
    assert_same_bits(trunc(x, scale, zero, wide, narrow, outer), theirs)


@pytest.mark.parametrize(
    ("x", "zero", "mode", "signed", "version_1", "version_2"),
    [
        (255, 0, "ROUND", False, 16, 240),
        (8, 0, "round", False, 0, 0),
        (9, 0, "ROUND", False, 1, 16),
        (127, 0, "ROUND", True, 8, 112),
        (-128, 0, "ROUND", True, -8, -128),
        (-8, 0, "HALF_EVEN", True, -0.0, -0.0),
        (-9, 0, "ROUND", True, -1, -16),
        (1727, -1600, "ROUND", True, 1608, 1712),
    ],
)
def test_values_worked_out_by_hand(
    x: float, zero: float, mode: str, signed: bool, version_1: float, version_2: float
) -> None:
    arrays = np.float32(x), np.float32(1), np.float32(zero)
    first = trunc(*arrays, 8, 4, rounding_mode=mode)
    second = trunc(*arrays, 8, 4, np.float32(16), rounding_mode=mode, signed=signed)
    assert_same_bits(first, np.float32(version_1))
    assert_same_bits(second, np.float32(version_2))


def test_the_ratio_of_version_2_is_a_power_of_two_but_its_output_scale_is_not_forced() -> None:
    ours = trunc(np.float32(7.3), np.float32(0.5), np.float32(0), 8, 4, np.float32(3))
    assert_same_bits(ours, np.float32(3))  # log2(6) rounds to 3: floor(15 / 8) * 3


def test_the_version_is_decided_by_out_scale_unless_it_is_given() -> None:
    one, zero = np.float32(1), np.float32(0)
    assert trunc(np.float32(255), one, zero, 8, 4, rounding_mode="ROUND") == 16
    assert trunc(np.float32(255), one, zero, 8, 4, version=1, rounding_mode="ROUND", signed=False) == 16
    assert trunc(np.float32(255), one, zero, 8, 4, np.float32(16), rounding_mode="ROUND", signed=False) == 240


def test_wide_unsigned_bounds_do_not_wrap_as_they_do_in_qonnx() -> None:
    x, one, zero, width = np.array([5.0]), np.array(1.0), np.array(0.0), np.array(32, np.int32)
    assert trunc_v2(x, one, zero, width, False, False, one, width, "FLOOR") == 0
    assert trunc(x, one, zero, width, width, one, signed=False) == 5
    assert trunc(x, one, zero, np.uint8(2), np.uint8(4)) == 20


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"rounding_mode": "NEAREST"}, "unknown QONNX rounding mode 'NEAREST'; expected ROUND, "),
        ({"in_bitwidth": 7.5}, "in_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not 7.5"),
        ({"out_bitwidth": np.array([4, 0])}, "out_bitwidth of QONNX Trunc must be an integer"),
        ({"out_bitwidth": np.nan}, "out_bitwidth of QONNX Trunc must be an integer"),
        ({"out_bitwidth": True}, "out_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not True"),
        ({"in_bitwidth": np.array([True])}, "in_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not array"),
        ({"in_bitwidth": 1024}, "in_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not 1024"),
        ({"in_bitwidth": 0.5}, "in_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not 0.5"),
        ({"version": 3}, "versions 1 and 2, not 3"),
        ({"version": 2}, "version 2 needs out_scale"),
        ({"version": 1, "out_scale": 2.0}, "version 1 has no out_scale"),
        ({"scale": np.ones(5)}, r"do not broadcast: their shapes are \(3,\), \(5,\)"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changed: dict[str, Any], text: str) -> None:
    sound: dict[str, Any] = {"scale": 1.0, "zero_point": 0.0, "in_bitwidth": 8, "out_bitwidth": 4}
    with pytest.raises(TruncError, match=text):
        trunc(np.zeros(3, np.float32), **(sound | changed))


@pytest.mark.parametrize("mode", ["ROUND", "ceil", "FLOOR"])
def test_the_calls_of_the_documents_work_as_they_stand(mode: str) -> None:
    x, scale, zeropt = inputs(np.float32), np.array(1.0), np.array(0.0)
    in_bitwidth, out_bitwidth, out_scale = np.array(10), np.array(4), np.array(16.0)
    with np.errstate(all="ignore"):
        first = trunc_v1(x, scale, zeropt, in_bitwidth, out_bitwidth, mode)
        second = trunc_v2(x, scale, zeropt, in_bitwidth, 1, 0, out_scale, out_bitwidth, mode)
    assert_same_bits(trunc(x, scale, zeropt, in_bitwidth, out_bitwidth, mode), first)
    assert_same_bits(trunc(x, scale, zeropt, in_bitwidth, 1, 0, out_scale, out_bitwidth, mode), second)
    ours = trunc(x, scale, zeropt, in_bitwidth, out_bitwidth, out_scale, mode, signed=False, narrow=True)
    assert_same_bits(ours, second)
