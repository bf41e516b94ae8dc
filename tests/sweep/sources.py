"""The models to sweep: files of a directory, golden cases, the backend node tests of ONNX, random graphs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

_TESTS = Path(__file__).parents[1]
_LATEST = 28
"""The newest opset of the graphs that are made here."""


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


def moves(count: str, seed: int = 0) -> Iterator[Source]:
    """`count` graphs of moves and casts, of opsets 9 to 28 where their types allow."""
    for each in range(seed, seed + int(count or 100)):
        yield Source(f"moves {each}", lambda folder, each=each: _written(folder, _moves(each)))


def scopes(count: str, seed: int = 0) -> Iterator[Source]:
    """`count` graphs in which few names stand for many values in nested scopes, of opsets 13 to 28."""
    for each in range(seed, seed + int(count or 100)):
        yield Source(f"scopes {each}", lambda folder, each=each: _written(folder, _scoped(each)))


def shapes(count: str, seed: int = 0) -> Iterator[Source]:
    """`count` graphs of arithmetic on shapes, of opsets 14 to 28."""
    for each in range(seed, seed + int(count or 100)):
        yield Source(f"shapes {each}", lambda folder, each=each: _written(folder, _shapes(each)))


SOURCES: dict[str, Callable[[str, int], Iterator[Source]]] = {
    "corpus": files_below,
    "goldens": goldens,
    "backend": backend,
    "random": random_graphs,
    "moves": moves,
    "scopes": scopes,
    "shapes": shapes,
}


def _golden(path: Path) -> onnx.ModelProto:
    from tests.graphs.golden import read

    return onnx.parser.parse_model(read(path).source)


def _random(seed: int) -> onnx.ModelProto:
    from random import Random

    from tests.graphs.random_valid import random_valid_model

    return random_valid_model(Random(seed))


def _moves(seed: int) -> onnx.ModelProto:
    import onnx_ir

    from tests.passes.place.place_regions import PAIRS, first_opset, random_model

    first = first_opset(seed)
    return onnx_ir.to_proto(random_model(seed, 12, _LATEST - seed // len(PAIRS) % (_LATEST - first + 1)))


def _scoped(seed: int) -> onnx.ModelProto:
    from tests.graphs.scoped_graphs import scoped_model

    return scoped_model(seed, opset=_LATEST - seed % (_LATEST - 12))


def _shapes(seed: int) -> onnx.ModelProto:
    from tests.passes.shapes.test_shape_random import model_of

    return model_of(seed, _LATEST - seed % (_LATEST - 13))


def _written(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path
