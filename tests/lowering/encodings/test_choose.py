"""Types below 8 bits and float8e8m0: the sequences, and whole models, in ONNX Runtime against the codec."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.lowering.encodings.choose import NEEDS_BITCAST, Encoding, can_encode, encode
from castsmith.lowering.formats import NarrowPolicy, encode_array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from castsmith.numerics.types import CODED_TYPES, FLOAT8_TYPES, element_type, type_name
from tests.lowering.encodings import patterns
from tests.lowering.float8.test_lower import CPU, lower, lowered_outputs, model_of
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session
from tests.sampling import sampled

NARROW = [dtype for dtype in CODED_TYPES if dtype not in FLOAT8_TYPES]
SCALE = DataType.FLOAT8E8M0
POLICIES = {
    dtype: [NarrowPolicy()]
    if dtype is not SCALE
    else [NarrowPolicy(saturate, 28, mode) for saturate in (True, False) for mode in ("up", "down", "nearest")]
    for dtype in NARROW
}
CASES = [(dtype, policy, sequence) for dtype in NARROW for policy in POLICIES[dtype] for sequence in Encoding]


def _floats() -> list[Array]:
    """Random bits; powers of two, all subnormal ones too, and what lies just beside them and their ties; specials."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.array([1, 1.5, 1.25, 1.75, 1 + 2**-20, 2 - 2**-20, 1.5 - 2**-23, 1.25 + 2**-23])
    powers = (near * 2.0 ** np.arange(-149, 128)[:, None]).ravel().astype(np.float32)
    small = np.linspace(-9, 9, 5000).astype(np.float32)
    singles = np.concatenate([bits, powers, -powers, small, np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32)])
    nearer = np.array([1, 1 + 2**-52, 2 - 2**-52, 1.5 - 2**-52, 1.25 - 2**-50])
    doubles = (nearer * 2.0 ** np.arange(-170, 150)[:, None]).ravel()
    return [singles, np.concatenate([doubles, -doubles, rng.normal(0, 5, 20_000)])]


def _integers(dtype: DataType) -> Array:
    """Return the neighbours of powers of two, and of sums of two of them, which are ties of narrow formats."""
    info = np.iinfo(dtype.numpy())
    sums = {2**i + (2**j if j < i else 0) for i in range(64) for j in (*range(i), 64)}
    near = {sign * n + step for n in sums for sign in (-1, 1) for step in (-2, -1, 0, 1, 2)} | {int(info.min)}
    return np.array(sorted(n for n in near if info.min <= n <= info.max), dtype.numpy())


SOURCES = [
    *_floats(),
    *(patterns.all_patterns(dtype) for dtype in (DataType.FLOAT16, DataType.BFLOAT16, DataType.INT16, DataType.UINT8)),
    np.arange(-70_000, 70_000, 7, dtype=np.int32),
    *(_integers(dtype) for dtype in (DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64)),
    np.array([False, True]),
]


@pytest.mark.parametrize(
    ("to", "policy", "sequence"), sampled("encodings to codes", CASES, 9, cover=lambda case: (case[0], case[2]))
)
def test_encode(to: DataType, policy: NarrowPolicy, sequence: Encoding):
    for values in SOURCES:
        source = DataType.from_numpy(values.dtype)
        if not can_encode(source, to):
            continue
        model = sequence_model(
            lambda build, x: encode(build, x, to, policy, sequence),
            source,
            26 if sequence in NEEDS_BITCAST else 24,
        )
        expected = encode_array(values, to, policy)
        # Without BitCast nothing sees the sign of a NaN.
        with np.errstate(invalid="ignore"):
            counts = (values == values) | (sequence in NEEDS_BITCAST)
        for level in LEVELS:
            (codes,) = run(session(model, level), {"x": values})
            assert np.array_equal(codes[counts], expected[counts]), (source, level)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_cast_there_and_back_through_moves(dtype: DataType):
    body = f"""agraph (float[2,4] x) => ({type_name(dtype)}[4,2] c, float[4,2] y, int32[4,2] k) {{
        a = Cast <to = {int(dtype)}> (x) c = Transpose (a) y = Cast <to = 1> (c) k = Cast <to = 6> (c) }}"""
    x = np.array([[0.0, 1.0, 1.5, 2.5], [3.0, 0.25, 5.0, 100.0]], np.float32)
    c, y, k = lowered_outputs(model_of(body, 28), always=True, x=x)
    expected = cast(x.T.copy(), dtype)
    assert c.tolist() == encode_array(x.T.copy(), dtype, NarrowPolicy()).tolist()
    assert y.tobytes() == cast(expected, DataType.FLOAT).tobytes()
    assert k.tolist() == cast(expected, DataType.INT32).tolist()


