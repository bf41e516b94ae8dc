"""Hashes of whole domains by a second implementation, which shares no code with the first.

    python -m tests.conformance.second [NAME...]

For positive and for negative numbers alone a conversion is monotone in the code of its input. So the first input of
each output is found by halving, with the oracle in rational arithmetic, and the runs between are written out and
hashed.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator

import numpy as np

from castsmith.numerics.types import element_type, type_name
from tests.conformance.domains import Array, Domain, domains
from tests.numerics import oracle

_CHUNK = 1 << 24
_INFINITY = {"float": 0x7F800000, "float16": 0x7C00, "bfloat16": 0x7F80}


def runs(convert: Callable[[int], int], low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the first code and the output of each run of equal outputs in [low, high]; `convert` is monotone there."""
    stack = [(low, convert(low), high, convert(high))]
    yield low, stack[0][1]
    while stack:
        begin, first, end, last = stack.pop()
        if first == last:
            continue
        if end - begin == 1:
            yield end, last
            continue
        middle = (begin + end) // 2
        output = convert(middle)
        stack += [(middle, output, end, last), (begin, first, middle, output)]


def _converter(domain: Domain) -> Callable[[int], int]:
    source, target = type_name(domain.source), type_name(domain.target)
    settings = oracle.Settings(domain.saturate, domain.round_mode)
    nan = oracle.FLOATS[target].nan if target in oracle.FLOATS else None

    def convert(code: int) -> int:
        output = oracle.encode(oracle.decode(source, code), target, settings, keep_payload=True)
        is_nan = target in oracle.FLOATS and oracle.decode(target, output).kind == "nan"
        return nan if is_nan and nan is not None else output

    return convert


def second_hash(domain: Domain) -> str:
    """Return the hash that `domain_hash` computes by the codec."""
    outputs_by_start = dict(_all_runs(domain))
    starts = np.array(sorted(outputs_by_start))
    width = np.dtype(domain.target.numpy()).itemsize
    outputs = np.array([outputs_by_start[start] for start in starts.tolist()], f"<u{width}")
    return _digest(starts, outputs, 1 << element_type(domain.source).bits)


def _all_runs(domain: Domain) -> Iterator[tuple[int, int]]:
    convert, infinity = _converter(domain), _INFINITY[type_name(domain.source)]
    half = 1 << (element_type(domain.source).bits - 1)
    left_open = domain.open()
    yield from ((begin, 0) for begin, _ in left_open)
    for sign in (0, half):
        # Not monotone together: zero, numbers, infinity, NaN.
        for low, high in ((0, 0), (1, infinity - 1), (infinity, infinity), (infinity + 1, half - 1)):
            for begin, end in _without(sign + low, sign + high, left_open):
                yield from runs(convert, begin, end)


def _without(low: int, high: int, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the parts of [low, high] outside the ranges, which are in order."""
    for begin, end in ranges:
        if begin > high or end < low:
            continue
        if low < begin:
            yield low, begin - 1
        low = end + 1
    if low <= high:
        yield low, high


def _digest(starts: Array, outputs: Array, size: int) -> str:
    digest = hashlib.sha256()
    for low in range(0, size, _CHUNK):
        high = min(low + _CHUNK, size)
        first = int(np.searchsorted(starts, low, "right")) - 1
        last = int(np.searchsorted(starts, high, "left"))
        edges = np.clip(np.append(starts[first:last], high), low, high)
        digest.update(np.repeat(outputs[first:last], np.diff(edges)).data)
    return digest.hexdigest()


def main(names: list[str]) -> None:
    """Print the name and the hash of each domain, or of those that are named."""
    for domain in domains():
        if not names or domain.name() in names:
            print(domain.name(), second_hash(domain), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
