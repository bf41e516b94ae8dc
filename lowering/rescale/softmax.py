"""Softmaxes whose operand or exponentials do not fit: the maximum is subtracted first.

In one that is written out, every result is a ratio of exponentials, or the logarithm of a sum. If the operand of Exp is
lowered by a number of each row, exponentials and their sums are divided by its exponential: they have the degree 1, a
reciprocal has -1, and a quotient of both has 0, so that it stays the same.

    e = Exp (x)
    s = ReduceSum <axes = [-1]> (e)
    y = Div (e, s)
becomes
    m = ReduceMax <axes = [-1]> (x)
    d = Sub (x, m)
    e = Exp (d)
    s = ReduceSum <axes = [-1]> (e)
    y = Div (e, s)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_tensor, new_constant
from castsmith.ir.naming import Namer
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Effect, NodeItem, Records, Rewrite
from castsmith.ir.text import node_items, site_of
from castsmith.ir.walks import graph_of, graphs_of
from castsmith.lowering.faults import LIMITS, Fault
from castsmith.lowering.rescale.edits import NAME, put_before, put_behind
from castsmith.numerics.errors import present
from castsmith.passes.core.rewriting import place_constant

_LARGEST_EPSILON = 1e-3
"""Up to this a number beside a sum of exponentials, of which one is 1, only keeps the sum from being 0."""
_MOST_STEPS = 64
"""Nodes that are looked at behind an Exp."""
_AXIS_ALONE = 13
"""The opset from which Softmax is over one axis."""
_AXES_ARE_AN_OPERAND = 18
"""The opset from which ReduceMax takes its axes as an operand."""
_EQUAL_OF_FLOATS = 11
"""The opset from which Equal compares numbers of float16."""

SHIFT_SOFTMAX = Rule(
    "shift-softmax",
    "The maximum is subtracted before a softmax whose operand, or whose exponentials, would not fit float16.",
    why="The quotient of exponentials stays the same, apart from rounding, and no exponential exceeds 1.",
    example="- e = Exp (x)\n+ m = ReduceMax <axes = [-1]> (x)\n+ d = Sub (x, m)\n+ e = Exp (d)",
    advice="Convert without --rescale to compute the Exp in float instead.",
    safety=(Effect.CONVERTED,),
    silence="Only castsmith convert --rescale does this.",
)


@dataclass
class Softmax:
    """What is computed from an exponential, up to what stays the same if a number of each row is subtracted first.

    Attributes:
        total: The sum over the elements of a row; None if there are only constants beside the exponential.
        keeps_axes: True if the sum has as many axes as its operand.
        constants: The numbers that are added or compared, as exponentials of their logarithms.
        masks: The products and selections between the exponential and the sum, in order.
        values: What changes.
        nodes: The nodes that read it.
        logarithms: Those to whose results the number is to be added.
    """

    total: onnx_ir.Node | None
    keeps_axes: bool
    constants: dict[tuple[onnx_ir.Node, int], float]
    masks: list[onnx_ir.Node]
    values: set[onnx_ir.Value]
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
    constants = {
        (node, index): float(present(constant_tensor(value), "a constant").numpy().item())
        for node in nodes
        for index, value in enumerate(node.inputs)
        if _between(value, _LARGEST_EPSILON, math.inf) and node.op_type in ("Add", "Max")
    }
    if len(sums) > 1 or not (sums or constants):
        return None
    total = sums[0] if sums else None
    masks = [] if total is None else _masks(total, exponential, scaled)
    keeps_axes = total is None or bool(total.attributes.get_int("keepdims", 1))
    alone = total is not None and all(user.op_type == "Log" for user, _ in total.outputs[0].uses())
    if masks is None or not (keeps_axes or (alone and not constants)):
        return None
    logarithms = [node for node in nodes if node.op_type == "Log"]
    return Softmax(total, keeps_axes, constants, masks, set(scaled), set(nodes), logarithms)


def _masks(
    total: onnx_ir.Node, exponential: onnx_ir.Node, scaled: Collection[onnx_ir.Value]
) -> list[onnx_ir.Node] | None:
    """Return the nodes that mask exponentials before they are added up.

    None if others read them without the mask, or the mask is computed from them, which is needed before them.
    """
    masks, value = list[onnx_ir.Node](), _operand(total, scaled)
    while value is not exponential.outputs[0]:
        node = value.producer()
        if node is None or node.op_type not in ("Mul", "Where"):
            return None
        masks.append(node)
        value = _operand(node, scaled)
    alone = not masks or {user for user, _ in exponential.outputs[0].uses()} == {masks[-1]}
    others = [value for mask in masks for value in mask.inputs if value is not None and value not in scaled]
    return masks[::-1] if alone and exponential not in _makers(others) else None


def _makers(values: Iterable[onnx_ir.Value]) -> set[onnx_ir.Node]:
    """Return the nodes from which the values are computed, at any distance."""
    waiting, makers = list(values), set[onnx_ir.Node]()
    while waiting:
        node = waiting.pop().producer()
        if node is not None and node not in makers:
            makers.add(node)
            waiting += _read_by(node)
    return makers


def _read_by(node: onnx_ir.Node) -> Iterator[onnx_ir.Value]:
    """Yield what the node reads, in its subgraphs too."""
    yield from (value for value in node.inputs if value is not None)
    for graph in graphs_of(node):
        for inner in graph:
            yield from _read_by(inner)


def _operand(node: onnx_ir.Node, scaled: Collection[onnx_ir.Value]) -> onnx_ir.Value:
    return next(value for value in node.inputs if value is not None and value in scaled)


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
        case "Where" if sorted(operands) == [0, 0, 1]:
            return 1 if _between(node.inputs[2 - operands[2]], 0, 0) else None
        case "Add" | "Max" | "Clip" if sorted(operands) == [0, 1]:
            most = _LARGEST_EPSILON if node.op_type == "Clip" else math.inf
            return 1 if _between(node.inputs[second == 0], 0, most) else None
        case _:
            return None


def _between(value: onnx_ir.Value | None, low: float, high: float) -> bool:
    """True if the value is a constant number in the range."""
    tensor = constant_tensor(value)
    return tensor is not None and tensor.size == 1 and low <= float(tensor.numpy().item()) <= high


@dataclass
class Shifts:
    """Subtracts maxima before softmaxes.

    Attributes:
        model: The model.
        types: Its element types.
        records: Where the changes are noted.
        namer: Names what is new.
        rank: Returns how many axes a value has, None if it is unknown.
    """

    model: onnx_ir.Model
    types: Inference
    records: Records
    namer: Namer
    rank: Callable[[onnx_ir.Value], int | None]

    def apply(self, faults: Iterable[Fault]) -> set[onnx_ir.Node]:
        """Subtract the maximum before what overflows and is a softmax, or the Exp of one; return the nodes of those."""
        done = set[onnx_ir.Node]()
        for fault in faults:
            if fault.node.op_type in ("Softmax", "LogSoftmax") and fault.magnitude >= LIMITS.overflow:
                done |= self._shift_operand(fault)
            elif fault.node.op_type == "Exp" and fault.node not in done:
                softmax = softmax_of(fault.node)
                axes = None if softmax is None else self._axes(softmax.total)
                if softmax is not None and axes is not None and not (softmax.masks and self._opset < _EQUAL_OF_FLOATS):
                    done |= self._shift_exponential(fault, softmax, *axes)
        for graph in {graph_of(node) for node in done}:
            graph.sort()  # a mask may be computed behind the Exp that its maximum precedes now
        return done

    @property
    def _opset(self) -> int:
        return opset_of(self.model.graph.opset_imports, "") or 0

    def _shift_exponential(
        self, fault: Fault, softmax: Softmax, axes: Sequence[onnx_ir.Value | None], attributes: Mapping[str, Any]
    ) -> set[onnx_ir.Node]:
        """Subtract the maximum of what is not masked from the operand of Exp, and add it to the logarithms of sums."""
        node, operand = fault.node, present(fault.node.inputs[0], "the operand of Exp")
        before, constants = node_items([node, *softmax.logarithms]), list[onnx_ir.Value]()

        def number(of: float) -> onnx_ir.Value:
            constants.append(self._number(operand, of))
            return constants[-1]

        added_nodes, compared = list[onnx_ir.Node](), operand
        for mask in softmax.masks:
            added_nodes += _unmasked(mask, softmax.values, compared, number(0), number(LIMITS.lowest))
            compared = added_nodes[-1].outputs[0]
        greatest = added = compared
        if softmax.total is not None:
            keeps = [1] if softmax.keeps_axes or not softmax.logarithms else [1, 0]
            maxima = [onnx_ir.node("ReduceMax", [compared, *axes], {**attributes, "keepdims": keep}) for keep in keeps]
            added_nodes += maxima
            greatest, added = maxima[0].outputs[0], maxima[-1].outputs[0]
        if softmax.constants:
            added_nodes.append(onnx_ir.node("Max", [greatest, number(math.log(max(softmax.constants.values())))]))
            greatest = added = added_nodes[-1].outputs[0]
        for (user, index), constant in softmax.constants.items():
            added_nodes.append(onnx_ir.node("Sub", [number(math.log(constant)), greatest]))
            added_nodes.append(onnx_ir.node("Exp", [added_nodes[-1].outputs[0]]))
            user.replace_input_with(index, added_nodes[-1].outputs[0])
        added_nodes.append(onnx_ir.node("Sub", [operand, greatest]))
        if softmax.masks:  # what is masked may exceed the maximum of the rest
            added_nodes.append(onnx_ir.node("Min", [added_nodes[-1].outputs[0], number(0)]))
        self._put(node, added_nodes, constants)
        raised = [put_behind(log, "Add", added, self.namer) for log in softmax.logarithms]
        for value in softmax.values:
            value.name = self.namer.fresh(f"{value.name}_shifted")
        after = [*added_nodes, node, *(part for pair in zip(softmax.logarithms, raised, strict=True) for part in pair)]
        self._record(fault, before, after)
        return {*after, *softmax.nodes}

    def _shift_operand(self, fault: Fault) -> set[onnx_ir.Node]:
        """Subtract the maximum from a scaled operand, and put a factor behind it which takes the scale away.

        What is beyond float16 is minus infinity then, whose exponential is 0.
        """
        node, operand = fault.node, present(fault.node.inputs[0], "the operand of Softmax")
        before, over = node_items([node]), self._axes_of_softmax(node, operand)
        if over is None:
            return set()
        axes, attributes = list[onnx_ir.Value](), dict[str, Any]({"keepdims": 1})
        if self._opset < _AXES_ARE_AN_OPERAND:
            attributes["axes"] = over
        else:
            axes.append(new_constant(self.namer.fresh(f"{operand.name}_axes"), onnx_ir.tensor(np.array(over))))
        greatest = onnx_ir.node("ReduceMax", [operand, *axes], attributes)
        shifted, factor = onnx_ir.node("Sub", [operand, greatest.outputs[0]]), self._number(operand, 1)
        added = [greatest, shifted, onnx_ir.node("Mul", [shifted.outputs[0], factor])]
        self._put(node, added, [*axes, factor])
        self._record(fault, before, [*added, node])
        return {node, *added}

    def _axes_of_softmax(self, node: onnx_ir.Node, operand: onnx_ir.Value) -> list[int] | None:
        """Return the axes over which a softmax adds up: before opset 13 all from the stated one on."""
        if self._opset >= _AXIS_ALONE:
            return [node.attributes.get_int("axis", -1) or 0]
        rank, axis = self.rank(operand), node.attributes.get_int("axis", 1) or 0
        return None if rank is None else list(range(axis % rank, rank))

    def _number(self, like: onnx_ir.Value, number: float) -> onnx_ir.Value:
        dtype = np.float32 if self.types.type_of(like) == DataType.FLOAT else np.float16
        return new_constant(self.namer.fresh(f"{like.name}_number"), onnx_ir.tensor(np.array(number, dtype)))

    def _put(self, node: onnx_ir.Node, added: Sequence[onnx_ir.Node], constants: Iterable[onnx_ir.Value]) -> None:
        """Put new nodes before one whose operand the last of them makes."""
        put_before(node, added, self.namer)
        for constant in constants:
            place_constant(constant, added[0], self.namer)
        node.replace_input_with(0, added[-1].outputs[0])

    def _record(self, fault: Fault, before: list[NodeItem], after: Iterable[onnx_ir.Node]) -> None:
        reason = f"{fault.reason}; the result does not change if the maximum is subtracted first"
        items = node_items(list(after))
        self.records.rewrites.append(
            Rewrite(NAME, SHIFT_SOFTMAX.code, site_of(fault.node), before, items, reason, Effect.CONVERTED)
        )

    def _axes(self, total: onnx_ir.Node | None) -> tuple[Sequence[onnx_ir.Value | None], dict[str, Any]] | None:
        """Return the operands and attributes that name the axes of a sum for a ReduceMax, which has another form."""
        if total is None:
            return (), {}
        if len(total.inputs) < 2:
            axes = total.attributes.get("axes")
            return (), {} if axes is None else {"axes": axes.as_ints()}
        if self._opset >= _AXES_ARE_AN_OPERAND:
            return total.inputs[1:], {}
        tensor = constant_tensor(total.inputs[1])
        return None if tensor is None else ((), {"axes": tensor.numpy().ravel().tolist()})


def _unmasked(
    mask: onnx_ir.Node,
    scaled: Collection[onnx_ir.Value | None],
    compared: onnx_ir.Value,
    zero: onnx_ir.Value,
    lowest: onnx_ir.Value,
) -> list[onnx_ir.Node]:
    """Return nodes that make the least number of an operand where a product or a selection makes its exponential 0."""
    if mask.op_type == "Where":
        condition, first, _ = mask.inputs
        branches = [lowest, compared] if constant_tensor(first) is not None else [compared, lowest]
        return [onnx_ir.node("Where", [condition, *branches])]
    is_zero = onnx_ir.node("Equal", [next(value for value in mask.inputs if value not in scaled), zero])
    return [is_zero, onnx_ir.node("Where", [is_zero.outputs[0], lowest, compared])]
