"""Hashes of the results of a conversion over the whole domain of its source: 2**32 floats, or 2**16 halves.

The outputs are hashed in the order of the codes of the inputs, one byte or two (little-endian) an element, those of
less than a byte in its low bits. Every NaN counts as the positive quiet one. Inputs whose result the standard leaves
open give the code 0; `Domain.open` names them. So any implementation can prove itself with one loop, and no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.conformance.values import values_for
from castsmith.conformance.vectors import Setting, settings_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import every_value
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import ELEMENT_TYPES, Kind, element_type, type_name

Array = npt.NDArray[Any]

_SOURCES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_CHUNK = 1 << 24


@dataclass(frozen=True, slots=True)
class Domain:
    """One conversion over all values of its source, by the rules of the newest opset.

    Attributes:
        source: float, float16 or bfloat16.
        target: A type of at most 16 bits.
        saturate: The attribute `saturate`; True where the target ignores it.
        round_mode: The attribute `round_mode`; "up" where the target ignores it.
    """

    source: DataType
    target: DataType
    saturate: bool = True
    round_mode: str = "up"

    def name(self) -> str:
        """Return a name of letters, digits and underscores."""
        setting = Setting(self.saturate, self.round_mode)
        return "_".join([type_name(self.source), "to", type_name(self.target), *setting.words()])

    def outputs(self, values: Array) -> Array:
        """Return the conversion of some values."""
        return cast(values, self.target, saturate=self.saturate, round_mode=self.round_mode)

    def open(self) -> list[tuple[int, int]]:
        """Return the ranges of input codes, both ends included, whose result the standard leaves open."""
        values = _edges(self.source, self.target)
        codes: list[int] = values.view(f"u{values.itemsize}").tolist()
        left_open: list[bool] = (self._standing(values) != 0).tolist()
        turns = [k for k in range(1, len(codes)) if left_open[k] != left_open[k - 1]]
        starts = [0] * left_open[0] + [self._turn(codes[k - 1], codes[k]) for k in turns]
        ends = [*starts, 1 << element_type(self.source).bits] if len(starts) % 2 else starts
        return [(begin, end - 1) for begin, end in zip(ends[::2], ends[1::2], strict=True)]

    def _standing(self, values: Array) -> Array:
        return cast_status(values, self.target, saturate=self.saturate, round_mode=self.round_mode)

    def _turn(self, low: int, high: int) -> int:
        """Return the first code whose standing is that of `high` and not that of `low`, by halving."""
        stored = self.source.numpy()

        def standing(code: int) -> int:
            return int(self._standing(np.array([code], f"u{stored.itemsize}").view(stored))[0] != 0)

        of_low = standing(low)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if standing(middle) == of_low else (low, middle)
        return high


def domains() -> Iterator[Domain]:
    """Yield every domain: to each type of at most 16 bits, with each setting that it distinguishes."""
    for source in _SOURCES:
        for target, row in ELEMENT_TYPES.items():
            if row.kind not in (Kind.INTEGER, Kind.FLOATING) or row.bits > 16 or target is source:
                continue
            yield from (Domain(source, target, setting.saturate, setting.round_mode) for setting in settings_of(row))


def domain_hash(domain: Domain) -> str:
    """Return the SHA-256 of the outputs, in hexadecimal; about 20 seconds of processor time for 2**32 floats."""
    stored, size = domain.source.numpy(), 1 << element_type(domain.source).bits
    ranges, digest, one_nan = domain.open(), hashlib.sha256(), _one_nan(domain.target)
    for start in range(0, size, _CHUNK):
        stop = min(start + _CHUNK, size)
        codes = np.arange(start, stop, dtype=f"u{stored.itemsize}")
        output = domain.outputs(codes.view(stored))
        bits = np.take(one_nan, output.view(f"u{output.itemsize}"))
        for begin, end in ranges:
            bits[max(begin - start, 0) : max(end + 1 - start, 0)] = 0
        digest.update(bits.data)
    return digest.hexdigest()


def _one_nan(target: DataType) -> Array:
    """Return a table of all codes of a type, little-endian, in which every NaN is the positive quiet one."""
    stored = target.numpy()
    codes = np.arange(1 << (8 * stored.itemsize), dtype=f"<u{stored.itemsize}")
    row = element_type(target)
    if row.kind is Kind.FLOATING and row.has_nan:
        nan = cast(np.array([np.nan]), target)
        with np.errstate(invalid="ignore"):
            codes[np.isnan(codes.view(stored))] = nan.view(codes.dtype)[0]
    return codes


def _edges(source: DataType, target: DataType) -> Array:
    """Return values in order of code between which the standing of a conversion does not change."""
    if element_type(source).bits <= 16:
        return every_value(source)
    ends = np.array([0, 0x7F800000, 0x7FFFFFFF, 0x80000000, 0xFF800000, 0xFFFFFFFF], np.uint32).view(np.float32)
    values = np.concatenate([values_for(source, target), ends])
    return np.unique(values.view(np.uint32)).view(np.float32)
