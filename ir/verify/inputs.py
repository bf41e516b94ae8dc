"""Inputs made to find differences: for each type its awkward values, in arrays of shapes on which the model runs.

Awkward are zeros of both signs, infinities, NaN, subnormals, extremes, small whole numbers, the constants that the
models compare with, and what decides how a conversion to any type that they convert to acts: ties, their neighbours,
and the ends of ranges (`castsmith.numerics.critical`). Where an input is small, there are as many more sets as it takes
to feed each of those that no test should be without.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import AttributeType, DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops import NUMBERS_OF_TYPES
from castsmith.ir.verify.limits import require_feedable
from castsmith.ir.verify.promotion import Array
from castsmith.ir.verify.reach import Needs, Reach
from castsmith.ir.walks import all_nodes
from castsmith.numerics.cast import cast
from castsmith.numerics.critical import critical_values, every_value
from castsmith.numerics.types import Kind, element_type, type_name

MILD_SETS = 3
"""Sets of small whole numbers, which come last: they suit models that use an input as an index or divide by it."""

Set = tuple[str, int]
"""The kind of a set of inputs and its number among those of the kind."""

Feeds = dict[str, Array | list[Array] | None]
"""What is fed to each input: an array, a sequence of them, or nothing to an optional."""

_CYCLE = ("adversarial", "finite", "adversarial", "sparse")
_DEFAULT_TARGETS = (DataType.FLOAT16, DataType.INT32)
_ALONE, _IN_A_ROW, _AMONG_OTHERS, _MEMBERS = 512, 64, 5, 2
_MOST_SETS, _MOST_CRITICAL, _FEW = 400, 4096, 2048
_FIRST = (0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 0.1, 1e-9, 100.0, 255.5, 1e5, -1e5, 1e10, 448.0, 464.0, 480.0, 61440.0)
_TEXTS = ("0", "-0", "1", "-2.5", "3e2", "nan", "INF", "-inf", "", "text", "0.1", "Text", " 1", "16777217")


class Inputs:
    """Makes the sets for two models with the inputs of the first; `sizes` are those of symbolic dimensions."""

    def __init__(self, models: Sequence[onnx_ir.Model], reaches: Sequence[Reach], seed: int) -> None:
        self.values = list(models[0].graph.inputs)
        self.sizes = default_sizes(self.values)
        self.seed = seed
        self.needs = {value.name or "": Needs() for value in self.values}
        self._reaches = reaches
        self._targets = _targets(models)
        self._texts = list(dict.fromkeys([*_texts_in(models), *_TEXTS]))
        self.update()

    def update(self) -> None:
        """Take over what the models are found to need."""
        for reach in self._reaches:
            for name, need in reach.needs.items():
                if name in self.needs:
                    self.needs[name].narrow(need.low, need.high)
                    self.needs[name].nonzero |= need.nonzero
                    self.needs[name].wanted.update(need.wanted)

    def plan(self, count: int) -> Iterator[Set]:
        """`count` sets of adversarial inputs and the mild ones."""
        numbers = dict.fromkeys(_CYCLE, 0)
        for index in range(count):
            kind = _CYCLE[index % len(_CYCLE)]
            numbers[kind] += 1
            yield kind, numbers[kind]
        yield from (("mild", number) for number in range(1, MILD_SETS + 1))

    def more(self, count: int) -> Iterator[Set]:
        """The further sets that it takes to feed every value that no test should be without."""
        fed = sum(1 for kind, _ in self.plan(count) if kind == "adversarial")
        needed = 0
        for value in self.values:
            size, dtype = math.prod(self._shape(value, self.sizes)), _declared(value)
            pool = len(self._pool(value, dtype)[0])
            needed = max(needed, 0 if not size else math.ceil(pool / size))
        yield from (("adversarial", number) for number in range(fed + 1, min(needed, _MOST_SETS) + 1))

    def uniform(self) -> Iterator[Set]:
        """Sets that hold one number everywhere: constants of the models first, to take branches not taken yet."""
        yield from (("uniform", number) for number in range(1, len(self._everywhere()) + 1))

    def make(self, kind: str, number: int, sizes: Mapping[str, int] | None = None) -> Feeds:
        """The arrays of one set by name of input. An input with a default is left to it half of the time."""
        sizes = self.sizes if sizes is None else sizes
        shapes = {value.name or "": self._shape(value, sizes) for value in self.values}
        require_feedable(self.values, shapes)
        feeds: Feeds = {}
        for place, value in enumerate(self.values):
            rng = np.random.default_rng((self.seed, number, place, len(kind)))
            if value.const_value is not None and number % 2 == 0:
                continue
            shape, dtype = shapes[value.name or ""], _declared(value)
            if isinstance(value.type, onnx_ir.OptionalType) and number % 2 == 0:
                feeds[value.name or ""] = None
            elif _is_sequence(value):
                members = [self._array(value, dtype, shape, kind, number * _MEMBERS + m, place, rng) for m in range(3)]
                feeds[value.name or ""] = members
            else:
                feeds[value.name or ""] = self._array(value, dtype, shape, kind, number, place, rng)
        return feeds

    def _array(
        self,
        value: onnx_ir.Value,
        dtype: DataType,
        shape: tuple[int, ...],
        kind: str,
        number: int,
        place: int,
        rng: np.random.Generator,
    ) -> Array:
        size = math.prod(shape)
        if dtype is DataType.STRING:
            start = 0 if kind == "mild" else (number - 1) * size + place
            return np.resize(np.roll(np.array(self._texts, object), -start), shape)
        if element_type(dtype).kind is Kind.BOOLEAN:
            flags = rng.integers(0, 2, shape).astype(np.bool_)
            return np.full(shape, number >> place & 1, np.bool_) if size == 1 or kind == "uniform" else flags
        must, pool = self._pool(value, dtype)
        if kind == "uniform":
            wanted = self._everywhere()[number - 1]
            return self._fitting(value, np.full(shape, wanted), dtype)
        if kind == "adversarial":
            # Every number of the pool that must be fed comes first, whatever the shape; then the rest of it.
            start = (number - 1) * size + place * 7
            row = must if (number - 1) * size < len(must) else pool
            return row[(np.arange(size) + start) % len(row)].reshape(shape)
        plain = self._plain(value, dtype, shape, kind, number, rng)
        if kind == "sparse" and size:
            count = max(1, size // 32)
            places = rng.choice(size, count, replace=False)
            plain.reshape(-1)[places] = must[(np.arange(count) + number * count + place) % len(must)]
        return plain

    def _plain(
        self,
        value: onnx_ir.Value,
        dtype: DataType,
        shape: tuple[int, ...],
        kind: str,
        number: int,
        rng: np.random.Generator,
    ) -> Array:
        """Numbers such as an application feeds: of moderate size; masks, positions and tokens as they are there."""
        name, integer = (value.name or "").lower(), element_type(dtype).kind is Kind.INTEGER
        if "mask" in name:
            ends = rng.integers(1, max(shape[-1:] or (1,)) + 1, (*shape[:-1], 1)) if shape else np.array(2)
            marks = np.arange(shape[-1]) < ends if shape else np.array(True)
            return cast(np.broadcast_to(marks if number % 2 else np.ones_like(marks), shape).astype(np.int64), dtype)
        if "position" in name and integer and shape:
            return self._fitting(value, np.broadcast_to(np.arange(shape[-1]), shape).astype(np.float64), dtype)
        if kind == "mild":
            least = int(number == MILD_SETS)
            numbers = rng.integers(least, 2 + least, shape) if integer else rng.normal(0, 1, shape)
            return self._fitting(value, numbers.astype(np.float64), dtype)
        numbers = rng.integers(0, 17, shape) if integer else rng.normal(0, 1, shape) * (1, 4, 0.25)[number % 3]
        need = self.needs[value.name or ""]
        if integer and math.isfinite(need.low) and math.isfinite(need.high):
            numbers = rng.integers(max(0, int(need.low)), max(0, int(need.high)) + 1, shape)
        return self._fitting(value, numbers.astype(np.float64), dtype)

    def _fitting(self, value: onnx_ir.Value, numbers: Array, dtype: DataType) -> Array:
        """The numbers as the type and the bounds of the input allow them."""
        need, row = self.needs[value.name or ""], element_type(dtype)
        if row.kind is Kind.COMPLEX:
            return numbers.astype(dtype.numpy())
        with np.errstate(all="ignore"):
            if row.kind is Kind.INTEGER:
                numbers = np.where(np.nan_to_num(numbers) == 0, 1, numbers) if need.nonzero else numbers
                numbers = np.clip(np.nan_to_num(numbers), max(float(row.min), need.low), min(float(row.max), need.high))
                high = numbers >= 2.0**63
                whole = np.where(high, 0, numbers).astype(np.int64).astype(dtype.numpy())
                return np.where(high, np.array(int(row.max)).astype(dtype.numpy()), whole).astype(dtype.numpy())
            return cast(np.asarray(numbers, np.float64), dtype)

    def _pool(self, value: onnx_ir.Value, dtype: DataType) -> tuple[Array, Array]:
        """What must be fed to the input, and all that is worth feeding, in an order that mixes them."""
        row, need = element_type(dtype), self.needs[value.name or ""]
        if row.kind in (Kind.BOOLEAN, Kind.STRING):
            every = np.array([False, True] if row.kind is Kind.BOOLEAN else self._texts)
            return every, every
        if row.kind is Kind.COMPLEX:
            parts = _classes(DataType.FLOAT, self._targets)[1]
            mixed = np.empty(parts.shape, dtype.numpy())
            mixed.real, mixed.imag = parts, np.random.default_rng(0).permutation(parts)
            return mixed[:64], mixed
        must, pool = _classes(dtype, self._targets)
        wanted = _around(np.array(list(need.wanted), np.float64), dtype)
        must, pool = np.concatenate([wanted, must]), np.concatenate([wanted, must, pool])
        if row.kind is Kind.INTEGER and (math.isfinite(need.low) or math.isfinite(need.high)):
            must, pool = (_within(each, need, dtype) for each in (must, pool))
        if row.kind is Kind.INTEGER and need.nonzero:
            must, pool = (each[each.astype(np.float64) != 0] for each in (must, pool))
        return must, pool

    def _everywhere(self) -> list[float]:
        """The numbers that a uniform set holds."""
        found = dict.fromkeys(number for reach in self._reaches for number in reach.wanted)
        near = [sign * (number + step) for number in found for sign, step in ((1, 0), (1, 1), (1, -1))]
        rest = [0.0, 1.0, -1.0, 2.0, 3.0, 0.25, -0.25, 5.0, 16.0, 100.0, -100.0, 1e4, -1e4, 1e30, -1e30]
        return list(dict.fromkeys([*near[:96], *rest]))

    def _shape(self, value: onnx_ir.Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
        if value.shape is None:
            dtype = _declared(value)
            raise ModelError(
                f"the input {value.name} ({type_name(dtype)}) has no declared shape, so inputs for it have to be given."
            )
        dims = (
            dim if isinstance(dim, int) else sized(dim.value, sizes) if dim.value else _AMONG_OTHERS
            for dim in value.shape
        )
        return tuple(_AMONG_OTHERS if dim < 0 else dim for dim in dims)  # some exporters write -1 for unknown


def default_sizes(values: Iterable[onnx_ir.Value]) -> dict[str, int]:
    """A size for each symbolic dimension: large where that costs little, so that one set holds many values."""
    sizes: dict[str, int] = {}
    for value in values:
        names = [name for dim in value.shape or () if not isinstance(dim, int) for name in _names(dim.value)]
        rank = 0 if value.shape is None else value.shape.rank()
        size = _AMONG_OTHERS if len(set(names)) > 1 or rank > 2 else _ALONE if rank == 1 else _IN_A_ROW
        for name in names:
            size = _MEMBERS if "batch" in name.lower() and rank > 1 else size
            sizes[name] = min(size, sizes.get(name, size))
    return sizes


def sized(dim: str, sizes: Mapping[str, int]) -> int:
    """The size of a symbolic dimension, which may be an expression such as `past + new`."""
    if dim in sizes:
        return sizes[dim]
    try:
        return max(0, _value(ast.parse(dim, mode="eval").body, sizes))
    except (SyntaxError, ValueError, ZeroDivisionError):
        return _AMONG_OTHERS


def _names(dim: str | None) -> list[str]:
    """The names in a symbolic dimension: itself, or those in the expression that it is."""
    try:
        tree = ast.parse(dim or "", mode="eval")
        _value(tree.body, {node.id: 2 for node in ast.walk(tree) if isinstance(node, ast.Name)})
    except (SyntaxError, ValueError, ZeroDivisionError):
        return [dim] if dim else []
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in called] or ([dim] if dim else [])


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return sizes.get(name, _AMONG_OTHERS)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, sizes), _value(right, sizes)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div() | ast.FloorDiv():
                    return a // b
                case ast.Mod():
                    return a % b
                case _:
                    raise ValueError(dim_text(node))
        case ast.Call(func=ast.Name(id=name), args=args) if args:
            numbers = [_value(each, sizes) for each in args]
            return max(numbers) if name.lower() == "max" else min(numbers) if name.lower() == "min" else numbers[0]
        case _:
            raise ValueError(dim_text(node))


def dim_text(node: ast.expr) -> str:
    """The expression that no size follows from."""
    return ast.unparse(node)


@lru_cache(maxsize=64)
def _classes(dtype: DataType, targets: tuple[DataType, ...]) -> tuple[Array, Array]:
    """A value of every class of a type, and the critical ones beside it, in an order that mixes both."""
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
        wanted = dict.fromkeys(n for n in (*small, *ends, *near) if int(row.min) <= n <= int(row.max))
        return rng.permutation(np.array(list(wanted), dtype.numpy())), critical[:_MOST_CRITICAL]
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


def _around(numbers: Array, dtype: DataType) -> Array:
    """The numbers in the type, each with its two neighbours there."""
    row = element_type(dtype)
    if not numbers.size:
        return np.zeros(0, dtype.numpy())
    with np.errstate(all="ignore"):
        if row.kind is Kind.INTEGER:
            whole = [n + step for n in np.nan_to_num(numbers).tolist() for step in (0, 1, -1) for n in (int(n),)]
            return np.array([n for n in whole if int(row.min) <= n <= int(row.max)], dtype.numpy())
        here = cast(numbers.astype(np.float64), dtype)
        codes = here.view(f"u{here.dtype.itemsize}")
        return np.concatenate(
            [here, (codes + codes.dtype.type(1)).view(here.dtype), (codes - codes.dtype.type(1)).view(here.dtype)]
        )


def _within(numbers: Array, need: Needs, dtype: DataType) -> Array:
    """Whole numbers within the bounds: all of few, else those given and some at equal steps."""
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


def _texts_in(models: Iterable[onnx_ir.Model]) -> Iterator[str]:
    """Text that the models hold: what an input is compared with or looked up in."""
    for model in models:
        for value in (operand for node in all_nodes(model) for operand in node.inputs):
            tensor = constant_tensor(value)
            if tensor is not None and tensor.dtype is DataType.STRING and tensor.size <= _FEW:
                for text in tensor.numpy().reshape(-1).tolist():
                    yield text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _is_sequence(value: onnx_ir.Value) -> bool:
    kind = value.type.elem_type if isinstance(value.type, onnx_ir.OptionalType) else value.type
    return isinstance(kind, onnx_ir.SequenceType)


def _declared(value: onnx_ir.Value) -> DataType:
    if value.dtype is None or value.dtype == DataType.UNDEFINED:
        raise ModelError(f"the input {value.name} has no known element type, so inputs for it have to be given.")
    return value.dtype
