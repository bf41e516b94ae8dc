"""Data files that a model leaves behind when another is saved over it."""

from __future__ import annotations

import re
from pathlib import Path

import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.loading import load
from castsmith.ir.tensors import all_tensors


def superseded_data(path: Path, model: onnx_ir.Model | None) -> list[Path]:
    """The data files named after the model at `path` that it refers to, less those that `model` still reads.

    model: None where nothing that is in memory will be read any more.
    """
    own_name = re.compile(re.escape(path.name) + r"\.data(-\d{5}-of-\d{5})?(\.\d+)?")
    if not path.is_file() or not any(own_name.fullmatch(file.name) for file in path.parent.iterdir()):
        return []
    try:
        old = load(path)
    except ModelError:
        return []
    named = {
        file for file in _data_files(old) if own_name.fullmatch(file.name) and file.parent == path.parent.resolve()
    }
    return sorted(named if model is None else named - _data_files(model))


def drop_superseded(path: Path, files: list[Path]) -> None:
    """Remove the files that a model at `path` left, but for those that the one which is there now refers to."""
    for file in set(files) - _data_files(load(path)) if files else ():
        file.unlink(missing_ok=True)


def _data_files(model: onnx_ir.Model) -> set[Path]:
    return {Path(tensor.path).resolve() for tensor in all_tensors(model) if isinstance(tensor, onnx_ir.ExternalTensor)}
