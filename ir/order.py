"""The order of nodes: ONNX wants each after those whose results it uses, and inference relies on it."""

from __future__ import annotations

import onnx_ir

from castsmith.ir.errors import OrderError
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes


def require_order(model: onnx_ir.Model) -> None:
    """Raise OrderError where a node uses a result that is made after it."""
    seen: set[onnx_ir.Node] = set()
    for node in all_nodes(model):
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if value is not None and producer is not None and producer not in seen:
                raise OrderError(
                    f"{site_of(node)} uses {value.name}, which a later node makes: nodes must stand in the order in"
                    " which they run (onnx_ir's TopologicalSortPass sorts them)."
                )
        seen.add(node)
