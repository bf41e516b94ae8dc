"""The ways in which a root of a region can serve its users: which casts are made, and what they cost.

A root gives one chain; each demand on it accepts certain chains. A plan is a set of casts that makes, from the given
chain, a chain for every demand. Its cost per element depends on types and chains alone, so plans are found once for all
similar roots; the best of them depends on the number of elements.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

from onnx_ir import DataType

from castsmith.passes.place.chains import Casting, Chain, start, type_of


class Mode(enum.Enum):
    """Relation of the elements that a node moves now to those that it moved before."""

    KEEP = enum.auto()
    AFTER = enum.auto()
    BEFORE = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The type that a node moves, and its relation to the elements that it moved before. Made by `choice_of`."""

    dtype: DataType
    mode: Mode


_CHOICES = {(dtype, mode): Choice(dtype, mode) for dtype in DataType for mode in Mode}
"""All choices, made once: a cache could make one twice if several threads request it at the same time."""


def choice_of(dtype: DataType, mode: Mode) -> Choice:
    """Return the choice of a type and mode."""
    return _CHOICES[dtype, mode]


Wish = tuple[tuple[DataType, ...], Choice | None]
"""A demand on a root: the path of types, and the choice of the node whose input it is; None outside the region."""


@dataclass(frozen=True)
class Plan:
    """A plan for one root.

    It has the chain of the root, the casts to make with the chain before each, the chain that serves each demand, and
    the bytes that the casts read and write per element.
    """

    given: Chain
    casts: tuple[tuple[Chain, Chain], ...]
    served: tuple[Chain, ...]
    unit: float


def good_plans(casting: Casting, history: Chain, own: Choice | None, wishes: tuple[Wish, ...]) -> tuple[Plan, ...]:
    """Return the ways to serve all demands, except those that another beats in bytes and casts; empty if impossible."""
    key = history, own, wishes
    if key not in casting.plans:
        casting.plans[key] = _good(casting, history, own, wishes)
    return cast("tuple[Plan, ...]", casting.plans[key])


def _chains(casting: Casting, history: Chain, own: Choice | None) -> tuple[Chain | None, Chain | None]:
    """Return the chain of the root's value before, and of the present result of its node."""
    if own is None or own.mode is Mode.KEEP:
        return history, history
    if own.mode is Mode.AFTER:
        return history, casting.extend(history, own.dtype)
    given = start(own.dtype)
    return casting.extend(given, type_of(history)), given


def _good(casting: Casting, history: Chain, own: Choice | None, wishes: tuple[Wish, ...]) -> tuple[Plan, ...]:
    value, given = _chains(casting, history, own)
    if value is None or given is None:
        return ()
    parents = casting.reach(given)
    wanted = [_accepted(casting, value, wish, (given, *parents)) for wish in wishes]
    if not all(wanted):
        return ()
    useful = _useful(given, parents, [accepted for accepted in dict.fromkeys(wanted) if given not in accepted])
    good: list[Plan] = []
    for count in range(len(useful) + 1):
        for chains in combinations(useful, count):
            there = {given, *chains}
            if any(accepted.isdisjoint(there) for accepted in wanted):
                continue
            priced = _priced(casting, given, parents, chains)
            if priced is None or any(plan.unit <= priced[1] for plan in good):
                continue
            served = tuple(next(chain for chain in (given, *chains) if chain in accepted) for accepted in wanted)
            plan = Plan(given, tuple(sorted(priced[0], key=lambda cast: cast[0] != given)), served, priced[1])
            # More casts come later, so this one is kept beside those of fewer.
            good = [other for other in good if len(other.casts) < count or other.unit <= plan.unit] + [plan]
    return tuple(good)


def _useful(given: Chain, parents: Mapping[Chain, Chain], wanted: Sequence[frozenset[Chain]]) -> list[Chain]:
    useful = [chain for chain in parents if any(chain in accepted for accepted in wanted)]
    return useful + [b for b in dict.fromkeys(parents[chain] for chain in useful) if b != given and b not in useful]


def _accepted(casting: Casting, chain: Chain, wish: Wish, offered: Iterable[Chain]) -> frozenset[Chain]:
    """Return those of the chains that serve the demand on a root with the given chain."""
    path, other = wish
    wanted: Chain | None = chain
    for dtype in path:
        wanted = None if wanted is None else casting.extend(wanted, dtype)
    if wanted is None:
        return frozenset()
    if other is None or other.mode is Mode.KEEP:
        return frozenset(chain for chain in offered if chain == wanted)
    if other.mode is Mode.AFTER:
        after = casting.extend(wanted, other.dtype)
        return frozenset(chain for chain in offered if chain == after)
    before = [chain for chain in offered if type_of(chain) == other.dtype]
    return frozenset(chain for chain in before if casting.extend(chain, type_of(wanted)) == wanted)


def _priced(
    casting: Casting, given: Chain, parents: Mapping[Chain, Chain], made: tuple[Chain, ...]
) -> tuple[list[tuple[Chain, Chain]], float] | None:
    """Return the casts that make exactly these chains, and their bytes per element; None if impossible."""
    casts: list[tuple[Chain, Chain]] = []
    unit = 0
    for chain in made:
        bases = [base for base in (given, *made) if base != chain and casting.extend(base, type_of(chain)) == chain]
        bases = [base for base in bases if base == given or base == parents[chain]]
        if not bases:
            return None
        base = min(bases, key=lambda base: (type_of(base).itemsize, base != given))
        casts.append((base, chain))
        unit += type_of(base).itemsize + type_of(chain).itemsize
    return casts, unit
