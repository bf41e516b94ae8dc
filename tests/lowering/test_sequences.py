"""The encoding and decoding sequences, run in ONNX Runtime, against the codec: bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.lowering.builder import Builder
from castsmith.lowering.codes import Policy, all_codes, encode_array
from castsmith.lowering.sequences import Sequence, decode, encode
from castsmith.numerics.cast import cast
from castsmith.numerics.types import FLOAT8_TYPES, NUMERIC_TYPES
from tests.lowering import patterns
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session

OPSETS = {Sequence.BITCAST: (26,), Sequence.TABLE: (26,), Sequence.LADDER: (19, 23, 24, 25)}
CASES = [
    pytest.param(sequence, opset, to, saturate, id=f"{sequence.value}-{opset}-{to.short_name()}-{saturate}")
    for sequence, opsets in OPSETS.items()
    for opset in opsets
    for to in FLOAT8_TYPES
    for saturate in (True, False)
]
INTEGERS = [t for t in NUMERIC_TYPES if t.is_integer() and t.bitwidth >= 8]


def assert_encodes(values: Array, to: DataType, sequence: Sequence, policy: Policy, opset: int):
    """The sequence gives the codec's codes; a ladder gives NaN the positive NaN code."""
    source = DataType.from_numpy(values.dtype)
    model = sequence_model(lambda build, x: encode(build, x, to, policy, sequence), source, opset)
    expected = encode_array(values, to, policy)
    if sequence is Sequence.LADDER and source.is_floating_point():
        with np.errstate(invalid="ignore"):
            nan = values != values
        expected = np.where(nan, encode_array(np.full(1, np.nan, np.float32), to, policy), expected)
    for level in LEVELS:
        (codes,) = run(session(model, level), {"x": values})
        wrong = np.flatnonzero(codes != expected)
        assert not wrong.size, [(values[i], hex(codes[i]), hex(expected[i])) for i in wrong[:5]]


@pytest.mark.parametrize(("sequence", "opset", "to", "saturate"), CASES)
class TestEncode:
    def test_float32(self, sequence: Sequence, opset: int, to: DataType, saturate: bool):
        policy, reach = Policy(saturate, opset), 1500 if opset in (19, 26) else 20
        assert_encodes(patterns.float32_around(to, reach), to, sequence, policy, opset)

    @pytest.mark.parametrize("source", [DataType.FLOAT16, DataType.BFLOAT16], ids=["f16", "bf16"])
    def test_every_16_bit_float(self, sequence: Sequence, opset: int, to: DataType, saturate: bool, source: DataType):
        assert_encodes(patterns.all_patterns(source), to, sequence, Policy(saturate, opset), opset)

    def test_double_rounds_once(self, sequence: Sequence, opset: int, to: DataType, saturate: bool):
        assert_encodes(patterns.float64_around(to), to, sequence, Policy(saturate, opset), opset)

    def test_integers_and_bool(self, sequence: Sequence, opset: int, to: DataType, saturate: bool):
        for source in INTEGERS:
            every = source.bitwidth <= 16
            values = patterns.all_patterns(source) if every else patterns.integers_around(source, to)
            assert_encodes(values, to, sequence, Policy(saturate, opset), opset)
        assert_encodes(np.array([False, True]), to, sequence, Policy(saturate, opset), opset)


@pytest.mark.parametrize("opset", [19, 26])
@pytest.mark.parametrize("stored", FLOAT8_TYPES)
def test_decode_every_code_to_every_type(stored: DataType, opset: int):
    policy = Policy(saturate=False, opset=opset)
    for to in (t for t in NUMERIC_TYPES if t.bitwidth >= 8 and t not in (stored, DataType.FLOAT8E8M0)):
        model = sequence_model(lambda build, x, to=to: decode(build, x, stored, to, policy), DataType.UINT8, opset)
        expected = cast(all_codes(stored), to, saturate=False, opset=opset)
        for level in LEVELS:
            (values,) = run(session(model, level), {"x": np.arange(256, dtype=np.uint8)})
            assert values.tobytes() == expected.tobytes(), (stored, to)


def test_a_ladder_gives_a_negative_nan_the_positive_code_and_bitcast_keeps_its_sign():
    minus_nan = np.array([0xFFC00000], np.uint32).view(np.float32)
    codes: dict[Sequence, int] = {}
    for sequence, (opset, *_) in OPSETS.items():
        model = sequence_model(
            lambda b, x, s=sequence: encode(b, x, DataType.FLOAT8E4M3FN, Policy(), s), DataType.FLOAT, opset
        )
        codes[sequence] = int(run(session(model), {"x": minus_nan})[0][0])
    assert codes == {Sequence.BITCAST: 0xFF, Sequence.TABLE: 0xFF, Sequence.LADDER: 0x7F}


def test_strings_are_refused():
    def write(build: Builder, x: object) -> object:
        return encode(build, x, DataType.FLOAT8E5M2, Policy(), Sequence.LADDER)  # pyright: ignore

    with pytest.raises(ModelError, match="string to float8e5m2"):
        sequence_model(write, DataType.STRING, 19)  # pyright: ignore
