"""What is proven of a converted model: it is bounded once more, as it computes, and what is lost there stays in float.

A bound of the model in float says nothing of float16: an operand that vanishes there makes a quotient infinite, squares
overflow inside of a norm whose result would fit, and roundings add up in a sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.step import NO_OVERFLOW
from castsmith.analysis.inference.handed_on import handed_on
from castsmith.ir.ops.table import traits_of
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import type_name
from castsmith.passes.precision.constants import limits
from castsmith.passes.precision.evidence import keys_of
from castsmith.passes.precision.operators import LINEAR, MEANS
from castsmith.verification.bounds import Bound

_NOTHING = Bound(0.0, 0.0, "unknown")
_WITHOUT_POLE = MEANS | LINEAR - {"Div"}
"""Operators to which an operand that is 0 is like any other."""


@dataclass
class Proof:
    """The bounds of a model before and after its conversion.

    Attributes:
        model: The converted model.
        to: The precision.
        before: The bounds of the model, by name.
        after: The bounds of the converted model, by name.
        names: The names that values had before the conversion.
    """

    model: onnx_ir.Model
    to: DataType
    before: Mapping[str, Bound]
    after: Mapping[str, Bound]
    names: Mapping[onnx_ir.Value, str]
    _names_now: Mapping[onnx_ir.Value, str] = field(init=False)

    def __post_init__(self) -> None:
        self._names_now = keys_of(self.model)

    def fits(self, value: onnx_ir.Value) -> bool:
        """True if the value is finite as the converted model computes it, and nothing that it depends on vanishes."""
        after = self._after(value)
        has_all_bits = after.magnitude == 0 or after.magnitude >= limits(self.to).normal
        return _is_sure(after) and has_all_bits and value not in self._behind_vanishing

    def losses(
        self, converted: Iterable[onnx_ir.Node], behind: Container[str] = frozenset()
    ) -> dict[onnx_ir.Node, str]:
        """Return the nodes to keep, each with the reason: where what was finite may become infinite or NaN.

        Those that make an operand vanish, by which it does, are among them. A value whose bound alone exceeds the
        precision may be far from it. So is a product of matrices, which runtimes add up in float.

        behind: The operators to keep also where operands are lost; their results may be sound if those are kept.
        """
        converted, reasons, visited = dict.fromkeys(converted), dict[onnx_ir.Node, str](), set[onnx_ir.Value]()
        tainted = set[onnx_ir.Value]()
        for node in all_nodes(self.model):
            operands = [value for value in node.inputs if value is not None]
            first = tainted.isdisjoint(operands)
            lost = any(map(self.is_lost, node.outputs))
            if lost or not first:
                tainted.update(value for value in node.outputs if not _is_sure(self._after(value)))
            if not (lost and (first or node.op_type in behind)) or traits_of(node.domain, node.op_type).products:
                continue
            vanishing = [value for value in operands if self._vanishes(value) and node.op_type not in _WITHOUT_POLE]
            why = f"it may overflow inside, computed in {type_name(self.to)}"
            if vanishing:
                why = f"{vanishing[0].name} may become 0 in {type_name(self.to)}"
                reasons |= dict.fromkeys(self._makers(vanishing, visited) & converted.keys(), why)
            elif any(map(self.is_lost, operands)):
                why = f"its operands may be infinite or NaN in {type_name(self.to)}"
            elif any(self._before(value).magnitude >= limits(self.to).overflow for value in node.outputs):
                continue
            if node in converted:
                reasons[node] = why
        return reasons

    def _makers(self, vanishing: Iterable[onnx_ir.Value], visited: set[onnx_ir.Value]) -> Set[onnx_ir.Node]:
        """Return the nodes that compute the values from others that vanish, at any distance, but for values seen."""
        waiting, reached = list(vanishing), dict[onnx_ir.Node, None]()
        while waiting:
            value = waiting.pop()
            if value in visited or not self._vanishes(value):
                continue
            visited.add(value)
            waiting += self._sources.get(value, ())
            if (node := value.producer()) is not None:
                reached[node] = None
                waiting += [operand for operand in node.inputs if operand is not None]
        return reached.keys()

    @cached_property
    def _behind_vanishing(self) -> Set[onnx_ir.Value]:
        """The values that vanish, and those that depend on them."""
        receivers, reached = defaultdict[onnx_ir.Value, list[onnx_ir.Value]](list), set[onnx_ir.Value]()
        for receiver, sources in self._sources.items():
            for source in sources:
                receivers[source].append(receiver)
        waiting = [value for value in self._names_now if self._vanishes(value)]
        while waiting:
            value = waiting.pop()
            if value not in reached:
                reached.add(value)
                waiting += receivers.get(value, ())
                waiting += [result for user, _ in value.uses() for result in user.outputs]
        return reached

    @cached_property
    def _sources(self) -> Mapping[onnx_ir.Value, list[onnx_ir.Value]]:
        sources = defaultdict[onnx_ir.Value, list[onnx_ir.Value]](list)
        for node in all_nodes(self.model):
            for source, receiver in handed_on(self.model, node):
                if source is not None:
                    sources[receiver].append(source)
        return sources

    def is_lost(self, value: onnx_ir.Value) -> bool:
        """True if the value is finite before the conversion, and may be infinite or NaN after it."""
        return _is_sure(self._before(value)) and not _is_sure(self._after(value))

    def _vanishes(self, value: onnx_ir.Value) -> bool:
        """True if no element is 0 before the conversion, and one may be 0 after it."""
        before, after = self._before(value), self._after(value)
        return _is_sure(before) and _is_sure(after) and before.least_magnitude > 0 == after.least_magnitude

    def _before(self, value: onnx_ir.Value) -> Bound:
        """The bound of the value, or of that of its name, or of what a Cast that was put in makes it from."""
        node = value.producer()
        if value not in self.names and node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
            return self.before.get(self._names_now.get(value, "")) or self._before(node.inputs[0])
        return self.before.get(self.names.get(value, ""), _NOTHING)

    def _after(self, value: onnx_ir.Value) -> Bound:
        return self.after.get(self._names_now.get(value, ""), _NOTHING)


def _is_sure(bound: Bound) -> bool:
    """True if all elements are finite for all inputs, without the assumption that nothing overflows."""
    return bound.how == "proven" and NO_OVERFLOW not in bound.assumes
