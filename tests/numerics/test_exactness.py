"""Chains of casts: the decision against the truth, found by running both ways on values chosen independently of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.exactness import Reason, chain_collapses, witness
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import NUMERIC_TYPES, ElementType, Kind, element_type, parse_type
from tests.sampling import sampled

Array = NDArray[Any]
GOLDEN = Path(__file__).with_name("exactness_golden.txt")
HAS_SATURATE = [dtype for dtype in NUMERIC_TYPES if element_type(dtype).exponent_bits and element_type(dtype).bits == 8]
SMALLEST = (DataType.FLOAT4E2M1, DataType.INT4)
"""A few decisions are special to chains from the one or to the other."""
PEERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float double float8e4m3fn float8e5m2"


def unsigned(dtype: DataType) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.numpy().itemsize}")


@cache
def boundary_integers() -> set[int]:
    """Sums and differences of two powers of two and what is next to them: rounding ties, extremes, wraps."""
    powers = [1 << k for k in range(65)]
    pairs = {high + sign * low for high, low in itertools.product(powers, powers) for sign in (-1, 0, 1)}
    return {sign * (n + d) for n in pairs for d in (-1, 0, 1) for sign in (-1, 1)}


def boundary_floats(row: ElementType) -> Array:
    """Each value and midpoint of 16 bits or fewer, those of float32 with few or many bits set, and noise."""
    dtype, codes = row.dtype.numpy(), unsigned(row.dtype)
    narrow = [cast(sample(t), row.dtype) for t in NUMERIC_TYPES if element_type(t).bits <= 16]
    values = np.unique(np.concatenate([np.abs(v[np.isfinite(v)]) for v in narrow]).astype(np.float64))
    ties = (values[1:] + values[:-1]) / 2
    mantissas = [0, 1, 2, 3, 1 << 21, (1 << 22) - 1, 1 << 22, (1 << 22) + 1, (1 << 23) - 2, (1 << 23) - 1]
    floats = np.array([e << 23 | m for e in range(255) for m in mantissas], np.uint32).view(np.float32)
    singles = floats.astype(np.float64)
    integers = np.array([float(n) for n in boundary_integers() if n > 0])
    points = np.concatenate([values, ties, singles, singles * (1 + 2.0**-24), integers, [0.3, 0.7, 127.9, 255.9]])
    near = points.astype(dtype).view(codes)
    noise = np.random.default_rng(1).integers(0, np.iinfo(codes).max, 20_000, codes)
    every = np.concatenate([near, near + codes.type(1), near - codes.type(1), noise])
    values = np.concatenate(
        [every.view(dtype), -every.view(dtype), np.array([np.nan, -np.nan, np.inf, -np.inf], dtype)]
    )
    ordered = np.sort(values.view(codes))  # np.unique takes a hundred times as long
    return ordered[np.append(True, ordered[1:] != ordered[:-1])].view(dtype)


@cache
def sample(dtype: DataType) -> Array:
    """Every value of a type of at most 16 bits, and those of a wider one where conversions change what they do."""
    row = element_type(dtype)
    if row.bits <= 16:
        return np.arange(2**row.bits, dtype=unsigned(dtype)).view(dtype.numpy())
    if row.kind is Kind.FLOATING:
        with np.errstate(all="ignore"):
            return boundary_floats(row)
    return np.array(sorted(n for n in boundary_integers() if row.min <= n <= row.max), dtype.numpy())


def canonical(array: Array, row: ElementType) -> Array:
    """Codes as int64, NaN as -1 or -2 by its sign, for payloads mean nothing."""
    codes = array.view(unsigned(row.dtype)).astype(np.uint64).view(np.int64).copy()
    if row.kind is Kind.FLOATING and row.has_nan:
        with np.errstate(all="ignore"):
            wide = array.astype(np.float64)
        codes[np.isnan(wide)] = np.where(np.signbit(wide[np.isnan(wide)]), -1, -2)
    return codes


def same_number(x: Array, y: Array) -> Array:
    """Compare as float64, and numbers that it may have rounded as integers of Python."""
    with np.errstate(all="ignore"):
        left, right = x.astype(np.float64), y.astype(np.float64)
        same = (left == right) | ((left != left) & (right != right))
        large = same & np.isfinite(left) & (np.abs(left) >= 2.0**53)
    same[large] = x[large].astype(object) == y[large].astype(object)
    return same


class Casts:
    """Casts of the sample of each type at one opset and rounding mode, each made once."""

    def __init__(self, opset: int, round_mode: str) -> None:
        self.options: dict[str, Any] = {"opset": opset, "round_mode": round_mode}
        self.first = cache(self._first)

    def _first(self, source: DataType, to: DataType, saturate: bool) -> tuple[Array, Array, Array]:
        """The cast of the sample, its canonical codes, and how firmly the standard fixes each."""
        return self.convert(sample(source), to, saturate)

    def convert(self, x: Array, to: DataType, saturate: bool) -> tuple[Array, Array, Array]:
        y = cast(x, to, saturate=saturate, **self.options)
        return y, canonical(y, element_type(to)), cast_status(x, to, saturate=saturate, **self.options)

    def then(self, y: Array, middle: DataType, to: DataType, saturate: bool) -> tuple[Array, Array]:
        """The second cast, looked up by code where the sample of the intermediate type is all of it."""
        if element_type(middle).bits > 16:
            return self.convert(y, to, saturate)[1:]
        index = y.view(unsigned(middle))
        _, codes, status = self.first(middle, to, saturate)
        return codes[index], status[index]

    def truth_where_fixed(self, a: DataType, b: DataType, c: DataType, first: bool, second: bool) -> bool:
        """Return True if the direct cast is fixed, and the chain, for every value for which the chain is fixed."""
        (y, _, made_firm), (_, direct, direct_firm) = self.first(a, b, first), self.first(a, c, second)
        codes, firm = self.then(y, b, c, second)
        counts = (made_firm == 0) & (firm == 0)
        return bool(np.all((codes == direct)[counts] & (direct_firm == 0)[counts]))

    def truth(self, a: DataType, b: DataType, c: DataType, first: bool, second: bool) -> bool:
        """Return True if the chain equals the direct cast, by the definition in `castsmith.numerics.exactness`."""
        x, (y, _, made_firm) = sample(a), self.first(a, b, first)
        codes, firm = self.then(y, b, c, second)
        _, direct_codes, direct_firm = self.first(a, c, second)
        if b is c:
            return bool(np.all((codes == direct_codes) & (made_firm == direct_firm)))
        if not np.all((made_firm == 0) & (firm == direct_firm) & (codes == direct_codes)):
            return False
        loose = firm != 0
        return a is b or bool(np.all(same_number(x[loose], y[loose])))


casts_at = cache(Casts)


def settings_of(dtype: DataType) -> tuple[bool, ...]:
    return (True, False) if dtype in HAS_SATURATE else (True,)


def kind_and_width(dtype: DataType) -> Iterable[object]:
    return [(element_type(dtype).kind, element_type(dtype).bits > 16)]


def kind_and_special_values(dtype: DataType) -> Iterable[object]:
    """Return what decides where a cast to the type is open: sub-byte integers, infinity, NaN, zero."""
    row = element_type(dtype)
    return [(row.kind, row.specials if row.kind is Kind.FLOATING else row.bits < 8)]


def chains(types: Iterable[DataType], targets: Iterable[DataType]) -> Iterator[tuple[DataType, DataType, DataType]]:
    """Yield the chains; in a sample they begin, go on and end with types of each kind, narrow and wide."""
    yield from itertools.product(
        sampled("sources of chains", types, 4, cover=kind_and_width, always=SMALLEST.__contains__),
        sampled("intermediate types of chains", types, 6, cover=kind_and_width, combined=True),
        sampled(
            "targets of chains", targets, 5, cover=kind_and_special_values, always=SMALLEST.__contains__, combined=True
        ),
    )


def wrong_decisions(opset: int, targets: tuple[DataType, ...], round_mode: str = "up") -> list[tuple[object, ...]]:
    types = [dtype for dtype in NUMERIC_TYPES if FIRST_OPSET[dtype] <= opset]
    casts, wrong = casts_at(opset, round_mode), list[tuple[object, ...]]()
    for a, b, c in chains(types, targets):
        for first, second in itertools.product(settings_of(b), settings_of(c)):
            decision = chain_collapses(
                a,
                b,
                c,
                first_saturate=first,
                second_saturate=second,
                first_round_mode=round_mode,
                second_round_mode=round_mode,
                opset=opset,
            )
            if bool(decision) != casts.truth(a, b, c, first, second):
                wrong.append((a.name, b.name, c.name, first, second, decision))
    return wrong


def test_every_chain_of_every_type_is_decided_as_it_is() -> None:
    assert wrong_decisions(28, NUMERIC_TYPES) == []


def test_every_chain_into_float8_is_decided_as_it_is_before_fnuz_infinities_saturated() -> None:
    float8 = tuple(dtype for dtype in HAS_SATURATE if FIRST_OPSET[dtype] <= 23)
    assert wrong_decisions(23, float8) == []


@pytest.mark.parametrize("round_mode", ["down", "nearest"])
def test_every_chain_into_float8e8m0_is_decided_as_it_is_in_each_rounding_mode(round_mode: str) -> None:
    assert wrong_decisions(28, (DataType.FLOAT8E8M0,), round_mode) == []


def test_every_chain_is_decided_as_it_is_where_it_is_fixed() -> None:
    casts, wrong = casts_at(28, "up"), list[tuple[object, ...]]()
    for a, b, c in chains(NUMERIC_TYPES, NUMERIC_TYPES):
        if a is b or b is c:
            continue
        for first, second in zip(settings_of(b), settings_of(c), strict=False):
            found = chain_collapses(a, b, c, first_saturate=first, second_saturate=second, undefined_free=True)
            if bool(found) != casts.truth_where_fixed(a, b, c, first, second):
                wrong.append((a.name, b.name, c.name, first, second))
    assert wrong == []


def test_the_types_that_peers_were_measured_on_have_973_chains() -> None:
    types = [parse_type(name) for name in PEERS.split()]
    chains = [(a, b, c) for a, b, c in itertools.product(types, repeat=3) if a is not b and b is not c]
    assert len(chains) == 2940
    assert sum(bool(chain_collapses(*chain)) for chain in chains) == 973
    assert sum(bool(chain_collapses(*chain, undefined_free=True)) for chain in chains) == 1216


def test_a_witness_shows_the_difference() -> None:
    casts = casts_at(28, "up")
    for a, b, c in chains(NUMERIC_TYPES, NUMERIC_TYPES):
        decision = chain_collapses(a, b, c)
        if decision.reason is Reason.VALUE and element_type(a).bits > 8:
            x = np.array([decision.witness]).astype(a.numpy())
            chained = casts.convert(casts.convert(x, b, True)[0], c, True)[1]
            assert chained != casts.convert(x, c, True)[1], (a, b, c, decision)


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ("f16 f32 f64", Reason.EMBEDDING),
        ("i64 i32 i8", Reason.WRAPPING),
        ("f32 f32 i8", Reason.IDENTITY),
        ("i64 f32 bool", Reason.TRUTH),
        ("f64 f32 f8e4m3fn", Reason.VALUE),
        ("f32 i64 i32", Reason.OPEN),
        ("i16 f32 i8", Reason.STANDING),
        ("i64 f32 string", Reason.TEXT),
        ("f32 bf16 f32", Reason.VALUE),
        ("f8e5m2 f16 f8e5m2", Reason.VALUE),
        ("f32 i8 i8", Reason.IDENTITY),
        ("f64 f16 f16", Reason.IDENTITY),
        ("f32 f8e5m2 f8e5m2", Reason.IDENTITY),
        ("string string f32", Reason.IDENTITY),
        ("f32 string string", Reason.IDENTITY),
        ("f32 string f32", Reason.TEXT),
    ],
)
def test_each_decision_has_its_reason(chain: str, reason: Reason) -> None:
    a, b, c = chain.split()
    decision = chain_collapses(a, b, c)
    assert decision.reason is reason
    assert (witness(a, b, c) is None) == (decision.collapses or reason is Reason.TEXT)


def test_a_second_cast_to_the_type_that_the_first_one_gave() -> None:
    """With other settings it is left out, and the first one's stay; the direct cast has those of the second."""
    for names, first, second, reason in (
        ("f32 f8e4m3fn", True, False, Reason.VALUE), ("f32 f8e4m3fn", False, True, Reason.VALUE),
        ("f16 f8e5m2", True, False, Reason.VALUE), ("f4e2m1 f8e4m3fn", True, False, Reason.EMBEDDING),
        ("i8 f8e5m2fnuz", False, True, Reason.ROUNDING), ("f32 f8e4m3fn", True, True, Reason.IDENTITY),
        ("f32 f8e4m3fn", False, False, Reason.IDENTITY), ("i16 f8e4m3fn", False, True, Reason.VALUE),
    ):  # fmt: skip
        a, b = names.split()
        for free in (False, True):
            found = chain_collapses(a, b, b, first_saturate=first, second_saturate=second, undefined_free=free)
            assert found.reason is reason, (names, first, second, free)


