"""Every one of the 2**32 float32 codes, cast to each type of at most 16 bits under each setting, against the oracle.

    nice python -m tests.numerics.cast.exhaustive [TYPE ...] [--processes N] [--compiled]

`--compiled` casts with compiled kernels, by default to the types that have one.

Prints a line for each type and setting and exits with 1 if any code differs. The oracle is `tests.numerics.oracle`,
which rounds one number at a time in rational arithmetic. It need not be asked 2**32 times: from each of the codes in
`_TURNS` to the next a conversion comes back to no result that it has left, so where it gives the same at two codes it
is constant between, and bisection finds every step. There are some 65,000 steps at most.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast.compiled import kernel_name
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import element_type, parse_type
from tests.numerics import oracle
from tests.numerics.settings import settings_of

TARGETS = oracle.NARROW_TYPES
_HALF = 2**31
_TURNS = (0x0000_0000, 0x0000_0001, 0x3F80_0000, 0x7F80_0000, 0x7F80_0001, 0x7FC0_0000, _HALF)
"""First codes without a sign: zero, numbers below one and from one on, infinity, signalling NaN, quiet NaN; the end."""
_CHUNK = 1 << 22
_Steps = tuple[npt.NDArray[np.int64], npt.NDArray[np.unsignedinteger]]


def steps(target: str, settings: oracle.Settings, begin: int = 0, stop: int = 2**32) -> _Steps:
    """The codes of float32 from `begin` up to `stop` at which the code in `target` changes, and the code there."""
    encode = partial(_encode, target, settings)
    found: list[tuple[int, int]] = []
    for sign in (0, _HALF):
        for start, end in pairwise(_TURNS):
            first, last = max(start + sign, begin), min(end + sign, stop) - 1
            if first > last:
                continue
            found.append((first, encode(first)))
            found.extend(_between(encode, first, found[-1][1], last, encode(last)))
    starts, codes = zip(*found, strict=True)
    return np.array(starts, np.int64), np.array(codes, oracle.unsigned(target))


def _encode(target: str, settings: oracle.Settings, code: int) -> int:
    return oracle.cast_codes("float", target, [oracle.decode("float", code)], settings)[0]


def _between(encode: partial[int], low: int, at_low: int, high: int, at_high: int) -> Iterator[tuple[int, int]]:
    """The steps above `low` up to `high`, where the function comes back to nothing it has left."""
    if at_low == at_high:
        return
    if high == low + 1:
        yield high, at_high
        return
    middle = (low + high) // 2
    at_middle = encode(middle)
    yield from _between(encode, low, at_low, middle, at_middle)
    yield from _between(encode, middle, at_middle, high, at_high)


def expected(known: _Steps, first: int, size: int) -> npt.NDArray[np.unsignedinteger]:
    """The codes in the target of the `size` codes of float32 from `first` on."""
    starts, codes = known
    begin, end = np.searchsorted(starts, first, "right") - 1, np.searchsorted(starts, first + size, "left")
    edges = np.append(np.maximum(starts[begin:end], first), first + size)
    return np.repeat(codes[begin:end], np.diff(edges))


def differences(
    target: str, settings: oracle.Settings, first: int = 0, end: int = 2**32, *, compiled: bool = False
) -> tuple[int, int | None]:
    """Return the number of codes of float32 from `first` up to `end` whose cast is wrong, and one of them."""
    known, count, witness = steps(target, settings, first, end), 0, None
    for start in range(first, end, _CHUNK):
        size = min(_CHUNK, end - start)
        values = np.arange(start, start + size, dtype=np.uint32).view(np.float32)
        saturate, round_mode, opset = settings.saturate, settings.round_mode, settings.opset
        got = cast(values, target, saturate=saturate, round_mode=round_mode, opset=opset, compiled=compiled)
        wrong = got.view(oracle.unsigned(target)) != expected(known, start, size)
        if wrong.any():
            count += int(np.count_nonzero(wrong))
            witness = start + int(wrong.argmax()) if witness is None else witness
    return count, witness


def _report(job: tuple[str, oracle.Settings], compiled: bool) -> bool:
    began = time.perf_counter()
    target, settings = job
    count, witness = differences(target, settings, compiled=compiled)
    outcome = "all 4294967296 equal" if witness is None else f"{count} differ, the first {witness:#010x}"
    shown = f"saturate={settings.saturate:d} round_mode={settings.round_mode} opset={settings.opset}"
    print(f"float -> {target:15} {shown:40} {outcome}   {time.perf_counter() - began:5.0f} s", flush=True)
    return witness is None


def _has_kernel(target: str) -> bool:
    return kernel_name(element_type(DataType.FLOAT), element_type(parse_type(target))) is not None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.numerics.cast.exhaustive")
    parser.add_argument("types", nargs="*", metavar="TYPE", help="targets, all of at most 16 bits if none is given")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--compiled", action="store_true", help="with compiled kernels, which need numba")
    options = parser.parse_args(arguments)
    unknown = set(options.types) - set(TARGETS)
    if unknown:
        parser.error(f"not a target: {', '.join(sorted(unknown))}")
    targets = options.types or [target for target in TARGETS if not options.compiled or _has_kernel(target)]
    jobs = [(target, settings) for target in targets for settings in settings_of(target)]
    with ProcessPoolExecutor(options.processes) as pool:
        good = list(pool.map(partial(_report, compiled=options.compiled), jobs))
    print(f"{sum(good)} of {len(jobs)} conversions are equal for every code of float32")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
