"""No result leaves what is said of it: cases of each rule, or random whole graphs, in ONNX Runtime and the reference.

`damaged` asks for the bounds alone, of models of operators that are damaged: they are answered or refused.

    python -m tests.soak.bounds rules START COUNT [OPERATOR...]     # COUNT cases of each rule, version and type
    python -m tests.soak.bounds graphs START COUNT
    python -m tests.soak.bounds damaged START COUNT

`--seconds` ends it sooner.

Runs each on adversarial inputs. Prints each violation, and at the end what was compared.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator

import castsmith
from tests.analysis.bounds import operators
from tests.analysis.bounds.cases import Case
from tests.analysis.bounds.containment import violations
from tests.analysis.bounds.damage import damaged
from tests.analysis.bounds.graphs import Graph

FEEDS = 8


def cases(kind: str, start: int, count: int, only: list[str]) -> Iterator[tuple[str, Case]]:
    for seed in range(start, start + count):
        if kind == "graphs":
            yield f"graph {seed}", Graph(seed)
            continue
        for domain, op_type, opset, dtype in operators.every():
            if not only or op_type in only:
                yield f"{op_type} {opset} {dtype} {seed}", operators.case_of(domain, op_type, opset, dtype, seed)


def crashes(seeds: range, end: float) -> int:
    """Print the errors that damaged models end in, each once with its place; the exit code is 1 if there is one."""
    counts, ran, refused = Counter[str](), 0, 0
    for seed in seeds:
        if time.monotonic() > end:
            break
        ran += 1
        model, ranges = damaged(seed)
        try:
            castsmith.bounds(model, ranges=ranges)
        except castsmith.CastsmithError:
            refused += 1
        except Exception as error:
            frames = [
                frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename
            ]
            text = f"{type(error).__name__} in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}"
            counts[text] += 1
            if counts[text] == 1:
                print(f"damaged {seed}: {text}: {error}", flush=True)
    print(f"{ran} models, {refused} refused, {counts.total()} errors in {len(counts)} places")
    return 1 if counts else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["rules", "graphs", "damaged"])
    parser.add_argument("start", type=int, help="the first seed")
    parser.add_argument("count", type=int)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--seconds", type=float, default=math.inf)
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    if given.kind == "damaged":
        return crashes(range(given.start, given.start + given.count), end)
    compared, total, wrong = Counter[str](), 0, 0

    def ran(runtime: str, values: int) -> None:
        compared[runtime] += values

    for name, case in cases(given.kind, given.start, given.count, given.operators):
        if time.monotonic() > end:
            break
        total += 1
        for text in violations(case.model(), case.ranges, list(case.feeds(FEEDS)), reference=case.reference, ran=ran):
            print(f"{name}: {text}", flush=True)
            wrong += 1
    values = ", ".join(f"{count} in {runtime}" for runtime, count in sorted(compared.items()))
    print(f"{total} models, {sum(compared.values())} comparisons ({values}), {wrong} outside")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
