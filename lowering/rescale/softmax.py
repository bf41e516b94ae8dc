"""Softmaxes that are written out: exponentials of which every result is a ratio, or the logarithm of a sum.

If the operand of Exp is lowered by a number of each row, exponentials and their sums are divided by its exponential:
they have the degree 1, a reciprocal has -1, and a quotient of both has 0, so that it stays the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.constants import constant_tensor

_WITH_EPSILON = ("Add", "Max", "Clip")
_LARGEST_EPSILON = 1e-3
"""Up to this a number beside a sum of exponentials, of which one is 1, only keeps the sum from being 0."""


_MOST_STEPS = 64
"""Nodes that are looked at behind an Exp."""


@dataclass
class Softmax:
    """What is computed from an exponential, up to what stays the same if a number of each row is subtracted first.

    Attributes:
        total: The sum over the elements of a row.
        keeps_axes: True if the sum has as many axes as its operand.
        nodes: The nodes that read what changes.
        logarithms: Those to whose results the number is to be added.
    """

    total: onnx_ir.Node
    keeps_axes: bool
    nodes: set[onnx_ir.Node]
    logarithms: list[onnx_ir.Node]


def softmax_of(exponential: onnx_ir.Node) -> Softmax | None:
    """Return the softmax that an Exp is part of; None if what is computed from it depends on more than ratios."""
    degrees, wrong = {exponential.outputs[0]: 1}, set[onnx_ir.Node]()
    waiting = deque(user for user, _ in exponential.outputs[0].uses())
    for _ in range(_MOST_STEPS):
        if not waiting:
            break
        node = waiting.popleft()
        degree = _degree(node, [degrees.get(value, 0) if value is not None else 0 for value in node.inputs])
        (wrong.add if degree is None or node.graph is not exponential.graph else wrong.discard)(node)
        if degrees.get(node.outputs[0], 0) != (degree or 0):
            degrees[node.outputs[0]] = degree or 0
            waiting += [user for user, _ in node.outputs[0].uses()]
    scaled = {value: degree for value, degree in degrees.items() if degree}
    if waiting or wrong or any(value.is_graph_output() for value in scaled):
        return None
    nodes = dict.fromkeys(user for value in scaled for user, _ in value.uses())
    sums = [node for node in nodes if node.op_type == "ReduceSum"]
    masked = any(node.op_type == "Mul" and scaled.get(node.outputs[0]) == 1 for node in nodes)
    if len(sums) != 1 or (masked and any(node.op_type in _WITH_EPSILON for node in nodes)):
        return None
    keeps_axes = bool(sums[0].attributes.get_int("keepdims", 1))
    logarithms = [node for node in nodes if node.op_type == "Log"]
    alone = all(user.op_type == "Log" for user, _ in sums[0].outputs[0].uses())
    return Softmax(sums[0], keeps_axes, set(nodes), logarithms) if keeps_axes or alone else None


def _degree(node: onnx_ir.Node, operands: Sequence[int]) -> int | None:
    """Return the degree of the result; None if it is not of one."""
    if not any(operands):
        return 0
    first, second = (*operands, 0)[:2]
    match node.op_type:
        case "Mul":
            return first + second
        case "Div":
            return first - second
        case "Reciprocal":
            return -first
        case "ReduceSum":
            return first
        case "Log" if first == 1:
            return 0
        case "Add" | "Max" | "Clip" if first == 1 and len(node.inputs) == 2:
            tensor = constant_tensor(node.inputs[1])
            is_small = tensor is not None and tensor.size == 1 and 0 <= float(tensor.numpy().item()) <= _LARGEST_EPSILON
            return first if is_small else None
        case _:
            return None
