"""Casts across operators that go by the order of elements: Max, Min, MaxPool and Sign.

A cast commutes with them where it keeps the order of the values that there are, and their signs. The standard does not
say what these operators make of a NaN, or of a zero of each sign, and runtimes do it otherwise in other types:
measured, ONNX Runtime 1.31.1 and the reference implementation give other bits for NaN in float16 than in float. So the
values must be integers, as their types say or those that they were cast from; or the user says that it does not matter.

    a = Cast <to = float> (x)  # (uint8[N, 3, H, W])
    y = MaxPool (a)            # the same numbers as the Cast of MaxPool (x)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

from onnx_ir import DataType

from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import Kind, element_type
from castsmith.passes.place.chains import Casting, Chain, start, type_of

# What to make of one root: which casts of it serve all who want it, at the least cost.
#
# A root gives one chain; each demand on it accepts certain chains. A plan is a set of casts that makes, from what is
# given, a chain for every demand. What it costs for one element depends on types and chains alone, so plans are found
# once for all roots that are alike; which of them is the best depends on how many elements there are.


class Mode(enum.Enum):
    """How what a node moves now stands to what it moved before."""

    KEEP = enum.auto()
    AFTER = enum.auto()
    BEFORE = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The type that a node moves, and how that stands to what it moved before. Made by `choice_of`: equal is same."""

    dtype: DataType
    mode: Mode


_CHOICES = {(dtype, mode): Choice(dtype, mode) for dtype in DataType for mode in Mode}
"""All of them, made once: a cache could make one twice where threads ask for it at the same time."""


def choice_of(dtype: DataType, mode: Mode) -> Choice:
    """The choice of a type and mode."""
    return _CHOICES[dtype, mode]


Wish = tuple[tuple[DataType, ...], Choice | None]
"""What casts of a root somebody wants: the path of types, and how the node moves whose input it is; None outside."""


@dataclass(frozen=True)
class Plan:
    """What to make of one root: the chain it gives, the casts to make with what each is made from, for each wish the
    chain that serves it, and the bytes that the casts read and write for one element."""

    given: Chain
    casts: tuple[tuple[Chain, Chain], ...]
    served: tuple[Chain, ...]
    unit: float


@dataclass(frozen=True)
class Offer:
    """What a root can give under one choice of its own: for each wish the chains that serve it, and for each set of
    casts that may be made the bytes for one element."""

    wanted: tuple[frozenset[Chain], ...]
    sets: tuple[tuple[frozenset[Chain], float], ...]


def good_plans(casting: Casting, history: Chain, own: Choice | None, wishes: tuple[Wish, ...]) -> tuple[Plan, ...]:
    """The ways to grant all wishes, except those that another one beats in bytes and in casts; none if impossible."""
    key = history, own, wishes
    if key not in casting.plans:
        casting.plans[key] = _good(casting, history, own, wishes)
    return cast("tuple[Plan, ...]", casting.plans[key])


def offer(casting: Casting, history: Chain, own: Choice | None, wishes: tuple[Wish, ...]) -> Offer | None:
    """All that can be made for the wishes, each taken by itself; None where not even one of them can be granted."""
    value, given = chains(casting, history, own)
    if value is None or given is None:
        return None
    parents = casting.reach(given)
    wanted = tuple(_accepted(casting, value, wish, (given, *parents)) for wish in wishes)
    useful = _useful(given, parents, wanted)
    sets: list[tuple[frozenset[Chain], float]] = []
    for count in range(len(useful) + 1):
        for made in combinations(useful, count):
            priced = _priced(casting, given, parents, made)
            if priced is not None:
                sets.append((frozenset((given, *made)), priced[1]))
    return Offer(wanted, tuple(sets))


def useful_count(casting: Casting, history: Chain, own: Choice | None, wishes: tuple[Wish, ...]) -> int:
    """How many chains could be of use: `offer` looks at all sets of them."""
    value, given = chains(casting, history, own)
    if value is None or given is None:
        return 0
    parents = casting.reach(given)
    return len(_useful(given, parents, [_accepted(casting, value, wish, (given, *parents)) for wish in wishes]))


