"""Conversion of a model to another floating-point precision: the only pass that changes values, on request.

Run `ConvertPrecision(to=...)`, the pass in `run`.

    patterns       nodes selected by name, operator or path
    ports          the inputs and outputs of a node that change with it
    operators      the operators that are sensitive
    sensitivity    the nodes of these operators that stay in float
    constants      the constants that fit the precision
    facts          what values hold of constants
    problem        the choice for the whole model
    gains          the worth of converting a node, and the cost of casts
    apply          the changed graph
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.passes.precision.constants import Fates
    from castsmith.passes.precision.operators import SENSITIVE, sensitive_reason
    from castsmith.passes.precision.patterns import Pattern, exact_pattern, parse_patterns
    from castsmith.passes.precision.run import (
        NAME,
        ConvertPrecision,
        Precision,
        PrecisionResult,
        nothing_to_convert,
        parse_precision,
        require_something,
    )

__all__ = [
    "NAME",
    "SENSITIVE",
    "ConvertPrecision",
    "Fates",
    "Pattern",
    "Precision",
    "PrecisionResult",
    "exact_pattern",
    "nothing_to_convert",
    "parse_patterns",
    "parse_precision",
    "require_something",
    "sensitive_reason",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "constants": ("Fates",),
            "operators": ("SENSITIVE", "sensitive_reason"),
            "patterns": ("Pattern", "exact_pattern", "parse_patterns"),
            "run": (
                "NAME",
                "ConvertPrecision",
                "Precision",
                "PrecisionResult",
                "nothing_to_convert",
                "parse_precision",
                "require_something",
            ),
        },
    )
