"""The choice that a region leaves: in which type each of its nodes moves its elements, and what that costs in bytes.

A node may keep its type (KEEP), move what a cast makes of its elements (AFTER: the cast has gone ahead of it), or move
something of which a cast makes its elements (BEFORE: the cast has been put off). All that a node moves is in one type,
so a choice is right when every input can be made, by at most two casts, of what its source now gives.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import onnx_ir
from onnx_ir import DataType

from castsmith.passes.place_casts_chains import Casting, Chain, start, type_of

IMPOSSIBLE = float("inf")


class Mode(enum.Enum):
    """How what a node moves now stands to what it moved before."""

    KEEP = enum.auto()
    AFTER = enum.auto()
    BEFORE = enum.auto()


@dataclass(frozen=True, slots=True)
class Choice:
    """The type that a node moves, and how that stands to what it moved before."""

    dtype: DataType
    mode: Mode


@dataclass(frozen=True)
class Move:
    """A node that moves elements, with what it may do and the bytes that go through it at one byte an element."""

    node: onnx_ir.Node
    dtype: DataType
    choices: tuple[Choice, ...]
    elements: int


@dataclass(frozen=True)
class Demand:
    """Someone who wants a value that casts `path` make of a root: input `index` of a node, or an output of the graph.

    move: the number of the move whose input it is; None where it is outside the region and wants just that value.
    """

    path: tuple[DataType, ...]
    value: onnx_ir.Value
    user: onnx_ir.Node | None
    index: int
    move: int | None

    def value_type(self, root: Root) -> DataType:
        """The type of the value that is wanted."""
        return self.path[-1] if self.path else type_of(root.history)


@dataclass(frozen=True)
class Root:
    """A value of the region that no cast makes, with what is known of its elements and who wants it.

    move: the number of the move that gives it; None where it comes from outside. price: bytes for each byte that a
    cast of it moves, 0 for a small constant.
    """

    value: onnx_ir.Value
    history: Chain
    move: int | None
    elements: int
    demands: tuple[Demand, ...]
    price: int = 1


@dataclass(frozen=True)
class Plan:
    """What to make of one root: the chain it gives, the casts to make with what each is made from, and for each demand
    the chain that serves it."""

    given: Chain
    casts: tuple[tuple[Chain, Chain], ...]
    served: tuple[Chain, ...]
    cost: float


@dataclass
class Problem:
    """A region: its moves, its roots, the casts that may be placed, and the bytes that are moved as it stands."""

    moves: Sequence[Move]
    roots: Sequence[Root]
    casting: Casting
    before: float = 0
    _plans: dict[tuple[int, Choice | None, tuple[Choice | None, ...]], Plan | None] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]

    @cached_property
    def kept(self) -> tuple[Choice, ...]:
        """The choice that leaves every node as it is."""
        return tuple(Choice(move.dtype, Mode.KEEP) for move in self.moves)

    def cost(self, chosen: Sequence[Choice]) -> float:
        """The bytes that the moves and the casts of the region read and write; IMPOSSIBLE for a wrong choice."""
        return self.cost_of_moves(chosen) + sum(self.cost_of_root(number, chosen) for number in range(len(self.roots)))

    def cost_of_moves(self, chosen: Iterable[Choice]) -> float:
        return sum(self.cost_of_move(number, choice) for number, choice in enumerate(chosen))

    def cost_of_move(self, number: int, choice: Choice) -> float:
        return self.moves[number].elements * choice.dtype.itemsize

    def cost_of_root(self, number: int, chosen: Sequence[Choice]) -> float:
        plan = self.plan(number, chosen)
        return IMPOSSIBLE if plan is None else plan.cost

    def cost_of_serving(self, number: int, own: Choice | None, demand: Demand, other: Choice | None) -> float:
        """The bytes of the cast that one demand alone needs; IMPOSSIBLE where no single cast serves it."""
        root = self.roots[number]
        plan = self._plan(replace(root, demands=(demand,)), own, (other,))
        return IMPOSSIBLE if plan is None or len(plan.casts) > 1 else plan.cost

    def plan(self, number: int, chosen: Sequence[Choice]) -> Plan | None:
        """The cheapest way to serve all demands on a root; None where there is none."""
        root = self.roots[number]
        own = None if root.move is None else chosen[root.move]
        others = tuple(None if demand.move is None else chosen[demand.move] for demand in root.demands)
        key = number, own, others
        if key not in self._plans:
            self._plans[key] = self._plan(root, own, others)
        return self._plans[key]

    def _plan(self, root: Root, own: Choice | None, others: tuple[Choice | None, ...]) -> Plan | None:
        value, given = self._chains(root, own)
        if value is None or given is None:
            return None
        parents = self.casting.reach(given)
        wanted = [
            self._accepted(value, demand, other, (given, *parents))
            for demand, other in zip(root.demands, others, strict=True)
        ]
        if not all(wanted):
            return None
        useful = [chain for chain in parents if any(chain in accepted for accepted in wanted)]
        useful += [base for base in {parents[chain] for chain in useful} if base != given and base not in useful]
        plans = [
            self._priced(root, given, parents, made, wanted)
            for count in range(len(useful) + 1)
            for made in combinations(useful, count)
        ]
        return min((plan for plan in plans if plan is not None), key=lambda plan: plan.cost, default=None)

    def _chains(self, root: Root, own: Choice | None) -> tuple[Chain | None, Chain | None]:
        """The chain of the root's value as it was, and of what its node now gives."""
        if own is None or own.mode is Mode.KEEP:
            return root.history, root.history
        if own.mode is Mode.AFTER:
            return root.history, self.casting.extend(root.history, own.dtype)
        given = start(own.dtype)
        return self.casting.extend(given, type_of(root.history)), given

    def _accepted(
        self, chain: Chain, demand: Demand, other: Choice | None, offered: Iterable[Chain]
    ) -> frozenset[Chain]:
        """Those of the chains offered that serve the demand on a root with the given chain."""
        wanted: Chain | None = chain
        for dtype in demand.path:
            wanted = None if wanted is None else self.casting.extend(wanted, dtype)
        if wanted is None:
            return frozenset()
        if other is None or other.mode is Mode.KEEP:
            return frozenset(made for made in offered if made == wanted)
        if other.mode is Mode.AFTER:
            after = self.casting.extend(wanted, other.dtype)
            return frozenset(made for made in offered if made == after)
        before = [made for made in offered if type_of(made) == other.dtype]
        return frozenset(made for made in before if self.casting.extend(made, type_of(wanted)) == wanted)

    def _priced(
        self,
        root: Root,
        given: Chain,
        parents: Mapping[Chain, Chain],
        made: tuple[Chain, ...],
        wanted: Sequence[frozenset[Chain]],
    ) -> Plan | None:
        """The plan that makes just these chains; None where they do not serve."""
        there = {given, *made}
        if any(accepted.isdisjoint(there) for accepted in wanted):
            return None
        casts: list[tuple[Chain, Chain]] = []
        cost = 0
        for chain in made:
            bases = [base for base in there if base != chain and self.casting.extend(base, type_of(chain)) == chain]
            bases = [base for base in bases if base == given or base == parents[chain]]
            if not bases:
                return None
            base = min(bases, key=lambda base: (type_of(base).itemsize, base != given))
            casts.append((base, chain))
            cost += root.price * root.elements * (type_of(base).itemsize + type_of(chain).itemsize)
        served = tuple(next(chain for chain in (given, *made) if chain in accepted) for accepted in wanted)
        return Plan(given, tuple(sorted(casts, key=lambda cast: cast[0] != given)), served, cost)
