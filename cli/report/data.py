"""The result of optimize as data: the layout that --json and --report share."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import castsmith
from castsmith.cli.report.savings import ModelSizes
from castsmith.cli.text.json import number
from castsmith.cli.wording import with_command_options
from castsmith.ir.records import Diagnostic, Item, NodeItem, Refusal, Rewrite, Site, ValueItem
from castsmith.lowering.results import Accuracy, ConvertResult, Result
from castsmith.numerics.types import type_name

if TYPE_CHECKING:
    from castsmith.lowering.faults import Fault
    from castsmith.verification.diff.models import ModelDiff
    from castsmith.verification.verdict import Verdict


def report_data(
    source: str, output: str | None, target: str | None, result: Result, sizes: ModelSizes
) -> dict[str, Any]:
    """Return everything about one run of optimize; without an output if nothing was written."""
    return {
        "castsmith": castsmith.__version__,
        "input": source,
        "output": output,
        "target": target,
        "summary": {
            "before": asdict(sizes.before),
            "after": asdict(sizes.after),
            "rewrites": [
                {"pass": name, "rule": rule, **asdict(amount)} for (name, rule), amount in sizes.rules.items()
            ],
            "refusals": len(result.refusals),
            "diagnostics": len(result.diagnostics),
        },
        "rewrites": [_rewrite(record) for record in result.rewrites],
        "refusals": [_refusal(record) for record in result.refusals],
        "diagnostics": [diagnostic_data(record) for record in result.diagnostics],
        "verification": None if result.verdict is None else _verification(result.verdict),
        **(_conversion(result) if isinstance(result, ConvertResult) else {}),
    }


def _conversion(result: ConvertResult) -> dict[str, Any]:
    """The precision of each node with its reason, and the measured error."""
    precisions = [
        {"node": name, "type": type_name(dtype), "region": result.regions.get(name, 0), "reason": reason}
        for name, (dtype, reason) in result.precisions.items()
    ]
    faults = list(map(fault_data, result.faults))
    facts = {"precisions": precisions, "attempts": result.attempts, "faults": faults, "factors": dict(result.factors)}
    errors = {"before": accuracy_data(result.before), "error": accuracy_data(result.error)}
    return {"conversion": {**facts, **errors}}


def fault_data(fault: Fault) -> dict[str, Any]:
    """Return a node that goes wrong in float16, as data."""
    return {
        "node": fault.name,
        "value": fault.value,
        "kind": fault.kind,
        "magnitude": fault.magnitude,
        "place": fault.place,
    }


def accuracy_data(error: Accuracy | None) -> dict[str, Any] | None:
    """Return the measured error; None where nothing was measured. A number that JSON lacks is text."""
    if error is None:
        return None
    leap = None if error.leap is None else {"node": error.leap[0], "error": number(error.leap[1])}
    outputs = [{key: number(value) for key, value in asdict(output).items()} for output in error.outputs]
    return {
        "sets": list(error.sets),
        "outputs": outputs,
        "leap": leap,
        "overflows": list(error.overflows),
        "notes": list(error.notes),
        "differing": [
            {"name": name, "elements": count, "of": total} for name, (count, total) in error.differing.items()
        ],
    }


def comparison_data(differences: ModelDiff) -> dict[str, Any]:
    """Return the result of diff as data."""
    keys = ("kind", "place", "subject", "before", "after", "detail")
    return {
        "changes": [{key: getattr(change, key) for key in keys} for change in differences.changes],
        "nodes_same": differences.nodes_same,
        "nodes_changed": differences.nodes_changed,
        "nodes_added": differences.nodes_added,
        "nodes_removed": differences.nodes_removed,
    }


def _verification(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.outcome,
        "engine": verdict.engine,
        "sets": len(verdict.runs),
        "elements": verdict.elements,
        "compared": verdict.compared,
        "proven": sorted(verdict.proven),
        "accepted": verdict.accepted,
        "unsure": [with_command_options(text) for text in verdict.unsure],
    }


def diagnostic_data(record: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic or finding as data."""
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
        "removed": list(map(_item, record.removed)),
        "made": list(map(_item, record.made)),
        "reason": record.reason,
        "effect": effect_name(record),
        "saved_bytes": record.saved_bytes,
    }


def _item(item: Item) -> dict[str, Any]:
    if isinstance(item, NodeItem):
        return {
            "kind": "node",
            "domain": item.domain,
            "op": item.op_type,
            "name": item.name,
            "attributes": dict(item.attributes),
            "inputs": [None if value is None else _item(value) for value in item.inputs],
            "outputs": list(map(_item, item.outputs)),
        }
    if isinstance(item, ValueItem):
        fields = {"name": item.name, "type": item.type, "content": item.content, "role": item.role}
        return {"kind": "value", **fields}
    return {"kind": "text", "text": item.code}


def _refusal(record: Refusal) -> dict[str, Any]:
    return {
        "pass": record.pass_name,
        "rule": record.rule,
        "place": _place(record.site),
        "reason": record.reason,
        "witness": record.witness,
    }


def effect_name(record: Rewrite) -> str:
    """Return the effect in a word, such as `bit-exact` or `repair`."""
    return record.effect.name.lower().replace("_", "-")


def effect_text(record: Rewrite) -> str:
    """Return the effect, and the bytes saved if they were counted: `bit-exact, saves 96 bytes`."""
    saved = record.saved_bytes
    return effect_name(record) if saved is None else f"{effect_name(record)}, saves {saved} bytes"


def _place(site: Site) -> dict[str, str]:
    return asdict(site)
