"""The encoding and decoding sequences, run in ONNX Runtime, against the codec: bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import Builder
from castsmith.lowering.encodings.choose import NEEDS_BITCAST, Encoding, decode, encode
from castsmith.lowering.encodings.ladder import encode_ladder, round_in_place
from castsmith.lowering.formats import NarrowPolicy, all_codes, encode_array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.types import CODED_TYPES, FLOAT8_TYPES, HALF_TYPES, NUMERIC_TYPES, Kind, element_type
from tests.lowering.encodings import patterns
from tests.lowering.encodings.exhaustive import ROUNDERS
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session
from tests.sampling import sampled

OPSETS = {
    Encoding.BITCAST: (26,),
    Encoding.TABLE: (26,),
    Encoding.LADDER: (19, 23, 24, 25),
}
CASES = [
    pytest.param(sequence, opset, to, saturate, id=f"{sequence.value}-{opset}-{to.short_name()}-{saturate}")
    for sequence, opsets in OPSETS.items()
    for opset in opsets
    for to in FLOAT8_TYPES
    for saturate in (True, False)
]
INTEGERS = [t for t in NUMERIC_TYPES if t.is_integer() and t.bitwidth >= 8]


def assert_encodes(
    values: Array, to: DataType, sequence: Encoding, policy: NarrowPolicy, opset: int, *, doubles: bool = False
):
    """The sequence gives the codec's codes; without BitCast NaN gives the positive NaN code."""
    source = DataType.from_numpy(values.dtype)
    model = sequence_model(lambda build, x: encode(build, x, to, policy, sequence), source, opset, doubles=doubles)
    expected = encode_array(values, to, policy)
    if sequence not in NEEDS_BITCAST and source.is_floating_point():
        with np.errstate(invalid="ignore"):
            nan = values != values
        expected = np.where(nan, encode_array(np.full(1, np.nan, np.float32), to, policy), expected)
    for level in LEVELS:
        (codes,) = run(session(model, level), {"x": values})
        wrong = np.flatnonzero(codes != expected)
        assert not wrong.size, [(values[i], hex(codes[i]), hex(expected[i])) for i in wrong[:5]]


def settings_of_case(case: Any) -> Iterable[object]:
    return enumerate(case.values)


@pytest.mark.parametrize(
    ("sequence", "opset", "to", "saturate"),
    sampled("encodings", CASES, 10, cover=settings_of_case),
)
class TestEncode:
    def test_float32(self, sequence: Encoding, opset: int, to: DataType, saturate: bool):
        policy, reach = NarrowPolicy(saturate, opset), 1500 if opset in (19, 26) else 20
        assert_encodes(patterns.float32_around(to, reach), to, sequence, policy, opset)

    @pytest.mark.parametrize("source", [DataType.FLOAT16, DataType.BFLOAT16], ids=["f16", "bf16"])
    def test_every_16_bit_float(self, sequence: Encoding, opset: int, to: DataType, saturate: bool, source: DataType):
        assert_encodes(patterns.all_patterns(source), to, sequence, NarrowPolicy(saturate, opset), opset)

    def test_double_rounds_once(self, sequence: Encoding, opset: int, to: DataType, saturate: bool):
        values, policy = patterns.float64_around(to), NarrowPolicy(saturate, opset)
        for doubles in (False, True):
            assert_encodes(values, to, sequence, policy, opset, doubles=doubles)

    def test_integers_and_bool(self, sequence: Encoding, opset: int, to: DataType, saturate: bool):
        for source in INTEGERS:
            every = source.bitwidth <= 16
            values = patterns.all_patterns(source) if every else patterns.integers_around(source, to)
            assert_encodes(values, to, sequence, NarrowPolicy(saturate, opset), opset)
        assert_encodes(np.array([False, True]), to, sequence, NarrowPolicy(saturate, opset), opset)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("opset", [19, 26])
