"""The conformance suite: what the standard requires of every conversion, as vectors that any implementation can run.

`export` writes the suite, `read_suite` reads it, and `engines.run` compares an engine with it.

    values        the inputs: whole domains, and the numbers next to which a result changes
    vectors       Cast, CastLike and BitCast between all pairs of types
    quantized     QuantizeLinear, DequantizeLinear, and QONNX's Trunc
    exporting     the files: models with data sets, raw vectors, the manifest
    reading       the files read again, each checked against its hash
    judging       the output of an engine against a vector
    domains       hashes of the results over all 2**32 floats
    engines       the engines, each in a process of its own
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.conformance.exporting import Exported, export, suite
    from castsmith.conformance.judging import Deviation, Outcome, count, judge
    from castsmith.conformance.reading import read_suite
    from castsmith.conformance.vectors import Vector, every_type

__all__ = [
    "Deviation",
    "Exported",
    "Outcome",
    "Vector",
    "count",
    "every_type",
    "export",
    "judge",
    "read_suite",
    "suite",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "exporting": ("Exported", "export", "suite"),
            "judging": ("Deviation", "Outcome", "count", "judge"),
            "reading": ("read_suite",),
            "vectors": ("Vector", "every_type"),
        },
    )
