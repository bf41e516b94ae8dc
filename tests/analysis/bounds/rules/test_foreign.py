"""Operators of com.microsoft: their bounds, computed by hand next to each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import ANYTHING, NAN, NONE, Interval, UnknownRangeError
from tests.analysis.bounds.rules.grids import box, check_tight, ruled, step_of, with_special


def _gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def _fast_gelu(x: float) -> float:
    return x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def _quick_gelu(x: float) -> float:
    return x / (1 + math.exp(-1.702 * x))


_ROWS = box([[1] * 4], [[2] * 4]), box([[0] * 4], [[1] * 4])
_CASES: dict[str, tuple[str, list[Any], tuple[float, float]]] = {
    "gelu": ("Gelu", [box([1], [2])], (_gelu(1), _gelu(2))),
    "fast gelu": ("FastGelu", [box([1], [2])], (_fast_gelu(1), _fast_gelu(2))),
    "fast gelu with a bias": ("FastGelu", [box([1], [2]), box([-1], [0])], (0, _fast_gelu(2))),
    "bias gelu": ("BiasGelu", [box([1], [1]), box([0], [1])], (_gelu(1), _gelu(2))),
    # rows of 4 over their root mean square are at most 2
    "skip norm": ("SkipLayerNormalization", [*_ROWS, np.array([1.0, 1, 1, 3]), np.array([0.0, 0, 0, 1])], (-5, 7)),
    "simplified": ("SkipSimplifiedLayerNormalization", [*_ROWS, np.array([1.0, 1, 1, 3])], (-6, 6)),
    "quick gelu": ("QuickGelu", [box([1], [2])], (_quick_gelu(1), _quick_gelu(2))),
}


def result(name: str, **facts: Any) -> Interval:
    op_type, operands, _ = _CASES[name]
    operands = [with_special(each, **facts) if isinstance(each, Interval) and facts else each for each in operands]
    given = {"epsilon": 1e-5} if op_type.startswith("Skip") else {}
    return ruled(step_of(op_type, operands, given, domain="com.microsoft", opset=1))[0]


@pytest.mark.parametrize("name", _CASES)
def test_bounds_by_hand(name: str) -> None:
    low, high = _CASES[name][-1]
    found = result(name)
    check_tight((found.least, found.greatest), (low, high))
    assert found.bits == NONE


@pytest.mark.parametrize("name", _CASES)
def test_facts_of_operands(name: str) -> None:
    told = result(name, special=NAN, blame=frozenset({"b"}), assumes=frozenset({"a"}))
    assert told.bits & NAN
    assert told.blame == {"b"}
    assert "a" in told.assumes


def test_all_results_of_a_skip_normalization() -> None:
    """x + skip + bias is the fourth."""
    operands, dims = [*_ROWS, np.ones(4), np.zeros(4), np.array([4.0, 4, 4, 4])], (None,) * 4
    found = ruled(step_of("SkipLayerNormalization", operands, domain="com.microsoft", opset=1, dims=dims))
    for each, true, margin in ((found[0], (-2, 2), 0.1), (found[3], (5, 7), 1e-4)):  # the first covers E[x^2] - E[x]^2
        check_tight((each.least, each.greatest), true, margin)
        assert each.bits == NONE
    assert [each.bits for each in found[1:3]] == [ANYTHING, ANYTHING]
    short = ruled(step_of("SkipLayerNormalization", operands, domain="com.microsoft", opset=1, dims=dims[:2]))
    assert len(short) == 2
    simple = [*_ROWS, np.ones(4), operands[4]]
    found = ruled(step_of("SkipSimplifiedLayerNormalization", simple, domain="com.microsoft", opset=1, dims=dims))
    check_tight((found[3].least, found[3].greatest), (5, 7))


# Products and attention.

_CODES = np.arange(16, dtype=np.uint8).reshape(1, 1, 16)
_PACKED = (_CODES[..., 0::2] | _CODES[..., 1::2] << 4).astype(np.uint8)
"""A row of the codes from 0 to 15, two in a byte."""
_SIZES = {"K": 16, "N": 1, "block_size": 16}


def _nbits(low: float, high: float, *others: Any, **given: Any) -> Interval:
    operands = [box([[low] * 16], [[high] * 16]), _PACKED, np.array([0.5]), *others]
    return ruled(step_of("MatMulNBits", operands, {**_SIZES, **given}, domain="com.microsoft", opset=1))[0]


def test_packed_weights_by_hand() -> None:
    """(0 - 8) / 2 + ... + (15 - 8) / 2 is -4: the positive weights sum up to 14 and the negative ones to -18."""
    for found, true, margin in (
        (_nbits(0, 1), (-18, 14), 1e-4),
        (_nbits(2, 2), (-8, -8), 1e-4),
        (_nbits(2, 2, np.array([0], np.uint8)), (120, 120), 1e-4),  # 0 + 0.5 + ... + 7.5 is 60
        (_nbits(2, 2, np.array([4.0])), (56, 56), 1e-4),
        (_nbits(2, 2, None, None, np.array([3.0])), (-5, -5), 1e-4),
        (_nbits(0, 1, accuracy_level=4), (-18 - 32 / 254, 14 + 32 / 254), 1e-3),  # an input is off by half a step
    ):
        check_tight((found.least, found.greatest), true, margin)
        assert found.bits == NONE
        assert found.dims == (1, 1)


@pytest.mark.parametrize("given", [{"K": 17}, {"N": 2}, {"bits": 3}, {"block_size": 8}, {"accuracy_level": 2}])
def test_packed_weights_that_do_not_fit(given: dict[str, int]) -> None:
    with pytest.raises(UnknownRangeError):
        _nbits(0, 1, **given)


def test_what_packed_weights_are_is_not_known() -> None:
    """They are no constants, or their blocks are in another order."""
    unknown = box([[[0] * 8]], [[[255] * 8]], dtype=DataType.UINT8)
    for operands in ([unknown, np.array([0.5])], [_PACKED, box([0.5], [0.5])],
                     [_PACKED, np.array([0.5]), None, np.zeros(16, np.int32)]):  # fmt: skip
        step = step_of("MatMulNBits", [_ROWS[0], *operands], _SIZES, domain="com.microsoft", opset=1)
        assert ruled(step)[0].bits == ANYTHING
    assert _nbits(0, 3e307).bits == ANYTHING  # 15 * 16 * 3e307 overflows before the zero points are subtracted
    assert _nbits(0, 3e305).bits == NONE


def test_fused_products_by_hand() -> None:
    a, b = box([[1, 2]], [[2, 3]]), np.array([[1.0, -1.0]])
    for given, operands, true in (
        ({"transB": 1}, [a, b], (-2, 0)),
        ({"transB": 1, "alpha": -2.0}, [a, b], (0, 4)),
        ({"transA": 1}, [box([[1], [2]], [[2], [3]]), b.T], (-2, 0)),
        ({"transA": 1, "transB": 1}, [box([[1], [2]], [[2], [3]]), box([[1, -1]], [[1, -1]])], (-2, 0)),
    ):
        found = ruled(step_of("FusedMatMul", operands, given, domain="com.microsoft", opset=1))[0]
        check_tight((found.least, found.greatest), true, 0.6)
        assert found.dims == (1, 1)
    step = step_of("FusedMatMul", [a, b.T], {"transBatchA": 1}, domain="com.microsoft", opset=1)
    assert ruled(step)[0].bits == ANYTHING


def _attended(op_type: str, operands: list[Any], given: dict[str, Any], outputs: int = 1) -> list[Interval]:
    return ruled(step_of(op_type, operands, given, domain="com.microsoft", opset=1, dims=(None,) * outputs))


def part(low: float, high: float, *dims: int) -> Interval:
    return box(np.full(dims, low), np.full(dims, high))


def test_attention_by_hand() -> None:
    """Combinations of values between -1 and 3, or with a bias between -2 and 4, and a past up to 5."""
    parts, lengths = [part(-1, 1, 1, 2, 8), part(-1, 1, 1, 2, 8), part(-1, 3, 1, 2, 8)], [None, None]
    ends = [box(7, 7, dtype=DataType.INT32)] * 2
    for op_type, operands, given, true in (
        ("MultiHeadAttention", parts, {"num_heads": 2}, (-1, 3)),
        ("MultiHeadAttention", [*parts, part(-1, 1, 24)], {"num_heads": 2}, (-2, 4)),
        ("MultiHeadAttention", [*parts, None, None, None, *[part(-1, 5, 1, 2, 3, 4)] * 2], {"num_heads": 2}, (-1, 5)),
        ("MultiHeadAttention", [part(-1, 2, 1, 2, 2, 3, 4)], {"num_heads": 2}, (-1, 2)),
        ("GroupQueryAttention", [*parts, *lengths, *ends], {"num_heads": 2, "kv_num_heads": 2}, (-1, 3)),
        ("GroupQueryAttention", [part(-1, 2, 1, 2, 24), None, None, *lengths, *ends],
         {"num_heads": 2, "kv_num_heads": 2}, (-1, 2)),
    ):  # fmt: skip
        found = _attended(op_type, operands, given)[0]
        check_tight((found.least, found.greatest), true)
        assert found.bits == NONE
    weights = np.zeros((8, 24))
    weights[:, 16:] = 1.0
    found = _attended("Attention", [part(-1, 3, 1, 2, 8), weights, np.full(24, 0.5)], {"num_heads": 2})[0]
    check_tight((found.least, found.greatest), (-7.5, 24.5))


def test_what_spoils_scores() -> None:
    """Scores that overflow, infinite queries, and angles of any size; a past of integers is not followed."""
    lengths = [box(7, 7, dtype=DataType.INT32)] * 2
    given = {"num_heads": 2, "kv_num_heads": 2}
    large, values = part(-1e200, 1e200, 1, 2, 8), part(-1, 1, 1, 2, 8)
    assert _attended("GroupQueryAttention", [large, large, values, None, None, *lengths], given)[0].bits & NAN
    assert not _attended("GroupQueryAttention", [values, large, values, None, None, *lengths], given)[0].bits
    angles = [part(-1e200, 1e200, 8, 2)] * 2
    turned = [values, large, values, None, None, *lengths, *angles]
    assert _attended("GroupQueryAttention", turned, {**given, "do_rotary": 1})[0].bits & NAN
    past = [box(np.zeros((1, 2, 3, 4)), np.ones((1, 2, 3, 4)), dtype=DataType.INT8)] * 2
    with pytest.raises(UnknownRangeError):
        _attended("GroupQueryAttention", [values, values, values, *past, *lengths], given)


def test_the_keys_and_values_of_a_cache() -> None:
    """They are those of the past and the new ones, turned by their positions, and zeros behind."""
    lengths = [box(7, 7, dtype=DataType.INT32)] * 2
    parts = [part(1, 1, 1, 2, 8), part(1, 2, 1, 2, 8), part(3, 4, 1, 2, 8)]
    given = {"num_heads": 2, "kv_num_heads": 2}
    found = _attended("GroupQueryAttention", [*parts, None, None, *lengths], given, 3)
    assert [(each.least, each.greatest) for each in found[1:]] == [(0, 2), (0, 4)]
    for cosine, sine, true in ((0.5, 0.5, (-0.5, 2)), (3, 0, (0, 6)), (0, 3, (-6, 6)), (0.5, 0.25, (0, 2))):
        operands = [*parts, None, None, *lengths, part(cosine, cosine, 8, 2), part(sine, sine, 8, 2)]
        turned = _attended("GroupQueryAttention", operands, {**given, "do_rotary": 1}, 3)
        check_tight((turned[1].least, turned[1].greatest), true)
        assert (turned[2].least, turned[2].greatest) == (0, 4)
