"""Casts, nodes and time left by each optimizer, over files and folders of models.

    python -m benchmarks.casts_left PATH...  [--results FOLDER] [--time] [--list]

Needs onnxruntime, onnxslim, onnxsim and onnxscript; a PATH is a model, or a folder with models. Each tool works on each
model in a process of its own, for a minute of processor time at most. Counted are the models in which some result, or
the model itself, has a Cast or CastLike, those of subgraphs and functions included. Where a tool leaves fewer than
Castsmith, its result is compared with the model bit for bit by `castsmith.verify`, and does not count if it is
different. Models that no tool changes and those that have no cast are counted apart.

--results keeps what the tools wrote, and takes it from there the next time. --time runs each model whose number of
nodes or casts Castsmith changes, and each result, in ONNX Runtime, on one thread without and with its own
optimization, in turns, and prints the least processor times, the ratio of Castsmith's to the model's, and that of the
turns: the median with the ends of the middle half of them. Where one is above 1.03 the two are measured again. --list
prints a row for every model, in place of the exceptions alone.
"""

# The tools compared are not installed where types are checked.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import onnxruntime
import onnxscript.optimizer
from google.protobuf.message import DecodeError

import castsmith
from benchmarks.pairing import middle, ratios, spread
from tests.graphs.inputs import inputs_for

_SECONDS, _PATIENCE = 60, 5
"""The processor time of a tool for a model, and how many times as long it may take on a machine with other work."""

_TURNS, _MORE_TURNS, _RUNS, _SESSIONS = 10, 60, 5, 4
_SLOWER = 1.03
"""The ratio of times from which a model is measured again, in more turns."""


def by_onnxruntime(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        options = session_options(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
        options.optimized_model_filepath = f"{folder}/optimized.onnx"
        onnxruntime.InferenceSession(model.SerializeToString(), options)
        return onnx.load(options.optimized_model_filepath)


def by_onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    return onnxslim.slim(model)


def by_onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxsim

    return onnxsim.simplify(model)[0]


def by_onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnxscript.optimizer.optimize(model)


def by_castsmith(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx_ir.to_proto(castsmith.optimize(model).model)


OURS = "castsmith"
OPTIMIZERS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxruntime": by_onnxruntime,
    "onnxslim": by_onnxslim,
    "onnxsim": by_onnxsim,
    "onnxscript": by_onnxscript,
    OURS: by_castsmith,
}


def session_options(level: onnxruntime.GraphOptimizationLevel) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 4
    options.intra_op_num_threads = 1
    return options


def in_a_process(work: Callable[[], Any], seconds: int = _SECONDS) -> Any:
    """What the work returns, or None where it fails or takes too much processor time; all that it does stays there."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        try:
            sender.send(work())
        except Exception:  # whatever another tool fails with
            sender.send(None)

    received: Any = None
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    sender.close()
    try:
        if receiver.poll(_PATIENCE * seconds):
            received = receiver.recv()
    except EOFError:
        pass
    process.kill()
    process.join()
    return received


def counts(path: Path) -> tuple[int, int] | None:
    """The casts and nodes of a model, its subgraphs and functions included; None of what is not a model."""
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError:
        return None
    nodes = [node for body in (model.graph, *model.functions) for node in _nodes(body)]
    return sum(node.op_type in ("Cast", "CastLike") for node in nodes), len(nodes)


def _nodes(body: Any) -> Iterator[onnx.NodeProto]:
    for node in body.node:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph)


def result_of(tool: str, path: Path, results: Path) -> Path | None:
    """The file that the tool makes of the model, made now or before."""
    made = results / tool / "+".join(path.parts[-2:])
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)

        def work() -> bool:
            onnx.save(OPTIMIZERS[tool](onnx.load(path)), made)
            return True

        if in_a_process(work) is None:
            made.write_bytes(b"")
    return made if made.stat().st_size else None


def compared(path: Path, result: Path) -> str:
    """Whether the result gives the bits that the model gives."""
    verdict = in_a_process(
        lambda: castsmith.verify(path, result, seconds=_SECONDS // 2, sets=4).summary(), 5 * _SECONDS
    )
    return "not compared" if verdict is None else verdict.partition(":")[0]


def milliseconds(paths: list[Path], turns: int) -> list[tuple[list[float], list[float]]]:
    """The times of models on the same inputs, run in turns, without and with ONNX Runtime's optimization.

    Counted is the processor time of the one thread, which other work lengthens least. A model has several
    sessions, since times differ by the places of their buffers.
    """
    feeds = feeds_of(paths[0])
    columns: list[list[list[float]]] = []
    levels = onnxruntime.GraphOptimizationLevel
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        places = [*enumerate(paths)] * _SESSIONS
        sessions = [(place, onnxruntime.InferenceSession(str(path), session_options(level))) for place, path in places]
        times: list[list[float]] = [[] for _ in paths]
        for _ in range(turns):
            for number, session in sessions:
                session.run(None, feeds)
                start = time.thread_time()
                for _ in range(_RUNS):
                    session.run(None, feeds)
                times[number].append((time.thread_time() - start) / _RUNS)
        columns.append([[1000 * each for each in taken] for taken in times])
    return list(zip(*columns, strict=True))


def feeds_of(path: Path) -> dict[str, np.ndarray]:
    """Inputs on which the model runs: integers are 0 or 1 where others are out of range, as indices are."""
    feeds = {name: np.asarray(each) for name, each in inputs_for(castsmith.load(path), 0, dimension=2).items()}
    levels = onnxruntime.GraphOptimizationLevel
    session = onnxruntime.InferenceSession(str(path), session_options(levels.ORT_DISABLE_ALL))
    try:
        session.run(None, feeds)
    except Exception:  # whatever ONNX Runtime fails with
        feeds = {name: each % 2 if each.dtype.kind in "iu" else each for name, each in feeds.items()}
    return feeds


def warm_up() -> None:
    """Import what the tools import, so that no process has to; ONNX Runtime's sessions stay in theirs."""
    model = onnx.parser.parse_model(_SMALL)
    for tool, optimizer in OPTIMIZERS.items():
        if tool != "onnxruntime":
            with contextlib.suppress(Exception):
                optimizer(model)


_SMALL = """<ir_version: 8, opset_import: ["": 17]>
g (float[2, 2] x) => (float16[2, 2] y) { a = Transpose (x) y = Cast <to = 10> (a) }"""


def models_in(paths: list[str]) -> Iterator[Path]:
    for path in map(Path, paths):
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        survey(list(models_in(arguments.paths)), arguments.results or Path(folder), arguments)


def survey(paths: list[Path], results: Path, arguments: argparse.Namespace) -> None:
    totals: dict[str, Counter[str]] = {tool: Counter() for tool in ("as it is", *OPTIMIZERS)}
    standing, apart = Counter[str](), Counter[str]()
    timed: dict[str, tuple[float, float]] = {}
    print("| model | casts, nodes | " + " | ".join(OPTIMIZERS) + " | |")
    print("|---" * (len(OPTIMIZERS) + 3) + "|")
    for path in paths:
        given = counts(path)
        if given is None:
            apart["not read"] += 1
            continue
        files = {tool: result_of(tool, path, results) for tool in OPTIMIZERS}
        left = {tool: None if file is None else counts(file) for tool, file in files.items()}
        if not any(each is not None and each[0] for each in (given, *left.values())):
            changed = any(each not in (None, given) for each in left.values())
            apart["changed, but without a cast" if changed else "without a cast, changed by no tool"] += 1
            continue
        verdicts = {
            tool: compared(path, file)
            for tool, file in files.items()
            if tool != OURS and file is not None and _fewer(left[tool], left[OURS])
        }
        kind = _standing(given, left, verdicts)
        standing[kind] += 1
        if all(left.values()):
            for tool, each in {"as it is": given, **left}.items():
                totals[tool].update(models=1, casts=each[0] if each else 0, nodes=each[1] if each else 0)
        if arguments.list or kind not in ("as few", "fewer"):
            cells = ["fails" if each is None else f"{each[0]}, {each[1]}" for each in (given, *left.values())]
            note = "; ".join(f"{tool}: {verdict}" for tool, verdict in verdicts.items())
            print(f"| {path.stem} | " + " | ".join(cells) + f" | {kind}. {note} |", flush=True)
        if arguments.time and left[OURS] not in (None, given) and (found := _times(path, files)) is not None:
            timed[path.stem] = found
    print("\nModels on which every tool succeeds:")
    for tool, total in totals.items():
        print(f"{tool}: {total['models']} models, {total['casts']} casts, {total['nodes']} nodes")
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(standing.items())), f"of {standing.total()}")
    print("apart:", ", ".join(f"{kind}: {count}" for kind, count in sorted(apart.items())))
    for place, how in enumerate(("without", "with")):
        column = {name: each[place] for name, each in timed.items()}
        slower = sorted((ratio, name) for name, ratio in column.items() if ratio > _SLOWER)
        if column:
            middle = f"{statistics.geometric_mean(column.values()):.3f}"
            print(f"time {how} optimization, {len(column)} models: {middle} of what it was; slower: {slower}")


