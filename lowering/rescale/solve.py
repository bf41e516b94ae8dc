"""The exponents that move all values into range, with as few multiplications put in as are found, each the least."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.analysis.inference.walk import Inference
from castsmith.lowering.rescale.exponents import NOTHING, Edge, Exponents, Form, Place, plus, times

Array = NDArray[Any]
_MOST_STEPS, _MOST_ADAPTERS, _MOST_TRIED = 200, 64, 24


@dataclass(frozen=True)
class Bound:
    """The exponents that a value, a constant or a sum inside of a node may have.

    Attributes:
        subject: The value, or an operand: a constant, or what a node adds up inside.
        low: The least exponent.
        high: The greatest.
        factor: 2 for a sum of squares.
    """

    subject: onnx_ir.Value | Edge
    low: float = -math.inf
    high: float = math.inf
    factor: int = 1

    @property
    def is_wish(self) -> bool:
        """True if the bound is kept without a scale: it only says that the value is to lose no bits by another's."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Solution:
    """The exponents of a model.

    Attributes:
        values: The exponent of each value that has one.
        constants: That of each constant operand.
        epsilons: That of the epsilon of each node.
        adapters: By what each adapter divides.
        unsolved: The bounds that are not kept.
    """

    values: Mapping[onnx_ir.Value, int]
    constants: Mapping[Edge, int]
    epsilons: Mapping[onnx_ir.Node, int]
    adapters: Mapping[Place, int]
    unsolved: tuple[Bound, ...]


class _System:
    """The exponents with the equations solved: forms in the unknowns that are left."""

    def __init__(self, graph: onnx_ir.Graph, inference: Inference, adapters: frozenset[Place]) -> None:
        self.found = Exponents(inference, adapters)
        self.found.state(graph)
        self._graph = graph
        self._known: dict[int, Form] = {}
        for form, _ in self.found.equations:
            left = self.reduced(form)
            if left:
                pivot = max(left)
                self._known[pivot] = times({u: c for u, c in left.items() if u != pivot}, -1 / left[pivot])

    def reduced(self, form: Form) -> Form:
        """Return the form in the unknowns that are left."""
        while True:
            unknown = next((unknown for unknown in form if unknown in self._known), None)
            if unknown is None:
                return form
            coefficient = form[unknown]
            form = plus({u: c for u, c in form.items() if u != unknown}, self._known[unknown], coefficient)

    def form_of(self, subject: onnx_ir.Value | Edge) -> Form:
        """Return the exponent of a value or of a constant operand."""
        return self.reduced(self._raw(subject))

    def assigned(self, bounds: Sequence[Bound]) -> tuple[dict[int, Fraction], list[Bound]]:
        """Return a number for each unknown, the least in size that are found, and the bounds that are not kept."""
        rows = [(times(self.form_of(bound.subject), bound.factor), bound) for bound in bounds]
        for place, form in self.found.adapted.items():  # what an adapter makes has to fit as well
            value = place if isinstance(place, onnx_ir.Value) else self._read(place)
            whole = self.reduced(plus(form, self._raw(value) if value is not None else NOTHING))
            rows += [(whole, bound) for bound in bounds if bound.subject is value]
        unknowns = sorted({unknown for form, _ in rows for unknown in form})
        places = {unknown: place for place, unknown in enumerate(unknowns)}
        table = np.zeros((len(rows), len(unknowns)))  # whole numbers and halves, which are exact
        for row, (form, _) in enumerate(rows):
            for unknown, coefficient in form.items():
                table[row, places[unknown]] = float(coefficient)
        numbers, left = _assigned(table, [bound for _, bound in rows], [self._steps.get(each, 1) for each in unknowns])
        return dict(zip(unknowns, map(Fraction, numbers.tolist()), strict=True)), [rows[row][1] for row in left]

    def _read(self, edge: Edge) -> onnx_ir.Value | None:
        node, index = edge
        return self._graph.outputs[index] if node is None else node.inputs[index]

    @cached_property
    def _steps(self) -> dict[int, int]:
        """Return the number of which each unknown must be a multiple, so that every exponent is whole."""
        steps: dict[int, int] = {}
        forms = (*self.found.of.values(), *self.found.constants.values(), *self.found.adapted.values())
        for form in map(self.reduced, forms):
            for unknown, coefficient in form.items():
                steps[unknown] = math.lcm(steps.get(unknown, 1), coefficient.denominator)
        return steps

    def candidates(self, subject: onnx_ir.Value | Edge) -> Iterator[Edge]:
        """Yield operands at which an adapter may free the exponent of the subject, the nearest first."""
        node = subject.producer() if isinstance(subject, onnx_ir.Value) else subject[0]
        reached, waiting = set[int](), dict.fromkeys(self._raw(subject))
        if node is not None:
            yield from ((node, index) for index, each in enumerate(node.inputs) if self.found.is_scaled(each))
            for operand in node.inputs:
                waiting |= dict.fromkeys(self.found.of.get(operand, NOTHING) if operand is not None else ())
                producer = None if operand is None else operand.producer()
                for index, each in enumerate(() if producer is None else producer.inputs):
                    if producer is not None and self.found.is_scaled(each):
                        yield producer, index
        while waiting:
            unknown = next(iter(waiting))
            del waiting[unknown]
            reached.add(unknown)
            for form, edges in self.found.equations:
                if unknown in form:
                    yield from edges
                    waiting |= {each: None for each in form if each not in reached}

    def _raw(self, subject: onnx_ir.Value | Edge) -> Form:
        if isinstance(subject, onnx_ir.Value):
            return self.found.of.get(subject, NOTHING)
        if subject in self.found.constants:
            return self.found.constants[subject]
        value = self._read(subject)
        if value is None:
            return NOTHING
        shared = self.found.adapted.get(value, NOTHING) if subject[0] is not None else NOTHING
        return plus(plus(self._raw(value), self.found.adapted.get(subject, NOTHING)), shared)


