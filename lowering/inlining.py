"""Calls of functions replaced by the nodes of the functions.

A function has neither types of its own nor initializers, so one in which something is lowered is inlined.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

import onnx_ir

from castsmith.ir.codes import Rule
from castsmith.ir.naming import Namer
from castsmith.ir.ops.table import named_types
from castsmith.ir.records import Records, Refusal, Rewrite, Site
from castsmith.ir.walks import (
    MOST_INLINED,
    all_nodes,
    bind_parameters,
    graphs_of,
    nodes_of,
    nodes_once_inlined,
    opset_obstacle,
)
from castsmith.passes.core.rewriting import Replacement, apply_replacement, name_node
from castsmith.passes.core.session import Session

INLINE_FUNCTIONS = Rule(
    "inline-functions",
    "Model-local functions in which something is lowered, or that the target does not load, become their nodes.",
    why="Functions have no constants of their own, and different calls may need different nodes.",
    example="- y = local.f (x)\n+ the nodes of f",
    certified=True,
)
BY_CALL = "the lowering of codes in a function depends on each call"
"""Why functions are inlined in which something is lowered."""

_FEW_NODES, _GROWTH = 1 << 12, 100
"""Limit on nodes after inlining: a small number, or this multiple of the model's own up to `MOST_INLINED`.

Functions that call others twice double with each level.
"""


def with_callers(model: onnx_ir.Model, names: set[onnx_ir.OperatorIdentifier]) -> set[onnx_ir.OperatorIdentifier]:
    """Return these functions and all that call one of them."""
    new_names = names
    while True:
        callers = {
            name
            for name, function in model.functions.items()
            if any(node.op_identifier() in new_names for node in function.all_nodes())
        }
        if callers <= new_names:
            return new_names
        new_names = new_names | callers


def obstacle_to_inlining(model: onnx_ir.Model, names: set[onnx_ir.OperatorIdentifier]) -> str | None:
    """Return the reason why these functions, and all that call one of them, cannot be inlined; None if they can."""
    names = with_callers(model, names)
    obstacle = opset_obstacle(model, names)
    if obstacle is not None:
        return obstacle
    now = sum(1 for _ in all_nodes(model))
    most = min(MOST_INLINED, max(_FEW_NODES, _GROWTH * now))
    if nodes_once_inlined(model, names) > most:
        text = ", ".join(f"{domain}::{name}" for domain, name, _ in sorted(names)[:3])
        return f"inlining {text} at each call would turn the {now} nodes of the model into more than {most}"
    return None


def inline_functions(
    session: Session, names: set[onnx_ir.OperatorIdentifier], pass_name: str, reason: str = BY_CALL
) -> Rewrite:
    """Replace each call of these functions by their nodes.

    Each caller of one of them is inlined too, so that calls are in the main graph only.
    """
    model, namer = session.model, session.namer()
    names = with_callers(model, names)
    waiting = [node for node in nodes_of(model.graph) if node.op_identifier() in names]
    while waiting:
        node = waiting.pop()
        function = model.functions[node.op_identifier()]
        for domain, opset in function.opset_imports.items():
            model.opset_imports.setdefault(domain, opset)
        nodes, outputs = written_out(function, node)
        _name_and_bind(nodes, node, function, namer)
        apply_replacement(
            session,
            pass_name,
            node,
            Replacement(INLINE_FUNCTIONS.code, "", nodes, outputs=outputs[: len(node.outputs)]),
            namer,
            {},
        )
        waiting += [inner for node in nodes for inner in _with_those_inside(node) if inner.op_identifier() in names]
    for name in names:
        del model.functions[name]
    session.changed()
    text = ", ".join(sorted(f"{domain}.{name}" for domain, name, _ in names))
    return Rewrite(
        pass_name, INLINE_FUNCTIONS.code, Site(model.graph.name or ""), text, "its nodes, at each call", reason
    )


def inline_or_refuse(
    session: Session,
    names: set[onnx_ir.OperatorIdentifier],
    pass_name: str,
    records: Records,
    reason: str = BY_CALL,
) -> bool:
    """Inline these functions, if there are any, and record that, or why it is impossible; False for the latter."""
    obstacle = obstacle_to_inlining(session.model, names) if names else None
    if obstacle is not None:
        site = Site(session.model.graph.name or "")
        records.refusals.append(Refusal(pass_name, INLINE_FUNCTIONS.code, site, obstacle))
    elif names:
        records.rewrites.append(inline_functions(session, names, pass_name, reason))
    return obstacle is None


def written_out(
    function: onnx_ir.Function, node: onnx_ir.Node
) -> tuple[tuple[onnx_ir.Node, ...], tuple[onnx_ir.Value, ...]]:
    """Return the nodes of the function on the operands of the node, not yet owned by a graph, and their results."""
    body = function.clone().graph
    operands = dict(zip_longest(body.inputs, node.inputs))
    for formal, operand in operands.items():
        for user, position in list(formal.uses()):
            user.replace_input_with(position, operand)
    outputs, nodes = tuple(operands.get(value) or value for value in body.outputs), tuple(body)
    body.outputs.clear()
    body.remove(nodes)
    return nodes, outputs


def name_inside(nodes: Iterable[onnx_ir.Node], namer: Namer) -> None:
    """Give what the subgraphs of new nodes define names of its own."""
    for graph in (graph for node in nodes for graph in graphs_of(node)):
        for value in (*graph.inputs, *graph.initializers.values()):
            value.name = namer.fresh(value.name or "castsmith_input")
        for node in graph:
            name_node(node, namer)
        name_inside(graph, namer)


def _name_and_bind(nodes: Iterable[onnx_ir.Node], call: onnx_ir.Node, function: onnx_ir.Function, namer: Namer) -> None:
    """Give the nodes the attributes and the metadata of the call."""
    attributes = {name: call.attributes.get(name) or default for name, default in function.attributes.items()}
    stated = {name: attribute for name, attribute in attributes.items() if attribute.value is not None}
    for node in nodes:
        node.metadata_props.update({**call.metadata_props, **node.metadata_props})
        for inner in _with_those_inside(node):
            bind_parameters(inner, stated)
    name_inside(nodes, namer)


def _with_those_inside(node: onnx_ir.Node) -> list[onnx_ir.Node]:
    """Return the node, and those of its subgraphs."""
    return [node, *(inner for graph in graphs_of(node) for inner in nodes_of(graph))]


def takes_a_type(node: onnx_ir.Node) -> bool:
    """True if an attribute that names a type is a parameter of the function."""
    return None in named_types(node).values()
