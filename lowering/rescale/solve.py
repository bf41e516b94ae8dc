"""The exponents that move all values into range, with as few multiplications put in as are found, each the least."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from castsmith.analysis.inference.handed_on import value_at
from castsmith.analysis.inference.walk import Inference
from castsmith.lowering.rescale.exponents import NOTHING, Edge, Exponents, Form, Place, plus, times

K = TypeVar("K")
Array = NDArray[Any]
Places = frozenset[Place]
Row = tuple[Form, "Bound"]
_MOST_ROUNDS, _MOST_TRIED = 16, 24
"""Limits of the search for adapters. The tests, which have each kind of model, need 2 rounds, and at most 11 operands
are near enough to one bound to be tried."""
_MOST_MOVES = 8
"""How often one bound is moved: two that demand opposite exponents would move each other without an end."""


@dataclass(frozen=True)
class Bound:
    """The exponents that a value, a constant or a sum inside of a node may have.

    Attributes:
        subject: The value, or an operand: a constant, or what a node adds up inside.
        low: The least exponent.
        high: The greatest.
        factor: 2 for a sum of squares.
        inside: True for a sum inside of the node that makes the value: what is computed from the value may be larger.
        soft: True if the model is right without it, where the operator is as the standard says.
    """

    subject: onnx_ir.Value | Edge
    low: float = -math.inf
    high: float = math.inf
    factor: int = 1
    inside: bool = False
    soft: bool = False

    @property
    def is_optional(self) -> bool:
        """True if nothing is wrong without the bound: it only says that the value is to lose no bits by another's."""
        return self.soft or self.low <= 0 <= self.high


@dataclass(frozen=True)
class Solution:
    """The exponents of a model.

    Attributes:
        values: The exponent of each value that has one.
        constants: That of each constant operand.
        attributes: That of each number that a node has as an attribute.
        repairs: What is made up for beside a node.
        adapters: By what each adapter divides.
        unsolved: The bounds that are not kept.
    """

    values: Mapping[onnx_ir.Value, int]
    constants: Mapping[Edge, int]
    attributes: Mapping[tuple[onnx_ir.Node, str], int]
    repairs: Mapping[onnx_ir.Node, int]
    adapters: Mapping[Place, int]
    unsolved: tuple[Bound, ...]


