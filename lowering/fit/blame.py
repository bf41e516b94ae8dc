"""The operators and values that stand in the way, as they are called in the user's file.

A lowered model has nodes that the user never saw. The records of the rewrites lead from such a node back to the one
that it replaced, and so on to a node of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import onnx_ir

from castsmith.ir.records import Diagnostic, NodeItem, Rewrite, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes


def in_users_words(
    model: onnx_ir.Model, rewrites: Iterable[Rewrite], findings: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the findings about what became of the model, each at the node of the model from which it comes.

    Args:
        model: The model as it was passed.
        rewrites: What was done to it, in order.
        findings: Findings about the result.
    """
    sites = {name: site_of(node) for node in all_nodes(model) for name in _names(node)}
    makers: dict[str, Rewrite] = {}
    for rewrite in rewrites:
        for item in rewrite.made:
            makers.update(dict.fromkeys((item.name, *item.made) if isinstance(item, NodeItem) else item.made, rewrite))
    return list(dict.fromkeys(_at_origin(finding, sites, makers) for finding in findings))


def _names(node: onnx_ir.Node) -> list[str]:
    return [name for name in (node.name, *(value.name for value in node.outputs)) if name]


def _at_origin(finding: Diagnostic, sites: Mapping[str, Site], makers: Mapping[str, Rewrite]) -> Diagnostic:
    origin = _origin(finding.site, sites, makers)
    if origin is None or origin == finding.site:
        return finding
    return replace(finding, site=origin, message=f"{finding.message}, which {origin.op or 'it'} is lowered to")


def _origin(site: Site, sites: Mapping[str, Site], makers: Mapping[str, Rewrite]) -> Site | None:
    """Return the place in the model from which the place in the result comes; None if no record tells."""
    visited = set[tuple[str, str]]()
    waiting = [(name, site.op) for name in (site.node, site.output) if name]
    while waiting:
        name, op = waiting.pop(0)
        if name in sites and (name not in makers or sites[name].op == op):
            return sites[name]
        if (name, op) in visited or name not in makers:
            continue
        visited.add((name, op))
        rewrite = makers[name]
        before = [item for item in rewrite.removed if isinstance(item, NodeItem)]
        waiting += [(name, item.op_type) for item in before for name in (item.name, *item.made) if name]
        waiting += [(name, rewrite.site.op) for name in (rewrite.site.node, rewrite.site.output) if name]
    return None
