"""Laying weights out in data files beside a model, and writing those.

Every tensor of a page or more begins at a multiple of 64 KiB, so that any system can map it by itself.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx_ir

from castsmith.ir.atomic import flush, new_file
from castsmith.ir.pieces import write_tensor

_PAGE = 1 << 12
_MAPPING_UNIT = 1 << 16
_VECTOR = 64


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor and where it begins in its data file."""

    tensor: onnx_ir.TensorProtocol
    offset: int


@dataclass(frozen=True)
class Draft:
    """A data file that is written but has not got its name, and the name that it is to have."""

    part: Path
    wanted: Path


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


@contextmanager
def drafted_shards(folder: Path, name: str, shards: Sequence[Sequence[Placed]], mode: int) -> Generator[list[Draft]]:
    """Write a data file for each shard, whole and on disk but without its name; gone at the end where it has none."""
    drafts: list[Draft] = []
    with ExitStack() as stack:
        for index, shard in enumerate(shards, start=1):
            wanted = folder / (name if len(shards) == 1 else f"{name}-{index:05}-of-{len(shards):05}")
            file, part = stack.enter_context(new_file(wanted))
            for placed in shard:
                file.seek(placed.offset)
                write_tensor(placed.tensor, file)
            flush(file, mode)
            drafts.append(Draft(part, wanted))
        yield drafts


def free_names(drafts: Iterable[Draft], reserved: Path) -> list[Path]:
    """For each draft the first of NAME, NAME.1, NAME.2 ... that no file has, and that is not `reserved`."""
    names: list[Path] = []
    for draft in drafts:
        count, candidate = 0, draft.wanted
        while os.path.lexists(candidate) or same_name(candidate, reserved):
            count += 1
            candidate = draft.wanted.with_name(f"{draft.wanted.name}.{count}")
        names.append(candidate)
    return names


def same_name(a: Path, b: Path) -> bool:
    """True if some file system could take the two for names of one file: case and normal form do not count."""
    left, right = (unicodedata.normalize("NFC", os.path.realpath(path)).casefold() for path in (a, b))
    return left == right


def external_tensor(placed: Placed, location: str, name: str) -> onnx_ir.ExternalTensor:
    """The tensor as the entry that names its place in the data file at `location`."""
    tensor = placed.tensor
    return onnx_ir.ExternalTensor(
        location,
        placed.offset,
        tensor.nbytes,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _aligned(offset: int, size: int) -> int:
    unit = _MAPPING_UNIT if size >= _PAGE else _VECTOR
    return -(-offset // unit) * unit
