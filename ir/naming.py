"""Names: new ones for what a pass makes, and names that keep the meaning of a model when it is saved.

In memory a node holds the values that it reads; in a file it holds their names, which are looked up in the graph of the
node, then in the graph around it, and so on. `Namer` gives new values names that are unique in the model, so that none
hides another. A value that takes over the name of another one, or is read in a scope where it was not read before, may
still be hidden by a value of an inner scope: `settle_names` renames that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_types
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.survey import Survey, survey
from castsmith.ir.walks import Scope, graphs_in, subgraphs_of


def name_bodies(model: onnx_ir.Model) -> None:
    """Name the bodies of functions, which have no name of their own, for messages; these names are not saved."""
    for function in model.functions.values():
        function.graph.name = function.graph.name or f"{function.domain}.{function.name}"


def same_names(model: onnx_ir.Model) -> Iterator[list[onnx_ir.Node]]:
    """Yield the nodes of each graph, subgraph or function body that share a name, in order.

    Constants do not count: ONNX Runtime, for which names matter, makes them initializers before it reads names.
    """
    for root in (model.graph, *model.functions.values()):
        for scope in (root, *subgraphs_of(root)):
            named: dict[str, list[onnx_ir.Node]] = {}
            for node in scope:
                if node.name and node.op_type != "Constant":
                    named.setdefault(node.name, []).append(node)
            yield from (nodes for nodes in named.values() if len(nodes) > 1)


class Namer:
    """Gives out value and node names that are unique in the model. Made once per pass.

    It also records which scopes hold no initializers of their own.
    """

    def __init__(self, model: onnx_ir.Model, find_survey: Callable[[], Survey] | None = None) -> None:
        """Name things in the model, of which `find_survey` returns the survey, if there is one."""
        self._model, self._find_survey = model, find_survey
        self._names: Counter[str] | None = None
        self._next: dict[str, int] = {}
        self._bodies = {function.graph: function.opset_imports for function in model.functions.values()}
        # Before IR version 4 an initializer has to be an input too, which a caller may override.
        self._initializers_are_inputs = model.ir_version < 4
        name_bodies(model)

    def fresh(self, base: str) -> str:
        """Return `base`, or the first of `base_1`, `base_2` ... that is not in use, and mark it as in use."""
        name, used = base, self._used()
        while used.get(name):
            self._next[base] = self._next.get(base, 0) + 1
            name = f"{base}_{self._next[base]}"
        used[name] = 1
        return name

    def takes_initializers(self, scope: Scope) -> bool:
        """True if a constant can be an initializer of the scope: not in a function's own body."""
        return scope not in self._bodies and not self._initializers_are_inputs

    def constant_opset(self, scope: Scope) -> int:
        """Return the opset of a Constant node in the scope, if it takes no initializers."""
        imports = (
            self._bodies.get(scope, self._model.graph.opset_imports)
            if isinstance(scope, onnx_ir.Graph)
            else scope.opset_imports
        )
        return opset_of(imports, "") or 0

    def takes_constant(self, scope: Scope, dtype: DataType) -> bool:
        """True if a constant of the type can be an initializer of the scope, or else a Constant node in it."""
        return self.takes_initializers(scope) or dtype in constant_types(self.constant_opset(scope))

    def release(self, name: str | None) -> None:
        """Release the name of one thing that is removed from the model; others, in other scopes, may have the same."""
        used = self._used()
        count = used.get(name or "")
        if count:
            used[name or ""] = count - 1

    def _used(self) -> Counter[str]:
        """Number of things with each name; counted on the first request, as most passes make no new names."""
        if self._names is None:
            nodes = survey(self._model) if self._find_survey is None else self._find_survey()
            self._names = Counter([value.name or "" for value in _values_in(nodes)])
            self._names.update([node.name or "" for node in nodes.nodes])
        return self._names


def settle_names(model: onnx_ir.Model) -> bool:
    """Rename values until each name that a node reads resolves to the value meant; return True if any was renamed.

    Inputs and outputs of the main graph keep their names.

    Raises:
        ModelError: Two inputs or outputs have the same name.
    """
    clashes = list(_clashes(model))
    if clashes:
        namer = Namer(model)
        for value in clashes:
            value.name = namer.fresh(value.name or "value")
    return bool(clashes)


def has_clashes(model: onnx_ir.Model) -> bool:
    """True if `settle_names` would rename something."""
    return any(True for _ in _clashes(model))


def _clashes(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """Return the values that hide another one from a node which reads it, or whose name is already taken."""
    for scope in (model.graph, *model.functions.values()):
        ports = {*scope.inputs, *scope.outputs}
        yield from dict.fromkeys(_Lookup(ports).walk(scope))


class _Lookup:
    """One walk through a graph and its subgraphs, with the names that are visible in each."""

    def __init__(self, fixed: set[onnx_ir.Value]) -> None:
        self._fixed = fixed
        self._scopes: list[dict[str, onnx_ir.Value]] = []
        self._renamed: set[onnx_ir.Value] = set()

    def walk(self, scope: Scope) -> Iterator[onnx_ir.Value]:
        """Return the values to be renamed."""
        self._scopes.append({})
        initializers = scope.initializers.values() if isinstance(scope, onnx_ir.Graph) else ()
        for value in (*scope.inputs, *initializers):
            # An input of a subgraph may hide an outer value, as long as no node inside reads that.
            yield from self._declare(value, self._scopes[-1:])
        for node in scope:
            for value in node.outputs:
                yield from self._declare(value, self._scopes)
        for node in scope:
            for value in node.inputs:
                if value is not None:
                    yield from self._read(value)
            for attribute in node.attributes.data.values():
                for subgraph in graphs_in(attribute):
                    yield from self.walk(subgraph)
        for value in scope.outputs:
            yield from self._read(value)
        self._scopes.pop()

    def _declare(self, value: onnx_ir.Value, visible: list[dict[str, onnx_ir.Value]]) -> Iterator[onnx_ir.Value]:
        name, own = value.name, self._scopes[-1]
        if not name or own.get(name) is value:
            return
        other = next((scope[name] for scope in visible if name in scope), None)
        if other in self._fixed and value in self._fixed:
            raise ModelError(f"two inputs or outputs have the name {name!r}; rename one of them.")
        if other is not None and value not in self._fixed:
            yield self._rename(value)
            return
        if other is not None:
            yield self._rename(other)
        own[name] = value

    def _read(self, value: onnx_ir.Value) -> Iterator[onnx_ir.Value]:
        """Add the values that are between a node and the value that it reads."""
        name = value.name
        if value in self._renamed or not name:
            return
        for scope in reversed(self._scopes):
            visible = scope.get(name)
            if visible is value or visible in self._fixed:
                return
            if visible is not None:
                del scope[name]
                yield self._rename(visible)

    def _rename(self, value: onnx_ir.Value) -> onnx_ir.Value:
        self._renamed.add(value)
        return value


def _values_in(nodes: Survey) -> list[onnx_ir.Value]:
    """Return the inputs and initializers of all scopes, one that is both twice, and the results of all nodes."""
    values = [value for node in nodes.nodes for value in node.outputs]
    for scope in (*nodes.roots, *nodes.holders):
        values += [*scope.inputs]
        if isinstance(scope, onnx_ir.Graph):
            values += scope.initializers.values()
    return values
