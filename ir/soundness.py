"""Whether a model hangs together: every value is given by something, every name is text, no function calls itself.

onnx_ir reads a model of which this is not so, with a warning in its log. Nothing that follows could then be trusted, so
it is refused here, in one sentence that names the place. Nodes out of order, which ONNX does not allow and runtimes
accept, are put in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import onnx_ir

from castsmith.ir.conformance import nonconformity
from castsmith.ir.errors import ModelError
from castsmith.ir.text import site_of
from castsmith.ir.walks import graphs_in, nodes_of

Scope = onnx_ir.Graph | onnx_ir.Function

_TEXT = (str, type(None))


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


def _is_in_order(scope: Scope, seen: set[onnx_ir.Node], around: _Around) -> bool:
    """Whether nodes stand after those they read from. Raises ModelError where something they read is not there."""
    in_order, place = True, around.place
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
                in_order &= _is_in_order(subgraph, seen, around)
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


def _require_calls_end(model: onnx_ir.Model, place: str) -> None:
    calls: TopologicalSorter[onnx_ir.Function] = TopologicalSorter()
    for caller, called in _calls(model):
        calls.add(caller, called)
    try:
        calls.prepare()
    except CycleError as error:
        function: onnx_ir.Function = error.args[1][0]
        raise ModelError(f"{place}: function {function.domain}::{function.name} calls itself: it never ends.") from None


def _calls(model: onnx_ir.Model) -> Iterator[tuple[onnx_ir.Function, onnx_ir.Function]]:
    for function in model.functions.values():
        for node in nodes_of(function):
            called = model.functions.get(node.op_identifier())
            if called is not None:
                yield function, called
