"""The models to sweep: files of a directory, golden cases, the backend node tests of ONNX, random graphs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Source:
    """A model by name, and the function that gives its file; `folder` is where it may write one.

    without: runtimes that crash or hang on the model itself, and so are not asked.
    """

    name: str
    file: Callable[[Path], Path]
    without: tuple[str, ...] = ()


def files_below(directory: str, seed: int = 0) -> Iterator[Source]:
    """Every .onnx file below the directory, or below $CASTSMITH_CORPUS."""
    del seed
    directory = directory or os.environ.get("CASTSMITH_CORPUS", "")
    if not Path(directory).is_dir() or not directory:
        sys.exit(f"not a directory: {directory or 'none was given'}; name one, or set CASTSMITH_CORPUS.")
    for path in sorted(Path(directory).rglob("*.onnx")):
        yield Source(str(path.relative_to(directory)), lambda _, path=path: path)


def goldens(what: str = "", seed: int = 0) -> Iterator[Source]:
    """The source model of each golden case."""
    del what, seed
    for path in sorted((_TESTS / "passes" / "golden").glob("*/*.onnxtxt")):
        yield Source(f"{path.parent.name}/{path.stem}", lambda folder, path=path: _written(folder, _golden(path)))


def backend(what: str = "", seed: int = 0) -> Iterator[Source]:
    """The model of each backend node test."""
    del what, seed
    from tests.graphs.backend import node_cases

    for name, case in sorted(node_cases("").items()):
        if case.model is not None:
            yield Source(name, lambda folder, model=case.model: _written(folder, model))


def random_graphs(count: str, seed: int = 0) -> Iterator[Source]:
    """`count` random valid models, from `seed` on."""
    for each in range(seed, seed + int(count or 100)):
        yield Source(f"seed {each}", lambda folder, each=each: _written(folder, _random(each)))


SOURCES: dict[str, Callable[[str, int], Iterator[Source]]] = {
    "corpus": files_below,
    "goldens": goldens,
    "backend": backend,
    "random": random_graphs,
}


def _golden(path: Path) -> onnx.ModelProto:
    from tests.graphs.golden import read

    return onnx.parser.parse_model(read(path).source)


def _random(seed: int) -> onnx.ModelProto:
    from random import Random

    from tests.graphs.random_valid import random_valid_model

    return random_valid_model(Random(seed))


def _written(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path
