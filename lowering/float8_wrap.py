"""Each sequence as one model-local function, so that the graph shows one node where the model had one."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir

from castsmith.ir.constants import constant_node, new_constant

DOMAIN = "castsmith.lowering"
_LARGEST_INSIDE = 1


class Functions:
    """The functions made so far: equal sequences share one. Tables stay outside, as operands all can share."""

    def __init__(self, model: onnx_ir.Model, opset: int) -> None:
        self._model, self._opset = model, opset
        self._by_text: dict[str, onnx_ir.Function] = {}

    def wrap(self, name: str, nodes: tuple[onnx_ir.Node, ...], output: onnx_ir.Value) -> tuple[onnx_ir.Node, ...]:
        """One call that gives what `nodes` give in `output`; the nodes themselves where there is but one."""
        if len(nodes) < 2 or output.producer() not in nodes or _used_outside(nodes, output):
            return nodes
        outer = list(dict.fromkeys(_operands(nodes)))
        function = self._function(name, nodes, outer, output)
        call = onnx_ir.node(function.name, outer, domain=DOMAIN)
        call.outputs[0].type, call.outputs[0].shape = output.type, output.shape
        for node in nodes:
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
        return (call,)

    def _function(
        self, name: str, nodes: tuple[onnx_ir.Node, ...], outer: list[onnx_ir.Value], output: onnx_ir.Value
    ) -> onnx_ir.Function:
        places = {value: f"in{index}" for index, value in enumerate(outer)}
        text = _text(nodes, dict(places), output)
        if text not in self._by_text:
            taken = {function.name for function in self._by_text.values()}
            free = next(n for n in (name, *(f"{name}_{i}" for i in range(2, 10_000))) if n not in taken)
            self._by_text[text] = self._make(free, nodes, places, output)
            self._model.functions[self._by_text[text].identifier()] = self._by_text[text]
            self._model.graph.opset_imports.setdefault(DOMAIN, 1)
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
    """What the nodes take from outside: all but small constants, which a function can hold itself."""
    made = {output for node in nodes for output in node.outputs}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in made and not _is_small(value):
                yield value


def _used_outside(nodes: tuple[onnx_ir.Node, ...], output: onnx_ir.Value) -> bool:
    """Whether another sequence goes on from the middle of this one: from the quotient of a QuantizeLinear."""
    inner = (value for node in nodes for value in node.outputs if value is not output)
    return any(user not in nodes for value in inner for user, _ in value.uses())


def _is_small(value: onnx_ir.Value) -> bool:
    """Whether the value is a new constant, in no graph yet, of one element."""
    return value.graph is None and value.const_value is not None and value.const_value.size <= _LARGEST_INSIDE


def _text(nodes: tuple[onnx_ir.Node, ...], names: dict[onnx_ir.Value, str], output: onnx_ir.Value) -> str:
    """The sequence written out, the same for all that do the same."""
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
