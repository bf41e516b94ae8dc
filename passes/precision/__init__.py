"""Conversion of a model to another floating-point precision: the only pass that changes values, on request.

Run `ConvertPrecision(to=...)`, the pass in `run`. `patterns` select nodes by name; `ports` gives the inputs and outputs
of a node that change with it, `operators` the operators that are sensitive, `sensitivity` which of their nodes stay in
float, `constants` the constants that fit, `problem` states the choice for the whole model, `cut` solves it with the
fewest bytes of casts, and `apply` changes the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.precision.operators import SENSITIVE, sensitive_reason
    from castsmith.passes.precision.patterns import Pattern, exact_pattern, parse_patterns
    from castsmith.passes.precision.run import (
        ConvertPrecision,
        Precision,
        PrecisionResult,
        parse_precision,
        require_something,
    )

__all__ = [
    "SENSITIVE",
    "ConvertPrecision",
    "Pattern",
    "Precision",
    "PrecisionResult",
    "exact_pattern",
    "parse_patterns",
    "parse_precision",
    "require_something",
    "sensitive_reason",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "operators": ("SENSITIVE", "sensitive_reason"),
            "patterns": ("Pattern", "exact_pattern", "parse_patterns"),
            "run": (
                "ConvertPrecision",
                "Precision",
                "PrecisionResult",
                "parse_precision",
                "require_something",
            ),
        },
    )
