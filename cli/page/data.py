"""The HTML page: its data, from a run of optimize or a diff, and the one file that needs no network.

Names in models are untrusted. They occur only in the JSON, in which `<` is escaped so that nothing ends the element
around it, and the script of the page makes text nodes of them.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

import onnx_ir

from castsmith.analysis.inference.walk import known_types
from castsmith.cli.page.overview import Overview, overview
from castsmith.cli.report.data import effect_text
from castsmith.cli.report.savings import Amount, ModelSizes
from castsmith.cli.text.accuracy import error_notes, error_table, error_title
from castsmith.cli.text.alike import Form
from castsmith.cli.text.diff import change_forms
from castsmith.cli.text.rewrites import KEPT_NODE, refusal_form, rewrite_form
from castsmith.cli.text.terminal import change_text, counted, size_text
from castsmith.ir.records import Diagnostic, Item, NodeItem, Refusal, Rewrite, Site, ValueItem, items_text
from castsmith.ir.text import node_item, site_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.fit.results import FitResult
from castsmith.lowering.net import net_rewrites
from castsmith.lowering.results import Accuracy, ConvertResult, Result
from castsmith.numerics.types import type_name
from castsmith.verification.diff.interface import Change
from castsmith.verification.diff.models import ModelDiff
from castsmith.verification.verdict import evidence_of

Entry = dict[str, Any]

_ARROW = "\u2192"
_MOST_TEXT = 90
_LARGE = 1 << 18
"""Characters of JSON from which it is compressed."""


def report_page(title: str, sub: str, before: Overview, result: Result, sizes: ModelSizes) -> dict[str, Any]:
    """Return the page of one run of optimize; `before` is the map of the input model."""
    nodes = _nodes_at(result.model, [record.site for record in result.refusals])
    items = [
        *(
            entry(before, "diagnostic", found.severity.value, found.code, found.site, _helped(found), (str(index),))
            for index, found in enumerate(result.diagnostics)
        ),
        *(_rewrite(record, before) for record in net_rewrites(result.rewrites, result.model)),
        *(_refusal(record, node, before) for record, node in zip(result.refusals, nodes, strict=True)),
    ]
    first, last = sizes.before, sizes.after
    kept_count = sum(record.rule == KEPT_NODE for record in result.refusals)
    figures = [
        ("rewrites", str(len(result.rewrites))),
        *([("kept in a wider type", str(kept_count))] if kept_count else []),
        ("skipped", str(len(result.refusals) - kept_count)),
        ("nodes", change_text(str(first.nodes), str(last.nodes), _ARROW)),
        ("casts", change_text(str(first.casts), str(last.casts), _ARROW)),
        ("tensors", change_text(size_text(first.tensor_bytes), size_text(last.tensor_bytes), _ARROW)),
        ("file", change_text(size_text(first.file_bytes or 0), size_text(last.file_bytes or 0), _ARROW)),
    ]
    if result.verdict is not None:
        outcome, evidence = evidence_of(result.verdict)
        figures.append(("verified", outcome + evidence.partition(":")[0].partition(";")[0]))
    page = page_of(title, sub, figures, items, before, overview(result.model))
    rules = [{"group": name, "rule": rule, **_amount(amount)} for (name, rule), amount in sizes.rules.items()]
    conversion = result.conversion if isinstance(result, FitResult) else result
    error = result.error if isinstance(result, FitResult | ConvertResult) else None
    parts = _conversion(conversion, error) if isinstance(conversion, ConvertResult) else {}
    return {**page, "rules": rules, **parts}


def many_page(
    title: str, sub: str, columns: Sequence[str], models: Iterable[tuple[Sequence[str], Sequence[str], Entry | None]]
) -> dict[str, Any]:
    """Return the page of a run over many models.

    Args:
        title: The heading.
        sub: The line below it.
        columns: The heads of the table.
        models: For each model its row, its messages, and what `report_page` gave; None if it failed.
    """
    entries = [{"row": list(row), "messages": list(messages), "page": page} for row, messages, page in models]
    return {"schema": 1, "title": title, "sub": sub, "columns": list(columns), "models": entries}


def _conversion(result: ConvertResult, error: Accuracy | None) -> dict[str, Any]:
    """Return the map of a conversion, and the error if it was measured."""
    if error is None:
        return {"map": _map(result)}
    measured = {"title": error_title(error), "table": error_table(error), "notes": list(error_notes(error))}
    return {"map": _map(result), "error": measured}


def _map(result: ConvertResult) -> list[dict[str, Any]]:
    """Return the nodes that compute with floating-point numbers, in the order of the model: type, reason, magnitude."""
    nodes: list[dict[str, Any]] = [
        {"name": name, "op": result.operators.get(name, ""), "type": type_name(dtype), "reason": reason}
        for name, (dtype, reason) in result.precisions.items()
    ]
    for node in nodes:
        if node["name"] in result.magnitudes:
            node["magnitude"] = finite(result.magnitudes[node["name"]])
    return nodes


def finite(number: float) -> float:
    """Return the number, or the largest one for infinity, which JSON does not have."""
    return min(number, sys.float_info.max)


def diff_page(title: str, a: onnx_ir.Model, b: onnx_ir.Model, differences: ModelDiff) -> dict[str, Any]:
    """Return the page of one comparison."""
    model_map = overview(a)
    items = [
        entry(
            model_map,
            "change",
            change.subject.partition(" ")[0],
            change.kind,
            change.place,
            _change_reason(change),
            form,
            (change.removed,),
            (change.made,),
            drawn=change.subject in ("node", "operator"),
            detail=change.detail,
            before=change.before,
            after=change.after,
        )
        for change, form in zip(differences.changes, change_forms(differences.changes), strict=True)
    ]
    counts = {
        "same": differences.nodes_same,
        "changed": differences.nodes_changed,
        "added": differences.nodes_added,
        "removed": differences.nodes_removed,
    }
    figures = [("differences", str(len(items))), *((f"nodes {key}", str(count)) for key, count in counts.items())]
    sub = "The models are the same." if not items else counted(len(items), "difference")
    return page_of(title, sub, figures, items, model_map, overview(b))


def _change_reason(change: Change) -> str:
    """Return the change in one line: the node, or the old and new text."""
    is_node = change.subject in ("node", "operator")
    sides = [
        text if item is None or not is_node else item.code
        for text, item in ((change.before, change.removed), (change.after, change.made))
    ]
    text = " \u2192 ".join(side if len(side) <= _MOST_TEXT else f"{side[:_MOST_TEXT]}\u2026" for side in sides if side)
    return text if is_node else f"{change.subject}: {text}"


def page_of(
    title: str,
    sub: str,
    figures: Iterable[tuple[str, str]],
    items: Sequence[Entry],
    before: Overview,
    after: Overview,
) -> dict[str, Any]:
    numbers: dict[tuple[str, ...], int] = {}
    for item in items:  # those that differ only in names and shapes have the same number, as the text shows them once
        item["form"] = numbers.setdefault((item["kind"], item["group"], item["rule"], *item["form"]), len(numbers))
    drawn = [item for item in items if item["drawn"]]
    neighbours = {
        side: {
            name: neighbours
            for item in drawn
            for node in item["drawing"][side]
            for name in (*node["outs"], *node["ins"])
            if (neighbours := model_map.neighbours(name))
        }
        for side, model_map in (("before", before), ("after", after))
    }
    page = {"schema": 1, "title": title, "sub": sub, "figures": list(figures), "items": items, "around": neighbours}
    return {**page, "overview": before.data()}


def _amount(amount: Amount) -> dict[str, str]:
    """Return the casts and bytes of a rule as shown in the table."""
    casts, sizes = ((amount.casts_added, amount.casts_removed), (amount.bytes_added, amount.bytes_removed))
    return {
        "count": str(amount.count),
        "casts": " ".join(f"{sign}{number}" for sign, number in zip("+\u2212", casts, strict=True) if number),
        "bytes": " ".join(f"{sign}{size_text(size)}" for sign, size in zip("+\u2212", sizes, strict=True) if size),
    }


def _nodes_at(model: onnx_ir.Model, sites: Sequence[Site]) -> list[tuple[NodeItem, ...]]:
    """Return for each site the node there, if it still exists and is unambiguous: by its name, or by its output."""
    if not sites:
        return []
    nodes: dict[Site, list[onnx_ir.Node]] = {}
    for node in all_nodes(model):
        nodes.setdefault(site_of(node), []).append(node)
    types = known_types(model)
    layers: list[tuple[NodeItem, ...]] = []
    for site in sites:
        drawn_nodes = nodes.get(site, [])
        if len(drawn_nodes) > 1:
            drawn_nodes = [node for node in drawn_nodes if site_of(node).output == site.output]
        layers.append((node_item(drawn_nodes[0], types),) if len(drawn_nodes) == 1 else ())
    return layers


def _rewrite(record: Rewrite, model_map: Overview) -> Entry:
    reason, drawn = f"{record.reason} [{effect_text(record)}]", record.removed != record.made
    texts = record.pass_name, record.rule, record.site, reason, rewrite_form(record)
    return entry(model_map, "rewrite", *texts, record.removed, record.made, drawn=drawn)


def _refusal(record: Refusal, nodes: Sequence[Item], model_map: Overview) -> Entry:
    witness = f" (example value: {record.witness})" if record.witness else ""
    texts = record.pass_name, record.rule, record.site, record.reason + witness, refusal_form(record)
    return entry(model_map, "refusal", *texts, nodes)


def _helped(record: Diagnostic) -> str:
    return record.message + (f" ({record.help})" if record.help else "")


def entry(
    model_map: Overview,
    kind: str,
    group: str,
    rule: str,
    place: object,
    reason: str,
    form: Form,
    removed: Sequence[Item | None] = (),
    made: Sequence[Item | None] = (),
    *,
    drawn: bool = False,
    **more: str,
) -> Entry:
    """Return one change. drawn: the items are nodes that a picture can show. more: other facts, or other texts."""
    sides = {
        side: [item for item in items if item is not None] for side, items in (("before", removed), ("after", made))
    }
    texts = {side: items_text(items) for side, items in sides.items()}
    drawing = {"drawing": {side: list(map(_drawing, items)) for side, items in sides.items()}} if drawn else {}
    facts = {"kind": kind, "group": group, "rule": rule, "place": str(place), "reason": reason, "form": form}
    return {**facts, **texts, **more, "at": model_map.places(removed, made), "drawn": drawn, **drawing}


def _drawing(item: Item) -> Entry:
    """Return one box of a picture: the operator, the names and types of its operands and results, and a note."""
    operator, note, results, operands = item.code, "", (), ()
    if isinstance(item, NodeItem):
        to = next((f"to {text}" for name, text in item.attributes if name == "to"), None)
        operator, note = item.operator, to or ", ".join(f"{name} = {text}" for name, text in item.attributes)
        results, operands = item.outputs, item.inputs
    elif isinstance(item, ValueItem) and item.content is not None:
        operator, note, results = "constant", item.content, (item,)
    return {
        "op": operator,
        "outs": [value.name for value in results],
        "outTypes": [value.type for value in results],
        "ins": ["" if value is None else value.name for value in operands],
        "inTypes": ["" if value is None else value.type for value in operands],
        "note": note,
    }


def html_text(data: dict[str, Any]) -> str:
    """Return the page that shows `data`, in the layout that `page.js` reads."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    if len(text) > _LARGE:
        text = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    folder = files("castsmith.cli") / "page"
    names = ("page.html", "page.css", "map.js", "page.js")
    page, style, map_script, script = ((folder / name).read_text("utf-8") for name in names)
    for mark, content in (("/*STYLE*/", style), ("/*MAP*/", map_script), ("/*SCRIPT*/", script), ("/*DATA*/", text)):
        before, _, after = page.partition(mark)
        page = before + content + after
    return page
