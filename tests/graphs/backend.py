"""The ONNX backend node tests, as numpy arrays."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case import base
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.reference.ops import op_pool_common


def node_cases(pattern: str) -> dict[str, TestCase]:
    """The cases whose name begins with `pattern`, a regular expression."""
    return {name: case for name, case in _all_cases().items() if re.match(pattern, name)}


def cases_of(*operators: str) -> dict[str, TestCase]:
    """The cases whose models have no operators but these."""
    return {name: case for name, case in _all_cases().items() if _operators(case) <= set(operators)}


def _operators(case: TestCase) -> set[str]:
    return {"none"} if case.model is None else {node.op_type for node in case.model.graph.node}


@cache
def _all_cases() -> dict[str, TestCase]:
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("ignore")
        # Its results for pooling take longer than all others, and no test reads them.
        patched.setattr(op_pool_common, "pool", _unread)
        # The source of each case, which it reads for the documentation of ONNX, takes as long as the case.
        patched.setattr(base, "process_snippet", _no_source, raising=False)
        # Only the first call in a process collects, so it must not be narrowed to one operator. None is for all of
        # them; before onnx 1.23 the argument has no default.
        everything: Any = None
        return {case.name: case for case in collect_testcases(everything)}


def _no_source(*_: object) -> tuple[str, str]:
    return "", ""


def _unread(padded: np.ndarray, x_shape: Sequence[int], *sizes: Any, **_: object) -> np.ndarray:
    """Return zeros of the shape that pooling gives."""
    return np.zeros((*x_shape[:2], *sizes[2]), padded.dtype)


def array_of_case(value: object) -> np.ndarray:
    """An input or output of a case, which is an array or a TensorProto."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
