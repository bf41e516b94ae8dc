"""The share of unknown values of models, without declared ranges and with them.

python -m benchmarks.bounds FILE_OR_FOLDER ... [--range NAME=LOW:HIGH ...] [--others LOW:HIGH]

A range counts for every model that has an input of its name, `--others` for all other float inputs. Prints a table:
values, the percentage of unknown ones without ranges and with them, the least processor time of the second run, and the
input that would settle most of the rest. No other tool bounds values, so that the baseline is onnx's shape inference,
another walk over the whole model: the two take turns, and the ratio is the median, with the least and the greatest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import onnx
import onnx.shape_inference
import onnx_ir

from benchmarks.pairing import in_turns, ratios, spread, timed
from castsmith import CastsmithError, bounds


def files(places: list[str]) -> Iterator[Path]:
    for place in map(Path, places):
        yield from sorted(place.rglob("*.onnx")) if place.is_dir() else [place]


def share(model: onnx_ir.Model, ranges: dict[str, tuple[float, float]]) -> tuple[int, float, str]:
    """The number of values, the percentage of unknown ones, and the input that would settle most."""
    found = bounds(model, ranges=ranges)
    settling = found.settling[0][0] if found.settling else ""
    return len(found), 100 * found.count("unknown") / max(len(found), 1), settling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+")
    parser.add_argument("--range", action="append", default=[], dest="ranges")
    parser.add_argument("--others")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    declared: dict[str, tuple[float, float]] = {}
    for text in arguments.ranges:
        name, _, ends = text.partition("=")
        low, _, high = ends.partition(":")
        declared[name] = float(low), float(high)
    others = [float(end) for end in (arguments.others or "").split(":") if end]
    print("| model | values | unknown without ranges | with them | s | to shape inference | would settle most |")
    print("|---|---|---|---|---|---|---|")
    for path in files(arguments.places):
        try:
            model = onnx_ir.load(path)
            given = [value for value in model.graph.inputs if value.const_value is None]
            ranges = {value.name or "": declared[value.name] for value in given if value.name in declared}
            typed = [(value.name or "", value.dtype) for value in given]
            floats = [name for name, dtype in typed if dtype is not None and dtype.is_floating_point()]
            ranges |= {name: (others[0], others[1]) for name in floats if others and name not in ranges}
            plain = share(model, {})
            count, unknown, settling = share(model, ranges) if ranges else plain
            works = {"bounds": timed(partial(bounds, model, ranges=ranges)), "onnx": timed(partial(_inferred, path))}
            ours, theirs = in_turns(works, arguments.repeat).values()
        except (CastsmithError, ValueError) as error:
            print(f"| {path.stem} | {str(error).splitlines()[0]} |")
            continue
        shares = f"{plain[1]:.1f} % | {unknown:.1f} %"
        times = f"{min(ours):.2f} | {spread(ratios(ours, theirs))}"
        print(f"| {path.stem} | {count} | {shares} | {times} | {settling} |", flush=True)


def _inferred(path: Path) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(onnx.load(path))


if __name__ == "__main__":
    main()
