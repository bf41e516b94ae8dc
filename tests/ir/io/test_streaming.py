"""Tensors in pieces, with pieces of 8 elements: in memory and in a file, computed, and of types below a byte."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.io import streaming
from castsmith.ir.io.stored import DataFile, FileTensor, Range
from castsmith.ir.io.streaming import (
    computed,
    in_threads,
    is_computed,
    is_large,
    is_stored,
    pieces,
    regrouped,
    rounded_from,
    rows,
    source_of,
    streamed,
    write_tensor,
)

TYPES = (DataType.INT2, DataType.UINT4, DataType.INT8, DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE)
SHAPES = ([1, 1], [2, 4], [3, 5], [8, 4], [5, 8], [2, 13], [7, 3], [4, 1], [2, 16])


@pytest.fixture(autouse=True)
def _pieces_of_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "PIECE", 8)
    monkeypatch.setattr(streaming, "_MAPPED", 4)


def tensor_of(dtype: DataType, shape: list[int]) -> onnx_ir.Tensor[Any]:
    numbers = np.arange(np.prod(shape)).reshape(shape) * 3 % 2
    return onnx_ir.Tensor(numbers.astype(dtype.numpy()), dtype, name="w")


def in_file(tensor: onnx_ir.Tensor[Any], folder: Path, shift: int = 8) -> FileTensor:
    """The tensor at an offset in a file, between other bytes."""
    path = folder / "data"
    path.write_bytes(b"\xff" * shift + tensor.tobytes() + b"\xff" * 16)
    return FileTensor(Range(DataFile(path), shift, tensor.nbytes), tensor)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pieces_and_rows(dtype: DataType, shape: list[int], tmp_path: Path) -> None:
    tensor = tensor_of(dtype, shape)
    whole, width = tensor.numpy(), shape[1]
    made = computed(tensor, DataType.FLOAT, lambda array: array.astype(np.float32) + 1, "made")
    stored = in_file(tensor, tmp_path)
    assert [is_stored(stored), is_stored(tensor)] == [tensor.size > 4, False]
    assert [is_computed(made), is_computed(stored), is_computed(tensor)] == [True, False, False]
    assert is_large(tensor) is (tensor.size > 8)
    for source, expected in ((tensor, whole), (stored, whole), (made, whole.astype(np.float32) + 1)):
        cut = list(pieces(source))
        assert [piece.shape for piece in cut] == [(min(8, whole.size - at),) for at in range(0, whole.size, 8)]
        assert np.concatenate(cut).tobytes() == expected.tobytes()
        for multiple in (1, 2, 3):
            together = max(1, 8 // (width * multiple)) * multiple
            lengths = [min(together, shape[0] - at) for at in range(0, shape[0], together)]
            matrices = list(rows(source, multiple))
            assert [matrix.shape for matrix in matrices] == [(length, width) for length in lengths]
            assert np.concatenate(matrices).tobytes() == expected.tobytes(), (source, multiple)
        out = io.BytesIO(b"")
        write_tensor(source, out)
        assert out.getvalue() == onnx_ir.Tensor(expected, source.dtype).tobytes()
    assert made.numpy().tobytes() == (whole.astype(np.float32) + 1).tobytes()
    assert (made.name, made.dtype, made.shape.numpy()) == ("made", DataType.FLOAT, tuple(shape))


def test_a_computed_tensor_is_computed_in_pieces() -> None:
    sizes = list[int]()

    def convert(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        sizes.append(array.size)
        return array.astype(np.float32)

    made = computed(tensor_of(DataType.INT8, [5, 8]), DataType.FLOAT, convert, "made")
    for read in (pieces, rows):
        assert len(list(read(made))) == 5
    write_tensor(made, io.BytesIO())
    assert sizes == [8] * 15


def test_what_was_read_some_arrays_ago_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not what threads may still use; at the end all of it."""
    released = list[tuple[int, int]]()

    def release(_: DataFile, offset: int, length: int) -> None:
        released.append((offset, length))

    monkeypatch.setattr(DataFile, "release", release)
    monkeypatch.setattr(streaming, "_IN_USE", 2)
    stored = in_file(tensor_of(DataType.INT8, [5, 8]), tmp_path)
    counts = [len(released) for _ in pieces(stored)]
    assert counts == [0, 0, 0, 1, 2]
    assert released == [(8 + start, 8) for start in range(0, 40, 8)]


def test_elements_in_a_file_that_are_not_aligned(tmp_path: Path) -> None:
    tensor = tensor_of(DataType.FLOAT, [4, 8])
    for piece in (cut := list(pieces(in_file(tensor, tmp_path, shift=3)))):
        assert piece.flags.aligned
    assert np.concatenate(cut).tobytes() == tensor.tobytes()


def test_a_tensor_of_a_recipe() -> None:
    """Its arrays are of any length, and its pieces of 8."""
    arrays = [np.arange(5.0), np.arange(5.0, 6.0), np.arange(6.0, 18.0)]
    tensor = streamed([3, 6], DataType.DOUBLE, lambda: iter(arrays), "w")
    assert [piece.tolist() for piece in pieces(tensor)] == [
        np.arange(8.0).tolist(),
        np.arange(8.0, 16.0).tolist(),
        [16.0, 17.0],
    ]
    assert [matrix.tolist() for matrix in rows(tensor)] == np.arange(18.0).reshape(3, 1, 6).tolist()
    assert tensor.numpy().tolist() == np.arange(18.0).reshape(3, 6).tolist()
    assert (tensor.name, tensor.dtype) == ("w", DataType.DOUBLE)
    assert (source_of(rounded_from(tensor, tensor)), source_of(tensor_of(DataType.INT8, [1, 1]))) == (tensor, None)


def test_arrays_in_other_lengths() -> None:
    for lengths in ([10], [1, 2, 7], [3, 3, 4], [4, 6]):
        found = [array.tolist() for array in regrouped([np.arange(3), np.arange(3, 4), np.arange(4, 10)], lengths)]
        ends = np.cumsum(lengths).tolist()
        assert found == [list(range(end - length, end)) for end, length in zip(ends, lengths, strict=True)]


def test_few_items_are_taken_ahead() -> None:
    """In order, and at most one more than there are threads."""
    taken, ahead = list[int](), list[int]()

    def items() -> Iterator[int]:
        for number in range(40):
            taken.append(number)
            yield number

    for number, result in enumerate(in_threads(lambda item: item * 2, items())):
        assert result == number * 2
        ahead.append(len(taken) - number)
    assert (len(ahead), max(ahead)) == (40, streaming._THREADS + 1)  # pyright: ignore[reportPrivateUsage]
