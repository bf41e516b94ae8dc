"""Elements that have to reach parts of two models which differ: those on which the parts give different results.

The unproven outputs of both models are followed back in step, operand by operand, as long as the operators are the
same. Where both are functions of one element (`prove.elements`), the elements that tell them apart (`witnesses`) are
demanded: they are fed to the inputs, and a demand that no run meets leaves the verdict inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.records import Site
from castsmith.ir.text import site_of
from castsmith.numerics.cast.codec import Array
from castsmith.verification.evaluate.coverage import Coverage
from castsmith.verification.evaluate.promotion import dtype_of
from castsmith.verification.inputs.witnesses import differing, witnesses
from castsmith.verification.prove.elements import Functions
from castsmith.verification.prove.normal import Normal
from castsmith.verification.prove.programs import Program
from castsmith.verification.prove.proof import Proof
from castsmith.verification.prove.values import Expressions

_MOST_NOTED = 1 << 20
"""Elements of an array that are looked at: about those of the largest input that is drawn, which repeat after that."""


@dataclass(eq=False)
class Demand:
    """Elements that tell two functions apart, one in each model.

    Attributes:
        sources: The expressions of whose elements they are functions, in the first model and in the second.
        paths: The expressions from there to the functions.
        programs: The functions.
        elements: Elements of the type of the sources.
        place: The operator, in one of the models, that gets them.
        met: An element reached one of the sources for which the functions differ.
    """

    sources: tuple[int, int]
    paths: tuple[set[int], set[int]]
    programs: tuple[Program, Program]
    elements: Array
    nan_bits: bool
    place: Site | None = None
    met: bool = False

    def note(self, array: Array) -> None:
        """Note elements that reached a source."""
        if self.met or dtype_of(array) != dtype_of(self.elements):
            return
        apart = differing(*self.programs, array.reshape(-1)[:_MOST_NOTED], nan_bits=self.nan_bits)
        self.met = apart is None or bool(apart.any())


@dataclass
class Demands:
    """All demands of two models, `sides`."""

    all: list[Demand] = field(default_factory=list[Demand])
    sides: tuple[Expressions, ...] = ()
    complete: bool = True
    """True if all parts that differ were searched for such elements."""

    def values(self, side: int) -> Iterator[tuple[onnx_ir.Value, Demand]]:
        """Yield the values of one of the models that are the source of a demand."""
        by_source: dict[int, list[Demand]] = {}
        for demand in self.all:
            by_source.setdefault(demand.sources[side], []).append(demand)
        for value, numbers in self.sides[side].values.items() if by_source else ():
            for number in numbers:
                yield from ((value, demand) for demand in by_source.get(number, ()))

    def watch(self, coverages: Sequence[Coverage]) -> None:
        """Let the runs of the models note the elements that reach the functions.

        The first model is watched only where the second has no operator: it runs on more inputs.
        """
        for side in (1, 0):
            for value, demand in [(value, demand) for value, demand in self.values(side) if demand.place is None]:
                for node, place in value.uses():
                    if self.sides[side].of(node) & demand.paths[side]:
                        coverages[side].watched.setdefault((node, place), []).append(demand.note)
                        demand.place = site_of(node)

    def unmet(self) -> Iterator[str]:
        """Yield a sentence for each demand that no run has met."""
        if not self.complete:
            yield "the time limit ended the search for inputs that expose a difference (`seconds=` allows more)"
        for demand in self.all:
            if not demand.met:
                text = f"no input gave {demand.place} an element for which the models differ"
                yield f"{text}, such as {demand.elements[0]}"


def demands(proof: Proof, *, nan_bits: bool, may_search: Callable[[], bool] = lambda: True) -> Demands:
    """Return the demands of the outputs that are not proven.

    Args:
        may_search: True while there is time to search for elements.
    """
    book = proof.book
    if not isinstance(book, Normal):
        return Demands()
    functions, demands = Functions(book), list[Demand]()
    searched: dict[tuple[Program, Program, DataType], Array | None] = {}
    visited = set[tuple[Any, ...]]()
    stack = [(n, proof.theirs.outputs[name]) for name, n in proof.ours.outputs.items() if name not in proof.proven]
    while stack and may_search():
        pair = stack.pop()
        if pair[0] == pair[1] or pair in visited:
            continue
        visited.add(pair)
        ours, theirs = (functions.of(number) for number in pair)
        sources, programs = (ours.source, theirs.source), (ours.program, theirs.program)
        dtype = book.types.get(ours.source)
        elements: Array | None = None
        if dtype is not None and dtype == book.types.get(theirs.source) and programs[0] is not programs[1]:
            key = (*programs, dtype)
            if key not in searched:
                searched[key] = witnesses(*programs, dtype, nan_bits=nan_bits)
            elements = searched.get(key)
            if elements is not None and len(elements):
                paths = functions.path(pair[0]), functions.path(pair[1])
                demands.append(Demand(sources, paths, programs, elements, nan_bits))
        if elements is None or sources[0] != sources[1]:
            stack += _operands(book, *pair)
            stack.append(sources)
    return Demands(demands, (proof.ours, proof.theirs), not stack)


def _operands(book: Normal, ours: int, theirs: int) -> Iterator[tuple[int, int]]:
    """Yield the corresponding operands of two expressions of one operator, and results of graphs within them."""
    a, b = book.keys[ours], book.keys[theirs]
    if a[0] != "operator" or b[0] != "operator" or a[1] != b[1] or a[4:] != b[4:] or len(a[3]) != len(b[3]):
        return
    graphs = [[(name, value) for name, value in key[2] if value[:1] == ("graph",)] for key in (a, b)]
    plain = [[attribute for attribute in key[2] if attribute[1][:1] != ("graph",)] for key in (a, b)]
    if plain[0] != plain[1] or [name for name, _ in graphs[0]] != [name for name, _ in graphs[1]]:
        return
    yield from ((x, y) for x, y in zip(a[3], b[3], strict=True) if x is not None and y is not None)
    for (_, (_, count, outputs)), (_, (_, other_count, other_outputs)) in zip(*graphs, strict=True):
        if count == other_count and len(outputs) == len(other_outputs):
            yield from zip(outputs, other_outputs, strict=True)