@pytest.mark.parametrize("stored", FLOAT8_TYPES)
def test_decode_every_code_to_every_type(stored: DataType, opset: int, flat: bool):
    policy = NarrowPolicy(saturate=False, opset=opset)
    for to in (t for t in NUMERIC_TYPES if t.bitwidth >= 8 and t not in (stored, DataType.FLOAT8E8M0)):
        model = sequence_model(
            lambda build, x, to=to: decode(build, x, stored, to, policy), DataType.UINT8, opset, flat_look_up=flat
        )
        expected = cast(all_codes(stored), to, saturate=False, opset=opset)
        for level in LEVELS:
            (values,) = run(session(model, level), {"x": np.arange(256, dtype=np.uint8)})
            assert values.tobytes() == expected.tobytes(), (stored, to)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 2), (2, 3, 2)])
@pytest.mark.parametrize("declared", [True, False])
def test_a_flat_look_up_keeps_the_shape(shape: tuple[int, ...], declared: bool):
    names = [f"D{axis}" for axis in range(len(shape))]
    stored, to = DataType.FLOAT8E4M3FN, DataType.FLOAT
    model = sequence_model(
        lambda build, x: decode(build, x, stored, to), DataType.UINT8, 19, shape=shape if declared else names
    )
    codes = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    for level in LEVELS:
        (values,) = run(session(model, level), {"x": codes})
        assert np.array_equal(values, cast(codes.view(stored.numpy()), to))
        assert values.shape == shape


ROUNDINGS = [
    (sequence, to, saturate, opset)
    for sequence in ROUNDERS
    for to in FLOAT8_TYPES
    for saturate in (True, False)
    for opset in (19, 24, 26)
    if opset >= 26 or sequence not in NEEDS_BITCAST
]


@pytest.mark.parametrize(
    ("sequence", "to", "saturate", "opset"), sampled("roundings in place", ROUNDINGS, 16, cover=enumerate)
)
def test_rounding_in_place(sequence: Encoding, to: DataType, saturate: bool, opset: int):
    policy, values = NarrowPolicy(saturate, opset), patterns.float32_around(to, 200)
    model = sequence_model(lambda build, x: ROUNDERS[sequence](build, x, to, policy), DataType.FLOAT, opset)
    expected = cast(encode_array(values, to, policy).view(to.numpy()), DataType.FLOAT).view(np.uint32)
    for level in LEVELS:
        (rounded,) = run(session(model, level), {"x": values})
        # The codec has one NaN of each sign, arithmetic passes on the one that came in.
        wrong = (rounded.view(np.uint32) != expected) & ~(np.isnan(rounded) & np.isnan(expected.view(np.float32)))
        assert not wrong.any(), [(values[i], rounded[i]) for i in np.flatnonzero(wrong)[:5]]


SIGNED = [dtype for dtype in CODED_TYPES if element_type(dtype).kind is Kind.FLOATING and element_type(dtype).signed]
LIMITS = [
    (to, NarrowPolicy(saturate, opset), write)
    for to in (*SIGNED, *HALF_TYPES)
    for saturate in (True, False)
    for opset in (23, 24)
    for write in ((encode_ladder, round_in_place) if to in CODED_TYPES else (round_in_place,))
]


def limits(to: DataType, source: DataType) -> Array:
    """Numbers of each binade's ends and of the largest, halfway to the next, and those beside them, and specials."""
    row, dtype = element_type(to), source.numpy()
    least = 2.0 ** (row.min_exponent - row.mantissa_bits)
    step = 2.0 ** (math.floor(math.log2(float(row.max))) - row.mantissa_bits)
    few = [least * times for times in (0.5, 1, 1.5, 2.5)] + [2.0**row.min_exponent * times for times in (1, 2)]
    many = [
        1.0,
        1 + 2.0 ** -(row.mantissa_bits + 1),
        *(float(row.max) + step * steps for steps in (-1, -0.5, 0, 0.5, 1)),
    ]
    with np.errstate(over="ignore"):
        centers = np.array([*few, *many, 2 * float(row.max), 0.0], np.float64).astype(dtype)
        centers = np.append(centers, np.finfo(dtype).max)
        beside = np.nextafter(centers, np.array(np.inf, dtype)), np.nextafter(centers, np.array(-np.inf, dtype))
    numbers = np.concatenate([centers, *beside, np.array([np.inf, np.nan], dtype)])
    return np.concatenate([numbers, -numbers])


