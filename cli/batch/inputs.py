"""The models that arguments name: files, glob patterns and folders, and where the result of each belongs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from castsmith.cli.collisions import place
from castsmith.cli.streams import STREAM
from castsmith.ir.errors import ModelError
from castsmith.numerics.errors import OptionError

SUFFIX = ".onnx"

Found = tuple[str, str]
"""The path of a model as given or found, and its path below the folder that all of them have in common."""


def means_many(inputs: Sequence[str], output: str | None = None) -> bool:
    """True if the arguments name several models, or a folder for the result."""
    return len(inputs) > 1 or any(_is_several(word) for word in inputs) or (output is not None and is_folder(output))


def is_folder(output: str) -> bool:
    """True if the output is a folder: it ends in a separator, or exists as one."""
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return output != STREAM and (output.endswith(separators) or os.path.isdir(output))


def models_of(inputs: Sequence[str], *, outside: Path | None = None) -> list[Found]:
    """Return the models that the arguments name, in the order given; those of a folder sorted by path.

    Args:
        inputs: Files, which need not exist, glob patterns and folders. What a folder or pattern adds is added once.
        outside: A folder for results: models in it are not taken from a folder around it.

    Raises:
        ModelError: A folder has no model.
        OptionError: A pattern matches no file.
    """
    pairs = list[tuple[str, str]]()
    for word in inputs:
        listed = {file for file, _ in pairs} if _is_several(word) else frozenset[str]()
        pairs.extend((file, root) for file, root in _below(word, outside) if file not in listed)
    roots = [os.path.abspath(root) for _, root in pairs]
    try:
        common = os.path.commonpath(roots)
    except ValueError:  # on several drives
        return [(file, os.path.basename(file)) for file, _ in pairs]
    return [(file, os.path.relpath(os.path.abspath(file), common)) for file, _ in pairs]


def _is_several(word: str) -> bool:
    return word != STREAM and (os.path.isdir(word) or (glob.has_magic(word) and not os.path.lexists(word)))


def _below(word: str, outside: Path | None) -> Iterator[tuple[str, str]]:
    """Yield each model that the argument names with the folder from which its place is counted."""
    if not _is_several(word):
        yield word, os.path.dirname(word)
        return
    if os.path.isdir(word):
        files = list(_in_folder(word, outside))
        if not files:
            raise ModelError(f"{word}: a folder without {SUFFIX} files.")
        yield from ((file, word) for file in files)
        return
    root = _fixed_part(word)
    matches = sorted(glob.glob(word, recursive=True))
    files = [match for match in matches if os.path.isfile(match)]
    for folder in matches if "**" not in word else ():  # below a file is nothing
        files.extend(_in_folder(folder, outside))
    if not files:
        raise OptionError(f"{word}: no file matches this pattern.")
    yield from ((file, root) for file in files)


def _in_folder(folder: str, outside: Path | None) -> Iterator[str]:
    """Yield the models below the folder; hidden folders and links to folders are not entered."""
    kept_out = None if outside is None or place(outside) == place(Path(folder)) else place(outside)
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and place(Path(directory, name)) != kept_out)
        yield from (os.path.join(directory, name) for name in _sorted_models(files))


def _sorted_models(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.lower().endswith(SUFFIX) and name[0] != ".")


def _fixed_part(pattern: str) -> str:
    """Return the folder of the pattern before its first special character."""
    parts = pattern.split(os.sep)
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part))
    return os.sep.join(parts[:fixed]) or (os.sep if pattern.startswith(os.sep) else "")
