"""The HTML page of bounds: the largest magnitude of each value along the graph, and a table of the widest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import onnx_ir

from castsmith.cli.page.data import finite, page_of
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
    model_map = overview(model)
    figures = [("values", str(len(bounds))), *((how, str(bounds.count(how))) for how in get_args(How))]
    figures += [] if excess is None else [(f"beyond {to}", str(len(excess)))]
    page = page_of(title, "The range of each floating-point value.", figures, [], model_map, model_map)
    proposals = (
        [] if excess is None else [f"{value.value}: {value.proposal}" for value in excess if value.first][:_ROWS]
    )
    table = {"title": "widest ranges", "table": list(_rows(bounds)), "notes": proposals}
    return {**page, "error": table, "map": list(_nodes(model_map, bounds))}


def _rows(bounds: Bounds) -> Iterator[tuple[str, ...]]:
    yield "value, made by", "range", "how"
    bounded = (name for name in bounds if bounds[name].how != "unknown")
    for name in sorted(bounded, key=lambda name: -bounds[name].magnitude)[:_ROWS]:
        maker = "" if bounds.makers[name] == name else f", {bounds.makers[name]}"
        yield f"{name}{maker}", interval_text(bounds[name]), bounds[name].how


def _nodes(model_map: Overview, bounds: Bounds) -> Iterator[dict[str, Any]]:
    """Yield the nodes with their types and, where it is known, the magnitude of their results."""
    for name, bound in bounds.items():
        maker = model_map.maker_of(name)
        if maker is None or bound.dtype is None:
            continue
        facts = {**maker, "type": type_name(bound.dtype)}
        yield facts if bound.how == "unknown" else {**facts, "magnitude": finite(bound.magnitude)}
