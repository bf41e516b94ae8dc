"""Which rule made each new node, as metadata of the node that viewers such as Netron show.

    castsmith.rule  resolve-promotion
    castsmith.pass  resolve-promote-types
    castsmith.from  main_graph: node_add (Add)

Nodes have metadata from IR version 10 on; models of an earlier one are left without.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir

from castsmith.ir.records import Rewrite
from castsmith.ir.walks import all_nodes

RULE, PASS, FROM = "castsmith.rule", "castsmith.pass", "castsmith.from"
_FIRST_IR_VERSION = 10


def note_provenance(model: onnx_ir.Model, old: set[onnx_ir.Node], rewrites: Iterable[Rewrite]) -> None:
    """Mark the nodes that are not `old` with the rewrite that made them, which names what they give."""
    new = [node for node in all_nodes(model) if node not in old]
    old.update(new)
    if not new or model.ir_version < _FIRST_IR_VERSION:
        return
    makers: dict[str, Rewrite] = {}
    inherited: dict[str, Rewrite] = {}
    for rewrite in rewrites:
        makers.update((name, rewrite) for name in _names(rewrite.after))
        # A result that is an output of the graph has taken the name of what it replaces since.
        inherited.update((name, rewrite) for name in _names(rewrite.before))
    for node in new:
        name = next((value.name for value in node.outputs if value.name), "")
        rewrite = makers.get(name or "") or inherited.get(name or "")
        if rewrite is not None:
            node.metadata_props.update({RULE: rewrite.rule, PASS: rewrite.pass_name, FROM: str(rewrite.site)})


def _names(text: str) -> Iterable[str]:
    """The first name that each line of ONNX text defines."""
    for line in text.split("\n"):
        outputs, equals, _ = line.partition(" = ")
        if equals:
            yield outputs.partition(", ")[0].rpartition(" ")[2]
