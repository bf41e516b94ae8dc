"""Inputs made to find differences: for each type its awkward values, in arrays of the declared shapes.

Awkward are zeros of both signs, infinities, NaN, subnormals, extremes, and what decides how a conversion to any type
that the models convert to acts: ties, their neighbours, and the ends of ranges (`castsmith.numerics.critical`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import AttributeType, DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.value_types import NUMBERS_OF_TYPES
from castsmith.ir.walks import all_nodes
from castsmith.numerics.cast import cast
from castsmith.numerics.critical import critical_values, every_value
from castsmith.numerics.types import Kind, element_type, type_name

Array = NDArray[Any]

MILD = "mild"
"""The name of the last sets, which hold small whole numbers: they suit models that use an input as an index."""

MILD_SETS = 3

_DEFAULT_TARGETS = (DataType.FLOAT16, DataType.INT32)
_MOST_DIMENSIONS, _MOST_ELEMENTS = 64, 1 << 28
"""Of an input that is made up."""

_ALONE, _IN_A_ROW, _AMONG_OTHERS = 512, 64, 5
_FIRST = (0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 1.5, 2.5, -2.5, 3.0, 100.0, 1e-9, 1e5, -1e5, 1e10, 448.0, 480.0, 61440.0)
_TEXTS = ("0", "-0", "1", "-2.5", "3e2", "nan", "INF", "-inf", "", "text", "0.1")


def input_sets(
    models: Sequence[onnx_ir.Model], count: int, seed: int, dims: Mapping[str, int] | None = None
) -> Iterator[tuple[str, dict[str, Array]]]:
    """`count` sets of adversarial inputs and three mild ones for the first of the models, each with its name."""
    values = list(models[0].graph.inputs)
    targets = _targets(models)
    sizes = {**_sizes(values), **(dims or {})}
    for index in range(count + MILD_SETS):
        rng = np.random.default_rng((seed, index))
        mild, feeds = index >= count, dict[str, Array]()
        for place, value in enumerate(values):
            if value.const_value is not None and index % 2 == 0:
                continue  # an input with a default is left to it half of the time
            dtype, shape = _declared(value), _shape(value, sizes)
            if mild:
                feeds[value.name or ""] = _mild(dtype, shape, rng, int(index > count + 1))
            else:
                feeds[value.name or ""] = _awkward(dtype, shape, targets, index + place)
        yield f"{MILD} {index - count + 1}" if mild else f"adversarial {index + 1}", feeds


def _awkward(dtype: DataType, shape: tuple[int, ...], targets: tuple[DataType, ...], index: int) -> Array:
    """The next values of the pool that have not been used by the sets before; the pool starts again at its end."""
    if dtype is DataType.STRING:
        return np.resize(np.array(_TEXTS, object), shape)
    pool, size = _pool(dtype, targets), math.prod(shape)
    return pool[(np.arange(size) + index * size) % len(pool)].reshape(shape)


def _mild(dtype: DataType, shape: tuple[int, ...], rng: np.random.Generator, least: int) -> Array:
    """Small numbers; `least`, 0 or 1, is the smallest whole one, which may be divided by in the last set."""
    if dtype is DataType.STRING:
        return np.resize(np.array(_TEXTS[:3], object), shape)
    if element_type(dtype).kind is Kind.COMPLEX:
        return (rng.normal(0, 1, shape) + 1j * rng.normal(0, 1, shape)).astype(dtype.numpy())
    if element_type(dtype).kind is Kind.FLOATING:
        return cast(rng.normal(0, 1, shape), dtype)
    return cast(rng.integers(least, 2 + least, shape), dtype)


@lru_cache(maxsize=64)
def _pool(dtype: DataType, targets: tuple[DataType, ...]) -> Array:
    """The awkward values in an order in which any stretch of them has some of every kind; no value twice."""
    row, rng = element_type(dtype), np.random.default_rng(0)
    if row.kind is Kind.BOOLEAN:
        return np.array([False, True, True])
    if row.kind is Kind.COMPLEX:
        parts = _pool(DataType.FLOAT, targets)
        numbers = np.empty(parts.shape, dtype.numpy())
        numbers.real, numbers.imag = parts, rng.permutation(parts)
        return numbers
    if row.bits <= 8:
        return rng.permutation(every_value(dtype))
    critical = rng.permutation(np.concatenate([_extremes(dtype), critical_values(dtype, *targets)]))
    if row.kind is Kind.INTEGER:
        return critical
    spread = rng.choice([-1, 1], 256) * np.exp2(
        rng.uniform(math.log2(float(row.quantum)), math.log2(float(row.max)), 256)
    )
    return np.concatenate([cast(np.array(_FIRST), dtype), critical[:4096], cast(spread, dtype)])


def _extremes(dtype: DataType) -> Array:
    row = element_type(dtype)
    if row.kind is Kind.INTEGER:
        return np.array([int(row.min), int(row.max), 0, 1], dtype.numpy())
    numbers = [float(row.max), float(row.quantum), math.inf, math.nan, 0.0]
    return cast(np.array([sign * number for number in numbers for sign in (1, -1)]), dtype)


def _targets(models: Iterable[onnx_ir.Model]) -> tuple[DataType, ...]:
    """The types that the models convert to, by Cast or by the type of a constant such as a zero point."""
    found: dict[DataType, None] = dict.fromkeys(_DEFAULT_TARGETS)
    for model in models:
        for node in all_nodes(model):
            attribute = node.attributes.get("to")
            if attribute is not None and attribute.type == AttributeType.INT and attribute.value in NUMBERS_OF_TYPES:
                found[DataType(attribute.as_int())] = None
            for value in (*node.inputs[1:], *node.outputs):
                if value is not None and value.dtype is not None and value.dtype != DataType.UNDEFINED:
                    found[value.dtype] = None
    usable = (Kind.INTEGER, Kind.FLOATING)
    return tuple(sorted((dtype for dtype in found if element_type(dtype).kind in usable), key=int))


def _declared(value: onnx_ir.Value) -> DataType:
    if value.dtype is None or value.dtype == DataType.UNDEFINED or not isinstance(value.type, onnx_ir.TensorType):
        raise ModelError(f"the input {value.name} is no tensor of a known type, so inputs for it have to be given.")
    return value.dtype


def made_up_sizes(model: onnx_ir.Model, dims: Mapping[str, int] | None = None) -> dict[str, int]:
    """The sizes that symbolic dimensions of the inputs have where `dims` gives them none."""
    return {name: size for name, size in _sizes(model.graph.inputs).items() if name not in (dims or {})}


def _sizes(values: Iterable[onnx_ir.Value]) -> dict[str, int]:
    """A size for each symbolic dimension: large where that costs little, so that one set holds many values."""
    sizes: dict[str, int] = {}
    for value in values:
        names = [dim.value for dim in value.shape or () if not isinstance(dim, int) and dim.value is not None]
        rank = 0 if value.shape is None else value.shape.rank()
        size = _AMONG_OTHERS if len(names) > 1 or rank > 2 else _ALONE if rank == 1 else _IN_A_ROW
        for name in names:
            sizes[name] = min(size, sizes.get(name, size))
    return sizes


def _shape(value: onnx_ir.Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    if value.shape is None:
        raise ModelError(
            f"the input {value.name} ({type_name(_declared(value))}) has no declared shape, so inputs have to be given."
        )
    dims = (dim if isinstance(dim, int) else sizes.get(dim.value or "", _AMONG_OTHERS) for dim in value.shape)
    shape = tuple(_AMONG_OTHERS if dim < 0 else dim for dim in dims)  # some exporters write -1 for unknown
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) > _MOST_ELEMENTS:
        raise ModelError(f"the input {value.name} of shape {list(shape)} is too large to be run.")
    return shape
