"""Large constants in pieces: each piece is converted and judged as it is within the whole tensor."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.io import streaming
from castsmith.ir.io.streaming import pieces
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.errors import QuantizeError
from castsmith.passes.fold.conversions import BitCastTo, CastTo, Conversion, DequantizeTo, QuantizeTo
from castsmith.passes.fold.streaming import Streamed, runs, streamed_conversion
from castsmith.passes.fold.values import Known

SIZES = ((7,), (24,), (5, 3), (2, 3, 4), (3, 8, 2), (1, 6, 5), (4, 1, 3))
PIECE_SIZES = (1, 2, 5, 8, 12, 1000)


@pytest.fixture(params=PIECE_SIZES)
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(streaming, "PIECE", request.param)
    return request.param


def scales_of(shape: tuple[int, ...], axis: int, block_size: int) -> Array:
    """Scales for the axis: for each slice, or for each block."""
    sizes = list(shape)
    if block_size:
        sizes[axis] = -(-sizes[axis] // block_size)
    else:
        sizes = [shape[axis]]
    return (np.arange(1, np.prod(sizes) + 1) / 8).astype(np.float32).reshape(sizes)


def cases() -> list[tuple[tuple[int, ...], int, int]]:
    """Shapes with an axis and a size of blocks: none for one scale for each slice, -1 for one scale for all."""
    found = [(shape, axis, size) for shape in SIZES for axis in range(len(shape)) for size in (-1, 0, 1, 2, 3)]
    return [(shape, axis, size) for shape, axis, size in found if size < 1 or len(shape) > 1 or shape[0] > size]


def test_runs_are_the_tensor_in_order_with_their_scales(piece: int) -> None:
    for shape, axis, block_size in cases():
        x: Array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        scale: Array = np.array(0.25, np.float32) if block_size < 0 else scales_of(shape, axis, block_size)
        zero: Array = (scale * 8).astype(np.uint8)
        size = max(block_size, 0)
        expected = DequantizeTo(24, axis, size, None).compute([x, scale, zero])
        for given in [zero, None]:
            made: list[Array] = []
            start = 0
            for run in runs(shape, scale, given, axis, size):
                part = x.reshape(-1)[start : start + run.size]
                conversion = DequantizeTo(24, run.axis, run.block_size, None)
                made.append(conversion.compute(run.arrays(part)).reshape(-1))
                start += run.size
                slice_size = int(np.prod(shape[axis + 1 :]))
                assert run.size <= max(piece, slice_size * max(size, 1) if size else 1), (shape, axis, block_size)
            assert start == x.size
            whole = expected if given is not None else DequantizeTo(24, axis, size, None).compute([x, scale])
            np.testing.assert_array_equal(np.concatenate(made), whole.reshape(-1), err_msg=f"{shape} {axis} {size}")


def streamed(conversion: Conversion, *arrays: Array, dtype: DataType) -> Streamed | None:
    tensors = [onnx_ir.tensor(array, name="w") for array in arrays]
    operands = [Known(each.dtype, tuple(each.shape.numpy()), tensor=each) for each in tensors]
    arrays_of = {known: tensor.numpy() for known, tensor in zip(operands, tensors, strict=True)}
    return streamed_conversion(conversion, operands, dtype, arrays_of.__getitem__)


def test_a_large_constant_is_judged_and_converted_as_if_it_were_whole(piece: int) -> None:
    """In each: one element that is disputed, and after it, in another piece, two that are undefined."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 4
    x[0, 1], x[1, 4], x[3, 5] = 0.75, 300, np.nan
    scale, zero = np.array([1, 2, 4, 8], np.float32), np.array([0, 1, 0, 1], np.int8)
    conversions: list[tuple[Conversion, list[Array], DataType]] = [
        (CastTo(DataType.INT4, 24), [x], DataType.INT4),
        (CastTo(DataType.FLOAT8E4M3FN, 24, saturate=False), [x], DataType.FLOAT8E4M3FN),
        (CastTo(DataType.FLOAT8E8M0, 24, round_mode="down"), [np.abs(x) + 1], DataType.FLOAT8E8M0),
        (QuantizeTo(24, 0, 0, True, None, None), [x, scale, zero], DataType.INT8),
        (QuantizeTo(24, 1, 3, False, DataType.FLOAT8E5M2, None), [x, x[:, :2] + 1], DataType.FLOAT8E5M2),
        (
            DequantizeTo(24, 0, 0, DataType.FLOAT16),
            [np.arange(24, dtype=np.int8).reshape(4, 6), scale],
            DataType.FLOAT16,
        ),
    ]
    for conversion, arrays, dtype in conversions:
        found = streamed(conversion, *arrays, dtype=dtype)
        assert (found is None) == (piece >= x.size)
        if found is None:
            continue
        with np.errstate(all="ignore"):
            assert found.finding() == conversion.finding(arrays), conversion
            tensor, expected = found.tensor(), conversion.compute(arrays)
            parts = list(pieces(tensor))
        assert (tensor.dtype, tuple(tensor.shape.numpy())) == (dtype, x.shape)
        assert max(part.size for part in parts) <= max(piece, 1)
        joined = np.concatenate([part.reshape(-1) for part in parts])
        assert joined.tobytes() == expected.tobytes(), conversion
        assert tensor.numpy().tobytes() == expected.tobytes(), conversion


def test_a_large_constant_that_is_not_converted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "PIECE", 2)
    text, x = np.array(["1", "2", "3"], object), np.zeros((2, 3), np.float32)
    assert streamed(CastTo(DataType.FLOAT, 24), text, dtype=DataType.FLOAT) is None
    assert streamed(CastTo(DataType.STRING, 24), x, dtype=DataType.STRING) is None
    assert streamed(BitCastTo(DataType.INT32, 26), x, dtype=DataType.INT32) is None
    assert streamed(CastTo(DataType.FLOAT16, 24), x, dtype=DataType.FLOAT16) is not None
    with pytest.raises(QuantizeError):
        streamed(QuantizeTo(24, 0, 0, True, None, None), x, np.ones(3, np.float32), dtype=DataType.UINT8)
