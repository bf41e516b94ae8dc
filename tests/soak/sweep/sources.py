"""The models to sweep: files of a directory, golden cases, the backend node tests of ONNX, random graphs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

_TESTS = Path(__file__).parents[2]
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


def _seeded(kind: str, make: Callable[[int], onnx.ModelProto]) -> Callable[[str, int], Iterator[Source]]:
    """Return a source of as many models as asked for, 100 by default, which `make` makes from successive seeds."""

    def sources(count: str, seed: int = 0) -> Iterator[Source]:
        for each in range(seed, seed + int(count or 100)):
            yield Source(f"{kind} {each}", lambda folder, each=each: _written(folder, make(each)))

    return sources


def _golden(path: Path) -> onnx.ModelProto:
    from tests.graphs.golden import read

    return onnx.parser.parse_model(read(path).source)


def _random(seed: int) -> onnx.ModelProto:
    """A random valid model."""
    from random import Random

    from tests.graphs.random_valid import random_valid_model

    return random_valid_model(Random(seed))


def _moves(seed: int) -> onnx.ModelProto:
    """A graph of moves and casts, of an opset from 9 to 28 where its types allow."""
    import onnx_ir

    from tests.passes.place.place_regions import PAIRS, first_opset, random_model

    first = first_opset(seed)
    return onnx_ir.to_proto(random_model(seed, 12, _LATEST - seed // len(PAIRS) % (_LATEST - first + 1)))


def _scoped(seed: int) -> onnx.ModelProto:
    """A graph in which few names stand for many values in nested scopes, of an opset from 13 to 28."""
    from tests.graphs.scoped_graphs import scoped_model

    return scoped_model(seed, opset=_LATEST - seed % (_LATEST - 12))


def _shapes(seed: int) -> onnx.ModelProto:
    """Arithmetic on shapes."""
    from tests.graphs.shape_arithmetic import shape_graph

    return shape_graph(seed).model


def _written(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


SOURCES: dict[str, Callable[[str, int], Iterator[Source]]] = {
    "corpus": files_below,
    "goldens": goldens,
    "backend": backend,
    "random": _seeded("seed", _random),
    "moves": _seeded("moves", _moves),
    "scopes": _seeded("scopes", _scoped),
    "shapes": _seeded("shapes", _shapes),
}
