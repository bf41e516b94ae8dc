"""The result of a run as JSON data: the rewrites, refusals and diagnostics, with sizes and the savings of each rule.

savings    `measure` sizes a model (`ModelSizes`); `Watched` counts what each rule saves while `optimize` runs
data       `report_data` makes the JSON of a run, `comparison_data` that of a diff, `diagnostic_data` one finding
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.report.data import comparison_data, count_by_rule, diagnostic_data, effect_text, report_data
    from castsmith.cli.report.savings import Amount, ModelSizes, RuleKey, Watched, measure

__all__ = [
    "Amount",
    "ModelSizes",
    "RuleKey",
    "Watched",
    "comparison_data",
    "count_by_rule",
    "diagnostic_data",
    "effect_text",
    "measure",
    "report_data",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "data": ("comparison_data", "count_by_rule", "diagnostic_data", "effect_text", "report_data"),
            "savings": ("Amount", "RuleKey", "ModelSizes", "Watched", "measure"),
        },
    )