class _System:
    """The exponents with the equations solved: forms in the unknowns that are left."""

    def __init__(self, model: onnx_ir.Model, inference: Inference, adapters: Places) -> None:
        self.exponents = Exponents(inference, adapters)
        self.exponents.state(model)
        self._known: dict[int, Form] = {}
        users = defaultdict[int, set[int]](set)  # the known unknowns whose forms have an unknown
        for form, _ in self.exponents.equations:
            left = self.reduced(form)
            if left:
                pivot = max(left)
                self._known[pivot] = times({u: c for u, c in left.items() if u != pivot}, -1 / left[pivot])
                for changed in users.pop(pivot, ()):
                    self._known[changed] = self.reduced(self._known[changed])
                    for unknown in self._known[changed]:
                        users[unknown].add(changed)
                for unknown in self._known[pivot]:
                    users[unknown].add(pivot)

    def reduced(self, form: Form) -> Form:
        """Return the form in the unknowns that are left."""
        if self._known.keys().isdisjoint(form):
            return form
        reduced = {unknown: coefficient for unknown, coefficient in form.items() if unknown not in self._known}
        for unknown in form.keys() & self._known.keys():
            reduced = plus(reduced, self._known[unknown], form[unknown])
        return reduced

    def _form_of(self, bound: Bound) -> Form:
        """Return the exponent of what is bounded, in the unknowns that are left."""
        node = bound.subject.producer() if isinstance(bound.subject, onnx_ir.Value) else None
        inner = None if node is None or not bound.inside else self.exponents.inner.get(node)
        return times(self.reduced(self._raw(bound.subject) if inner is None else inner), bound.factor)

    def assigned(self, bounds: Sequence[Bound]) -> tuple[dict[int, Fraction], list[Bound]]:
        """Return a number for each unknown, the least in size that are found, and the bounds that are not kept."""
        rows = [(self._form_of(bound), bound) for bound in bounds]
        of_subject = defaultdict[onnx_ir.Value | Edge | None, list[Bound]](list)
        for bound in bounds:
            of_subject[bound.subject].append(bound)
        for place, form in self.exponents.adapted.items():  # what an adapter makes has to fit as well
            value = place if isinstance(place, onnx_ir.Value) else value_at(place)
            adapted = self.reduced(plus(form, self._raw(value) if value is not None else NOTHING))
            rows += [(adapted, bound) for bound in of_subject[value] if not bound.inside]
        return _assigned(rows, self._steps, self.exponents.inexact)

    @cached_property
    def _steps(self) -> dict[int, int]:
        """Return the number of which each unknown must be a multiple, so that every exponent is whole."""
        steps: dict[int, int] = {}
        forms = (*self.exponents.of.values(), *self.exponents.constants.values(), *self.exponents.adapted.values())
        for form in map(self.reduced, forms):
            for unknown, coefficient in form.items():
                steps[unknown] = math.lcm(steps.get(unknown, 1), coefficient.denominator)
        return steps

    def candidates(self, subject: onnx_ir.Value | Edge, wrong: Container[onnx_ir.Value | Edge]) -> list[Places]:
        """Return places for adapters that may free the exponent of a subject, the nearest first.

        They are one operand, one value, and everything around the nodes from here on whose results are wrong.
        """
        edges = dict.fromkeys(itertools.islice(self._operands(subject), _MOST_TRIED))
        values = [
            value for edge in edges if isinstance(edge[0], onnx_ir.Node) and (value := value_at(edge)) is not None
        ]
        alone = [frozenset([place]) for place in dict.fromkeys([*edges, *values])]
        return [*alone, self._around(subject, wrong)]

    def _around(self, subject: onnx_ir.Value | Edge, wrong: Container[onnx_ir.Value | Edge]) -> Places:
        first = _node_of(subject)
        region, waiting = dict[onnx_ir.Node, None](), [] if first is None else [first]
        while waiting:
            node = waiting.pop()
            if node not in region:
                region[node] = None
                waiting += [user for value in node.outputs if value in wrong for user, _ in value.uses()]
        scaled = self.exponents.is_scaled
        read = (
            value
            for node in region
            for index, value in enumerate(node.inputs)
            if not self.exponents.is_constant(node, index)
        )
        entering = (value for value in read if value is not None and scaled(value) and value.producer() not in region)
        leaving = [value for node in region for value in node.outputs if scaled(value) and value not in wrong]
        return frozenset((*entering, *leaving, *(end for value in leaving for end in _ends(value))))

    def _operands(self, subject: onnx_ir.Value | Edge) -> Iterator[Edge]:
        """Yield operands at which an adapter may free the exponent of the subject, the nearest first."""
        node = _node_of(subject)
        reached, waiting = set[int](), dict.fromkeys(self._raw(subject))
        if node is not None:
            yield from ((node, index) for index, operand in enumerate(node.inputs) if self.exponents.is_scaled(operand))
            for operand in node.inputs:
                waiting |= dict.fromkeys(self.exponents.of.get(operand, NOTHING) if operand is not None else ())
                producer = None if operand is None else operand.producer()
                for index, source in enumerate(() if producer is None else producer.inputs):
                    if producer is not None and self.exponents.is_scaled(source):
                        yield producer, index
        while waiting:
            unknown = next(iter(waiting))
            del waiting[unknown]
            reached.add(unknown)
            for form, edges in self.exponents.equations:
                if unknown in form:
                    yield from edges
                    waiting |= {linked: None for linked in form if linked not in reached}

    def _raw(self, subject: onnx_ir.Value | Edge) -> Form:
        if isinstance(subject, onnx_ir.Value):
            return self.exponents.of.get(subject, NOTHING)
        if subject in self.exponents.constants:
            return self.exponents.constants[subject]
        value = value_at(subject)
        if value is None:
            return NOTHING
        shared = self.exponents.adapted.get(value, NOTHING) if isinstance(subject[0], onnx_ir.Node) else NOTHING
        return plus(plus(self._raw(value), self.exponents.adapted.get(subject, NOTHING)), shared)


def _ends(value: onnx_ir.Value) -> Iterator[Edge]:
    """Yield where the value is an output of its graph."""
    graph = value.graph
    if graph is not None:
        yield from ((graph, index) for index, output in enumerate(graph.outputs) if output is value)


def _node_of(subject: onnx_ir.Value | Edge) -> onnx_ir.Node | None:
    owner = subject.producer() if isinstance(subject, onnx_ir.Value) else subject[0]
    return owner if isinstance(owner, onnx_ir.Node) else None


def _value(form: Form, numbers: Mapping[int, Fraction]) -> Fraction:
    return sum((coefficient * numbers.get(unknown, Fraction(0)) for unknown, coefficient in form.items()), Fraction(0))


