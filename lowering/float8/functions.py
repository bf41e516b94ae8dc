"""Model-local functions: encodings as functions, and those functions of a model that handle codes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count

import onnx_ir

from castsmith.ir.constants import constant_node, new_constant
from castsmith.lowering.float8.needs import Coded, Types, is_coded, touches_coded
from castsmith.lowering.inlining import takes_a_type, with_callers
from castsmith.passes.core.rewriting import detach

# Each encoding as one model-local function, so that the graph shows one node per original node.

DOMAIN = "castsmith.lowering"
_LARGEST_INSIDE = 1
_FIRST_IR_VERSION = 8


class Functions:
    """The functions made so far: equal encodings share one. Tables stay outside, as shared operands."""

    def __init__(self, model: onnx_ir.Model, opset: int) -> None:
        self._model, self._opset = model, opset
        self._by_body: dict[bytes, onnx_ir.Function] = {}

    def wrap(self, name: str, nodes: tuple[onnx_ir.Node, ...], output: onnx_ir.Value) -> tuple[onnx_ir.Node, ...]:
        """Return one call that gives what `nodes` give in `output`; a single node is returned unchanged."""
        if len(nodes) < 2 or output.producer() not in nodes or _used_outside(nodes, output):
            return nodes
        outer = list(dict.fromkeys(_operands(nodes)))
        body = self._body(nodes, outer, output)
        key = onnx_ir.to_proto(onnx_ir.Function(DOMAIN, name, graph=body, attributes=[])).SerializeToString()
        if key not in self._by_body:
            used = {function.name for function in self._model.functions.values() if function.domain == DOMAIN}
            free = next(n for n in chain((name,), (f"{name}_{i}" for i in count(2))) if n not in used)
            function = self._by_body[key] = onnx_ir.Function(DOMAIN, free, graph=body, attributes=[])
            self._model.functions[function.identifier()] = function
            self._model.graph.opset_imports.setdefault(DOMAIN, 1)
            self._model.ir_version = max(self._model.ir_version, _FIRST_IR_VERSION)
        call = onnx_ir.node(self._by_body[key].name, outer, domain=DOMAIN)
        call.outputs[0].type, call.outputs[0].shape = output.type, output.shape
        detach(nodes)
        return (call,)

    def _body(
        self, nodes: tuple[onnx_ir.Node, ...], outer: list[onnx_ir.Value], output: onnx_ir.Value
    ) -> onnx_ir.Graph:
        """Return the nodes as a graph, with names by position, so that equal encodings are equal."""
        inner = {value: onnx_ir.Value(name=f"in{index}") for index, value in enumerate(outer)}
        inputs, body = list(inner.values()), list[onnx_ir.Node]()
        for node in nodes:
            for value in node.inputs:
                if value is not None and value not in inner and value.const_value is not None:
                    inner[value] = new_constant(f"k{len(inner)}", onnx_ir.tensor(value.const_value.numpy()))
                    body.append(constant_node(inner[value]))
            operands = [None if value is None else inner[value] for value in node.inputs]
            body.append(onnx_ir.node(node.op_type, operands, {}, domain=node.domain, num_outputs=1))
            for attribute in node.attributes.values():
                body[-1].attributes[attribute.name] = attribute
            inner[node.outputs[0]] = body[-1].outputs[0]
            body[-1].outputs[0].name = f"v{len(inner)}"
        return onnx_ir.Graph(inputs, [inner[output]], nodes=body, opset_imports={"": self._opset})


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


def functions_with_codes(model: onnx_ir.Model, types: Types, coded: Coded) -> set[onnx_ir.OperatorIdentifier]:
    """Return the functions that use or make values of these types, and all that call one of them.

    If a function has a type as an argument, all functions are returned, since the types after it are unknown.
    """
    if any(takes_a_type(node) for function in model.functions.values() for node in function.all_nodes()):
        return set(model.functions)
    return with_callers(model, {name for name, function in model.functions.items() if _handles(function, types, coded)})


def _handles(function: onnx_ir.Function, types: Types, coded: Coded) -> bool:
    return any(is_coded(value, types, coded) for value in function.inputs) or any(
        touches_coded(node, types, coded) for node in function.all_nodes()
    )
