"""Mixtures of experts, computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from castsmith.analysis.bounds.interval import ANYTHING, NONE, Interval, UnknownRangeError
from tests.analysis.bounds.rules.grids import check_tight, ruled, step_of
from tests.analysis.bounds.rules.test_foreign import part


def _mixture(op_type: str, layers: list[Any], **given: Any) -> Interval:
    operands = [part(-1, 1, 3, 2), part(-5, 5, 3, 2), *layers]
    return ruled(step_of(op_type, operands, given, domain="com.microsoft", opset=1))[0]


def test_mixtures_of_experts_by_hand() -> None:
    """Rows of two elements up to 1: the second expert makes 4 and 4 of them, and 8 of those; a bias adds 1."""
    ones, twos, rows = np.ones((2, 2)), np.full((2, 2), 2.0), np.full((2, 2), 0x99, np.uint8)
    first, second, bias = np.stack([ones, twos]), np.stack([ones, ones]), np.full((2, 2), 1.0)
    both, codes = np.concatenate([first, first], 1), rows.reshape(2, 2, 1)  # two codes of 9 in a byte, which are 1
    for op_type, layers, given, true in (
        ("MoE", [first, None, second], {}, (-8, 8)),
        ("MoE", [first, bias, second, bias], {"activation_type": "silu"}, (-11, 11)),
        ("MoE", [first, None, second, None, second], {}, (-16, 16)),
        ("MoE", [first, None, second], {"use_sparse_mixer": 1, "k": 2}, (-16, 16)),
        ("MoE", [both, None, second], {"activation_type": "swiglu"}, (-32, 32)),
        ("MoE", [both, None, second], {"activation_type": "swiglu", "activation_beta": 1.0}, (-40, 40)),
        ("QMoE", [codes, bias, None, codes, bias], {}, (-4, 4)),
    ):  # fmt: skip
        found = _mixture(op_type, layers, **given)
        check_tight((found.least, found.greatest), true)
        assert found.bits == NONE
    assert _mixture("MoE", [part(-1, 1, 2, 2, 2), None, second]).bits == ANYTHING
    assert _mixture("MoE", [first * 1e200, None, second * 1e200]).bits == ANYTHING
    for layers, given in (
        ([first, None, second], {"activation_type": "cube"}),
        ([first, None, np.ones((2, 2, 3))], {}),
        ([first, part(-1, 1, 2, 2), second], {}),
        ([first * np.nan, None, second], {}),
    ):
        with pytest.raises(UnknownRangeError):
            _mixture("MoE", layers, **given)
