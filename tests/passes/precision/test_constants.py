"""The effects of rounding on constants, element by element at each limit, and the sentence that refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.passes.precision import constants
from castsmith.passes.precision.constants import RoundingLoss, limits, rounded, rounding_loss, unfit

HALF, BRAIN = DataType.FLOAT16, DataType.BFLOAT16


def tensor(*elements: float, dtype: type[np.floating[Any]] = np.float64) -> onnx_ir.TensorProtocol:
    return onnx_ir.tensor(np.array(elements, dtype))


def test_limits_of_each_precision() -> None:
    assert vars(limits(HALF)) == {"overflow": 65520.0, "vanish": 2.0**-25, "normal": 2.0**-14, "lowest": -65504.0}
    brain = limits(BRAIN)
    assert (brain.vanish, brain.normal) == (2.0**-134, 2.0**-126)
    assert brain.overflow == (2 - 2.0**-8) * 2.0**127
    assert brain.lowest == -(2 - 2.0**-7) * 2.0**127
    assert limits(DataType.FLOAT).overflow == (2 - 2.0**-24) * 2.0**127


def always(_tensor: onnx_ir.TensorProtocol) -> bool:
    return True


LOSSES: list[tuple[list[float], dict[str, object]]] = [
    ([65519.99], {}),
    ([65520.0], {"overflow": 1}),
    ([-65520.0], {"overflow": 1}),
    ([-99999.0], {"overflow": 1}),
    ([-1e5], {"overflow": 1, "masks": 1}),
    ([1e5], {"overflow": 1}),
    ([-1e5, 0.0, 1.0], {"overflow": 1, "masks": 1, "plain": True}),
    ([-1e5, 0.5], {"overflow": 1, "masks": 1}),
    ([float("inf")], {}),
    ([float("-inf")], {"masks": 1, "plain": True}),
    ([float("nan"), 1.0], {}),
    ([0.0, 1.0], {"plain": True}),
    ([0.0, -1.0], {}),
    ([2.0**-14], {}),
    ([2.0**-14 * 0.999], {"subnormal": 1}),
    ([2.0**-25 * 1.001, -(2.0**-25)], {"subnormal": 1, "lost": 1}),
    ([0.0, -0.0, 2.0**-26], {"lost": 1}),
    ([1e9, 2.0**-26, 2.0**-15], {"overflow": 1, "lost": 1, "subnormal": 1}),
]


def test_losses_in_float16() -> None:
    for elements, changed in LOSSES:
        for dtype in (np.float64, np.float32):
            array = np.array(elements, dtype)
            if any(float(a) != b for a, b in zip(array, elements, strict=True) if b == b) and dtype is np.float32:
                continue
            loss = rounding_loss(onnx_ir.tensor(array), HALF)
            sizes = [abs(element) for element in elements if element == element]
            expected = {"plain": all(element in (0, 1) for element in elements), **changed, "greatest": max(sizes)}
            if changed.get("masks"):
                expected["plain"] = all(element in (0, 1) for element in elements if element > -1e5)
            assert loss == RoundingLoss(len(elements), **expected), elements  # pyright: ignore[reportArgumentType]


def test_a_type_that_holds_another_loses_nothing() -> None:
    array = np.array([-1.0, 0.5], np.float16)
    assert rounding_loss(onnx_ir.tensor(array), DataType.FLOAT) == RoundingLoss(2, plain=False)
    assert rounding_loss(onnx_ir.tensor(array), BRAIN).elements == 2
    assert rounding_loss(tensor(1e-3, 2.0), BRAIN) == RoundingLoss(2, plain=False, greatest=2.0)


def test_masks() -> None:
    assert rounding_loss(tensor(-1e9, 0, 1), HALF).is_mask
    assert not rounding_loss(tensor(-1e9, 1e9), HALF).is_mask
    assert not rounding_loss(tensor(-1e9, 2), HALF).is_mask
    assert not rounding_loss(tensor(0, 1), HALF).is_mask


def test_pieces_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.array([1e9, 2.0**-26, 2.0**-15, -1e9, 0.5, 0, 1, 7] * 3, np.float32)
    whole = rounding_loss(onnx_ir.tensor(array), HALF)
    assert whole == RoundingLoss(24, 6, 3, 3, 3, plain=False, greatest=1e9)
    for cached in (1, 5, 24):
        monkeypatch.setattr(constants, "_CACHED", cached)
        assert rounding_loss(onnx_ir.tensor(array), HALF) == whole
    monkeypatch.setattr(constants, "is_large", always)
    assert rounding_loss(onnx_ir.tensor(array), HALF) == whole


def test_which_constants_are_unfit() -> None:
    for loss, expected in (
        (RoundingLoss(4), ""),
        (RoundingLoss(4, overflow=1), "1 of 4 elements of w exceed float16"),
        (RoundingLoss(4, overflow=1, lost=4), "1 of 4 elements of w exceed float16"),
        (RoundingLoss(4, lost=2), ""),
        (RoundingLoss(4, lost=3), "3 of 4 elements of w become zero in float16"),
        (RoundingLoss(4, subnormal=1, lost=2), "3 of 4 elements of w lose bits in float16"),
        (RoundingLoss(4, subnormal=2), ""),
        (RoundingLoss(4, subnormal=3), "3 of 4 elements of w lose bits in float16"),
        (RoundingLoss(4, masks=1), ""),
    ):
        assert unfit("w", loss, HALF) == expected


def test_rounded_once() -> None:
    source = tensor(1 + 2.0**-11 + 2.0**-30, -1e9, 1e9, 2.0**-25)
    result = rounded(source, HALF, 13, "r").numpy()
    assert result.dtype == np.float16
    assert result.tolist() == [1 + 2.0**-10, float("-inf"), float("inf"), 0.0]
    assert rounded(source, HALF, 13, "r").name == "r"
    masked = rounded(source, HALF, 13, "r", within=HALF).numpy()
    assert masked.tolist() == [1 + 2.0**-10, -65504.0, 65504.0, 0.0]
    kept = rounded(tensor(-1e9, 2.0, dtype=np.float32), DataType.FLOAT, 13, "r", within=HALF)
    assert (kept.dtype, kept.numpy().tolist()) == (DataType.FLOAT, [-65504.0, 2.0])
    assert rounded(tensor(1.5), HALF, 1, "r").numpy().tolist() == [1.5]
    turned = onnx_ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert rounded(turned, HALF, 13, "r").numpy().flags.c_contiguous
    assert rounded(turned, HALF, 13, "r").numpy().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_large_constant_is_rounded_when_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    source = tensor(1.0, 0.1, -1e9, dtype=np.float32)
    expected = rounded(source, HALF, 13, "r", within=HALF).numpy()
    monkeypatch.setattr(constants, "is_large", always)
    late = rounded(source, HALF, 13, "late", within=HALF)
    assert (late.name, late.dtype, late.shape) == ("late", HALF, source.shape)
    assert late.tobytes() == expected.tobytes()