@pytest.mark.parametrize("dtype", NARROW)
def test_packed_weights_become_a_byte_each(dtype: DataType):
    row = element_type(dtype)
    values = (np.arange(20) % 2**row.bits).astype(np.uint8).view(dtype.numpy())
    model = model_of("agraph (float[20] x) => (float[20] y) { v = Cast <to = 1> (w) y = Add (v, x) }", 28, w=values)
    (y,) = lowered_outputs(onnx_ir.from_proto(onnx_ir.to_proto(model)), x=np.zeros(20, np.float32))
    assert y.tobytes() == (cast(values, DataType.FLOAT) + np.float32(0)).tobytes()


@pytest.mark.parametrize("dtype", [DataType.INT4, DataType.UINT4, DataType.INT2, DataType.UINT2])
@pytest.mark.parametrize("zero", [0, 1])
def test_quantize_to_integers(dtype: DataType, zero: int):
    body = f"""agraph (float[3,N] x, float[3] s) => ({type_name(dtype)}[3,N] q, float[3,N] y) {{
        q = QuantizeLinear <axis = 0> (x, s, z) y = DequantizeLinear <axis = 0> (q, s, z) }}"""
    x = np.random.default_rng(0).normal(0, 4, (3, 500)).astype(np.float32)
    x[0, :4] = np.nan, np.inf, -np.inf, 1e30
    scale, zeros = np.array([0.5, 0.3, 2.0], np.float32), np.full(3, zero, np.int8).astype(dtype.numpy())
    model = model_of(body, 25, z=zeros)
    q, y = lowered_outputs(model, always=True, x=x, s=scale)
    expected = quantize_linear(x, scale, zeros, axis=0, opset=25)
    assert q.tolist() == expected.view(np.uint8).tolist()
    assert y.tobytes() == dequantize_linear(expected, scale, zeros, axis=0, opset=25).tobytes()


def test_microscaling_blocks():
    body = """agraph (float[2,64] x) => (float[2,64] y) {
        q = QuantizeLinear <axis = 1, block_size = 32, output_dtype = 23> (x, s)
        y = DequantizeLinear <axis = 1, block_size = 32, output_dtype = 1> (q, s) }"""
    scale = np.array([[120, 127], [130, 126]], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    x = np.random.default_rng(3).normal(0, 3, (2, 64)).astype(np.float32)
    (y,) = lowered_outputs(model_of(body, 24, s=scale), x=x)
    q = quantize_linear(x, scale, axis=1, block_size=32, output_dtype="float4e2m1", opset=24)
    expected = dequantize_linear(q, scale, axis=1, block_size=32, output_dtype="float", opset=24)
    assert y.tobytes() == expected.tobytes()


def test_only_the_types_that_must_go_become_codes():
    body = """agraph (float[N] x, float8e4m3fn[N] a, float8e5m2[N] b, int64[M] i) => (float8e4m3fn[M] c, float[N] d) {
        c = Gather (a, i) d = Cast <to = 1> (b) }"""
    model = model_of(body, 21)
    result = lower(model, CPU)
    assert [value.dtype for value in model.graph.inputs[1:3]] == [DataType.UINT8, DataType.FLOAT8E5M2]
    assert "Gather of float8e4m3fn" in result.records.rewrites[0].reason


def test_a_reason_names_the_values_own_type():
    body = "agraph (float8e5m2[N] x, float8e4m3fn[N] z) => (float[N] y) { a = Cast <to = 1> (x) y = Cast <to = 1> (z)}"
    records = lower(model_of(body, 21)).records
    reasons = {rewrite.site.node: rewrite.reason for rewrite in records.rewrites if rewrite.rule == "store-as-codes"}
    assert reasons["x"].endswith("has no float8e5m2")
    assert reasons["z"].endswith("has no float8e4m3fn")
