"""The HTML page of verify: the errors of outputs, the first node that departs, and the errors along the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir

from castsmith.analysis.inference.walk import known_types
from castsmith.cli.page.data import Entry, entry, finite, page_of
from castsmith.cli.page.overview import Overview, overview
from castsmith.cli.text.verify import as_command, notes_of
from castsmith.ir.ops.table import CASTS
from castsmith.ir.walks import all_values
from castsmith.numerics.types import type_name
from castsmith.verification.verdict import Mismatch, Verdict, evidence_of


def verify_page(names: tuple[str, str], a: onnx_ir.Model, b: onnx_ir.Model, verdict: Verdict) -> dict[str, Any]:
    """Return the page of one comparison; the verdict is traced."""
    model_map, verdict = overview(a), as_command(verdict)
    items = [] if verdict.mismatch is None else [_departure(names, verdict.mismatch, model_map)]
    figures = [
        ("verdict", evidence_of(verdict)[0]),
        ("sets of inputs", str(len(verdict.runs))),
        ("elements compared", f"{verdict.compared} of {verdict.elements}"),
    ]
    page = page_of(" \u2192 ".join(names), verdict.summary(), figures, items, model_map, overview(b))
    notes = [
        *verdict.interface,
        *verdict.unsure,
        *(f"to decide it, {text}" for text in verdict.advice),
        *notes_of(verdict),
    ]
    table = {"title": "largest errors by output", "table": _table(verdict), "notes": notes}
    return {**page, "error": table, "map": list(_nodes(b, model_map, verdict))}


def _departure(names: tuple[str, str], mismatch: Mismatch, model_map: Overview) -> Entry:
    """Return the first value that differs as an item of the list, with a picture of the nodes that make it."""
    difference = mismatch.difference
    place = f"{mismatch.value}{list(difference.index) if difference.index else ''}"
    reason = f"{place} is {difference.a} in {names[0]} and {difference.b} in {names[1]}, on inputs {mismatch.inputs}"
    before, after = ([] if node is None else [node] for node in mismatch.nodes)
    group = "output" if mismatch.nodes[1] is None else mismatch.nodes[1].operator
    texts = "change", group, "first-difference", mismatch.site, reason, ()
    drawn, detail = bool(before or after), "; ".join(mismatch.operands)
    return entry(model_map, *texts, before, after, drawn=drawn, detail=detail)


def _table(verdict: Verdict) -> list[tuple[str, ...]]:
    rows = [("output", "compared", "absolute", "relative", "allowed")]
    for name, count in verdict.outputs.items():
        tolerance = str(verdict.tolerances.get(name, "nothing"))
        rows.append((name, str(count.compared), f"{count.absolute:.3g}", f"{count.relative:.3g}", tolerance))
    return rows


def _nodes(b: onnx_ir.Model, model_map: Overview, verdict: Verdict) -> Iterator[dict[str, Any]]:
    """Yield the nodes of A whose results both models have: the type in B, the magnitude, and the error."""
    values, types = {value.name: value for value in all_values(b)}, known_types(b)
    for traced in verdict.traced:
        maker, value = model_map.maker_of(traced.value), values.get(traced.value)
        if maker is None or value is None:
            continue
        node = value.producer()
        source = node.inputs[0] if node is not None and node.op_type in CASTS else value
        dtype = types.get(source, source.dtype) if source is not None else None
        yield {
            **maker,
            "type": "unknown" if dtype is None else type_name(dtype),
            "magnitude": finite(traced.magnitude),
            "error": finite(traced.error),
        }