def _assigned(
    rows: Sequence[Row], steps: Mapping[int, int], inexact: Container[int]
) -> tuple[dict[int, Fraction], list[Bound]]:
    """Return a number for each unknown, and the bounds that are not kept.

    The first row that is not is moved by the one number with which the least is missing in all, an exact one if it may.
    """
    low, high = np.array([bound.low for _, bound in rows]), np.array([bound.high for _, bound in rows])
    columns = defaultdict[int, list[tuple[int, float]]](list)  # whole numbers and halves, which are exact
    for row, (form, _) in enumerate(rows):
        for unknown, coefficient in form.items():
            columns[unknown].append((row, float(coefficient)))
    places = {unknown: np.array([row for row, _ in column]) for unknown, column in columns.items()}
    weights = {unknown: np.array([weight for _, weight in column]) for unknown, column in columns.items()}
    values, numbers, moves = np.zeros(len(rows)), dict[int, float](), Counter[int]()
    gaps, is_open = _gaps(values, low, high), np.array([bool(form) for form, _ in rows], bool)
    while (wrong := np.flatnonzero(gaps * is_open)).size:
        row = int(wrong[0])
        best = (math.inf, True, math.inf, 0, 0.0)
        for unknown, coefficient in sorted(rows[row][0].items()):
            step, touched = steps.get(unknown, 1), places[unknown]
            change = math.copysign(
                math.ceil(abs(gaps[row] / float(coefficient)) / step) * step, gaps[row] * float(coefficient)
            )
            after = _gaps(values[touched] + weights[unknown] * change, low[touched], high[touched])
            missing = float(np.abs(after).sum() - np.abs(gaps[touched]).sum())
            best = min(best, (missing, unknown in inexact, abs(change), unknown, change))
        *_, unknown, change = best
        touched = places[unknown]
        numbers[unknown] = numbers.get(unknown, 0.0) + change
        values[touched] += weights[unknown] * change
        gaps[touched] = _gaps(values[touched], low[touched], high[touched])
        moves[row] += 1
        is_open[row] = moves[row] < _MOST_MOVES
    unkept = dict.fromkeys(rows[row][1] for row in np.flatnonzero(gaps).tolist())
    return {unknown: Fraction(number) for unknown, number in numbers.items()}, list(unkept)


def _gaps(values: Array, low: Array, high: Array) -> Array:
    """Return by how much each value is to be raised; negative: lowered."""
    return np.where(values < low, low - values, np.where(values > high, high - values, 0.0))


def solve(model: onnx_ir.Model, inference: Inference, bounds: Sequence[Bound]) -> Solution:
    """Return the exponents by which the bounds are kept, as far as they are found.

    Adapters are tried at the same places of all bounds of one kind at once: models repeat their blocks.
    """
    bounds = sorted(bounds, key=lambda bound: bound.is_optional)
    given_up: list[Bound] = []

    def attempt(adapters: Places) -> tuple[_System, dict[int, Fraction], list[Bound]]:
        system = _System(model, inference, adapters)
        numbers, wrong = system.assigned(bounds)
        return system, numbers, wrong

    system, numbers, wrong = attempt(frozenset())
    for _ in range(_MOST_ROUNDS):
        if not wrong:
            break
        kin = [bound for bound in wrong if _kind(bound) == _kind(wrong[0])]
        subjects = {bound.subject for bound in wrong}
        choices = itertools.zip_longest(
            *(system.candidates(subject, subjects) for subject in dict.fromkeys(bound.subject for bound in kin)),
            fillvalue=frozenset[Place](),
        )
        best: tuple[_System, dict[int, Fraction], list[Bound]] = (system, numbers, wrong)
        for places in dict.fromkeys(frozenset[Place]().union(*choice) for choice in choices):
            trial = attempt(system.exponents.adapters | places)
            unkept = trial[2]
            if len(unkept) < len(best[2]):
                best = trial
            if not unkept or (wrong[0].is_optional and len(unkept) < len(wrong)):
                break
        if best[0] is system:
            given_up += kin
            bounds = [bound for bound in bounds if bound not in kin]
            numbers, wrong = system.assigned(bounds)
        else:
            system, numbers, wrong = best
    return _solution(system, numbers, (*given_up, *wrong))


def _kind(bound: Bound) -> tuple[str, bool]:
    """Return what bounds have in common that are freed alike."""
    node = _node_of(bound.subject)
    return "" if node is None else node.op_type, bound.is_optional


def _solution(system: _System, numbers: Mapping[int, Fraction], unsolved: tuple[Bound, ...]) -> Solution:
    def whole(forms: Mapping[K, Form]) -> dict[K, int]:
        """Return the exponents that are not 0."""
        return {key: power for key, form in forms.items() if (power := int(_value(system.reduced(form), numbers)))}

    exponents = system.exponents
    return Solution(
        whole(exponents.of),
        whole(exponents.constants),
        whole(exponents.attributes),
        whole(exponents.repairs),
        whole(exponents.adapted),
        unsolved,
    )
