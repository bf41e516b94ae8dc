"""Model-local functions: encodings as functions, and inlining of functions that handle codes.

Functions that handle codes are inlined: a function has neither types of its own nor initializers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

import onnx_ir

from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_node, new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.ops.table import named_types
from castsmith.ir.records import Rewrite, Site
from castsmith.ir.walks import (
    MOST_INLINED,
    all_nodes,
    bind_parameters,
    graphs_of,
    nodes_of,
    nodes_once_inlined,
    opset_obstacle,
)
from castsmith.lowering.float8.needs import Coded, Types, is_coded, touches_coded
from castsmith.passes.core.rewriting import Replacement, apply_replacement, detach
from castsmith.passes.core.session import Session

# Each encoding as one model-local function, so that the graph shows one node per original node.

DOMAIN = "castsmith.lowering"
_LARGEST_INSIDE = 1
_FIRST_IR_VERSION = 8

INLINE_FUNCTIONS = Rule(
    "inline-functions",
    "Model-local functions in which something is lowered, or that the target does not load, become their nodes.",
    why="Functions have no constants of their own, and different calls may need different nodes.",
    example="- y = local.f (x)\n+ the nodes of f",
    certified=True,
)
BY_CALL = "the lowering of codes in a function depends on each call"
"""Why functions are inlined in which something is lowered."""


class Functions:
    """The functions made so far: equal encodings share one. Tables stay outside, as shared operands."""

    def __init__(self, model: onnx_ir.Model, opset: int) -> None:
        self._model, self._opset = model, opset
        self._by_text: dict[str, onnx_ir.Function] = {}

    def wrap(self, name: str, nodes: tuple[onnx_ir.Node, ...], output: onnx_ir.Value) -> tuple[onnx_ir.Node, ...]:
        """Return one call that gives what `nodes` give in `output`; a single node is returned unchanged."""
        if len(nodes) < 2 or output.producer() not in nodes or _used_outside(nodes, output):
            return nodes
        outer = list(dict.fromkeys(_operands(nodes)))
        function = self._function(name, nodes, outer, output)
        call = onnx_ir.node(function.name, outer, domain=DOMAIN)
        call.outputs[0].type, call.outputs[0].shape = output.type, output.shape
        detach(nodes)
        return (call,)

    def _function(
        self, name: str, nodes: tuple[onnx_ir.Node, ...], outer: list[onnx_ir.Value], output: onnx_ir.Value
    ) -> onnx_ir.Function:
        places = {value: f"in{index}" for index, value in enumerate(outer)}
        text = _text(nodes, dict(places), output)
        if text not in self._by_text:
            taken = {function.name for function in self._model.functions.values() if function.domain == DOMAIN}
            free = next(n for n in (name, *(f"{name}_{i}" for i in range(2, 10_000))) if n not in taken)
            self._by_text[text] = self._make(free, nodes, places, output)
            self._model.functions[self._by_text[text].identifier()] = self._by_text[text]
            self._model.graph.opset_imports.setdefault(DOMAIN, 1)
            self._model.ir_version = max(self._model.ir_version, _FIRST_IR_VERSION)
        return self._by_text[text]

    def _make(
        self, name: str, nodes: tuple[onnx_ir.Node, ...], places: dict[onnx_ir.Value, str], output: onnx_ir.Value
    ) -> onnx_ir.Function:
        inner: dict[onnx_ir.Value, onnx_ir.Value] = {v: onnx_ir.Value(name=place) for v, place in places.items()}
        inputs, body = list(inner.values()), list[onnx_ir.Node]()
        for node in nodes:
            for value in node.inputs:
                if value is not None and value not in inner and value.const_value is not None:
                    copied = new_constant(f"k{len(inner)}", onnx_ir.tensor(value.const_value.numpy()))
                    inner[value] = copied
                    body.append(constant_node(copied))
            operands = [None if value is None else inner[value] for value in node.inputs]
            body.append(onnx_ir.node(node.op_type, operands, {}, domain=node.domain, num_outputs=1))
            for attribute in node.attributes.values():
                body[-1].attributes[attribute.name] = attribute
            inner[node.outputs[0]] = body[-1].outputs[0]
            body[-1].outputs[0].name = f"v{len(inner)}"
        graph = onnx_ir.Graph(inputs, [inner[output]], nodes=body, opset_imports={"": self._opset})
        return onnx_ir.Function(DOMAIN, name, graph=graph, attributes=[])


def _operands(nodes: Iterable[onnx_ir.Node]) -> Iterable[onnx_ir.Value]:
    """Return the outer values of the nodes except small constants, which a function can hold itself."""
    outputs = {output for node in nodes for output in node.outputs}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in outputs and not _is_small(value):
                yield value


def _used_outside(nodes: tuple[onnx_ir.Node, ...], output: onnx_ir.Value) -> bool:
    """True if another encoding uses an intermediate value of this one: the quotient of a QuantizeLinear."""
    inner = (value for node in nodes for value in node.outputs if value is not output)
    return any(user not in nodes for value in inner for user, _ in value.uses())


def _is_small(value: onnx_ir.Value) -> bool:
    """True if the value is a new constant, not yet in a graph, of one element."""
    return value.graph is None and value.const_value is not None and value.const_value.size <= _LARGEST_INSIDE


def _text(nodes: tuple[onnx_ir.Node, ...], names: dict[onnx_ir.Value, str], output: onnx_ir.Value) -> str:
    """Return the nodes as text, the same for equal encodings."""
    lines: list[str] = []
    for node in nodes:
        operands: list[str] = []
        for value in node.inputs:
            if value is not None and value not in names and value.const_value is not None:
                array = value.const_value.numpy()
                names[value] = f"{array.dtype}{array.tobytes().hex()}"
            operands.append("" if value is None else names[value])
        attributes = ", ".join(sorted(f"{attribute.name}={attribute.value}" for attribute in node.attributes.values()))
        names[node.outputs[0]] = f"v{len(lines)}"
        lines.append(f"{node.op_type} <{attributes}> ({', '.join(operands)})")
    return "\n".join([*lines, names[output]])


_FEW_NODES, _GROWTH = 1 << 12, 100
"""Limit on nodes after inlining: a small number, or this multiple of the model's own up to `MOST_INLINED`.

