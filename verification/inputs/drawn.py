"""Inputs that find differences: for each type its critical values, in arrays of shapes on which the model runs.

Critical are zeros of both signs, infinities, NaN, subnormals, extremes, small integers, the constants that the
models compare with, and values that decide the conversion to any type that they convert to: ties, their neighbours,
and the ends of ranges (`castsmith.numerics.critical`). For a small input, there are as many more sets as are needed
to feed each value that every test must cover.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import OptionError
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.verification.evaluate.limits import FeedError, require_feedable
from castsmith.verification.evaluate.names import MEMORY
from castsmith.verification.inputs.reach import Needs, Reach
from castsmith.verification.inputs.values import (
    TEXTS,
    classes_of_values,
    conversion_targets,
    neighbourhood,
    texts_in,
    within,
)

MILD_SETS = 3
"""Sets of small integers, which come last: they suit models that use an input as an index or divide by it."""

Set = tuple[str, int]
"""The kind of a set of inputs and its number among those of the kind."""

Feeds = dict[str, Array | list[Array] | None]
"""The content of each input: an array, a sequence of arrays, or an empty optional."""

Sizes = Mapping[str, int | Sequence[int]]
"""Sizes of symbolic dimensions by name, and shapes of inputs by theirs."""

_CYCLE = ("adversarial", "finite", "adversarial", "sparse")
"""The kinds of sets in turn: every second one is of critical values, and the others keep deep models finite."""

_ALONE, _IN_A_ROW, _AMONG_OTHERS, _MEMBERS = 512, 64, 5, 2
"""Sizes of symbolic dimensions: of a vector, of one dimension beside fixed ones, of several, and of a batch."""

_MOST_SETS = 400
"""Sets of critical values for an input of one element, of which a type has thousands."""

_LARGEST_DRAWN = (1 << 20) + 7
"""The size of an array from which on its elements repeat: making more takes longer than comparing them."""


@dataclass(frozen=True)
class _Draw:
    """The array to make: for an input, of a type and shape, as one of the sets, with its source of random numbers.

    Attributes:
        place: The index of the input, or the number of the member of a sequence.
    """

    value: onnx_ir.Value
    dtype: DataType
    shape: tuple[int, ...]
    kind: str
    number: int
    place: int
    rng: np.random.Generator


class Inputs:
    """Makes the sets for two models with the inputs of the first; `sizes` are those of symbolic dimensions."""

    def __init__(
        self,
        models: Sequence[onnx_ir.Model],
        reaches: Sequence[Reach],
        seed: int,
        memory: int = MEMORY,
        dims: Sizes | None = None,
    ) -> None:
        self.values = list(models[0].graph.inputs)
        chosen, self.shapes = chosen_sizes(self.values, dims or {})
        self.sizes = default_sizes(self.values)
        self.made_up = [name for name in self.sizes if name not in chosen]
        self.sizes.update(chosen)
        self.seed = seed
        self.memory = memory
        self.needs = {value.name or "": Needs() for value in self.values}
        self._reaches = reaches
        self._targets = conversion_targets(models)
        self._texts = list(dict.fromkeys([*texts_in(models), *TEXTS]))
        self.update()

    def update(self) -> None:
        """Add requirements that the models are found to have."""
        for reach in self._reaches:
            for name, need in reach.needs.items():
                if name in self.needs:
                    self.needs[name].narrow(need.low, need.high)
                    self.needs[name].nonzero |= need.nonzero
                    self.needs[name].wanted.update(need.wanted)
                    self.needs[name].demanded.update(need.demanded)
                    self.needs[name].sizes = self.needs[name].sizes or need.sizes
        for need in self.needs.values():
            need.narrow_sizes()

    def plan(self, count: int, *, ordinary: bool = False) -> Iterator[Set]:
        """Return `count` sets of adversarial inputs, or of ordinary numbers, and the mild ones."""
        cycle = ("ordinary",) if ordinary else _CYCLE
        numbers = dict.fromkeys(cycle, 0)
        for index in range(count):
            kind = cycle[index % len(cycle)]
            numbers[kind] += 1
            yield kind, numbers[kind]
        yield from (("mild", number) for number in range(1, MILD_SETS + 1))

    def more(self, count: int) -> Iterator[Set]:
        """Return the further sets that are needed to feed every value that a test must cover."""
        fed = sum(1 for kind, _ in self.plan(count) if kind == "adversarial")
        needed = 0
        for value in self.values:
            size, dtype = math.prod(self._shape(value, self.sizes)), _declared(value)
            pool = len(self._pool(value, dtype)[0])
            needed = max(needed, 0 if not size else math.ceil(pool / size))
        yield from (("adversarial", number) for number in range(fed + 1, min(needed, _MOST_SETS) + 1))

    def uniform(self) -> Iterator[Set]:
        """Yield sets that hold one number everywhere: constants of the models first, to take branches not taken yet."""
        yield from (("uniform", number) for number in range(1, len(self._everywhere()) + 1))

    def elements(self, sizes: Mapping[str, int]) -> int:
        """Return the number of elements of a set on these sizes."""
        return sum(math.prod(self._shape(value, sizes)) for value in self.values)

    def make(self, kind: str, number: int, sizes: Mapping[str, int] | None = None) -> Feeds:
        """Return the arrays of one set by input name. An input with a default uses it half of the time."""
        sizes = self.sizes if sizes is None else sizes
        shapes = {value.name or "": self._shape(value, sizes) for value in self.values}
        require_feedable(self.values, shapes, self.memory)
        try:
            return self._feeds(kind, number, shapes)
        except MemoryError:
            raise FeedError("there is not enough memory for the inputs; give smaller sizes (`dims=`).") from None

    def _feeds(self, kind: str, number: int, shapes: Mapping[str, tuple[int, ...]]) -> Feeds:
        feeds: Feeds = {}
        for place, value in enumerate(self.values):
            rng = np.random.default_rng((self.seed, number, place, len(kind)))
            if value.const_value is not None and number % 2 == 0:
                continue
            draw = _Draw(value, _declared(value), shapes[value.name or ""], kind, number, place, rng)
            if isinstance(value.type, onnx_ir.OptionalType) and number % 2 == 0:
                feeds[value.name or ""] = None
            elif _is_sequence(value):
                members = (replace(draw, number=number * _MEMBERS + m) for m in range(3))
                feeds[value.name or ""] = list(map(self._array, members))
            else:
                feeds[value.name or ""] = self._array(draw)
        return feeds

    def _array(self, draw: _Draw) -> Array:
        value, dtype, shape = draw.value, draw.dtype, draw.shape
        kind, number, place, row = draw.kind, draw.number, draw.place, element_type(dtype)
        size = math.prod(shape)
        if size > _LARGEST_DRAWN:
            return np.resize(self._array(replace(draw, shape=(_LARGEST_DRAWN,))), shape)
        if dtype is DataType.STRING:
            start = 0 if kind == "mild" else (number - 1) * size + place
            return np.resize(np.roll(self._pool(value, dtype)[0], -start), shape)
        if row.kind is Kind.BOOLEAN:
            flags = draw.rng.integers(0, 2, shape).astype(np.bool_)
            return np.full(shape, number >> place & 1, np.bool_) if size == 1 or kind == "uniform" else flags
        required, pool = self._pool(value, dtype)
        if kind == "uniform":
            uniform, need = self._everywhere()[number - 1], self.needs[value.name or ""]
            holds = row.kind is Kind.INTEGER and row.min <= uniform <= row.max and need.low <= uniform <= need.high
            if isinstance(uniform, int) and holds:
                return np.full(shape, uniform, dtype.numpy())
            return self._fitting(value, np.full(shape, float(uniform)), dtype)
        if kind == "adversarial":
            # Every number of the pool that must be fed comes first, whatever the shape; then the rest of it.
            start = (number - 1) * size + place * 7
            row = required if (number - 1) * size < len(required) else pool
            return row[(np.arange(size) + start) % len(row)].reshape(shape)
        plain = self._plain(draw)
        integers = [n for n in self.needs[value.name or ""].wanted if n == round(n)] if kind == "ordinary" else []
        if integers and row.kind is Kind.INTEGER and number % 2:
            return self._fitting(value, np.resize(np.roll(np.array(integers, np.float64), number // 2), shape), dtype)
        if kind == "sparse" and size:
            count = max(1, size // 32)
            places = draw.rng.choice(size, count, replace=False)
            plain.reshape(-1)[places] = required[(np.arange(count) + number * count + place) % len(required)]
        return plain

    def _plain(self, draw: _Draw) -> Array:
        """Return typical application numbers: of moderate size; masks, positions and tokens."""
        value, dtype, shape, number, rng = draw.value, draw.dtype, draw.shape, draw.number, draw.rng
        name, integer = (value.name or "").lower(), element_type(dtype).kind is Kind.INTEGER
        if "mask" in name:
            ends = rng.integers(1, max(1, shape[-1]) + 1, (*shape[:-1], 1)) if shape else np.array(2)
            marks = np.arange(shape[-1]) < ends if shape else np.array(True)
            return cast(np.broadcast_to(marks if number % 2 else np.ones_like(marks), shape).astype(np.int64), dtype)
        if "position" in name and integer and shape:
            return self._fitting(value, np.broadcast_to(np.arange(shape[-1]), shape).astype(np.float64), dtype)
        if draw.kind == "mild":
            least = int(number == MILD_SETS)
            numbers = rng.integers(least, 2 + least, shape) if integer else rng.normal(0, 1, shape)
            return self._fitting(value, numbers.astype(np.float64), dtype)
        numbers = rng.integers(0, 17, shape) if integer else rng.normal(0, 1, shape) * (1, 4, 0.25)[number % 3]
        need = self.needs[value.name or ""]
        if integer and math.isfinite(need.low) and math.isfinite(need.high):
            numbers = rng.integers(max(0, int(need.low)), max(0, int(need.high)) + 1, shape)
        return self._fitting(value, numbers.astype(np.float64), dtype)

    def _fitting(self, value: onnx_ir.Value, numbers: Array, dtype: DataType) -> Array:
        """Return the numbers that the type and the bounds of the input allow."""
        need, row = self.needs[value.name or ""], element_type(dtype)
        if row.kind is Kind.COMPLEX:
            return numbers.astype(dtype.numpy())
        with np.errstate(all="ignore"):
            if row.kind is Kind.INTEGER:
                numbers = np.where(np.nan_to_num(numbers) == 0, 1, numbers) if need.nonzero else numbers
                numbers = np.clip(np.nan_to_num(numbers), max(float(row.min), need.low), min(float(row.max), need.high))
                high = numbers >= 2.0**63
                integers = np.where(high, 0, numbers).astype(np.int64).astype(dtype.numpy())
                return np.where(high, np.array(int(row.max)).astype(dtype.numpy()), integers).astype(dtype.numpy())
            return cast(np.asarray(numbers, np.float64), dtype)

    def _pool(self, value: onnx_ir.Value, dtype: DataType) -> tuple[Array, Array]:
        """Return the required values of the input, and all useful ones, in an order that mixes them."""
        row, need = element_type(dtype), self.needs[value.name or ""]
        if row.kind is Kind.BOOLEAN:
            return (every := np.array([False, True])), every
        if row.kind is Kind.STRING:
            texts = [*(text for text in need.demanded if isinstance(text, str)), *self._texts]
            return (every := np.array(texts, object)), every
        if row.kind is Kind.COMPLEX:
            parts, rng = classes_of_values(DataType.FLOAT, self._targets), np.random.default_rng(0)
            mixed = np.concatenate(parts).astype(dtype.numpy())
            mixed.imag = np.concatenate([*map(rng.permutation, parts)])
            return mixed[: len(parts[0])], mixed
        required, pool = classes_of_values(dtype, self._targets)
        needed = neighbourhood([*need.demanded, *need.wanted], dtype)
        required, pool = np.concatenate([needed, required]), np.concatenate([needed, required, pool])
        if row.kind is Kind.INTEGER and (math.isfinite(need.low) or math.isfinite(need.high)):
            required, pool = (within(values, need, dtype) for values in (required, pool))
        if row.kind is Kind.INTEGER and need.nonzero:
            required, pool = (values[values.astype(np.float64) != 0] for values in (required, pool))
        return required, pool

    def _everywhere(self) -> list[float]:
        """Return the numbers of a uniform set."""
        demanded = [n for need in self.needs.values() for n in need.demanded if not isinstance(n, str)]
        constants = dict.fromkeys(number for reach in self._reaches for number in reach.wanted)
        near = [number + step for number in constants for step in (0, 1, -1)]
        common = [0.0, 1.0, -1.0, 2.0, 3.0, 0.25, -0.25, 5.0, 16.0, 100.0, -100.0, 1e4, -1e4, 1e30, -1e30]
        return list(dict.fromkeys([*demanded, *near[:96], *common]))

    def _shape(self, value: onnx_ir.Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
        if value.shape is None and value.name not in self.shapes:
            dtype = _declared(value)
            raise FeedError(
                f"the input {value.name} ({type_name(dtype)}) has no declared shape; give one (`shapes=`) or the inputs"
                " (`inputs=`)."
            )
        if value.name in self.shapes:
            return self.shapes[value.name]
        return tuple(dim if isinstance(dim, int) else sized(dim, sizes) for dim in dims_of(value))


def dims_of(value: onnx_ir.Value) -> list[int | str]:
    """Return the dimensions of an input; those without a name, or -1 as some exporters write, as `x[1]`."""
    return [
        (dim if dim >= 0 else f"{value.name}[{axis}]") if isinstance(dim, int) else dim.value or f"{value.name}[{axis}]"
        for axis, dim in enumerate(value.shape or ())
    ]


def chosen_sizes(values: Sequence[onnx_ir.Value], dims: Sizes) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Return the sizes of dimensions by name, and the shapes of inputs by theirs, that the caller has chosen.

    Raises:
        OptionError: A shape is of no input, or contradicts what the model declares or another shape.
    """
    sizes = {name: size for name, size in dims.items() if isinstance(size, int)}
    shapes = {name: tuple(shape) for name, shape in dims.items() if not isinstance(shape, int)}
    inputs = {value.name or "": value for value in values}
    for name, shape in shapes.items():
        text = "x".join(map(str, shape))
        if name not in inputs:
            raise OptionError(f"unknown input {name!r} with the shape {text}; expected {', '.join(inputs)}.")
        declared = dims_of(inputs[name]) if inputs[name].shape is not None else list(shape)
        fits = len(declared) == len(shape)
        for dim, size in zip(declared, shape, strict=False):
            fits &= size == (dim if isinstance(dim, int) else sizes.setdefault(dim, size))
        if not fits:
            raise OptionError(f"the input {name} is of the shape {'x'.join(map(str, declared))}, not {text}.")
    return sizes, shapes


