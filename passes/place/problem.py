"""The choice that a region offers: the type in which each node moves its elements, and the cost in time.

The cost of a node is its launch and the bytes that it reads and writes. Time is counted in bytes: a launch takes as
long as moving LAUNCH_BYTES.

A node may keep its type (KEEP), move the result of a cast of its elements (AFTER: the cast is moved before it), or move
the operand of a cast (BEFORE: the cast is moved after it). All elements that a node moves have one type,
so a choice is valid if every input can be made, by at most two casts, from the result of its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.errors import present
from castsmith.passes.place.chains import Casting, Chain, type_of
from castsmith.passes.place.choices import Choice, Mode, Plan, plan_of

IMPOSSIBLE = float("inf")

LAUNCH_BYTES = 16384
"""Bytes that a node moves in the time of one launch.

`python -m benchmarks.launch_cost` gives 21,000 for Casts and 9,400 for Transposes in ONNX Runtime 1.31.1 on one thread
of an x86 server.
"""

# Among choices of equal time, the one with fewer casts is preferred, then the one with fewer changes.
_TIME, _CAST, _CHANGE = 1 << 24, 1 << 12, 1


@dataclass(frozen=True)
class MovingNode:
    """A node that moves elements, with its choices and the bytes that it moves at one byte per element.

    The bytes are 0 for a node that a runtime removes or does in place.
    """

    node: onnx_ir.Node
    dtype: DataType
    choices: tuple[Choice, ...]
    elements: int


@dataclass(frozen=True)
class Demand:
    """A user of a value that casts `path` make of a root: input `index` of a node, or an output of the graph.

    Attributes:
        move: The number of the move whose input it is; None if it is outside the region and needs exactly that value.
    """

    path: tuple[DataType, ...]
    value: onnx_ir.Value
    user: onnx_ir.Node | None
    index: int
    move: int | None

    def value_type(self, root: Root) -> DataType:
        """Return the type of the required value."""
        return self.path[-1] if self.path else type_of(root.history)


@dataclass(frozen=True)
class Root:
    """A value of the region that no cast makes, with the facts about its elements and its users.

    Attributes:
        move: The number of the move that makes it; None if it comes from outside.
        price: Bytes for each byte that a cast of it moves, 0 for a small constant.
    """

    value: onnx_ir.Value
    history: Chain
    move: int | None
    elements: int
    demands: tuple[Demand, ...]
    price: int = 1


@dataclass
class Problem:
    """A region: its moves, its roots, the casts that may be placed, and its present cost.

    Attributes:
        bytes_before: The bytes that moves and casts read and write.
        casts_before: The number of casts of values that are not constant.
    """

    moves: Sequence[MovingNode]
    roots: Sequence[Root]
    casting: Casting
    bytes_before: float = 0
    casts_before: int = 0

    @cached_property
    def kept(self) -> tuple[Choice, ...]:
        """Return the choice that leaves every node unchanged."""
        return tuple(Choice(move.dtype, Mode.KEEP) for move in self.moves)

    @property
    def before(self) -> float:
        """Return the present cost of the region."""
        return _TIME * (self.bytes_before + LAUNCH_BYTES * self.casts_before) + _CAST * self.casts_before

    def saves(self, chosen: Sequence[Choice]) -> bool:
        """True if the choice needs fewer casts than the region has, and less time."""
        return self.cost(chosen) < self.before and self.bytes_and_casts(chosen)[1] < self.casts_before

    def cost(self, chosen: Sequence[Choice]) -> float:
        """Return the time of the moves and the casts of the region; IMPOSSIBLE for an invalid choice."""
        plans = (self.price(number, self.plan(number, chosen)) for number in range(len(self.roots)))
        return sum(self.cost_of_move(number, choice) for number, choice in enumerate(chosen)) + sum(plans)

    def cost_of_move(self, number: int, choice: Choice) -> float:
        change = 0 if choice.mode is Mode.KEEP else _CHANGE
        return _TIME * self.moves[number].elements * choice.dtype.itemsize + change

    def cost_of_serving(self, number: int, own: Choice | None, demand: Demand, other: Choice | None) -> float:
        """Return the cost of the casts that one demand alone needs; IMPOSSIBLE if none serve it."""
        return self.price(number, plan_of(self.casting, self.roots[number].history, own, ((demand.path, other),)))

    def bytes_and_casts(self, chosen: Sequence[Choice]) -> tuple[float, int]:
        """Return the bytes that a valid choice reads and writes, and the number of casts of non-constant values."""
        total = sum(move.elements * choice.dtype.itemsize for move, choice in zip(self.moves, chosen, strict=True))
        casts = 0
        for number, root in enumerate(self.roots):
            plan = present(self.plan(number, chosen), "the plan of a valid choice")
            total, casts = total + root.price * root.elements * plan.unit, casts + root.price * len(plan.casts)
        return total, casts

    def plan(self, number: int, chosen: Sequence[Choice]) -> Plan | None:
        """Return the cheapest way to serve all demands on a root; None if impossible."""
        root = self.roots[number]
        own, *others = (None if move is None else chosen[move] for move in (root.move, *(d.move for d in root.demands)))
        demands = tuple((demand.path, other) for demand, other in zip(root.demands, others, strict=True))
        return plan_of(self.casting, root.history, own, demands)

    def price(self, number: int, plan: Plan | None) -> float:
        """Return the cost of the casts of a root; IMPOSSIBLE without a plan."""
        if plan is None:
            return IMPOSSIBLE
        root, casts = self.roots[number], len(plan.casts)
        return root.price * (_TIME * (plan.unit * root.elements + LAUNCH_BYTES * casts) + _CAST * casts)