Functions that call others twice double with each level.
"""


def functions_with_codes(model: onnx_ir.Model, types: Types, coded: Coded) -> set[onnx_ir.OperatorIdentifier]:
    """Return the functions that use or make values of these types, and all that call one of them.

    If a function has a type as an argument, all functions are returned, since the types after it are unknown.
    """
    if any(takes_a_type(node) for function in model.functions.values() for node in function.all_nodes()):
        return set(model.functions)
    return with_callers(model, {name for name, function in model.functions.items() if _handles(function, types, coded)})


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
        nodes, outputs = _written_out(function, node, namer)
        apply_replacement(
            session, pass_name, node, Replacement(INLINE_FUNCTIONS.code, "", nodes, outputs=outputs), namer, {}
        )
        waiting += [inner for node in nodes for inner in _with_those_inside(node) if inner.op_identifier() in names]
    for name in names:
        del model.functions[name]
    session.changed()
    text = ", ".join(sorted(f"{domain}.{name}" for domain, name, _ in names))
    return Rewrite(
        pass_name, INLINE_FUNCTIONS.code, Site(model.graph.name or ""), text, "its nodes, at each call", reason
    )


def _written_out(
    function: onnx_ir.Function, node: onnx_ir.Node, namer: Namer
) -> tuple[tuple[onnx_ir.Node, ...], tuple[onnx_ir.Value, ...]]:
    """Return the nodes of the function for this call, not yet owned by a graph, and their results."""
    body = function.clone().graph
    attributes = {name: node.attributes.get(name) or default for name, default in function.attributes.items()}
    operands = dict(zip_longest(body.inputs, node.inputs))
    for formal, operand in operands.items():
        for user, position in list(formal.uses()):
            user.replace_input_with(position, operand)
    outputs = tuple(operands.get(value) or value for value in body.outputs)
    nodes = tuple(body)
    body.outputs.clear()
    body.remove(nodes)
    for copy in nodes:
        copy.metadata_props.update({**node.metadata_props, **copy.metadata_props})
        for inner in _with_those_inside(copy):
            bind_parameters(
                inner, {name: attribute for name, attribute in attributes.items() if attribute.value is not None}
            )
            if inner is not copy:
                _rename(inner, namer)
            for subgraph in graphs_of(inner):
                for value in (*subgraph.inputs, *list(subgraph.initializers.values())):
                    value.name = namer.fresh(value.name or "value")
    return nodes, outputs[: len(node.outputs)]


def _with_those_inside(node: onnx_ir.Node) -> list[onnx_ir.Node]:
    """Yield the node, and those of its subgraphs."""
    return [node, *(inner for graph in graphs_of(node) for inner in nodes_of(graph))]


def _rename(node: onnx_ir.Node, namer: Namer) -> None:
    node.name = namer.fresh(node.name or f"castsmith_{node.op_type}")
    for output in node.outputs:
        output.name = namer.fresh(output.name or f"{node.name}_output")


def takes_a_type(node: onnx_ir.Node) -> bool:
    """True if an attribute that names a type is a parameter of the function."""
    return None in named_types(node).values()


def _handles(function: onnx_ir.Function, types: Types, coded: Coded) -> bool:
    return any(is_coded(value, types, coded) for value in function.inputs) or any(
        touches_coded(node, types, coded) for node in function.all_nodes()
    )
