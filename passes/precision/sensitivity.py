"""Sensitive nodes of a model: those that stay in float, those that do what their neighbours do, those proven safe.

A value between two converted nodes is rounded to 16 bits, whether the node between them is converted or stands in float
between two casts. So a node whose kernels compute in float inside, and whose result fits, gains nothing from the casts:
it follows its neighbours. A node whose result may exceed the precision stays in float with the nodes that read this
result, unless its bounds show that it fits or its users absorb the overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import OF_ONE
from castsmith.numerics.errors import present
from castsmith.numerics.types import type_name
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.constants import RoundingLoss, limits
from castsmith.passes.precision.evidence import Known, is_only_added
from castsmith.passes.precision.operators import (
    GROWING,
    INSIDE,
    LINEAR,
    MEANS,
    RANGE,
    SATURATING,
    sensitive_reason,
)
from castsmith.passes.precision.ports import Ports

_WIDE = 1e38
"""A type that holds such numbers has the range of float."""

_MARGIN = 16.0
"""Factor by which measured numbers have to be smaller than the precision holds: other inputs give larger ones."""

_LEAST_SQUARE = 2.0**-8
"""Greatest square from which most squares are normal numbers of float16."""

_MOST_STEPS = 8
"""Nodes that are followed to where an overflow is absorbed."""


@dataclass
class Sensitivity:
    """The sensitive nodes of one conversion, judged one after the other in the order of the graph.

    Attributes:
        to: The precision.
        bound_of: Returns what is known of a value.
        sizes: The sizes of values.
        following: The nodes that do what their neighbours do, with the reason to prefer float.
        wide: The values that may exceed the precision.
    """

    to: DataType
    bound_of: Callable[[onnx_ir.Value], Known | None]
    sizes: Sizes
    following: dict[onnx_ir.Node, str] = field(default_factory=dict[onnx_ir.Node, str])
    wide: set[onnx_ir.Value] = field(default_factory=set[onnx_ir.Value])

    def judge(self, node: onnx_ir.Node, ports: Ports, opset: int) -> str:
        """Return the reason why the node stays in float; empty if it does not."""
        exceeding = self._reads_wide(node, ports)
        if exceeding:
            return exceeding
        why = sensitive_reason(node, opset, self.sizes)
        why = why and f"{node.op_type} stays in a wider type by default: {why}"
        squares = self.is_square(node)
        if squares and not why and not self._fits(node, squares=True) and _is_summed(node):
            return f"its squares may exceed {type_name(self.to)}"
        if why and (node.op_type in INSIDE or (node.op_type in RANGE and self._fits(node, squares=squares))):
            self.following[node] = why
            return ""
        return why

    def keep(self, node: onnx_ir.Node, ports: Ports) -> None:
        """Note that the node stays in float: what it gives may then exceed the precision."""
        if limits(self.to).overflow > _WIDE:
            return
        # No operator that grows depends on the opset.
        grows = node.op_type in GROWING and (self.is_square(node) or sensitive_reason(node, 0, self.sizes))
        if grows or (self._reads_wide(node, ports) and _passes(node)):
            results = (node.outputs[index] for index in ports.gives)
            self.wide.update(value for value in results if not self._is_known_to_fit(value, least=0.0))

    def _reads_wide(self, node: onnx_ir.Node, ports: Ports) -> str:
        """Return the reason to keep a node that reads a value that may exceed the precision; products are worth it."""
        if traits_of(node.domain, node.op_type).products:
            return ""
        for index in sorted(ports.follows):
            value = present(node.inputs[index], "an operand of a type that is converted")
            if value in self.wide:
                return f"it reads {value.name}, which may exceed {type_name(self.to)}"
        return ""

    def _fits(self, node: onnx_ir.Node, *, squares: bool) -> bool:
        if limits(self.to).overflow > _WIDE:
            return True
        least = _LEAST_SQUARE if squares else 0.0
        return all(self._is_known_to_fit(value, least) for value in node.outputs) or _absorbed(node)

    def _is_known_to_fit(self, value: onnx_ir.Value, least: float) -> bool:
        fact = self.bound_of(value)
        if fact is None:
            return False
        size = fact.magnitude
        return size * (_MARGIN if fact.how == "measured" else 1.0) < limits(self.to).overflow and size >= least

    def is_square(self, node: onnx_ir.Node) -> bool:
        """True if the node squares its operand."""
        if node.op_type == "Mul":
            return node.inputs[0] is node.inputs[1]
        return node.op_type == "ReduceSumSquare" or (node.op_type == "Pow" and _number(node.inputs[1]) == 2.0)


def is_negligible(node: onnx_ir.Node, value: onnx_ir.Value, loss: RoundingLoss) -> bool:
    """True if the bits that a small constant loses are fewer than those that the results beside it lose.

    The sum of a subnormal number and another is rounded by as much; a scale of a branch that is only added is wrong by
    2^-25 of what it scales.
    """
    if loss.overflow or loss.masks:
        return False
    if node.op_type in ("Add", "Sub"):
        return loss.elements == 1 and (not loss.lost or is_raised(node, value, loss))
    return node.op_type == "Mul" and not loss.lost and is_only_added(node.outputs[0], _joins)


def is_raised(node: onnx_ir.Node, value: onnx_ir.Value, loss: RoundingLoss) -> bool:
    """True if the constant is added below a square root against a division by zero, and would vanish.

    It becomes the least number of the precision instead.
    """
    number = _number(value)
    if not loss.lost or number is None or number < 0 or node.op_type != "Add":
        return False
    users = node.outputs[0].consumers()
    return bool(users) and all(user.op_type == "Sqrt" and user.domain in DEFAULT_DOMAINS for user in users)


def _joins(node: onnx_ir.Node) -> bool:
    """True if the node adds two computed values."""
    return sum(value is not None and constant_tensor(value) is None for value in node.inputs) == 2


def _is_summed(node: onnx_ir.Node) -> bool:
    """True if the results of the node are added up: the squares of a variance or a norm."""
    return any(user.op_type in MEANS and user.domain in DEFAULT_DOMAINS for user, _ in node.outputs[0].uses())


def _number(value: onnx_ir.Value | None) -> float | None:
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1:
        return None
    return float(tensor.numpy().reshape(()))


def _passes(node: onnx_ir.Node) -> bool:
    """True if the results of the node are as large as what it reads: a mean, a movement, arithmetic with constants."""
    if node.op_type in MEANS or traits_of(node.domain, node.op_type).moves in OF_ONE:
        return True
    others = [value for value in node.inputs if constant_tensor(value) is None]
    return node.op_type in LINEAR and len(others) == 1


def _absorbed(node: onnx_ir.Node) -> bool:
    """True if all users of an odd power saturate where it overflows: `Tanh (x + 0.044 * x ^ 3)`."""
    exponent = _number(node.inputs[1]) if node.op_type == "Pow" else None
    if exponent is None or exponent % 2 != 1:
        return False
    return all(_saturates(value, node.inputs[0], 65504.0, 0) for value in node.outputs)


def _saturates(value: onnx_ir.Value, base: onnx_ir.Value | None, size: float, steps: int) -> bool:
    """True if all users give their limit when the value is at least `size`, of the sign of `base`."""
    users = value.consumers()
    if not users or value.is_graph_output() or steps > _MOST_STEPS:
        return False
    for user in users:
        least = SATURATING.get(user.op_type)
        if user.domain not in DEFAULT_DOMAINS:
            return False
        if least is not None:
            if size < least:
                return False
            continue
        scale = _scale(user, value, base)
        if scale is None or not _saturates(user.outputs[0], base, size * scale, steps + 1):
            return False
    return True


def _scale(node: onnx_ir.Node, value: onnx_ir.Value, base: onnx_ir.Value | None) -> float | None:
    """Return the factor by which the node multiplies the value; None if it does something else."""
    if traits_of(node.domain, node.op_type).moves in OF_ONE:
        return 1.0
    if node.op_type not in ("Add", "Mul"):
        return None
    operand = node.inputs[1] if node.inputs[0] is value else node.inputs[0]
    if node.op_type == "Add":
        return 1.0 if operand is base else None
    number = _number(operand)
    return number if number is not None and np.isfinite(number) and number > 0 else None
