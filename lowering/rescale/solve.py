"""The exponents that move all values into range, with as few multiplications put in as are found, each the least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import onnx_ir

from castsmith.analysis.inference.walk import Inference
from castsmith.lowering.rescale.exponents import NOTHING, Edge, Exponents, Form, Place, plus, times

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
        numbers, steps = dict[int, Fraction](), self._steps()
        for _ in range(_MOST_STEPS):
            wrong = [(form, bound, gap) for form, bound in rows if (gap := _gap(bound, _value(form, numbers)))]
            open_ones = [each for each in wrong if each[0]]
            if not open_ones:
                return numbers, [bound for _, bound, _ in wrong]
            form, _, gap = open_ones[0]
            choices = list(_changes(form, gap, steps))
            best = min(choices, key=lambda choice: (_total(rows, {**numbers, **_moved(numbers, choice)}), choice[0]))
            numbers.update(_moved(numbers, best))
        return numbers, [bound for form, bound in rows if _gap(bound, _value(form, numbers))]

    def _read(self, edge: Edge) -> onnx_ir.Value | None:
        node, index = edge
        return self._graph.outputs[index] if node is None else node.inputs[index]

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
        value = subject if isinstance(subject, onnx_ir.Value) else None
        node = (
            subject[0] if value is None and isinstance(subject, tuple) else None if value is None else value.producer()
        )
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


def _gap(bound: Bound, value: Fraction) -> Fraction:
    """Return by how much the value is to be raised; negative: lowered."""
    if value < bound.low:
        return Fraction(bound.low) - value
    return Fraction(bound.high) - value if value > bound.high else Fraction(0)


def _changes(form: Form, gap: Fraction, steps: Mapping[int, int]) -> Iterator[tuple[Fraction, int, Fraction]]:
    """Yield the changes of one unknown that close the gap: the size of each, the unknown, and the change."""
    for unknown, coefficient in form.items():
        step = steps.get(unknown, 1)
        count = math.ceil(abs(gap / coefficient) / step)
        change = Fraction(count * step if (gap > 0) == (coefficient > 0) else -count * step)
        yield abs(change), unknown, change


def _moved(numbers: Mapping[int, Fraction], choice: tuple[Fraction, int, Fraction]) -> dict[int, Fraction]:
    return {choice[1]: numbers.get(choice[1], Fraction(0)) + choice[2]}


def _total(rows: Iterable[tuple[Form, Bound]], numbers: Mapping[int, Fraction]) -> Fraction:
    return sum((abs(_gap(bound, _value(form, numbers))) for form, bound in rows), Fraction(0))


def solve(graph: onnx_ir.Graph, inference: Inference, bounds: Sequence[Bound]) -> Solution:
    """Return the exponents by which the bounds are kept, as far as they are found."""
    adapters, given_up = frozenset[Place](), list[Bound]()
    system = _System(graph, inference, adapters)
    numbers, wrong = system.assigned(bounds)
    for _ in range(_MOST_ADAPTERS):
        if not wrong:
            break
        edges = list(dict.fromkeys(system.candidates(wrong[0].subject)))[:_MOST_TRIED]
        values = [value for node, index in edges if node is not None and (value := node.inputs[index]) is not None]
        best: tuple[int, frozenset[Place]] = len(wrong), adapters
        for place in dict.fromkeys([*edges, *values]):
            left = _System(graph, inference, adapters | {place}).assigned(bounds)[1]
            if len(left) < best[0]:
                best = len(left), adapters | {place}
        if best[1] == adapters:
            given_up.append(wrong[0])
            bounds = [bound for bound in bounds if bound != wrong[0]]
        adapters = best[1]
        system = _System(graph, inference, adapters)
        numbers, wrong = system.assigned(bounds)
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
