"""Mistakes of the kinds that converters make, each caught by the exported vectors alone."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.conformance.exporting import suite
from castsmith.conformance.vectors import Vector, every_type
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import ElementType, Kind, element_type
from tests.sampling import shortened

Array = npt.NDArray[Any]
Convert = Callable[[Array], Array]

WANTED = shortened("mistakes that vectors catch", 200, 180)


@dataclass(frozen=True)
class Conversion:
    """The right conversion of a vector, and the rows of its types."""

    vector: Vector
    source: ElementType
    target: ElementType

    def right(self, x: Array) -> Array:
        attributes: Any = self.vector.attributes
        settings: dict[str, Any] = {"opset": self.vector.opset, "saturate": attributes.get("saturate", 1) == 1}
        return cast(x, self.target.dtype, **settings, round_mode=attributes.get("round_mode", "up"))


def bits_of(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def _numbers(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return x.astype(np.float64)


def _where(mask: Array, wrong: Array, right: Array) -> Array:
    mistaken = right.copy()
    bits_of(mistaken)[mask] = bits_of(wrong)[mask]
    return mistaken


# Mistakes: each takes the conversion and a source of chance, and gives another conversion.


def one_boundary_off(c: Conversion, chance: random.Random) -> Convert:
    """At one boundary, found from a random input, the result of the first input is that of the input before it."""
    stored = c.source.dtype.numpy()
    last = 2**c.source.bits // (2 if c.source.signed else 1) - 1

    def output(code: int) -> int:
        return int(bits_of(c.right(np.array([code], f"u{stored.itemsize}").view(stored)))[0])

    low = chance.randrange(last)
    high = last
    before = output(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if output(middle) == before else (low, middle)
    wrong = np.array([low], f"u{stored.itemsize}").view(stored)
    return lambda x: _where(bits_of(x) == high, np.resize(c.right(wrong), x.shape), c.right(x))


def negative_zero_lost(c: Conversion, _chance: random.Random) -> Convert:
    """-0 becomes +0."""
    return lambda x: _where(_numbers(x) == 0, c.right(np.zeros_like(x)), c.right(x))


def sign_of_nan_lost(c: Conversion, _chance: random.Random) -> Convert:
    """Every NaN becomes the positive one."""
    return lambda x: _where(np.isnan(_numbers(x)), c.right(np.full(x.shape, np.nan).astype(x.dtype)), c.right(x))


def nan_is_the_maximum(c: Conversion, _chance: random.Random) -> Convert:
    return lambda x: _where(np.isnan(_numbers(x)), _top(c, x), c.right(x))


def infinity_is_the_maximum(c: Conversion, _chance: random.Random) -> Convert:
    return lambda x: _where(np.isposinf(_numbers(x)), _top(c, x), c.right(x))


def saturates_too_early(c: Conversion, _chance: random.Random) -> Convert:
    """Beyond the maximum, what rounds back to it is treated as too large."""
    top = float(c.target.max)
    return lambda x: _where((_numbers(x) > top), c.right(np.full(x.shape, np.inf).astype(x.dtype)), c.right(x))


def ignores_saturate(c: Conversion, _chance: random.Random) -> Convert:
    opposite = c.vector.attributes.get("saturate", 1) == 0
    return lambda x: cast(x, c.target.dtype, saturate=opposite, opset=c.vector.opset)


def flushes_results(c: Conversion, _chance: random.Random) -> Convert:
    """Subnormal results become zero."""
    least = 2.0**c.target.min_exponent
    return lambda x: _where(np.abs(_numbers(c.right(x))) < least, c.right(np.zeros_like(x)), c.right(x))


def flushes_inputs(c: Conversion, _chance: random.Random) -> Convert:
    least = 2.0**c.source.min_exponent
    return lambda x: _where(np.abs(_numbers(x)) < least, c.right(np.zeros_like(x)), c.right(x))


def rounds_twice(c: Conversion, chance: random.Random) -> Convert:
    between = chance.choice([DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16])
    return lambda x: Conversion(c.vector, element_type(between), c.target).right(cast(x, between))


def truncates(c: Conversion, _chance: random.Random) -> Convert:
    """Rounds toward zero: the largest number of the target that is not above the magnitude."""

    def convert(x: Array) -> Array:
        right = c.right(x)
        over = np.abs(_numbers(right)) > np.abs(_numbers(x))
        lower = right.copy()
        bits_of(lower)[over] -= 1
        return lower

    return convert


def ties_away(c: Conversion, _chance: random.Random) -> Convert:
    """A number halfway between two goes to the larger magnitude."""

    def convert(x: Array) -> Array:
        right, numbers = c.right(x), np.abs(_numbers(x))
        above = right.copy()
        bits_of(above)[:] += 1
        with np.errstate(all="ignore"):
            middle = (np.abs(_numbers(right)) + np.abs(_numbers(above))) / 2
        return _where(middle == numbers, above, right)

    return convert


def rounds_to_integers(c: Conversion, _chance: random.Random) -> Convert:
    return lambda x: c.right(cast(np.rint(_numbers(x)), c.source.dtype))


def floors(c: Conversion, _chance: random.Random) -> Convert:
    return lambda x: c.right(cast(np.floor(_numbers(x)), c.source.dtype))


def saturates_integers(c: Conversion, _chance: random.Random) -> Convert:
    """Between integers, clips where the higher bits are to be discarded."""
    low, high = int(c.target.min), int(c.target.max)
    return lambda x: np.array([min(max(int(number), low), high) for number in x.tolist()]).astype(
        c.target.dtype.numpy()
    )


def forgets_the_sign(c: Conversion, _chance: random.Random) -> Convert:
    """A negative integer is read as unsigned."""
    bits = c.source.bits

    def convert(x: Array) -> Array:
        numbers = np.array([int(number) % 2**bits for number in x.tolist()], object)
        whole = c.target.kind is Kind.INTEGER
        return (numbers % 2**64).astype(np.uint64).astype(c.target.dtype.numpy()) if whole else _as_float(numbers, c)

    return convert


def _as_float(numbers: Array, c: Conversion) -> Array:
    return cast(numbers.astype(np.float64), c.target.dtype, opset=c.vector.opset)


def nan_is_false(c: Conversion, _chance: random.Random) -> Convert:
    return lambda x: _where(np.isnan(_numbers(x)), np.zeros(x.shape, np.bool_), c.right(x))


def small_is_false(c: Conversion, _chance: random.Random) -> Convert:
    """A number below one is False: it went through an integer."""
    return lambda x: _where(np.abs(_numbers(x)) < 1, np.zeros(x.shape, np.bool_), c.right(x))


def negative_zero_is_true(_c: Conversion, _chance: random.Random) -> Convert:
    return lambda x: bits_of(x) != 0


def negative_zero_is_nan(c: Conversion, _chance: random.Random) -> Convert:
    """-0 keeps its sign bit, which is the NaN of an fnuz type."""
    nan = c.right(np.full(1, np.nan).astype(c.vector.inputs[0].elements.dtype))[0]

    def convert(x: Array) -> Array:
        numbers = _numbers(x)
        return _where((numbers == 0) & np.signbit(numbers), np.full(x.shape, nan), c.right(x))

    return convert


def other_bias(c: Conversion, _chance: random.Random) -> Convert:
    """The bias is off by one: every number is half as large."""
    return lambda x: c.right(cast(_numbers(x) / 2, c.source.dtype))


def _top(c: Conversion, x: Array) -> Array:
    return np.full(x.shape, cast(np.array(float(c.target.max)), c.target.dtype))


def mistakes_for(c: Conversion) -> list[Callable[[Conversion, random.Random], Convert]]:
    """The mistakes that can be made in a conversion between these types."""
    floating = c.source.kind is Kind.FLOATING
    if c.target.kind is Kind.BOOLEAN:
        return [nan_is_false, small_is_false, negative_zero_is_true] if floating else [one_boundary_off]
    if c.target.kind is Kind.INTEGER:
        return [rounds_to_integers, floors, one_boundary_off] if floating else [saturates_integers, forgets_the_sign]
    if not floating:
        return [one_boundary_off, rounds_twice, truncates, forgets_the_sign]
    every = [one_boundary_off, negative_zero_lost, sign_of_nan_lost, nan_is_the_maximum, infinity_is_the_maximum]
    every += [saturates_too_early, flushes_results, flushes_inputs, rounds_twice, truncates, ties_away, other_bias]
    return [*every, ignores_saturate, negative_zero_is_nan] if c.target.bits == 8 else every


def conversions() -> list[Conversion]:
    """The casts of the suite between numbers of more than one bit."""
    conversions: list[Conversion] = []
    for vector in suite(every_type()):
        if vector.op != "Cast":
            break
        source, target = element_type(vector.inputs[0].dtype), element_type(vector.output_type)
        numeric = source.kind in (Kind.INTEGER, Kind.FLOATING) and target.kind <= Kind.FLOATING
        if numeric and source is not target and target.dtype is not DataType.FLOAT8E8M0:
            conversions.append(Conversion(vector, source, target))
    return conversions


def independent_inputs(c: Conversion, seed: int) -> Array:
    """Inputs that no vector was made from: random codes, and numbers in the range of the target."""
    stored = c.source.dtype.numpy()
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2 ** min(c.source.bits, 63), 20_000).astype(f"u{stored.itemsize}").view(stored)
    if c.source.kind is not Kind.FLOATING:
        return codes
    spread = rng.uniform(-1.1, 1.1, 20_000) * min(float(c.target.max), float(c.source.max))
    specials = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        return np.concatenate([codes, np.concatenate([spread, specials]).astype(stored)])


def seeded_mistakes() -> Iterator[tuple[str, Conversion, Convert]]:
    """Yield mistakes without end, each kind as often: a conversion, and what it is replaced by."""
    chance = random.Random(5)
    by_kind: dict[Callable[[Conversion, random.Random], Convert], list[Conversion]] = {}
    for c in conversions():
        for make in mistakes_for(c):
            by_kind.setdefault(make, []).append(c)
    for make in itertools.cycle(by_kind):
        c = chance.choice(by_kind[make])
        yield f"{make.__name__} in {c.vector.name}", c, make(c, chance)


def test_mistakes_are_caught_by_the_vectors_alone() -> None:
    tried, survivors, kinds = 0, list[str](), set[str]()
    for seed, (name, c, wrong) in enumerate(seeded_mistakes()):
        data, fixed = c.vector.inputs[0].elements, c.vector.defined()
        caught = bool((bits_of(wrong(data)) != bits_of(c.vector.output))[fixed].any())
        if not caught:
            others = independent_inputs(c, seed)
            if (bits_of(wrong(others)) == bits_of(c.right(others)))[_fixed(c, others)].all():
                continue  # the same conversion: nothing to catch
            survivors.append(name)
        tried += 1
        kinds.add(name.partition(" ")[0])
        if tried == WANTED:
            break
    assert survivors == []
    assert len(kinds) >= min(20, WANTED // 2)


def _fixed(c: Conversion, x: Array) -> Array:
    from castsmith.numerics.status import cast_status

    saturate = c.vector.attributes.get("saturate", 1) == 1
    return cast_status(x, c.target.dtype, saturate=saturate, opset=c.vector.opset) == 0
