"""No value of a random network, and no result of an operator, is outside a proven bound: a part of the two commands."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx.defs
import pytest

from castsmith.ir.bounds.report import Bound, Bounds
from tests.ir.bounds.operator_soak import violations
from tests.ir.bounds.operators import OPERATORS
from tests.ir.bounds.soak import Tally, check, outside

_NETWORKS = 8


def test_random_networks() -> None:
    pytest.importorskip("onnxruntime")
    tally = Tally()
    for seed in range(_NETWORKS):
        check(seed, 600, tally, batch=100)
    assert not tally.wrong
    assert tally.proven > 20 * _NETWORKS
    assert tally.unknown < tally.proven / 10


def test_every_operator() -> None:
    pytest.importorskip("onnxruntime")
    ran, proven = Counter[str](), Counter[Any]()
    known = [name for name, (first, _, _) in OPERATORS.items() if first <= onnx.defs.onnx_opset_version()]
    wrong = [text for name in known for text in violations(name, 3, ran, proven)]
    assert not wrong
    assert len({name.split()[0] for name in ran}) >= len(known) - 2
    assert sum(count for (_, how), count in proven.items() if how == "proven") > len(known) / 2


def test_what_is_outside_is_found() -> None:
    found = Bounds({"y": Bound(0.0, 1.0, "proven")}, {"y": "y (Neg)"})
    assert not outside(found, {"y": np.array([0.0, 1.0])})
    for number in (-0.5, 1.5, np.nan, np.inf):
        assert outside(found, {"y": np.array([0.5, number])})
