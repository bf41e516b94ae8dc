"""Names that are new to the whole model, so that no subgraph shadows a value of an outer scope."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.ir.walks import all_nodes, graphs_in


class Namer:
    """Hands out value and node names that the model uses nowhere, and knows which scopes hold no initializers of their
    own. Made once a pass."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self._model = model
        self._names: set[str] | None = None
        self._released: set[str] = set()
        self._next: dict[str, int] = {}
        self._bodies = {function.graph for function in model.functions.values()}
        # Before IR version 4 an initializer has to be an input too, which a caller may override.
        self._initializers_are_inputs = model.ir_version < 4
        for function in model.functions.values():
            # A function's body has no name of its own; this one is for messages and is not saved.
            function.graph.name = function.graph.name or f"{function.domain}.{function.name}"

    def fresh(self, base: str) -> str:
        """`base`, or `base_1`, `base_2` ... whichever is the first that is not in use; it is in use from now on."""
        name = base
        while name in self._used():
            self._next[base] = self._next.get(base, 0) + 1
            name = f"{base}_{self._next[base]}"
        self._used().add(name)
        return name

    def takes_initializers(self, scope: onnx_ir.Graph | onnx_ir.Function) -> bool:
        """Whether a constant can be an initializer of the scope: not in a function's own body."""
        return scope not in self._bodies and not self._initializers_are_inputs

    def release(self, name: str | None) -> None:
        """Make the name of something that leaves the model free again."""
        if self._names is None:
            self._released.add(name or "")
        else:
            self._names.discard(name or "")

    def _used(self) -> set[str]:
        """All names of the model: found when the first new one is asked for, as most passes mostly ask for none."""
        if self._names is None:
            self._names = set(_names_in(self._model)) - self._released
        return self._names


def _names_in(model: onnx_ir.Model) -> Iterator[str]:
    for scope in (model.graph, *model.functions.values()):
        yield from _names_of_ports(scope)
    for node in all_nodes(model):
        yield node.name or ""
        for value in node.outputs:
            yield value.name or ""
        for attribute in node.attributes.data.values():
            for subgraph in graphs_in(attribute):
                yield from _names_of_ports(subgraph)


def _names_of_ports(scope: onnx_ir.Graph | onnx_ir.Function) -> Iterator[str]:
    yield from (value.name for value in scope.inputs if value.name)
    if isinstance(scope, onnx_ir.Graph):
        yield from scope.initializers
