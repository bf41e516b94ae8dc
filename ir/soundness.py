"""Whether a model hangs together: every value is given by something, every name is text, no function calls itself.

onnx_ir reads a model of which this is not so, with a warning in its log. Nothing that follows could then be trusted, so
it is refused here, in one sentence that names the place. Nodes out of order, which ONNX does not allow and runtimes
accept, are put in order. Graphs and calls that nest deeper than any walk can follow are refused too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import onnx_ir

from castsmith.ir.conformance import nonconformity
from castsmith.ir.errors import ModelError
from castsmith.ir.text import site_of
from castsmith.ir.walks import graphs_in

Scope = onnx_ir.Graph | onnx_ir.Function

_TEXT = (str, type(None))

_GRAPHS = 33
"""How deep graphs may nest in one another: protobuf reads no file in which they nest deeper."""

_LEVELS = 100
"""How deep calls of functions may nest, the subgraphs around them included: walks of a model are recursive."""


@dataclass(frozen=True, slots=True)
class _Around:
    """What a graph stands in: how errors name it, the opset imports in force and the functions that it may call."""

    place: str
    imports: Mapping[str, int]
    functions: Mapping[onnx_ir.OperatorIdentifier, onnx_ir.Function]


def require_sound(model: onnx_ir.Model, place: str, *, sort: bool = False) -> None:
    """Check the model; `place` names it in errors, as a rule by its path. sort: put nodes in order that are not.

    Raises ModelError for a value that nothing gives, a name that is not UTF-8, two inputs of one name, nodes out of
    order where they are not to be sorted or feed each other in a circle, and functions that call themselves.
    """
    if model.functions:
        _require_calls_end(model, place)
    for scope in (model.graph, *model.functions.values()):
        if not _is_in_order(scope, set(), _Around(place, scope.opset_imports, model.functions)):
            if not sort:
                raise ModelError(
                    f"{place}: nodes of graph {scope.name!r} are out of order; its sort() puts them in order."
                )
            _put_in_order(scope, place)


def _is_in_order(scope: Scope, seen: set[onnx_ir.Node], around: _Around, depth: int = 0) -> bool:
    """Whether nodes stand after those they read from. Raises ModelError where something they read is not there."""
    in_order, place = True, around.place
    _require_shallow(depth, place)
    _require_names(scope, place)
    for node in scope:
        if not (type(node.name) in _TEXT and type(node.op_type) is str and type(node.domain) is str):
            raise ModelError(f"{place}: the name of a node, {node.name!r} ({node.op_type!r}), is not UTF-8.")
        wrong = nonconformity(node, around.imports, around.functions)
        if wrong is not None:
            raise ModelError(f"{place}: {site_of(node)}: {wrong}.")
        for value in node.inputs:
            if value is None:
                continue
            producer = value.producer()
            if producer is None:
                if not (value.is_graph_input() or value.is_initializer()):
                    raise ModelError(
                        f"{place}: {site_of(node)} reads {value.name!r}, which nothing in the model gives."
                    )
            elif producer not in seen:
                in_order = False
        for attribute in node.attributes.data.values():
            for subgraph in graphs_in(attribute):
                in_order &= _is_in_order(subgraph, seen, around, depth + 1)
        seen.add(node)
        for value in node.outputs:
            if type(value.name) not in _TEXT:
                raise ModelError(f"{place}: the name of a value, {value.name!r}, is not UTF-8.")
    for value in scope.outputs:
        if value.producer() is None and not (value.is_graph_input() or value.is_initializer()):
            raise ModelError(f"{place}: nothing in graph {scope.name!r} gives its output {value.name!r}.")
    return in_order


def _require_names(scope: Scope, place: str) -> None:
    names: set[str | None] = set()
    for value in scope.inputs:
        if type(value.name) not in _TEXT:
            raise ModelError(f"{place}: the name of a value, {value.name!r}, is not UTF-8.")
        if value.name in names:
            raise ModelError(f"{place}: graph {scope.name!r} has two inputs of the name {value.name!r}.")
        names.add(value.name)


def _put_in_order(scope: Scope, place: str) -> None:
    try:
        scope.sort()
    except ValueError:
        raise ModelError(f"{place}: nodes of graph {scope.name!r} feed each other in a circle.") from None


def _require_shallow(depth: int, place: str) -> None:
    if depth > _GRAPHS:
        raise ModelError(f"{place}: graphs nest deeper than the {_GRAPHS} levels that a model file can hold.")


def _require_calls_end(model: onnx_ir.Model, place: str) -> None:
    """Raise ModelError for functions that call themselves, and for calls that nest too deep."""
    calls = {function: _calls(function, model, place) for function in model.functions.values()}
    levels: dict[onnx_ir.Function, int] = {}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        function: onnx_ir.Function = error.args[1][0]
        raise ModelError(f"{place}: function {function.domain}::{function.name} calls itself: it never ends.") from None
    for function in order:
        levels[function] = max((depth + 1 + levels[called] for called, depth in calls[function].items()), default=0)
    for called, depth in _calls(model.graph, model, place).items():
        if depth + 1 + levels[called] > _LEVELS:
            name = f"{called.domain}::{called.name}"
            raise ModelError(
                f"{place}: the call of function {name} leads {depth + 1 + levels[called]} levels deep into calls and"
                f" subgraphs, and at most {_LEVELS} are supported; inline some of the functions."
            )


def _calls(scope: Scope, model: onnx_ir.Model, place: str) -> dict[onnx_ir.Function, int]:
    """The functions that the scope calls, each with how many subgraphs are around the deepest call."""
    found: dict[onnx_ir.Function, int] = {}
    waiting: list[tuple[Scope, int]] = [(scope, 0)]
    while waiting:
        graph, depth = waiting.pop()
        _require_shallow(depth, place)
        for node in graph:
            called = model.functions.get(node.op_identifier())
            if called is not None:
                found[called] = max(depth, found.get(called, 0))
            for attribute in node.attributes.data.values():
                waiting += [(subgraph, depth + 1) for subgraph in graphs_in(attribute)]
    return found
