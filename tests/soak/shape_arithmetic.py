"""Random graphs of shape arithmetic, before and after `optimize`, in ONNX Runtime and in the reference evaluator.

    nice python -m tests.soak.shape_arithmetic [FIRST [LAST]]

What a runtime gives before, it gives afterwards, at every size at which it gives anything. Prints each graph that
differs, and in the end how many comparisons there were; exits with 1 if one differs. A process that ends is reported
with its seed.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from tests.passes.shapes.test_run import Comparison, compare

_CHUNK = 100


def _compared(first: int, last: int) -> list[Comparison]:
    return [compare(seed) for seed in range(first, min(first + _CHUNK, last))]


def main(first: int, last: int) -> int:
    counts, wrong = Counter[str](), 0
    for start in range(first, last, _CHUNK):
        try:
            with ProcessPoolExecutor(1) as pool:
                results = pool.submit(_compared, start, last).result()
        except BrokenProcessPool:
            print(f"the process of seeds {start} to {start + _CHUNK - 1} ended", flush=True)
            wrong += 1
            continue
        for result in results:
            counts["graphs"] += 1
            counts["changed"] += result.changed
            counts["comparisons"] += result.compared
            for text in result.differences:
                wrong += 1
                print(f"seed {result.seed}: {text}", flush=True)
    print(f"seeds {first} to {last - 1}: {dict(counts)}, {wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    ends = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(ends if len(ends) == 2 else (0, *(ends or [1000])))))
