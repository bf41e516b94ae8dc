"""Status of the elements of QuantizeLinear and DequantizeLinear in the schemas, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from castsmith.numerics.cast.convert import CHUNK, cast
from castsmith.numerics.errors import ElementTypeError, QuantizeError
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from tests.numerics import oracle
from tests.numerics.quantize.judged import dequantize_reason, dequantize_status, quantize_reason, quantize_status

F32, F16 = np.float32, np.float16
NAN, INF = np.nan, np.inf


def f32(value: Any) -> np.ndarray:
    return np.array(value, F32)


def f16(value: Any) -> np.ndarray:
    return np.array(value, F16)


def test_float_over_float_to_integers_is_defined_but_for_nan() -> None:
    x = np.array([0, -0.0, 1e30, INF, -INF, NAN, 0.5], F32)
    assert quantize_status(x, f32(2), np.int8(3)).tolist() == [0, 0, 0, 0, 0, 2, 0]
    assert quantize_status(x, f32(0), np.int8(3)).tolist() == [2, 2, 0, 0, 0, 2, 0]


def test_the_precision_of_the_division_is_disputed_where_it_shows() -> None:
    x, scale = np.array([1, 100.5, 2049, 60000], F16), f16(0.1)
    plain = quantize_linear(x, scale, output_dtype="uint16")
    in_float = quantize_linear(x, scale, output_dtype="uint16", precision="float")
    assert (plain != in_float).any()
    assert quantize_status(x, scale, output_dtype="uint16").tolist() == (plain != in_float).tolist()
    assert not quantize_status(x, scale, output_dtype="uint16", precision="float").any()
    assert not quantize_status(x, scale, output_dtype="uint16", precision="float16").any()
    assert quantize_status(np.array([INF, 1], F16), f16(1), opset=21).tolist() == [1, 0]


def test_float8_outputs() -> None:
    x = np.array([1, -0.0, NAN, INF, 0], F32)
    e4m3fn, fnuz = oracle.array_of("float8e4m3fn", [0, 0x38]), oracle.array_of("float8e4m3fnuz", [0])
    assert quantize_status(x, f32(1), output_dtype="float8e4m3fn").tolist() == [0, 0, 0, 0, 0]
    assert quantize_status(x, f32(1), e4m3fn[0]).tolist() == [0, 1, 0, 0, 0]
    assert quantize_status(x, f32(1), e4m3fn[1]).tolist() == [1, 1, 0, 0, 1]
    assert quantize_status(x, f32(INF), output_dtype="float8e4m3fn").tolist() == [0, 0, 0, 1, 0]
    assert quantize_status(x, f32(1), fnuz, opset=21)[3] == 1
    assert quantize_status(x, f32(1), output_dtype="float4e2m1").tolist() == [0, 0, 2, 0, 0]


def test_dequantize() -> None:
    x = np.arange(256, dtype=np.uint8)
    assert not dequantize_status(x, f32(0.1)).any()
    assert not dequantize_status(x, f16(0.1)).any()
    two_types = dequantize_linear(x, f32(0.37), output_dtype="float16")
    in_float = cast(dequantize_linear(x, f32(0.37)), "float16")
    differs = two_types != in_float
    assert differs.any()
    assert dequantize_status(x, f32(0.37), output_dtype="float16").tolist() == differs.tolist()
    assert dequantize_status(x.astype(np.int32), f32(1), np.array(1, np.int32)).tolist() == [1] * 256
    assert dequantize_status(x, f32(INF)).tolist() == [1] + [0] * 255
    assert dequantize_status(oracle.array_of("float8e5m2", [0x7C, 0x7E]), f32(0)).tolist() == [1, 0]


def test_the_zero_point_of_a_type_whose_zero_point_should_be_0() -> None:
    """float8 and int32; other integers may have any."""
    x8, zero8 = oracle.array_of("float8e4m3fn", [0x38, 0x40]), oracle.array_of("float8e4m3fn", [0x00, 0x38, 0x80])
    assert [dequantize_status(x8, f32(1), zero).tolist() for zero in zero8] == [[0, 0], [1, 1], [0, 0]]
    whole = np.array([1, 2], np.int32)
    assert [dequantize_status(whole, f32(1), np.int32(zero)).tolist() for zero in (0, 1)] == [[0, 0], [1, 1]]
    assert dequantize_status(whole.astype(np.int8), f32(1), np.int8(1)).tolist() == [0, 0]
    finding = dequantize_reason(x8, f32(1), zero8[1])
    assert finding is not None
    assert finding.reason == "the zero point of float8e4m3fn should be 0"


def test_scales_along_an_axis_beside_a_size_of_blocks() -> None:
    """The blocks are for scales of as many dimensions as the tensor."""
    x, scale = f32([[1, 2, 3], [4, 5, 6]]), f32([1, 2, 3])
    assert (
        quantize_linear(x, scale, block_size=2).tolist() == quantize_linear(x, scale).tolist() == [[1] * 3, [4, 2, 2]]
    )
    assert quantize_linear(x, f32([[1, 2], [2, 4]]), block_size=2).tolist() == [[1, 2, 2], [2, 2, 2]]


def test_the_reason_names_the_first_of_the_worst() -> None:
    x = np.ones((3, CHUNK), F32)
    x[2, 5], x[1, CHUNK - 1] = NAN, NAN
    finding = quantize_reason(x, np.ones(3, F32), axis=0)
    assert finding is not None
    assert (finding.index, finding.value, finding.reason) == ((1, CHUNK - 1), "nan", "NaN has no value in uint8")
    assert quantize_status(x, np.ones(3, F32), axis=0).sum() == 4
    transposed = quantize_reason(x.T, np.ones(3, F32), axis=1)
    assert transposed is not None
    assert transposed.index == (5, 2)
    assert quantize_reason(x[0], f32(1)) is None
    finding = dequantize_reason(np.array([5], np.int32), f32(1), np.array(1, np.int32))
    assert finding is not None
    assert finding.reason == "the zero point of int32 should be 0"


@pytest.mark.parametrize(
    ("arguments", "settings", "text"),
    [
        ((f32([1]), f32(1)), {"opset": 9}, "unsupported opset 9 for QuantizeLinear; supported are 10 to 28"),
        ((f32([1]), f32(1)), {"opset": 12, "axis": 0}, "no axis at opset 12; it needs opset 13"),
        ((f32([1]), f32(1)), {"opset": 18, "saturate": False}, "no saturate at opset 18; it needs opset 19"),
        ((f32([1]), f32(1)), {"opset": 19, "block_size": 2}, "no block_size at opset 19; it needs opset 21"),
        ((f32([1]), f32(1)), {"opset": 21, "precision": "float"}, "no precision at opset 21; it needs opset 23"),
        ((f16([1]), f32(1)), {"opset": 21}, "of one type, not float16 and float"),
        ((f32([[1, 2]]), f32([1, 2, 3])), {}, r"scale of shape \(3,\) fits neither"),
        ((f32([[1, 2]]), f32([1, 2])), {"axis": 2}, "axis 2 is out of range for a tensor of rank 2"),
        ((f32([[1, 2]]), f32([[1, 2]])), {}, r"scale of shape \(1, 2\) fits neither"),
        ((f32([[1, 2, 3]]), f32([[1]])), {"block_size": 2}, r"need a scale of shape \(1, 2\), not \(1, 1\)"),
        ((f32([[1, 2]]), f32([1, 2])), {"block_size": -1}, "block_size must be positive"),
        ((f32([[1, 2]]), f32([1, 2]), np.uint8(1)), {}, "they must agree"),
        ((f32([1]), f32(1), np.uint8(1)), {"output_dtype": "int8"}, "is uint8 and not int8"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[Any, ...], settings: dict[str, Any], text: str) -> None:
    for function in (quantize_linear, quantize_status, quantize_reason):
        with pytest.raises(QuantizeError, match=text):
            function(*arguments, **settings)


def test_types_that_the_opset_lacks_are_refused_by_name() -> None:
    with pytest.raises(ElementTypeError, match="does not support double as x"):
        quantize_linear(1.0, f32(1))
    with pytest.raises(ElementTypeError, match="does not support int4 as y at opset 19; it needs opset 21"):
        quantize_linear(f32(1), f32(1), np.zeros((), oracle.INTS["int4"].dtype), opset=19)
    with pytest.raises(ElementTypeError, match="invalid precision int8"):
        quantize_linear(f32(1), f32(1), precision="int8")
    with pytest.raises(ElementTypeError, match="does not support float8e8m0 as y"):
        dequantize_linear(np.uint8(1), oracle.array_of("float8e8m0", 127))
    with pytest.raises(ElementTypeError, match="does not support int64 as x"):
        dequantize_linear(np.int64(1), f32(1))
    with pytest.raises(QuantizeError, match="is int8 and not uint8"):
        dequantize_linear(np.uint8(1), f32(1), np.int8(1))


def test_layouts_and_byte_orders() -> None:
    x = np.linspace(-300, 300, 60, dtype=F32).reshape(3, 4, 5)
    scale, zero = f32([1, 2, 3, 4]), np.arange(4, dtype=np.int8)
    want = quantize_linear(x, scale, zero)
    turned = quantize_linear(np.asfortranarray(x).astype(">f4"), scale.astype(">f4"), zero[::-1].copy()[::-1])
    assert turned.tobytes() == want.tobytes()
    assert quantize_status(x.astype(">f4"), scale.astype(">f4"), zero).shape == (3, 4, 5)
    assert quantize_linear(x[:, :, :0], scale, zero).shape == (3, 4, 0)
    assert quantize_linear(x[:0], f32(1)).shape == (0, 4, 5)
    one_by_one = [quantize_linear(x[:, i], scale[i], zero[i]) for i in range(4)]
    assert np.stack(one_by_one, 1).tobytes() == want.tobytes()


@pytest.mark.parametrize("shape", [(2, 100_000), (100_000, 3), (3, 70_000, 2), (70_000,)])
def test_chunks_join_without_a_seam(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(F32) * 50
    axis = int(np.argmax(shape))
    for block in (1, 7, 65_536, 100_000):
        sizes = [*shape]
        sizes[axis] = -(-shape[axis] // block)
        scale = np.random.default_rng(block).random(sizes).astype(F32) + 1
        wide = np.repeat(scale, block, axis).take(range(shape[axis]), axis)
        want = np.clip(np.rint(x / wide), -128, 127).astype(np.int8)
        got = quantize_linear(x, scale, output_dtype="int8", axis=axis, block_size=block)
        assert got.tobytes() == want.tobytes()
        back = dequantize_linear(got, scale, axis=axis, block_size=block)
        assert back.tobytes() == (got.astype(F32) * wide).tobytes()
