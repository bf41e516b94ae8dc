"""The map of a whole graph for the page: each node by its depth, and the nodes at which something changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import onnx_ir

from castsmith.ir.records import Item, NodeItem, ValueItem
from castsmith.ir.walks import all_nodes
from castsmith.passes.precision.patterns import paths_of

_MOST_CONSUMERS = 3
_MOST_WITH_EDGES = 3000
"""Number of nodes up to which the map has edges."""


@dataclass
class Overview:
    """The nodes of a model in order.

    Attributes:
        depths: The length of the longest path to each node.
        operators: The operator of each node, as an index of `names`.
        names: The operators.
        labels: The name of each node, or of its first result.
        modules: The module of each node, as an index of `paths`.
        paths: The paths of modules, with `/` between their steps.
        edges: Pairs of nodes, one after the other; empty for large models.
        makers: The node that makes each value, by name.
        users: The nodes that use each value, by name, in order.
        sources: What else a value is, by name: an input or a constant.
        outputs: The names of outputs.
    """

    depths: list[int] = field(default_factory=list[int])
    operators: list[int] = field(default_factory=list[int])
    names: list[str] = field(default_factory=list[str])
    labels: list[str] = field(default_factory=list[str])
    modules: list[int] = field(default_factory=list[int])
    paths: list[str] = field(default_factory=list[str])
    edges: list[int] = field(default_factory=list[int])
    makers: dict[str, int] = field(default_factory=dict[str, int])
    users: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    sources: dict[str, str] = field(default_factory=dict[str, str])
    outputs: set[str | None] = field(default_factory=set[str | None])

    def places(self, removed: Iterable[Item | None], added: Iterable[Item | None]) -> list[int]:
        """Return the nodes that a change removes; of one that removes none, those beside what it makes."""
        gone = {self.makers[name] for item in removed if item is not None for name in item.made if name in self.makers}
        if gone:
            return sorted(gone)
        beside: set[int] = set()
        for item in (*removed, *added):
            for name in item.names if isinstance(item, NodeItem | ValueItem) else ():
                beside |= {self.makers[name]} if name in self.makers else {*self.users.get(name, ())[:1]}
        return sorted(beside)[:1]

    def maker_of(self, value: str) -> dict[str, str] | None:
        """Return the name and the operator of the node that makes the value; None without one."""
        index = self.makers.get(value)
        return None if index is None else {"name": self.labels[index], "op": self.names[self.operators[index]]}

    def neighbours(self, value: str) -> tuple[str, list[str]] | None:
        """Return the operator that makes the value and some that use it; None for an unknown value."""
        maker = self.sources.get(value, "")
        if value in self.makers:
            maker = self.names[self.operators[self.makers[value]]]
        elif not maker and value not in self.outputs:
            return None
        users = [self.names[self.operators[index]] for index in self.users.get(value, ())]
        more = [f"+{len(users) - _MOST_CONSUMERS} more"] if len(users) > _MOST_CONSUMERS else []
        return maker, [*users[:_MOST_CONSUMERS], *more, *(["output"] if value in self.outputs else [])]

    def data(self) -> dict[str, Any]:
        """Return what the page draws."""
        nodes = {"depths": self.depths, "operators": self.operators, "labels": self.labels, "modules": self.modules}
        return {**nodes, "names": self.names, "paths": self.paths, "edges": self.edges}


def overview(model: onnx_ir.Model) -> Overview:
    """Return the map of the model."""
    overview, numbers, paths = Overview(), dict[str, int](), dict[str, int]()
    overview.sources = {value.name or "": "input" for value in model.graph.inputs}
    overview.sources |= dict.fromkeys(model.graph.initializers, "constant")
    overview.outputs = {value.name for value in model.graph.outputs}
    nodes = list(all_nodes(model))
    for index, node in enumerate(nodes):
        depth = 0
        for value in node.inputs:
            name = "" if value is None else value.name or ""
            overview.users.setdefault(name, []).append(index)
            maker = overview.makers.get(name)
            if maker is not None and nodes[maker].inputs:
                depth = max(depth, overview.depths[maker] + 1)
                if len(nodes) <= _MOST_WITH_EDGES:
                    overview.edges += (maker, index)
        overview.depths.append(depth)
        overview.operators.append(numbers.setdefault(node.op_type, len(numbers)))
        overview.labels.append(node.name or (node.outputs[0].name or "" if node.outputs else ""))
        module = max(paths_of(node), key=len, default=())
        overview.modules.append(paths.setdefault("/".join(module), len(paths)))
        overview.makers.update({value.name or "": index for value in node.outputs if value.name})
    for index, node in enumerate(nodes):
        first = min(
            (overview.users[value.name or ""][0] for value in node.outputs if value.name in overview.users),
            default=None,
        )
        if not node.inputs and first is not None:  # a constant is beside its first user
            overview.depths[index] = max(overview.depths[first] - 1, 0)
    overview.names, overview.paths = list(numbers), list(paths)
    return overview
