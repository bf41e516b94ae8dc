"""The choice that a region leaves: in which type each of its nodes moves its elements, and what that costs in bytes.

A node may keep its type (KEEP), move what a cast makes of its elements (AFTER: the cast has gone ahead of it), or move
something of which a cast makes its elements (BEFORE: the cast has been put off). All that a node moves is in one type,
so a choice is right when every input can be made, by at most two casts, of what its source now gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.passes.place.chains import Casting, Chain, type_of
from castsmith.passes.place.choices import Choice, Mode, Plan, best_plan, choice_of

IMPOSSIBLE = float("inf")


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


@dataclass
class Problem:
    """A region: its moves, its roots, the casts that may be placed, and the bytes that are moved as it stands."""

    moves: Sequence[Move]
    roots: Sequence[Root]
    casting: Casting
    before: float = 0
    _plans: dict[int, dict[tuple[Choice | None, ...], Plan | None]] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]

    @cached_property
    def kept(self) -> tuple[Choice, ...]:
        """The choice that leaves every node as it is."""
        return tuple(choice_of(move.dtype, Mode.KEEP) for move in self.moves)

    def cost(self, chosen: Sequence[Choice]) -> float:
        """The bytes that the moves and the casts of the region read and write; IMPOSSIBLE for a wrong choice."""
        return self.cost_of_moves(chosen) + sum(self.cost_of_root(number, chosen) for number in range(len(self.roots)))

    def cost_of_moves(self, chosen: Iterable[Choice]) -> float:
        return sum(self.cost_of_move(number, choice) for number, choice in enumerate(chosen))

    def cost_of_move(self, number: int, choice: Choice) -> float:
        return self.moves[number].elements * choice.dtype.itemsize

    def cost_of_root(self, number: int, chosen: Sequence[Choice]) -> float:
        return self._price(number, self.plan(number, chosen))

    def cost_of_serving(self, number: int, own: Choice | None, demand: Demand, other: Choice | None) -> float:
        """The bytes of the cast that one demand alone needs; IMPOSSIBLE where no single cast serves it."""
        plan = best_plan(self.casting, self.roots[number].history, own, ((demand.path, other),))
        return IMPOSSIBLE if plan is None or len(plan.casts) > 1 else self._price(number, plan)

    def plan(self, number: int, chosen: Sequence[Choice]) -> Plan | None:
        """The cheapest way to serve all demands on a root; None where there is none."""
        root = self.roots[number]
        key = tuple(None if move is None else chosen[move] for move in self._touched(number))
        plans = self._plans.setdefault(number, {})
        if key not in plans:
            wishes = tuple((demand.path, other) for demand, other in zip(root.demands, key[1:], strict=True))
            plans[key] = best_plan(self.casting, root.history, key[0], wishes)
        return plans[key]

    def _touched(self, number: int) -> tuple[int | None, ...]:
        """The moves that a root has to do with: its own, and that of each demand."""
        root = self.roots[number]
        return (root.move, *(demand.move for demand in root.demands))

    def _price(self, number: int, plan: Plan | None) -> float:
        root = self.roots[number]
        return IMPOSSIBLE if plan is None else plan.unit * root.price * root.elements