def chains(casting: Casting, history: Chain, own: Choice | None) -> tuple[Chain | None, Chain | None]:
    """The chain of the root's value as it was, and of what its node now gives."""
    if own is None or own.mode is Mode.KEEP:
        return history, history
    if own.mode is Mode.AFTER:
        return history, casting.extend(history, own.dtype)
    given = start(own.dtype)
    return casting.extend(given, type_of(history)), given


def _good(casting: Casting, history: Chain, own: Choice | None, wishes: tuple[Wish, ...]) -> tuple[Plan, ...]:
    value, given = chains(casting, history, own)
    if value is None or given is None:
        return ()
    parents = casting.reach(given)
    wanted = [_accepted(casting, value, wish, (given, *parents)) for wish in wishes]
    if not all(wanted):
        return ()
    useful = _useful(given, parents, [accepted for accepted in dict.fromkeys(wanted) if given not in accepted])
    good: list[Plan] = []
    for count in range(len(useful) + 1):
        for made in combinations(useful, count):
            there = {given, *made}
            if any(accepted.isdisjoint(there) for accepted in wanted):
                continue
            priced = _priced(casting, given, parents, made)
            if priced is None or any(plan.unit <= priced[1] for plan in good):
                continue
            served = tuple(next(chain for chain in (given, *made) if chain in accepted) for accepted in wanted)
            plan = Plan(given, tuple(sorted(priced[0], key=lambda cast: cast[0] != given)), served, priced[1])
            # More casts come later, so that this one is kept beside those of fewer.
            good = [each for each in good if len(each.casts) < count or each.unit <= plan.unit] + [plan]
    return tuple(good)


def _useful(given: Chain, parents: Mapping[Chain, Chain], wanted: Sequence[frozenset[Chain]]) -> list[Chain]:
    useful = [chain for chain in parents if any(chain in accepted for accepted in wanted)]
    return useful + [b for b in dict.fromkeys(parents[chain] for chain in useful) if b != given and b not in useful]


def _accepted(casting: Casting, chain: Chain, wish: Wish, offered: Iterable[Chain]) -> frozenset[Chain]:
    """Those of the chains offered that grant the wish on a root with the given chain."""
    path, other = wish
    wanted: Chain | None = chain
    for dtype in path:
        wanted = None if wanted is None else casting.extend(wanted, dtype)
    if wanted is None:
        return frozenset()
    if other is None or other.mode is Mode.KEEP:
        return frozenset(made for made in offered if made == wanted)
    if other.mode is Mode.AFTER:
        after = casting.extend(wanted, other.dtype)
        return frozenset(made for made in offered if made == after)
    before = [made for made in offered if type_of(made) == other.dtype]
    return frozenset(made for made in before if casting.extend(made, type_of(wanted)) == wanted)


def _priced(
    casting: Casting, given: Chain, parents: Mapping[Chain, Chain], made: tuple[Chain, ...]
) -> tuple[list[tuple[Chain, Chain]], float] | None:
    """The casts that make just these chains, and their bytes for one element; None where they cannot be made."""
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


_NARROW = 8


def keeps_order(choice: Choice, dtype: DataType, histories: Sequence[Chain], *, any_float: bool) -> bool:
    """Whether an operator on values of `dtype` with these histories gives the same when it moves as `choice` says.

    any_float: what becomes of NaN, and of zeros of both signs, does not matter.
    """
    starts = [type_of(history[:1]) for history in histories]
    if choice.mode is Mode.BEFORE:
        return _kind(choice.dtype) is Kind.INTEGER and _monotone(choice.dtype, dtype)
    if all(_kind(start) is Kind.INTEGER for start in starts):
        return _monotone(dtype, choice.dtype) or all(embeds(start, choice.dtype) for start in starts)
    return any_float and all(embeds(start, choice.dtype) for start in starts)


def _monotone(source: DataType, to: DataType) -> bool:
    """Whether a cast of integers that are values of `source` keeps their order."""
    if _kind(to) is Kind.INTEGER:
        return _kind(source) is Kind.INTEGER and embeds(source, to)
    return _kind(to) is Kind.FLOATING and element_type(to).bits > _NARROW


def _kind(dtype: DataType) -> Kind:
    return element_type(dtype).kind
