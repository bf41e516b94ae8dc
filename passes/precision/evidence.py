"""What is known of the magnitudes of values, by statement, proof or measurement, and where the precision ends.

A value that reaches beyond the largest number of the precision, or stays below its smallest normal one, must not be
made in it. Nor must those that get its elements: across calls, control flow, sequences, movements, and arithmetic that
changes little. They count until something is known of one of them that fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.handed_on import handed_on
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import OF_ONE
from castsmith.ir.walks import all_nodes, all_values, subgraphs_of
from castsmith.numerics.types import type_name
from castsmith.passes.precision.constants import limits
from castsmith.passes.precision.operators import PASSING


@dataclass(frozen=True)
class Known:
    """The least and the greatest element of a value, and how they are known: stated, proven, measured, or unknown."""

    low: float
    high: float
    how: str = "stated"

    @property
    def magnitude(self) -> float:
        """The largest absolute value of an element."""
        return max(abs(self.low), abs(self.high))


def keys_of(model: onnx_ir.Model) -> dict[onnx_ir.Value, str]:
    """Return the names by which values are known: those in a function `domain::function/value`, as in `bounds`."""
    keys = {value: value.name or "" for value in all_values(model)}
    for function in model.functions.values():
        for scope in (function, *subgraphs_of(function)):
            inner = (value for node in scope for value in node.outputs)
            keys.update((value, f"{prefix_of(function)}{value.name}") for value in (*scope.inputs, *inner))
    return keys


def prefix_of(function: onnx_ir.Function) -> str:
    """Return what stands before the name of a value in a function."""
    return f"{function.domain}::{function.name}/"


class Evidence:
    """What is known of the values of a model, and what of it fits the precision."""

    def __init__(self, model: onnx_ir.Model, to: DataType, bound: Callable[[str], Known | None] | None) -> None:
        self._model, self._to, self._limits = model, to, limits(to)
        self._bound, self._keys = bound, {} if bound is None else keys_of(model)

    def of(self, value: onnx_ir.Value) -> Known | None:
        """Return what is known of the value."""
        bound = None if self._bound is None else self._bound(self._keys.get(value, ""))
        return None if bound is None or bound.how == "unknown" else bound

    def misfit(self, value: onnx_ir.Value) -> str:
        """Return the reason why the value does not fit: the number that it reaches, or below which it stays."""
        fact = self.of(value)
        if fact is None or not fact.magnitude:
            return ""
        greatest = fact.magnitude
        if greatest >= self._limits.overflow:
            return f"{value.name} reaches {greatest:.6g} ({fact.how}), beyond {type_name(self._to)}"
        vanishes = greatest < self._limits.normal and not (fact.how == "proven" and greatest < _UNDERFLOW)
        if vanishes and not is_only_added(value, self._hides):
            return f"{value.name} stays below {greatest:.6g} ({fact.how}), where {type_name(self._to)} loses bits"
        return ""

    def beyond(self, concerns: Callable[[onnx_ir.Value], bool]) -> dict[onnx_ir.Value, str]:
        """Return the values that do not fit, and those that get their elements, each with the reason.

        concerns: True for a value of a type that is converted. Constants are judged by their elements, not here.
        """
        if self._bound is None:
            return {}
        bounds = {
            value: why
            for value in all_values(self._model)
            if concerns(value) and constant_tensor(value) is None and (why := self.misfit(value))
        }
        links: dict[onnx_ir.Value | None, list[onnx_ir.Value]] = defaultdict(list)
        for node in all_nodes(self._model):
            for source, receiver in (*handed_on(self._model, node), *_passed(node)):
                links[source].append(receiver)
        waiting = list(bounds)
        while waiting:
            value = waiting.pop()
            for receiver in links.get(value, ()):
                if receiver not in bounds and concerns(receiver) and self.of(receiver) is None:
                    bounds[receiver] = bounds[value]
                    waiting.append(receiver)
        return bounds

    def _hides(self, node: onnx_ir.Node) -> bool:
        """True if the sum is not as small as to vanish itself: then it is rounded by as much as a small operand is."""
        fact = self.of(node.outputs[0])
        return fact is None or fact.magnitude >= self._limits.normal


_UNDERFLOW = 2.0**-126
"""Below this, a bound is that of a value that is 0 but for the rounding of float, which is what is proven of zeros."""
_MOST_STEPS = 8
"""Nodes that are followed to where a value is added."""


def is_only_added(value: onnx_ir.Value, counts: Callable[[onnx_ir.Node], bool], steps: int = 0) -> bool:
    """True if the value, moved or not, is only an operand of sums and differences that count."""
    users = value.consumers()
    hidden = bool(users) and not value.is_graph_output() and steps < _MOST_STEPS
    return hidden and all(_adds(user, counts, steps) for user in users)


def _adds(node: onnx_ir.Node, counts: Callable[[onnx_ir.Node], bool], steps: int) -> bool:
    if traits_of(node.domain, node.op_type).moves in OF_ONE:
        return all(is_only_added(value, counts, steps + 1) for value in node.outputs)
    return node.op_type in ("Add", "Sub") and node.domain in DEFAULT_DOMAINS and counts(node)


def _passed(node: onnx_ir.Node) -> Iterator[tuple[onnx_ir.Value | None, onnx_ir.Value]]:
    """Yield the operands whose elements reach the results, a little changed at most."""
    if node.domain not in DEFAULT_DOMAINS:
        return
    row = traits_of(node.domain, node.op_type)
    if row.moves is not None:
        yield from product(row.moved(node.inputs), node.outputs)
    elif node.op_type in PASSING:
        yield from product(node.inputs, node.outputs)
