"""How the time of `optimize` grows with the graph: ten times the nodes, in every shape that could be quadratic.

    python -m benchmarks.linear [--nodes N] [--repeat N]

Prints, for each shape, the processor seconds to read, optimize and write a model of N nodes and of 10 N, and the ratio:
the median of several turns, with the least and the greatest. The baseline is the smaller graph; `graph_speed` has the
ratios to other tools.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from functools import partial
from pathlib import Path

import onnx

import castsmith
from benchmarks.growing import SHAPES
from benchmarks.pairing import in_turns, ratios, spread

RECORDED = (
    *("chain", "consumers of one value", "casts of one constant", "constants", "one chain of casts"),
    *("one region of moves", "mixed operands", "branches", "functions", "one Concat"),
)
"""The shapes in the record; `python -m tests.soak.growth` takes all, with every command."""


def _seconds(path: Path) -> float:
    start = time.process_time()
    result = castsmith.optimize(path, promotion=castsmith.PromotionRules(promote_unsafe=True))
    castsmith.save(result.model, path.with_name("out.onnx"))
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    nodes: int = arguments.nodes
    gc.disable()
    print(f"| graph | {nodes} nodes, s | {10 * nodes} nodes, s | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        paths = {count: Path(folder) / f"model_{count}.onnx" for count in (nodes, 10 * nodes)}
        for name in RECORDED:
            for count, path in paths.items():
                onnx.save(SHAPES[name](count), path)
            _seconds(paths[nodes])  # what the first run alone takes
            works = {count: partial(_seconds, path) for count, path in paths.items()}
            small, large = in_turns(works, arguments.repeat).values()
            print(f"| {name} | {min(small):.2f} | {min(large):.2f} | {spread(ratios(large, small), 1)} |", flush=True)


if __name__ == "__main__":
    main()
