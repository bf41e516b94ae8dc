"""Casts across operators that depend on the order of elements: Max, Min, MaxPool and Sign.

A cast commutes with them if it preserves the order and the signs of the actual values. The standard does not define the
result of these operators for NaN, or for zeros of both signs, and runtimes differ between types:
measured, ONNX Runtime 1.31.1 and the reference implementation give other bits for NaN in float16 than in float. So the
values must be integers, by their types or those that they were cast from; or the option `through_order` allows it.

    a = Cast <to = float> (x)  # (uint8[N, 3, H, W])
    y = MaxPool (a)            # the same numbers as the Cast of MaxPool (x)

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

from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import Kind, element_type
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


_NARROW = 8


def keeps_order(choice: Choice, dtype: DataType, histories: Sequence[Chain], *, any_float: bool) -> bool:
    """True if an operator on values of `dtype` with these histories gives the same when it moves as in `choice`.

    Args:
        any_float: The results for NaN, and for zeros of both signs, may change.
    """
    starts = [type_of(history[:1]) for history in histories]
    if choice.mode is Mode.BEFORE:
        return _kind(choice.dtype) is Kind.INTEGER and _monotone(choice.dtype, dtype)
    kept = all(embeds(start, choice.dtype) for start in starts)
    if all(_kind(start) is Kind.INTEGER for start in starts) and (any_float or not any(map(_makes_nan, histories))):
        return _monotone(dtype, choice.dtype) or (
            kept and all(_keeps_integers(history, dtype) for history in histories)
        )
    return any_float and kept and _monotone(dtype, choice.dtype)


def _keeps_integers(history: Chain, dtype: DataType) -> bool:
    """True if no cast up to `dtype` wraps: each type holds the integers, except floats at the end, which round."""
    start, *rest = [*(type_of(history[:end]) for end in range(1, len(history) + 1)), dtype]
    whole = [_kind(dtype) is Kind.INTEGER for dtype in rest]
    return all(_monotone(start, dtype) for dtype in rest) and whole == sorted(whole, reverse=True)


def _makes_nan(history: Chain) -> bool:
    """True if a cast of the history makes NaN of numbers: one to a narrow float that does not saturate."""
    return any(
        _kind(dtype.target) is Kind.FLOATING and element_type(dtype.target).bits <= _NARROW and not dtype.saturate
        for dtype in history[1:]
    )


def _monotone(source: DataType, to: DataType) -> bool:
    """True if a cast preserves the order of values of `source`: of integers, or of numbers if `to` is a wide float."""
    if _kind(to) is Kind.INTEGER:
        return _kind(source) is Kind.INTEGER and embeds(source, to)
    return _kind(to) is Kind.FLOATING and element_type(to).bits > _NARROW


def _kind(dtype: DataType) -> Kind:
    return element_type(dtype).kind
