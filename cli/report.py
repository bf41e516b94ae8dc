"""What optimize did, as data: the layout that --json and --report share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import castsmith
from castsmith.cli.measure import Measure
from castsmith.ir.records import Diagnostic, Refusal, Rewrite, Site
from castsmith.lowering.pipeline import Result

_CAST = re.compile(r" = Cast(?:Like)? (?:<|\()")


def report_data(
    source: str, output: str | None, target: str | None, result: Result, sizes: dict[str, Measure]
) -> dict[str, Any]:
    """Everything about one run of optimize; without an output where nothing was written."""
    return {
        "castsmith": castsmith.__version__,
        "input": source,
        "output": output,
        "target": target,
        "summary": {
            **{moment: asdict(size) for moment, size in sizes.items()},
            "rewrites": [
                {"pass": name, "rule": rule, "count": count}
                for (name, rule), count in count_by_rule(result.rewrites).items()
            ],
            "refusals": len(result.refusals),
            "diagnostics": len(result.diagnostics),
        },
        "rewrites": [_rewrite(record) for record in result.rewrites],
        "refusals": [_refusal(record) for record in result.refusals],
        "diagnostics": [diagnostic_data(record) for record in result.diagnostics],
    }


def count_by_rule(records: Sequence[Rewrite | Refusal]) -> Counter[tuple[str, str]]:
    """How many records each rule of each pass made, in the order in which they first appear."""
    return Counter((record.pass_name, record.rule) for record in records)


def casts_by_rule(records: Sequence[Rewrite]) -> dict[tuple[str, str], str]:
    """What the rewrites of each rule of each pass add and remove of casts, such as `+3 -1`; empty where nothing."""
    found: dict[tuple[str, str], list[int]] = {}
    for record in records:
        change = len(_CAST.findall(record.after)) - len(_CAST.findall(record.before))
        counts = found.setdefault((record.pass_name, record.rule), [0, 0])
        counts[change < 0] += abs(change)
    texts = {key: (f"+{up}" if up else "", f"-{down}" if down else "") for key, (up, down) in found.items()}
    return {key: " ".join(filter(None, text)) for key, text in texts.items()}


def diagnostic_data(record: Diagnostic) -> dict[str, Any]:
    """A diagnostic or finding as data."""
    return {
        "code": record.code,
        "severity": record.severity.value,
        "place": _place(record.site),
        "message": record.message,
        "help": record.help,
    }


def _rewrite(record: Rewrite) -> dict[str, Any]:
    return {
        "pass": record.pass_name,
        "rule": record.rule,
        "place": _place(record.site),
        "before": record.before,
        "after": record.after,
        "reason": record.reason,
        "effect": effect_name(record),
    }


def _refusal(record: Refusal) -> dict[str, Any]:
    return {
        "pass": record.pass_name,
        "rule": record.rule,
        "place": _place(record.site),
        "reason": record.reason,
        "witness": record.witness,
    }


def effect_name(record: Rewrite) -> str:
    """The effect in a word, such as `bit-exact` or `repair`."""
    return record.effect.name.lower().replace("_", "-")


def _place(site: Site) -> dict[str, str]:
    return {"graph": site.graph, "node": site.node, "op": site.op}
