"""Reading a suite that `castsmith dev conformance export` wrote: its vectors, each file checked against its hash."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.conformance.exporting import FORMAT, MANIFEST
from castsmith.conformance.vectors import Operand, Vector
from castsmith.ir.errors import ModelError
from castsmith.numerics.status import Definedness, Span
from castsmith.numerics.types import parse_type

Array = npt.NDArray[Any]
Row = Mapping[str, Any]


def read_suite(folder: str | os.PathLike[str], match: str = "") -> Iterator[Vector]:
    """Yield the vectors of an exported suite, in the order of its manifest.

    Args:
        folder: The directory.
        match: Only vectors whose name contains this text.

    Raises:
        ModelError: The directory has no manifest, the manifest is not of this format, or a file is not what it says.
        OSError: A file cannot be read.
    """
    root = Path(folder)
    if not (root / MANIFEST).is_file():
        raise ModelError(f"{root} holds no conformance suite: it has no {MANIFEST}.")
    try:
        manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
        layout = manifest["format"]
        rows: list[Row] = [row for row in manifest["vectors"] if match in row["name"]]
        reasons: list[str] = manifest["reasons"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{root / MANIFEST} is not the manifest of a conformance suite: {error}.") from None
    if layout != FORMAT:
        raise ModelError(f"{root / MANIFEST} has format {layout}; this version reads format {FORMAT}.")
    for row in rows:
        try:
            yield _vector(root, row, reasons)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelError(f"{root / MANIFEST}: the vector {row.get('name')} is malformed: {error!r}.") from None


def _vector(root: Path, row: Row, reasons: list[str]) -> Vector:
    first, last = row["opsets"]
    spans: list[tuple[int, int, str, int]] = row["open"]
    return Vector(
        row["name"],
        row["op"],
        first,
        last,
        row["attributes"],
        [Operand(entry["name"], _elements(root, entry), entry["file"]) for entry in row["inputs"]],
        _elements(root, row["output"]),
        [Span(start, stop, Definedness[kind.upper()], reasons[why]) for start, stop, kind, why in spans],
        row["clause"],
        row["domain"],
        row.get("version", 1),
    )


def _elements(root: Path, row: Row) -> Array:
    path = (root / cast("str", row["file"])).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ModelError(f"{root / MANIFEST} names {row['file']}, which is outside the suite.")
    content = path.read_bytes()[row.get("offset", 0) :]
    if hashlib.sha256(content).hexdigest() != row["sha256"]:
        raise ModelError(f"{path} is not the file that the manifest describes: its hash differs.")
    return from_raw(content, parse_type(row["type"]), tuple(row["shape"]))


def from_raw(content: bytes, dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Return the elements that `raw_bytes` wrote.

    Raises:
        ValueError: The bytes are not so many elements.
    """
    if dtype is DataType.STRING:
        texts: list[str] = json.loads(content)
        return np.array([*texts, ""], object)[:-1].reshape(shape)  # one more: numpy must not look into a single text
    stored = np.frombuffer(content, dtype.numpy().newbyteorder("<"))
    return stored.astype(dtype.numpy(), copy=False).reshape(shape)