def _value(form: Form, numbers: Mapping[int, Fraction]) -> Fraction:
    return sum((coefficient * numbers.get(unknown, Fraction(0)) for unknown, coefficient in form.items()), Fraction(0))


def _assigned(table: Array, bounds: Sequence[Bound], steps: Sequence[int]) -> tuple[Array, list[int]]:
    """Return a number for each column of the table, and the rows whose sums are not within their bounds.

    The first row that is not is moved by the one number with which the least is missing in all.
    """
    low, high = np.array([bound.low for bound in bounds]), np.array([bound.high for bound in bounds])
    numbers = np.zeros(table.shape[1])
    open_rows = table.any(axis=1)
    for _ in range(_MOST_STEPS):
        gaps = _gaps(table @ numbers, low, high)
        wrong = np.flatnonzero(gaps * open_rows)
        if not wrong.size:
            break
        row = wrong[0]
        best = (math.inf, math.inf, 0, 0.0)
        for column in np.flatnonzero(table[row]).tolist():
            count = math.ceil(abs(gaps[row] / table[row, column]) / steps[column])
            change = math.copysign(count * steps[column], gaps[row] * table[row, column])
            missing = float(np.abs(_gaps(table @ numbers + table[:, column] * change, low, high)).sum())
            best = min(best, (missing, abs(change), column, change))
        numbers[best[2]] += best[3]
    return numbers, np.flatnonzero(_gaps(table @ numbers, low, high)).tolist()


def _gaps(values: Array, low: Array, high: Array) -> Array:
    """Return by how much each value is to be raised; negative: lowered."""
    return np.where(values < low, low - values, np.where(values > high, high - values, 0.0))


def solve(graph: onnx_ir.Graph, inference: Inference, bounds: Sequence[Bound]) -> Solution:
    """Return the exponents by which the bounds are kept, as far as they are found."""
    bounds = sorted(bounds, key=lambda bound: bound.is_wish)
    given_up: list[Bound] = []

    def tried(adapters: frozenset[Place]) -> tuple[_System, dict[int, Fraction], list[Bound]]:
        system = _System(graph, inference, adapters)
        numbers, wrong = system.assigned(bounds)
        return system, numbers, wrong

    system, numbers, wrong = tried(frozenset())
    for _ in range(_MOST_ADAPTERS):
        if not wrong:
            break
        edges = list(dict.fromkeys(system.candidates(wrong[0].subject)))[:_MOST_TRIED]
        values = [value for node, index in edges if node is not None and (value := node.inputs[index]) is not None]
        best: tuple[_System, dict[int, Fraction], list[Bound]] = (system, numbers, wrong)
        for place in dict.fromkeys([*edges, *values]):
            trial = tried(system.found.adapters | {place})
            left = trial[2]
            if len(left) < len(best[2]):
                best = trial
            if not left or (wrong[0].is_wish and len(left) < len(wrong)):
                break
        if best[0] is system:
            given_up.append(wrong[0])
            bounds = [bound for bound in bounds if bound != wrong[0]]
            numbers, wrong = system.assigned(bounds)
        else:
            system, numbers, wrong = best
    return _solution(system, numbers, (*given_up, *wrong))


def _solution(system: _System, numbers: Mapping[int, Fraction], unsolved: tuple[Bound, ...]) -> Solution:
    def whole(form: Form) -> int:
        return int(_value(system.reduced(form), numbers))

    found = system.found
    return Solution(
        {value: exponent for value, form in found.of.items() if (exponent := whole(form))},
        {edge: exponent for edge, form in found.constants.items() if (exponent := whole(form))},
        {node: exponent for node, form in found.epsilons if (exponent := whole(form))},
        {place: exponent for place, form in found.adapted.items() if (exponent := whole(form))},
        unsolved,
    )