def default_sizes(values: Iterable[onnx_ir.Value]) -> dict[str, int]:
    """Return a size for each symbolic dimension: large if that costs little, so that one set holds many values."""
    sizes: dict[str, int] = {}
    for value in values:
        unnamed = {dim for dim in dims_of(value) if str(dim).startswith(f"{value.name}[")}
        sizes |= dict.fromkeys(map(str, unnamed), _AMONG_OTHERS)
        names = [name for dim in value.shape or () if not isinstance(dim, int) for name in _names(dim.value)]
        rank = 0 if value.shape is None else value.shape.rank()
        size = _AMONG_OTHERS if len(set(names)) > 1 or rank > 2 else _ALONE if rank == 1 else _IN_A_ROW
        for name in names:
            size = _MEMBERS if "batch" in name.lower() and rank > 1 else size
            sizes[name] = min(size, sizes.get(name, size))
    return sizes


def sized(dim: str, sizes: Mapping[str, int]) -> int:
    """Return the size of a symbolic dimension, which may be an expression such as `past + new`."""
    if dim in sizes:
        return sizes[dim]
    try:
        symbolic = onnx_ir.SymbolicDim(dim)
        size = symbolic.evaluate({**dict.fromkeys(symbolic.free_symbols(), _AMONG_OTHERS), **sizes})
    except ValueError:  # a name that is no expression
        return _AMONG_OTHERS
    return max(0, size) if isinstance(size, int) else _AMONG_OTHERS


def _names(dim: str | None) -> list[str]:
    """Return the names in a symbolic dimension: itself, or those in its expression."""
    try:
        return sorted(onnx_ir.SymbolicDim(dim).free_symbols())
    except ValueError:  # a name that is no expression
        return [dim] if dim else []


def _is_sequence(value: onnx_ir.Value) -> bool:
    kind = value.type.elem_type if isinstance(value.type, onnx_ir.OptionalType) else value.type
    return isinstance(kind, onnx_ir.SequenceType)


def _declared(value: onnx_ir.Value) -> DataType:
    unknown = value.dtype in (None, DataType.UNDEFINED)
    if value.type is not None and (unknown or isinstance(value.type, onnx_ir.SparseTensorType)):
        kind = value.type if unknown else f"sparse_tensor({type_name(value.type.dtype)})"
        raise FeedError(f"Castsmith cannot generate inputs for {value.name} of type {kind}.")
    if value.dtype is None:
        raise FeedError(f"the input {value.name} has no known element type; give the inputs (`inputs=`).")
    return value.dtype
