"""Values to feed: those of every class of a type, and those that occur in the models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import AttributeType, DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.value_types import NUMBERS_OF_TYPES
from castsmith.ir.walks import all_nodes
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import critical_values, every_value
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.inputs.reach import Needs
from castsmith.verification.inputs.witnesses import neighbours

_FIRST = (0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 0.1, 1e-9, 100.0, 255.5, 1e5, -1e5, 1e10, 448.0, 464.0, 480.0, 61440.0)
TEXTS = ("0", "-0", "1", "-2.5", "3e2", "nan", "INF", "-inf", "", "text", "0.1", "Text", " 1", "16777217")
"""Numbers where common types end and round, and texts that Cast reads in all its ways."""

_DEFAULT_TARGETS = (DataType.FLOAT16, DataType.INT32)
"""The types to which values matter in a model that converts to none."""

_MOST_CRITICAL = 4096
"""Critical values that are fed beside those of every class: eight sets of a vector; a type has up to 78,043."""

_FEW = 2048
"""Integers within bounds that are all fed, and texts of a constant that are looked up."""


@lru_cache(maxsize=64)
def classes_of_values(dtype: DataType, targets: tuple[DataType, ...]) -> tuple[Array, Array]:
    """Return a value of every class of a type, and the critical ones beside it, in an order that mixes both."""
    row, rng = element_type(dtype), np.random.default_rng(0)
    if row.bits <= 8:
        every = rng.permutation(every_value(dtype))
        return every, every
    critical = rng.permutation(critical_values(dtype, *targets))
    if row.kind is Kind.INTEGER:
        ends = [int(row.min), int(row.min) + 1, int(row.max), int(row.max) - 1]
        small = list(range(-16 if row.signed else 0, 17))
        turns = [int(element_type(target).max) for target in targets if element_type(target).kind is Kind.INTEGER]
        near = [n for turn in turns for n in (turn, turn + 1, -turn - 1, -turn - 2)]
        integers = dict.fromkeys(n for n in (*small, *ends, *near) if int(row.min) <= n <= int(row.max))
        return rng.permutation(np.array(list(integers), dtype.numpy())), critical[:_MOST_CRITICAL]
    largest_below = 2.0 ** float(row.min_exponent) - float(row.quantum) if row.bits <= 32 else 2.2250738585072e-308
    numbers = [
        0.0,
        float(row.quantum),
        largest_below,
        2.0 ** float(row.min_exponent),
        float(row.max),
        math.inf,
        math.nan,
    ]
    numbers += [*range(1, 17), *_FIRST]
    for target in targets:
        to = element_type(target)
        if to.kind is Kind.FLOATING and to.bits < row.bits:
            step = 2.0**-to.mantissa_bits
            numbers += [
                1 + step / 2,
                1 + 1.5 * step,
                float(to.max) * (1 + step / 4),
                float(to.quantum) / 2,
                float(to.max),
            ]
            numbers += [1 + step / 2 + 2.0**-row.mantissa_bits, float(to.quantum) * 1.5]
        elif to.kind is Kind.INTEGER:
            numbers += [float(to.max), float(to.max) + 1, float(to.max) + 0.5]
    with np.errstate(all="ignore"):
        signed = cast(np.array([sign * n for n in dict.fromkeys(numbers) for sign in (1, -1)]), dtype)
        spread = rng.choice([-1, 1], 256) * np.exp2(
            rng.uniform(math.log2(float(row.quantum)), math.log2(float(row.max)), 256)
        )
        return rng.permutation(signed), np.concatenate([critical[:_MOST_CRITICAL], cast(spread, dtype)])


def neighbourhood(numbers: Iterable[float | str], dtype: DataType) -> Array:
    """Return the numbers in the type, each with its two neighbours there. Integers are exact."""
    row, plain = element_type(dtype), [number for number in numbers if not isinstance(number, str)]
    if row.kind is Kind.INTEGER:
        integers = [int(n) + step for n in plain if math.isfinite(n) for step in (0, 1, -1)]
        return np.array([n for n in integers if int(row.min) <= n <= int(row.max)], dtype.numpy())
    return neighbours(cast(np.array(plain, np.float64), dtype))


def within(numbers: Array, need: Needs, dtype: DataType) -> Array:
    """Return integers within the bounds: all if few, otherwise those given and some at equal steps."""
    row = element_type(dtype)
    low, high = max(int(row.min), _whole(need.low, row.min)), min(int(row.max), _whole(need.high, row.max))
    if high - low < _FEW:
        every = np.arange(low, high + 1, dtype=np.int64 if dtype is not DataType.UINT64 else np.uint64)
        return np.random.default_rng(0).permutation(every.astype(dtype.numpy()))
    inside = [n for n in numbers.astype(object).tolist() if low <= n <= high]
    steps = [low + (high - low) * part // (_FEW // 8) for part in range(_FEW // 8 + 1)]
    return np.array(list(dict.fromkeys([*inside, *steps])), dtype.numpy())


def _whole(number: float, otherwise: Any) -> int:
    return int(number) if math.isfinite(number) else int(otherwise)


def conversion_targets(models: Iterable[onnx_ir.Model]) -> tuple[DataType, ...]:
    """Return the types that the models convert to, by Cast or by the type of a constant such as a zero point."""
    targets: dict[DataType, None] = dict.fromkeys(_DEFAULT_TARGETS)
    for model in models:
        for node in all_nodes(model):
            attribute = node.attributes.get("to")
            if attribute is not None and attribute.type == AttributeType.INT and attribute.value in NUMBERS_OF_TYPES:
                targets[DataType(attribute.as_int())] = None
            for value in (*node.inputs[1:], *node.outputs):
                if value is not None and value.dtype is not None and value.dtype != DataType.UNDEFINED:
                    targets[value.dtype] = None
    usable = (Kind.INTEGER, Kind.FLOATING)
    return tuple(sorted((dtype for dtype in targets if element_type(dtype).kind in usable), key=int))


def texts_in(models: Iterable[onnx_ir.Model]) -> Iterator[str]:
    """Return texts in the models: those that an input is compared with or looked up in."""
    for model in models:
        for value in (operand for node in all_nodes(model) for operand in node.inputs):
            tensor = constant_tensor(value)
            if tensor is not None and tensor.dtype is DataType.STRING and tensor.size <= _FEW:
                for text in tensor.numpy().reshape(-1).tolist():
                    yield text.decode(errors="replace") if isinstance(text, bytes) else str(text)
