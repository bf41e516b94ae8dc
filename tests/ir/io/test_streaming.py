"""Tensors in pieces and rows, from memory, a file, or what computes them: the same elements, whatever the sizes."""

from __future__ import annotations

import io
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.io import streaming
from castsmith.ir.io.stored import DataFile, StoredTensor
from tests.sampling import check_all

SHAPES = [(7,), (3, 5), (4, 3, 2), (64, 1), (1, 70), (9, 11)]
TYPES = (DataType.FLOAT, DataType.INT8, DataType.UINT4, DataType.INT2)


def tensors_of(array: Any, dtype: DataType, folder: Path) -> dict[str, onnx_ir.TensorProtocol]:
    """The elements in memory, in a file behind 3 other bytes, computed from others, and made one after the other."""
    plain = onnx_ir.Tensor(array, dtype)
    (folder / "data").write_bytes(b"abc" + plain.tobytes())
    shape, size = onnx_ir.Shape(array.shape), len(plain.tobytes())
    outside = onnx_ir.ExternalTensor("data", 3, size, dtype, shape=shape, name="w", base_dir=str(folder))
    numbers = onnx_ir.tensor(array.astype(np.float64))
    parts: list[Any] = np.array_split(array.reshape(-1), 3)
    return {
        "memory": plain,
        "file": StoredTensor(outside, DataFile((folder / "data").resolve())),
        "computed": streaming.computed(numbers, dtype, lambda piece: piece.astype(array.dtype), "w"),
        "streamed": streaming.streamed(array.shape, dtype, lambda: iter(parts), "w"),
    }


def require_the_elements(folder: Path, shape: tuple[int, ...], dtype: DataType, piece: int, multiple: int) -> None:
    few = 1 << min(dtype.bitwidth, 7) - (dtype in (DataType.INT2, DataType.INT8))
    array = (np.arange(np.prod(shape)) % few).astype(dtype.numpy()).reshape(shape)
    for kind, tensor in tensors_of(array, dtype, folder).items():
        pieces = [*streaming.pieces(tensor)]
        assert np.concatenate(pieces).tolist() == array.reshape(-1).tolist(), kind
        assert {len(each) for each in pieces[:-1]} <= {piece}, kind
        assert streaming.is_large(tensor) == (array.size > piece) == (len(pieces) > 1), kind
        rows = [*streaming.rows(tensor, multiple)]
        assert np.concatenate(rows).tolist() == array.reshape(-1, shape[-1]).tolist(), kind
        together = max(1, piece // (shape[-1] * multiple)) * multiple
        assert {len(each) for each in rows[:-1]} <= {together}, kind
        out = io.BytesIO()
        streaming.write_tensor(tensor, out)
        assert out.getvalue() == onnx_ir.Tensor(array, dtype).tobytes(), kind


def test_pieces_and_rows_have_the_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for piece in (8, 16, 64):
        monkeypatch.setattr(streaming, "PIECE", piece)
        check_all(require_the_elements, product([tmp_path], SHAPES, TYPES, [piece], [1, 2, 5]))


def test_arrays_are_cut_and_joined_to_lengths() -> None:
    arrays = [np.arange(0, 2), np.arange(2, 3), np.arange(3, 10)]
    assert [each.tolist() for each in streaming.regrouped(arrays, [3, 1, 6])] == [[0, 1, 2], [3], [4, 5, 6, 7, 8, 9]]


def test_results_of_threads_come_in_order_and_few_are_asked_ahead() -> None:
    taken = list[int]()

    def numbers() -> Any:
        for number in range(20):
            taken.append(number)
            yield number

    results = streaming.in_threads(lambda number: number * number, numbers())
    assert next(results) == 0
    assert len(taken) <= streaming._IN_USE  # pyright: ignore[reportPrivateUsage]
    assert [*results] == [number * number for number in range(1, 20)]
