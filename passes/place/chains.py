"""Histories of elements as chains of casts, and the equality of two chains.

A chain starts with the type of a value that enters a region; each further step is a cast. Moves of elements leave the
chain unchanged. Chains are kept reduced by `chain_collapses`, so equal chains are equal values: a
value that was widened and narrowed again has the chain it had before. A cast that the standard leaves open for some
value of its source is not a step: moving it would change its result in a runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from onnx_ir import DataType

from castsmith.ir.ops.casts import CastNode, chain_verdict
from castsmith.numerics.critical import critical_values
from castsmith.numerics.errors import CastError, ElementTypeError
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import Kind, element_type

Chain = tuple[CastNode, ...]


def start(dtype: DataType) -> Chain:
    """Return the chain of a value of the type, without history."""
    return (CastNode(dtype, saturate=True, round_mode="up"),)


def type_of(chain: Chain) -> DataType:
    """Return the type of the end of the chain."""
    return chain[-1].target


@dataclass(frozen=True)
class Casting:
    """The casts that may be placed: one to each of two types, with the settings of the region's own casts to it."""

    steps: tuple[CastNode, ...]
    opset: int

    def types(self) -> list[DataType]:
        return [step.to for step in self.steps if step.to is not None]

    def step_to(self, dtype: DataType) -> CastNode:
        """Return the cast to the type."""
        return next(step for step in self.steps if step.to == dtype)

    def extend(self, chain: Chain, dtype: DataType) -> Chain | None:
        """Return the chain extended by a cast to the type, reduced; None if that cast may not be placed."""
        return chain if type_of(chain) == dtype else _extended(chain, self.step_to(dtype), self.opset)

    def line(self, chain: Chain) -> tuple[Chain, ...]:
        """Return the chain, as a cast to the other type leaves it, and as a cast back does, where that changes it."""
        (other,) = (dtype for dtype in self.types() if dtype != type_of(chain))
        chains = [chain]
        for dtype in (other, type_of(chain)):
            longer = self.extend(chains[-1], dtype)
            if longer is None or longer in chains:
                break
            chains.append(longer)
        return tuple(chains)


@cache
def is_fixed(source: DataType, step: CastNode, opset: int) -> bool:
    """True if the standard fixes the cast, to a known type, of every value of `source`."""
    if max(element_type(source).kind, element_type(step.target).kind) > Kind.FLOATING:
        return False
    values, saturate, round_mode = critical_values(source, step.target), step.saturate, step.round_mode
    try:
        return not cast_status(values, step.target, saturate=saturate, round_mode=round_mode, opset=opset).any()
    except (ElementTypeError, CastError):
        return False


@cache
def _extended(chain: Chain, step: CastNode, opset: int) -> Chain | None:
    if len(chain) > 1 and chain_verdict(type_of(chain[:-1]), chain[-1], step, opset):
        return chain[:-1]  # of the two types, it ends in the one that the step leads to
    # For values that come from a narrower type, a cast may be fixed although it is not for all values of the type.
    return (*chain, step) if is_fixed(type_of(chain), step, opset) else None
