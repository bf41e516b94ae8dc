"""What has no meaning, compared on request: the metadata of nodes, and constants that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.cli.compare_changes import Change
from castsmith.cli.compare_queries import Scope
from castsmith.cli.compare_tensors import digest
from castsmith.ir.text import constant_text


def metadata_changes(a: onnx_ir.Node, b: onnx_ir.Node, place: str) -> Iterator[Change]:
    """Entries of metadata that two matched nodes do not share."""
    for name in sorted(a.metadata_props.keys() | b.metadata_props.keys()):
        before, after = a.metadata_props.get(name, ""), b.metadata_props.get(name, "")
        if before != after or (name in a.metadata_props) != (name in b.metadata_props):
            yield Change("node-metadata-changed", place, f"metadata {name}", before, after)


def unused_constant_changes(a: Scope, b: Scope, place: str) -> Iterator[Change]:
    """Initializers that nothing uses, by name."""
    left, right = _unused(a), _unused(b)
    for name in sorted(left.keys() | right.keys()):
        before, after = left.get(name), right.get(name)
        if before is None or after is None:
            kind = "unused-constant-added" if before is None else "unused-constant-removed"
        elif before.const_value is None or after.const_value is None:
            continue
        elif digest(before.const_value) != digest(after.const_value):
            kind = "unused-constant-changed"
        else:
            continue
        yield Change(kind, place, f"unused constant {name}", _text(before), _text(after))


def _unused(scope: Scope) -> dict[str, onnx_ir.Value]:
    if isinstance(scope, onnx_ir.Function):
        return {}
    values = scope.initializers.items()
    return {n: v for n, v in values if not v.uses() and not v.is_graph_output() and not v.is_graph_input()}


def _text(value: onnx_ir.Value | None) -> str:
    return "" if value is None else constant_text(value)