def _fewer(theirs: tuple[int, int] | None, ours: tuple[int, int] | None) -> bool:
    return theirs is not None and (ours is None or theirs[0] < ours[0])


def _standing(given: tuple[int, int], left: dict[str, tuple[int, int] | None], verdicts: dict[str, str]) -> str:
    """How Castsmith's casts compare with the model's and with those of results that keep the bits."""
    ours = left[OURS]
    if ours is None:
        return "fails"
    if ours[0] > given[0]:
        return "more than it was given"
    best = min(
        given[0],
        *(each[0] for tool, each in left.items() if each and tool != OURS and verdicts.get(tool) != "different"),
    )
    return "more" if ours[0] > best else "as few" if ours[0] == best else "fewer"


def _times(path: Path, files: dict[str, Path | None]) -> tuple[float, float] | None:
    """Print the times of the model and of each result; return the ratios of Castsmith's to the model's."""
    runs = {"as it is": path, **{tool: file for tool, file in files.items() if file is not None}}
    found: Any = in_a_process(lambda: milliseconds(list(runs.values()), _TURNS))
    if found is None or OURS not in runs:
        return None
    times = dict(zip(runs, found, strict=True))
    given, ours = times["as it is"], times[OURS]
    least = _least_ratios(given, ours)
    if max(least) > _SLOWER:
        pair = [path, runs[OURS]]
        again: Any = in_a_process(lambda: milliseconds(pair, _MORE_TURNS))
        given, ours = (given, ours) if again is None else again
        least = _least_ratios(given, ours)
    cells = ", ".join(f"{tool} {min(off):.3f} / {min(on):.3f}" for tool, (off, on) in times.items())
    turns = " / ".join(spread(middle(ratios(a, b)), 3) for a, b in zip(ours, given, strict=True))
    print(f"    {path.stem}: {cells} ms without / with; {least[0]:.3f} / {least[1]:.3f}; {turns}", flush=True)
    return least


def _least_ratios(given: tuple[list[float], list[float]], ours: tuple[list[float], list[float]]) -> tuple[float, float]:
    return min(ours[0]) / min(given[0]), min(ours[1]) / min(given[1])


if __name__ == "__main__":
    main()
