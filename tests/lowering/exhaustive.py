"""Ten million float32 patterns through every encoding sequence; `--all` takes all 2**32. Not part of the test run.

python -m tests.lowering.exhaustive [--all] [--patterns N] [--sequence NAME ...] [--in-place]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
from onnx_ir import DataType

from castsmith.lowering.codes import Policy, encode_array
from castsmith.lowering.sequences import NEEDS_BITCAST, Sequence, encode
from castsmith.lowering.sequences_round import round_in_place
from castsmith.lowering.sequences_table import round_by_table
from castsmith.lowering.sequences_ufp import round_by_ufp
from castsmith.numerics.cast import cast
from castsmith.numerics.types import FLOAT8_TYPES
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session

CHUNK = 1 << 20
ROUNDERS = {Sequence.TABLE: round_by_table, Sequence.UFP: round_by_ufp, Sequence.LADDER: round_in_place}
OPSETS = {Sequence.BITCAST: 26, Sequence.TABLE: 26, Sequence.UFP: 19, Sequence.LADDER: 19}


def chunks(patterns: int) -> Iterator[Array]:
    """Evenly spread float32 bit patterns, coprime to every power of two, so that no low bit repeats; then the rest."""
    stride = max(2**32 // patterns, 1) | 1
    for start in range(0, patterns, CHUNK):
        index = np.arange(start, min(start + CHUNK, patterns), dtype=np.uint64)
        yield ((index * np.uint64(stride)) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32)


def wrong_codes(sequence: Sequence, to: DataType, policy: Policy, patterns: int) -> int:
    """How many codes differ from the codec's, at either optimization level, a ladder's NaN sign apart."""
    model = sequence_model(lambda build, x: encode(build, x, to, policy, sequence), DataType.FLOAT, OPSETS[sequence])
    sessions = [session(model, level) for level in LEVELS]
    positive_nan = encode_array(np.full(1, np.nan, np.float32), to, policy)
    wrong = 0
    for values in chunks(patterns):
        expected = encode_array(values, to, policy)
        if sequence not in NEEDS_BITCAST:
            expected = np.where(np.isnan(values), positive_nan, expected)
        wrong += sum(int(np.count_nonzero(run(opened, {"x": values})[0] != expected)) for opened in sessions)
    return wrong


def wrong_in_place(sequence: Sequence, to: DataType, policy: Policy, patterns: int) -> int:
    """How many floats rounded in place differ from the decoded codes, at either level, sign and bits of NaN apart."""
    write = ROUNDERS[sequence]
    model = sequence_model(lambda build, x: write(build, x, to, policy), DataType.FLOAT, OPSETS[sequence])
    sessions = [session(model, level) for level in LEVELS]
    decoded = cast(np.arange(256, dtype=np.uint8).view(to.numpy()), DataType.FLOAT)
    wrong = 0
    for values in chunks(patterns):
        expected = decoded[encode_array(values, to, policy)]
        for opened in sessions:
            (rounded,) = run(opened, {"x": values})
            unlike = rounded.view(np.uint32) != expected.view(np.uint32)
            wrong += int(np.count_nonzero(unlike & ~(np.isnan(rounded) & np.isnan(expected))))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--patterns", type=int, default=10_000_000)
    parser.add_argument("--all", action="store_true", help="all 2**32 patterns")
    names = [sequence.value for sequence in Sequence]
    parser.add_argument("--sequence", nargs="+", choices=names, default=names, help="only these")
    parser.add_argument("--in-place", action="store_true", help="rounding in place instead of codes")
    arguments = parser.parse_args()
    patterns = 2**32 if arguments.all else arguments.patterns
    total = 0
    count, what = (wrong_in_place, "in place") if arguments.in_place else (wrong_codes, "codes")
    for sequence in map(Sequence, arguments.sequence):
        if arguments.in_place and sequence not in ROUNDERS:
            continue
        for to in FLOAT8_TYPES:
            for saturate in (True, False):
                began = time.perf_counter()
                wrong = count(sequence, to, Policy(saturate, OPSETS[sequence]), patterns)
                total += wrong
                took = time.perf_counter() - began
                print(f"{sequence.value:8} {what} {to.name.lower():15} saturate={saturate!s:5} {patterns} patterns:"
                      f" {wrong} wrong, {took:.1f} s", flush=True)  # fmt: skip
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main())
