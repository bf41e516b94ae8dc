"""The HTML page of bounds: the largest magnitude of each value along the graph, and a table of the widest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, get_args

import onnx_ir

from castsmith.cli.page.data import page_of
from castsmith.cli.page.overview import Overview, overview
from castsmith.cli.text.bounds import interval_text
from castsmith.numerics.types import type_name
from castsmith.verification.bounds import Bounds, Excess, How

_ROWS = 200
"""Values in the table: what one looks at before searching the JSON."""


def bounds_page(
    title: str, model: onnx_ir.Model, bounds: Bounds, to: str | None, excess: list[Excess] | None
) -> dict[str, Any]:
    """Return the page of one model; `excess` are the values that the type `to` does not hold."""
    whole = overview(model)
    figures = [("values", str(len(bounds))), *((how, str(bounds.count(how))) for how in get_args(How))]
    figures += [] if excess is None else [(f"beyond {to}", str(len(excess)))]
    page = page_of(title, "The range of each floating-point value.", figures, [], {}, {}, whole)
    proposals = [] if excess is None else [f"{one.value}: {one.proposal}" for one in excess if one.first][:_ROWS]
    table = {"title": "widest ranges", "table": list(_rows(bounds)), "notes": proposals}
    return {**page, "error": table, "map": list(_nodes(whole, bounds))}


def _rows(bounds: Bounds) -> Iterator[tuple[str, ...]]:
    yield "value, made by", "range", "how"
    bounded = (name for name in bounds if bounds[name].how != "unknown")
    for name in sorted(bounded, key=lambda name: -bounds[name].magnitude)[:_ROWS]:
        maker = "" if bounds.makers[name] == name else f", {bounds.makers[name]}"
        yield f"{name}{maker}", interval_text(bounds[name]), bounds[name].how


def _nodes(whole: Overview, bounds: Bounds) -> Iterator[dict[str, Any]]:
    """Yield the nodes with their types and, where it is known, the magnitude of their results."""
    for name, bound in bounds.items():
        index = whole.makers.get(name)
        if index is None or bound.dtype is None:
            continue
        known = {} if bound.how == "unknown" else {"magnitude": min(bound.magnitude, sys.float_info.max)}  # for JSON
        operator = whole.names[whole.operators[index]]
        yield {"name": whole.labels[index], "op": operator, "type": type_name(bound.dtype), **known}