def test_a_second_cast_to_the_same_type_with_another_rounding_mode() -> None:
    """Zero has no fixed value in float8e8m0, and the same one in each mode; 3 is rounded up to 4, or down to 2."""
    for a, second, saturate, reason in (
        ("bool", "down", True, Reason.ROUNDING), ("bool", "nearest", True, Reason.ROUNDING),
        ("bool", "down", False, Reason.VALUE), ("int2", "up", True, Reason.IDENTITY),
        ("uint2", "down", True, Reason.VALUE),
        ("f32", "up", False, Reason.STANDING), ("f32", "down", True, Reason.VALUE),
    ):  # fmt: skip
        found = chain_collapses(a, "f8e8m0", "f8e8m0", second_round_mode=second, second_saturate=saturate)
        assert found.reason is reason, (a, second, saturate)
        assert bool(found) is (reason in (Reason.ROUNDING, Reason.IDENTITY))


def test_an_infinity_that_saturates_on_the_way_back_is_the_witness() -> None:
    assert abs(witness("f8e5m2", "f32", "f8e5m2") or 0) == float("inf")
    assert witness("f8e5m2", "f32", "f8e5m2", second_saturate=False) is None


def test_what_cast_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(ElementTypeError, match="float6e2m3 at opset 24"):
        chain_collapses("f32", "f6e2m3", "f32", opset=24)
    with pytest.raises(ElementTypeError, match="complex64"):
        chain_collapses("complex64", "complex64", "f32")
    with pytest.raises(CastError, match="sideways"):
        chain_collapses("f32", "f64", "f8e8m0", second_round_mode="sideways")


GOLDEN_HEAD = """\
For each source the intermediate types, and where a chain may go on to: a cast to that type alone is the same.
Defaults of opset 28. Chains with two neighbours alike, which always collapse, are left out."""


def golden_lines(a: DataType) -> list[str]:
    """Return the lines of a source."""
    lines = list[str]()
    for b in NUMERIC_TYPES:
        found: dict[Reason, list[str]] = {}
        for c in NUMERIC_TYPES:
            if a is not b and b is not c and (decision := chain_collapses(a, b, c)):
                found.setdefault(decision.reason, []).append(c.short_name())
        lines += [f"{a.short_name()} {b.short_name()} {why.name.lower()}: {' '.join(to)}" for why, to in found.items()]
    return lines


def test_the_chains_that_collapse_are_the_ones_that_were_read() -> None:
    head, _, text = GOLDEN.read_text().partition("\n\n")
    assert head == GOLDEN_HEAD
    for a in sampled("sources of chains", NUMERIC_TYPES, 4, cover=kind_and_width):
        assert golden_lines(a) == [line for line in text.splitlines() if line.startswith(f"{a.short_name()} ")]
