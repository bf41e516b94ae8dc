"""Adversarial inputs for a graph: zeros of both signs, extremes, ties, subnormals, infinities and NaN of each type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type

_NUMBERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    3.0,
    7.0,
    100.0,
    448.0,
    464.0,
    465.0,
    -480.0,
    57344.0,
    61440.0,
)
_EXTREMES = (1e-9, -1e-45, 1e5, 3e38, math.inf, -math.inf, math.nan)


def inputs_for(
    model: onnx_ir.Model, seed: int, *, dimension: int = 5, given: Mapping[str, Any] | None = None
) -> dict[str, NDArray[Any]]:
    """One array for each graph input that has no default: what is `given` for its name, or adversarial values.

    A symbolic dimension has the size `dimension`.
    """
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray[Any]] = {}
    for value in model.graph.inputs:
        if value.is_initializer() and value.const_value is not None:
            continue
        assert value.dtype is not None
        assert value.shape is not None
        name = value.name or ""
        if given and name in given:
            feeds[name] = np.array(given[name], value.dtype.numpy())
            continue
        shape = tuple(dim if isinstance(dim, int) else dimension for dim in value.shape)
        feeds[name] = array_of(value.dtype, shape, rng)
    return feeds


def array_of(dtype: onnx_ir.DataType, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    """An array of the type: mostly its awkward values, some random ones."""
    row = element_type(dtype)
    if row.kind is Kind.FLOATING:
        pool = np.array((*_NUMBERS, *_EXTREMES, *rng.normal(0, 100, 16)), np.float64)
        return cast(rng.choice(pool, shape), dtype)
    if row.kind is Kind.BOOLEAN:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low, high = max(int(row.min), -300), min(int(row.max), 300)
    return cast(rng.integers(low, high + 1, shape), dtype)
