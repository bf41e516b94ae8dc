"""Ten million float32 patterns through every sequence; `--all` takes all 2**32. Not part of the test run.

python -m tests.lowering.encodings.exhaustive [--all] [--patterns N] [--sequence NAME ...]
    [--what codes|in-place|halves ...] [--level off|default ...]

Each pattern goes through each sequence that makes codes, and each that rounds in place, of each float8 type with both
settings of saturate, in ONNX Runtime; with `--what halves` through the rounding in place of float16 and bfloat16. What
comes out is compared bit for bit with `castsmith.cast`, the sign of a NaN apart where there is no BitCast to see it,
and the bits of a NaN that is rounded in place.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx_ir import DataType

from castsmith.lowering.encodings.choose import NEEDS_BITCAST, Encoding, encode
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.encodings.table import round_by_table
from castsmith.lowering.formats import NarrowPolicy, encode_array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import FLOAT8_TYPES, HALF_TYPES
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session

CHUNK = 1 << 20
OPSETS = {Encoding.BITCAST: 26, Encoding.TABLE: 26, Encoding.LADDER: 19}
ROUNDERS = {Encoding.TABLE: round_by_table, Encoding.LADDER: round_in_place}
WHAT = ["codes", "in-place", "halves"]
LEVEL_NAMES = dict(zip(("off", "default"), LEVELS, strict=True))


def chunks(patterns: int) -> Iterator[Array]:
    """Evenly spread float32 bit patterns, coprime to every power of two, so that no low bit repeats; then the rest."""
    stride = max(2**32 // patterns, 1) | 1
    for start in range(0, patterns, CHUNK):
        stop = min(start + CHUNK, patterns)
        bits = np.arange(start, stop, dtype=np.uint64) * np.uint64(stride) if stride > 1 else np.arange(start, stop)
        yield bits.astype(np.uint32).view(np.float32)


def coder(sequence: Encoding, to: DataType, saturate: bool, level: Any) -> Any:
    """A session that makes codes."""
    policy, opset = NarrowPolicy(saturate, OPSETS[sequence]), OPSETS[sequence]
    return session(sequence_model(lambda b, x: encode(b, x, to, policy, sequence), DataType.FLOAT, opset), level)


def rounder(sequence: Encoding, to: DataType, saturate: bool, level: Any) -> Any:
    """A session that rounds in place."""
    policy, opset, write = NarrowPolicy(saturate, OPSETS[sequence]), OPSETS[sequence], ROUNDERS[sequence]
    return session(sequence_model(lambda b, x: write(b, x, to, policy), DataType.FLOAT, opset), level)


class Expected:
    """Return the results of the codec for one chunk of floats."""

    def __init__(self, values: Array, to: DataType, saturate: bool) -> None:
        self._codes = {o: encode_array(values, to, NarrowPolicy(saturate, o)) for o in set(OPSETS.values())}
        self._nan, self._to = np.isnan(values), to
        self._positive_nan = encode_array(np.full(1, np.nan, np.float32), to, NarrowPolicy(saturate, 26))
        self._decoded = cast(np.arange(256, dtype=np.uint8).view(to.numpy()), DataType.FLOAT)

    def wrong_codes(self, sequence: Encoding, codes: Array) -> int:
        """Return the number of different codes."""
        wanted = self._codes[OPSETS[sequence]]
        wanted = wanted if sequence in NEEDS_BITCAST else np.where(self._nan, self._positive_nan, wanted)
        return int(np.count_nonzero(codes != wanted))

    def wrong_floats(self, sequence: Encoding, rounded: Array) -> int:
        """Return the number of different rounded floats."""
        wanted = self._decoded[self._codes[OPSETS[sequence]]]
        unlike = np.flatnonzero(rounded.view(np.uint32) != wanted.view(np.uint32))
        return int(np.count_nonzero(~(np.isnan(rounded[unlike]) & np.isnan(wanted[unlike]))))


def differences(
    to: DataType, saturate: bool, sequences: list[Encoding], what: list[str], levels: list[Any], patterns: int
) -> dict[str, int]:
    """Return the number of results of each encoding, as codes and in place, that differ from the codec's."""
    coders = [(s, coder(s, to, saturate, level)) for s in sequences for level in levels if "codes" in what]
    inside = [s for s in sequences if s in ROUNDERS and "in-place" in what]
    rounders = [(s, rounder(s, to, saturate, level)) for s in inside for level in levels]
    wrong = {f"{s.value} codes": 0 for s, _ in coders} | {f"{s.value} in place": 0 for s, _ in rounders}
    for values in chunks(patterns):
        expected = Expected(values, to, saturate)
        for sequence, opened in coders:
            wrong[f"{sequence.value} codes"] += expected.wrong_codes(sequence, run(opened, {"x": values})[0])
        for sequence, opened in rounders:
            wrong[f"{sequence.value} in place"] += expected.wrong_floats(sequence, run(opened, {"x": values})[0])
    return wrong


def half_differences(to: DataType, levels: list[Any], patterns: int) -> int:
    """Return the number of floats that are not rounded in place to the 16-bit type as by the codec."""
    model = sequence_model(lambda b, x: round_in_place(b, x, to, NarrowPolicy()), DataType.FLOAT, 19)
    rounders, wrong = [session(model, level) for level in levels], 0
    for values in chunks(patterns):
        wanted = cast(cast(values, to), DataType.FLOAT)
        for opened in rounders:
            (rounded,) = run(opened, {"x": values})
            unlike = np.flatnonzero(rounded.view(np.uint32) != wanted.view(np.uint32))
            wrong += int(np.count_nonzero(~(np.isnan(rounded[unlike]) & np.isnan(wanted[unlike]))))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [sequence.value for sequence in Encoding]
    parser.add_argument("--patterns", type=int, default=10_000_000)
    parser.add_argument("--all", action="store_true", help="all 2**32 patterns")
    parser.add_argument("--sequence", nargs="+", choices=names, default=names, help="only these")
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT[:2])
    parser.add_argument("--level", nargs="+", choices=LEVEL_NAMES, default=list(LEVEL_NAMES), help="of optimization")
    given = parser.parse_args()
    patterns, total = 2**32 if given.all else given.patterns, 0
    levels = [LEVEL_NAMES[name] for name in given.level]
    for to in HALF_TYPES if "halves" in given.what else ():
        began = time.process_time()
        total += (wrong := half_differences(to, levels, patterns))
        took = time.process_time() - began
        print(f"{to.name.lower()} {patterns} patterns, wrong: in place {wrong}; {took:.0f} s", flush=True)
    for to in FLOAT8_TYPES if {"codes", "in-place"} & {*given.what} else ():
        for saturate in (True, False):
            began = time.process_time()
            wrong = differences(to, saturate, [Encoding(s) for s in given.sequence], given.what, levels, patterns)
            total += sum(wrong.values())
            found = ", ".join(f"{name} {count}" for name, count in wrong.items())
            took = time.process_time() - began
            print(
                f"{to.name.lower()} saturate={saturate} {patterns} patterns, wrong: {found}; {took:.0f} s", flush=True
            )
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main())
