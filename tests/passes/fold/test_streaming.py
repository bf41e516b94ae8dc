"""Large constants in pieces: each piece is converted and judged as it is within the whole tensor."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.io import streaming
from castsmith.ir.io.streaming import pieces
from castsmith.numerics.cast.codec import Array
from castsmith.passes.fold.conversions import BitCastTo, CastTo, Conversion, QuantizeTo
from castsmith.passes.fold.streaming import Streamed, streamed_cast
from castsmith.passes.fold.values import Known

PIECE_SIZES = (1, 2, 5, 8, 12, 1000)


@pytest.fixture(params=PIECE_SIZES)
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(streaming, "PIECE", request.param)
    return request.param


def streamed(conversion: Conversion, array: Array, dtype: DataType) -> Streamed | None:
    tensor = onnx_ir.tensor(array, name="w")
    return streamed_cast(conversion, Known(tensor.dtype, tuple(tensor.shape.numpy()), tensor=tensor), dtype)


def test_a_large_constant_is_judged_and_converted_as_if_it_were_whole(piece: int) -> None:
    """In each: one element that is disputed, and after it, in another piece, two that are undefined."""
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 4
    x[0, 1], x[1, 4], x[3, 5] = 0.75, 300, np.nan
    conversions: list[tuple[Conversion, Array, DataType]] = [
        (CastTo(DataType.INT4, 24), x, DataType.INT4),
        (CastTo(DataType.FLOAT8E4M3FN, 24, saturate=False), x, DataType.FLOAT8E4M3FN),
        (CastTo(DataType.FLOAT8E8M0, 24, round_mode="down"), np.abs(x) + 1, DataType.FLOAT8E8M0),
    ]
    for conversion, array, dtype in conversions:
        found = streamed(conversion, array, dtype)
        assert (found is None) == (piece >= x.size)
        if found is None:
            continue
        with np.errstate(all="ignore"):
            assert found.finding() == conversion.finding([array]), conversion
            tensor, expected = found.tensor(), conversion.compute([array])
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
    assert streamed(QuantizeTo(24, 0, 0, True, None, None), x, dtype=DataType.UINT8) is None