@pytest.mark.parametrize(
    ("source", "doubles"), [(DataType.FLOAT, False), (DataType.DOUBLE, False), (DataType.DOUBLE, True)]
)
def test_limits_of_each_type(source: DataType, doubles: bool) -> None:
    values = np.concatenate([limits(to, source) for to in (*SIGNED, *HALF_TYPES)])

    def write_all(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
        results = [build.cast(write(build, x, to, policy), source) for to, policy, write in LIMITS]
        return build.op("Concat", *results, axis=0)

    (rows,) = run(session(sequence_model(write_all, source, 19, doubles=doubles)), {"x": values})
    for (to, policy, write), row in zip(LIMITS, np.split(rows, len(LIMITS)), strict=True):
        if write is encode_ladder:
            nan = encode_array(np.array([np.nan], np.float32), to, policy)
            expected = np.where(np.isnan(values), nan, encode_array(values, to, policy)).astype(row.dtype)
        else:
            rounded = cast(values, to, saturate=policy.saturate, opset=max(policy.opset, FIRST_OPSET[to]))
            expected = np.where(np.isnan(values), np.nan, cast(rounded, source))
        wrong = ~np.isnan(expected) | ~np.isnan(row)
        wrong &= (row != expected) | (np.signbit(row) != np.signbit(expected))
        assert not wrong.any(), (to, policy, write, values[wrong], row[wrong], expected[wrong])


@pytest.mark.parametrize("source", [DataType.FLOAT, DataType.DOUBLE])
def test_limits_of_each_type_by_bits_and_tables(source: DataType) -> None:
    values = np.concatenate([limits(to, source) for to in FLOAT8_TYPES])
    cases = [
        (to, NarrowPolicy(saturate, opset), sequence)
        for to in (*FLOAT8_TYPES, DataType.FLOAT4E2M1)
        for saturate in (True, False)
        for opset in (23, 24)
        for sequence in (Encoding.BITCAST, Encoding.TABLE)
    ]

    def write_all(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
        return build.op("Concat", *(encode(build, x, *case) for case in cases), axis=0)

    (rows,) = run(session(sequence_model(write_all, source, 26)), {"x": values})
    for (to, policy, sequence), row in zip(cases, np.split(rows, len(cases)), strict=True):
        wrong = row != encode_array(values, to, policy)
        assert not wrong.any(), (to, policy, sequence, values[wrong], row[wrong])


def test_tables_are_as_small_as_the_type_allows() -> None:
    for to, entries in (
        (DataType.FLOAT8E4M3FN, 1 << 14),
        (DataType.FLOAT8E5M2, 1 << 13),
        (DataType.FLOAT8E8M0, 1 << 12),
    ):
        model = sequence_model(lambda b, x, to=to: encode(b, x, to, NarrowPolicy(), Encoding.TABLE), DataType.FLOAT, 26)
        assert [*model.graph.initializer[0].dims] == [entries]


def test_a_ladder_gives_a_negative_nan_the_positive_code_and_bitcast_keeps_its_sign():
    minus_nan = np.array([0xFFC00000], np.uint32).view(np.float32)
    codes: dict[Encoding, int] = {}
    for sequence, (opset, *_) in OPSETS.items():
        model = sequence_model(
            lambda b, x, s=sequence: encode(b, x, DataType.FLOAT8E4M3FN, NarrowPolicy(), s), DataType.FLOAT, opset
        )
        codes[sequence] = int(run(session(model), {"x": minus_nan})[0][0])
    assert codes == {Encoding.BITCAST: 0xFF, Encoding.TABLE: 0xFF, Encoding.LADDER: 0x7F}


def test_strings_are_refused():
    def write(build: Builder, x: object) -> object:
        return encode(build, x, DataType.FLOAT8E5M2, NarrowPolicy(), Encoding.LADDER)  # pyright: ignore

    with pytest.raises(ModelError, match="string to float8e5m2"):
        sequence_model(write, DataType.STRING, 19)  # pyright: ignore
