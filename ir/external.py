"""Laying weights out in data files beside a model, and writing those.

Every tensor of a page or more begins at a multiple of 64 KiB, so that any system can map it by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import onnx_ir

from castsmith.ir.atomic import flush, new_file, publish
from castsmith.ir.pieces import write_tensor

_PAGE = 1 << 12
_MAPPING_UNIT = 1 << 16
_VECTOR = 64


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor and where it begins in its data file."""

    tensor: onnx_ir.TensorProtocol
    offset: int


def shards_of(tensors: Iterable[onnx_ir.TensorProtocol], limit: int | None) -> list[list[Placed]]:
    """The tensors laid out in order, each file of at most `limit` bytes or of a single tensor."""
    shards: list[list[Placed]] = [[]]
    end = 0
    for tensor in tensors:
        offset = _aligned(end, tensor.nbytes)
        if limit is not None and offset + tensor.nbytes > limit and shards[-1]:
            shards.append([])
            offset = 0
        shards[-1].append(Placed(tensor, offset))
        end = offset + tensor.nbytes
    return shards


def write_shards(folder: Path, name: str, shards: Sequence[Sequence[Placed]]) -> list[Path]:
    """Write one data file for each shard, under names that no file had, and return those: all of them or none."""
    written: list[Path] = []
    with ExitStack() as on_failure:
        for index, shard in enumerate(shards, start=1):
            wanted = name if len(shards) == 1 else f"{name}-{index:05}-of-{len(shards):05}"
            with new_file(folder / wanted) as (file, part):
                for placed in shard:
                    file.seek(placed.offset)
                    write_tensor(placed.tensor, file)
                flush(file)
                written.append(publish(part, folder / wanted))
                on_failure.callback(written[-1].unlink, missing_ok=True)
        on_failure.pop_all()
    return written


def external_tensor(placed: Placed, path: Path, name: str) -> onnx_ir.ExternalTensor:
    """The tensor as the entry that names its place in the data file at `path`."""
    tensor = placed.tensor
    return onnx_ir.ExternalTensor(
        path.name,
        placed.offset,
        tensor.nbytes,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
        base_dir=path.parent,
    )


def _aligned(offset: int, size: int) -> int:
    unit = _MAPPING_UNIT if size >= _PAGE else _VECTOR
    return -(-offset // unit) * unit
