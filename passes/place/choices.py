"""How a root of a region serves its users: which casts are made, and what they cost.

A root gives one chain; each demand on it accepts certain chains. The plan is the fewest casts that make, one after the
other from the given chain, a chain for every demand. It depends on types and chains alone, so it is found once for all
similar roots.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from onnx_ir import DataType

from castsmith.passes.place.chains import Casting, Chain, start, type_of


class Mode(enum.Enum):
    """Relation of the elements that a node moves now to those that it moved before."""

    KEEP = enum.auto()
    AFTER = enum.auto()
    BEFORE = enum.auto()


class Choice(NamedTuple):
    """The type that a node moves, and its relation to the elements that it moved before."""

    dtype: DataType
    mode: Mode


ChosenDemand = tuple[tuple[DataType, ...], Choice | None]
"""A demand on a root: the path of types, and the choice of the node whose input it is; None outside the region."""


@dataclass(frozen=True)
class Plan:
    """The casts of one root.

    It has the chain of the root, the casts to make with the chain before each, the chain that serves each demand, and
    the bytes that the casts read and write per element.
    """

    source: Chain
    casts: tuple[tuple[Chain, Chain], ...]
    served: tuple[Chain, ...]
    unit: float


@lru_cache(maxsize=4096)  # similar regions have similar roots
def plan_of(casting: Casting, history: Chain, own: Choice | None, demands: tuple[ChosenDemand, ...]) -> Plan | None:
    """Return the cheapest way to serve all demands; None if there is none."""
    value, source = _chains(casting, history, own)
    if source is None:
        return None
    line = casting.line(source)
    served = [next((chain for chain in line if _serves(casting, value, demand, chain)), None) for demand in demands]
    chains = [chain for chain in served if chain is not None]
    if len(chains) < len(served):
        return None
    needed = line[: 1 + max(map(line.index, chains), default=0)]
    casts = tuple(pairwise(needed))
    unit = sum(type_of(chain).itemsize for pair in casts for chain in pair)
    return Plan(source, casts, tuple(chains), unit)


def _chains(casting: Casting, history: Chain, own: Choice | None) -> tuple[Chain | None, Chain | None]:
    """Return the chain of the root's value before, and of the present result of its node."""
    if own is None or own.mode is Mode.KEEP:
        return history, history
    if own.mode is Mode.AFTER:
        return history, casting.extend(history, own.dtype)
    source = start(own.dtype)
    return casting.extend(source, type_of(history)), source


def _serves(casting: Casting, value: Chain | None, demand: ChosenDemand, offered: Chain) -> bool:
    """True if the offered chain serves the demand on a root that had the chain `value`, if it can have one."""
    path, other = demand
    wanted = value
    for dtype in path:
        wanted = None if wanted is None else casting.extend(wanted, dtype)
    if wanted is None or other is None or other.mode is Mode.KEEP:
        return offered == wanted
    if other.mode is Mode.AFTER:
        return offered == casting.extend(wanted, other.dtype)
    return type_of(offered) == other.dtype and casting.extend(offered, type_of(wanted)) == wanted
