"""Inputs that the caller gives: arrays by name, several sets of them, an .npz, or a folder."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.ir.errors import ModelError
from castsmith.numerics.arguments import described
from castsmith.numerics.errors import ArgumentTypeError, OptionError
from castsmith.verification.inputs.drawn import Feeds

Array = NDArray[Any]
GivenInputs = (
    str
    | os.PathLike[str]
    | Mapping[str, Array]
    | Iterable[Mapping[str, Array]]
    | Iterable[tuple[str, Mapping[str, Array]]]
)
"""Arrays by name of the input, several sets of them, with or without a name, an .npz, or a folder."""

_ONLY = "the inputs"
"""The name of a set that is given alone."""


def given_sets(model: onnx_ir.Model, inputs: GivenInputs, *, partial: bool = False) -> Iterator[tuple[str, Feeds]]:
    """Yield the sets of inputs with their names.

    Args:
        partial: A set may lack inputs, which only matters where they are read.

    Raises:
        ModelError: A file cannot be read.
        OptionError: A set has an unknown name, another value than an array or a list of arrays, or an array of another
            shape than the input; or it lacks an input.
    """
    names = [value.name or "" for value in model.graph.inputs]
    needed = [value.name or "" for value in model.graph.inputs if value.const_value is None]
    prefix = f"{os.fspath(inputs)}: " if isinstance(inputs, str | os.PathLike) else ""
    for name, feeds in _sets_by_name(inputs):
        title = prefix + (name if name == _ONLY else f"the inputs of {name}")
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"{title} must map names to arrays, not be of type {type(feeds).__name__}.")
        unknown = sorted(set(feeds) - set(names))
        if unknown:
            raise OptionError(f"{title} are for {unknown[0]!r}; expected {', '.join(names)}.")
        absent = [name for name in needed if name not in feeds]
        if absent and not partial:
            raise OptionError(f"{title} lack {absent[0]!r}.")
        contents = {key: _content(value, f"{title}: {key!r}") for key, value in feeds.items()}
        for value in model.graph.inputs:
            _require_shape(value, contents.get(value.name or ""), title)
        yield name, contents


def _require_shape(value: onnx_ir.Value, content: object, title: str) -> None:
    """Raise OptionError if an array does not have the shape that the input declares."""
    if value.shape is None or not isinstance(content, np.ndarray):
        return
    shape = list(cast("Array", content).shape)
    declared = [size if isinstance(size, int) else size.value for size in value.shape]
    sizes = zip(declared, shape, strict=False)
    if len(declared) != len(shape) or any(isinstance(size, int) and size != actual for size, actual in sizes):
        expected = ", ".join("?" if size is None else str(size) for size in declared)
        raise OptionError(f"{title}: {value.name!r} has the shape {shape}; expected [{expected}].")


def _content(value: object, title: str) -> Any:
    """Return an array, a list of arrays for a sequence, or None for an empty optional; numpy's scalars as arrays."""
    if value is None or isinstance(value, np.ndarray):
        return cast("Any", value)
    if isinstance(value, np.generic):
        return np.asarray(cast("Any", value))
    if isinstance(value, list | tuple):
        return [_content(element, title) for element in cast("Sequence[object]", value)]
    raise OptionError(f"{title} must be an array or a list of arrays, not of type {type(value).__name__}.")


def _sets_by_name(inputs: GivenInputs) -> Iterator[tuple[str, Mapping[str, Array]]]:
    if isinstance(inputs, str | os.PathLike):
        yield from stored_sets(os.fspath(inputs))
    elif isinstance(inputs, Mapping):
        yield _ONLY, cast("Mapping[str, Array]", inputs)
    else:
        if not isinstance(inputs, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"inputs must be arrays by name, sets of them, or a file, not {described(inputs)}.")
        for number, item in enumerate(cast("Iterable[Any]", inputs), 1):
            yield item if isinstance(item, tuple) else (f"set {number}", item)


def stored_sets(source: str | IO[bytes]) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the sets in a folder of .npz, one each, or of .npy, one input each, or in one .npz, named or open.

    `in0/x` of an .npz is the input x of the set in0. Sets named `out...` are expected results, and are left out.

    Raises:
        ModelError: The source cannot be read; the message names it, or standard input.
        OptionError: The name is empty.
    """
    title = source if isinstance(source, str) else "standard input"
    if not title:
        raise OptionError("the name of the file of inputs is empty.")
    try:
        yield from _in_folder(Path(source)) if isinstance(source, str) else _in_npz(source, "given")
    except OSError as error:
        raise ModelError(f"{title}: the inputs cannot be read ({error.strerror or error}).") from None
    except (ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error, AttributeError, KeyError):
        raise ModelError(f"{title}: not an .npz file of arrays.") from None


def _in_folder(path: Path) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the sets in a folder, or in one file."""
    if not path.is_dir():
        if path.exists() and not path.is_file():
            raise ModelError(f"{path}: not an ordinary file.")
        yield from _in_npz(path, path.stem)
    elif files := sorted(path.glob("*.npz")):
        for file in files:
            yield from _in_npz(file, file.stem)
    elif files := sorted(path.glob("*.npy")):
        yield path.name, {file.stem: np.load(file, allow_pickle=False) for file in files}
    else:
        raise ModelError(f"{path}: the folder has no .npz or .npy file.")


def _in_npz(file: Path | IO[bytes], alone: str) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield the sets in an .npz; arrays without a set are the set `alone`."""
    sets: dict[str, dict[str, Array]] = {}
    with np.load(file, allow_pickle=False) as arrays:
        for key in arrays.files:
            name, _, value = key.rpartition("/")
            sets.setdefault(name or alone, {})[value] = arrays[key]
    yield from ((name, arrays) for name, arrays in sets.items() if not name.startswith("out"))
