"""Elements that have to reach parts of two models which differ: those on which the parts give different results.

The unproven outputs of both models are followed back in step, operand by operand, as long as the operators are the
same. Where both are functions of one element (`prove.functions`), the elements that tell them apart (`witnesses`) are
demanded: they are fed to the inputs, and a demand that no run meets leaves the verdict inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.records import Site
from castsmith.ir.text import site_of
from castsmith.numerics.cast.codec import Array
from castsmith.verification.checker import Term, Terms
from castsmith.verification.evaluate.coverage import Coverage
from castsmith.verification.evaluate.promotion import dtype_of
from castsmith.verification.inputs.witnesses import differing, witnesses
from castsmith.verification.prove.functions import Functions
from castsmith.verification.prove.proof import Expressions, Proof

_MOST_NOTED = 1 << 20
"""Elements of an array that are looked at: about those of the largest input that is drawn, which repeat after that."""


@dataclass(eq=False)
class Demand:
    """Elements that tell two functions apart, one in each model.

    Attributes:
        sources: The terms of whose elements they are functions, in the first model and in the second.
        paths: The terms from there to the functions.
        functions: The functions.
        elements: Elements of the type of the sources.
        place: The operator, in one of the models, that gets them.
        met: An element reached one of the sources for which the functions differ.
    """

    terms: Terms
    sources: tuple[Term, Term]
    paths: tuple[set[Term], set[Term]]
    functions: tuple[Term, Term]
    elements: Array
    nan_bits: bool
    place: Site | None = None
    met: bool = False

    def note(self, array: Array) -> None:
        """Note elements that reached a source."""
        if self.met or dtype_of(array) != dtype_of(self.elements):
            return
        apart = differing(self.terms, *self.functions, array.reshape(-1)[:_MOST_NOTED], nan_bits=self.nan_bits)
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
        for value, terms in self.sides[side].values.items() if self.all else ():
            yield from ((value, demand) for demand in self.all if demand.sources[side] in terms)

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


def demands(
    proof: Proof,
    *,
    nan_bits: bool,
    limits: Mapping[Term, tuple[int, int]] | None = None,
    may_search: Callable[[], bool] = lambda: True,
) -> Demands:
    """Return the demands of the outputs that are not proven.

    Args:
        limits: The least and the largest number of inputs of the first model: no other is demanded.
        may_search: True while there is time to search for elements.
    """
    functions, demands = Functions(proof.terms), list[Demand]()
    searched: dict[tuple[Term, Term], Array | None] = {}
    visited = set[tuple[Term, Term]]()
    stack = [(n, proof.theirs.outputs[name]) for name, n in proof.ours.outputs.items() if name not in proof.proven]
    while stack and may_search():
        pair = stack.pop()
        if pair[0] is pair[1] or pair in visited:
            continue
        visited.add(pair)
        (source, ours), (other_source, theirs) = map(functions.of, pair)
        key, sources, elements = (ours, theirs), (source, other_source), None
        if source.dtype and source.dtype == other_source.dtype and ours is not theirs:
            if key not in searched:
                searched[key] = witnesses(proof.terms, *key, DataType(source.dtype), nan_bits=nan_bits)
            elements = searched[key]
            if elements is not None and limits and source in limits:
                low, high = limits[source]
                elements = elements[(elements >= low) & (elements <= high)]
            if elements is not None and len(elements):
                paths = functions.path(pair[0]), functions.path(pair[1])
                demands.append(Demand(proof.terms, sources, paths, key, elements, nan_bits))
        if elements is None or source is not other_source:
            stack += [*_operands(*pair), sources]
    return Demands(demands, (proof.ours, proof.theirs), not stack)


def _operands(ours: Term, theirs: Term) -> list[tuple[Term, Term]]:
    """Return the corresponding operands of two terms of one operator, and results of graphs within them."""
    alike = ours.op == theirs.op and ours.attrs == theirs.attrs and ours.out == theirs.out
    if not alike or len(ours.args) != len(theirs.args):
        return []
    return [(x, y) for x, y in zip(ours.args, theirs.args, strict=True) if x is not None and y is not None]
