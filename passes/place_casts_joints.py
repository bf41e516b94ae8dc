"""The places where values meet at control flow: outputs of If, states of Loop and Scan, and what these stack up.

At a joint values come in (from the ends of branches and bodies, and as what a state starts from) and are used (inside
the body, and outside). All of them have one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of

FLOW = frozenset({"If", "Loop", "Scan"})


@dataclass(frozen=True)
class Source:
    """Where a value comes in: output `index` of a subgraph, or input `index` of the node."""

    place: onnx_ir.Graph | onnx_ir.Node
    index: int

    @property
    def value(self) -> onnx_ir.Value | None:
        if isinstance(self.place, onnx_ir.Graph):
            return self.place.outputs[self.index]
        return self.place.inputs[self.index]

    def give(self, value: onnx_ir.Value) -> None:
        """Let another value come in."""
        if isinstance(self.place, onnx_ir.Graph):
            self.place.outputs[self.index] = value
        else:
            self.place.replace_input_with(self.index, value)


@dataclass(frozen=True)
class Joint:
    """One place where values meet. `inside`: the input of the body that a state is; `body`: the graph it belongs to."""

    node: onnx_ir.Node
    sources: tuple[Source, ...]
    outside: onnx_ir.Value
    inside: onnx_ir.Value | None = None
    body: onnx_ir.Graph | None = None
    stacked: bool = False


def joints(node: onnx_ir.Node, imports: Mapping[str, int]) -> Iterator[Joint]:
    """The joints of a node; none for nodes other than If, Loop and Scan."""
    if node.domain not in DEFAULT_DOMAINS:
        return
    if node.op_type == "If":
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        for index, output in enumerate(node.outputs):
            yield Joint(node, tuple(Source(branch, index) for branch in branches), output)
    elif node.op_type == "Loop":
        yield from _turns(node, range(2, len(node.inputs)), first_inside=2, first_end=1)
    elif node.op_type == "Scan" and (opset_of(imports, "") or 1) > 8:
        states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
        yield from _turns(node, range(states), first_inside=0, first_end=0)


def _turns(node: onnx_ir.Node, states: range, *, first_inside: int, first_end: int) -> Iterator[Joint]:
    body = node.attributes["body"].as_graph()
    for number, index in enumerate(states):
        sources = Source(node, index), Source(body, first_end + number)
        yield Joint(node, sources, node.outputs[number], body.inputs[first_inside + number], body)
    for number in range(len(states), len(node.outputs)):
        yield Joint(node, (Source(body, first_end + number),), node.outputs[number], body=body, stacked=True)
