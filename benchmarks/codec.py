"""Casts between all types that models use, beside `astype` of numpy and ml_dtypes, and beside PyTorch if installed.

    python -m benchmarks.codec [--elements N ...] [--repeats N] [--wall] [--torch] [--compiled] [SOURCE>TARGET ...]

Each pair of types is cast by both in turn, `--repeats` times. A cell is their least time over ours, since other work on
the machine only adds time: above 1, `castsmith.cast` takes less. Then come, as Markdown, the number of pairs below
0.9 (0.5 of PyTorch) for each size, and each of these, for the last size, with the quartiles of the ratios of the
repetitions and the million elements a second of both. Beside PyTorch only pairs with a float8 type count. The numbers
are within the range of the target: out of it numpy's result is not defined. Processor time, of all threads; `--wall`
compares elapsed time. `--compiled` measures `cast(..., compiled=True)`, without compiling.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.pairing import in_turns, ratios, timed
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import parse_type

TYPES = (
    "float", "double", "float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "int8", "uint8", "int32", "int64",
)  # fmt: skip
_TORCH = {
    "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2",
    "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip
_ENOUGH = 2e-3
"""Seconds of one measurement: short casts are repeated within it."""
_Work = Callable[[], object]
_Array = npt.NDArray[Any]


class Ratio(NamedTuple):
    """Their least time over ours, quartiles of the ratios of the repetitions, million elements a second of both."""

    best: float
    low: float
    high: float
    ours: float
    theirs: float


def data(source: str, target: str, elements: int) -> _Array:
    """Return random numbers within the range of every type: not negative if one of the types has no sign."""
    low = 0 if "uint8" in (source, target) else -100
    return cast(np.random.default_rng(0).uniform(low, 100, elements).astype(np.float32), source)


def compare(ours: _Work, theirs: _Work, elements: int, repeats: int, clock: Callable[[], float]) -> Ratio:
    """Time both in turn, after each has made its tables."""
    for work in (ours, theirs):
        work()
    counts = [max(1, int(_ENOUGH / max(timed(work, clock)(), 1e-6))) for work in (ours, theirs)]
    works = {side: timed(work, clock, counts[side]) for side, work in ((1, theirs), (0, ours))}
    times = in_turns(works, repeats)
    low, _, high = statistics.quantiles(ratios(times[1], times[0]), n=4)
    mine, other = min(times[0]), min(times[1])
    return Ratio(other / mine, low, high, elements / mine / 1e6, elements / other / 1e6)


def with_cast(array: _Array, target: str, compiled: bool) -> _Work:
    return lambda: cast(array, target, compiled=compiled)


def with_astype(array: _Array, _source: str, target: str) -> _Work:
    dtype = parse_type(target).numpy()
    return lambda: array.astype(dtype)


def with_torch(array: _Array, source: str, target: str) -> _Work:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    from_type, to_type = (getattr(torch, _TORCH.get(name, name)) for name in (source, target))
    tensor = torch.from_numpy(array.view(f"i{array.itemsize}")).view(from_type)
    return lambda: tensor.to(to_type)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codec")
    parser.add_argument("pairs", nargs="*", metavar="SOURCE>TARGET", help="all pairs if none is given")
    parser.add_argument("--elements", type=int, nargs="+", default=[2**24])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--wall", action="store_true", help="elapsed time instead of processor time")
    parser.add_argument("--torch", action="store_true", help="beside PyTorch instead of astype")
    parser.add_argument("--compiled", action="store_true", help="by compiled kernels, which need numba")
    options = parser.parse_args(arguments)
    found = {elements: measured(elements, options) for elements in options.elements}
    print(summary(found, "PyTorch" if options.torch else "numpy and ml_dtypes", 0.5 if options.torch else 0.9))
    return 0


def measured(elements: int, options: argparse.Namespace) -> dict[str, Ratio]:
    """Measure the pairs for arrays of one size, and print the ratios."""
    peer = with_torch if options.torch else with_astype
    clock = time.perf_counter if options.wall else time.process_time
    found: dict[str, Ratio] = {}
    print(f"{elements} elements, {options.repeats} repetitions; {'elapsed' if options.wall else 'processor'} time")
    print(f"{'from / to':16}" + "".join(f"{name.replace('float8', ''):>10}" for name in TYPES))
    for source in TYPES:
        print(f"{source:16}", end="")
        for target in TYPES:
            counts = not options.torch or "float8" in source + target
            if source == target or not counts or (options.pairs and f"{source}>{target}" not in options.pairs):
                print(f"{'-':>10}", end="", flush=True)
                continue
            array = data(source, target, elements)
            theirs = peer(array, source, target)
            with np.errstate(all="ignore"):
                ours = with_cast(array, target, options.compiled)
                ratio = compare(ours, theirs, elements, options.repeats, clock)
            print(f"{ratio.best:10.2f}", end="", flush=True)
            found[f"{source}>{target}"] = ratio
        print()
    return found


def summary(found: Mapping[int, Mapping[str, Ratio]], peer: str, wanted: float) -> str:
    """Return the Markdown of how many pairs reach the ratio at each size, and of those that do not at the last."""
    title = "beside | numbers | aim | pairs | below it | lowest | median | highest"
    lines = [f"| {title} |", f"|{'---|' * (title.count('|') + 1)}"]
    below: dict[str, Ratio] = {}
    for elements, pairs in found.items():
        best = [ratio.best for ratio in pairs.values()]
        below = {pair: ratio for pair, ratio in pairs.items() if ratio.best < wanted}
        ends = f"{min(best):.2f} | {statistics.median(best):.2f} | {max(best):.2f}"
        lines.append(f"| {peer} | {elements} | {wanted} | {len(pairs)} | {len(below)} | {ends} |")
    if below:
        lines += ["", "| pair below it | ratio | castsmith, M/s | the other, M/s |", "|---|---|---|---|"]
    for pair, ratio in sorted(below.items(), key=lambda each: each[1].best):
        spread = f"{ratio.best:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        lines.append(f"| {pair.replace('>', ' to ')} | {spread} | {ratio.ours:.0f} | {ratio.theirs:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
