"""A target: what one runtime accepts, lacks and gets wrong, as its file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx_ir import DataType

from castsmith.ir.ops import since_version
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.types import CODED_TYPES

_HAS_ARITHMETIC = "Add"

OLDEST_OPSET = 7
"""The first opset that runtimes are asked about."""


class TargetError(CastsmithError, ValueError):
    """A target that is unknown, or whose file does not describe one."""


@dataclass(frozen=True)
class WrongCast:
    """Casts that the target computes otherwise than the schema says, and how that was found.

    saturate: only with this setting, where not None. before_opset: only in models of an older opset, where not None.
    disputed: others whom one would trust do the same, so the cast is left to the target.
    """

    sources: frozenset[DataType]
    targets: frozenset[DataType]
    wrong: str
    evidence: str
    saturate: bool | None = None
    before_opset: int | None = None
    disputed: bool = False

    def covers(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> bool:
        """Whether this cast is one of them."""
        return (
            source in self.sources
            and to in self.targets
            and self.saturate in (None, saturate)
            and (self.before_opset is None or opset < self.before_opset)
        )


@dataclass(frozen=True)
class WrongFusion:
    """Operators whose fusion with others goes wrong on these types, where they are not of a constant, and how."""

    types: frozenset[DataType]
    operators: frozenset[str]
    how: str


@dataclass(frozen=True)
class Target:
    """One runtime, as its file describes it.

    kernels: for each type the operators that take it, and the opset from which; a type without a row is taken by every
    operator that the standard gives it, and an operator that was not `probed` takes the types that have arithmetic.
    operators_without_uint8: operators that only move elements and have no kernel for uint8, in which codes are kept.
    domains: those of custom operators that the target has itself, such as those of QONNX.
    sequence_operators: operators outside the common stock that sequences may use, and the opset from which.
    as_written: how it is known that each operator is computed by itself and rounded to its type, never contracted or
    re-associated with others; empty where that is not so, or not known. unknown:
    the fields that nobody has found out yet; where kernels are, the types that can be codes are never left to the
    target, and a newest opset or IR version is then not claimed to be one. evidence: how the facts were found.
    """

    name: str
    description: str
    newest_opset: int
    newest_ir_version: int
    lacks: frozenset[DataType] = frozenset()
    kernels: Mapping[DataType, Mapping[str, int]] = field(default_factory=dict[DataType, Mapping[str, int]])
    operators_without_uint8: frozenset[str] = frozenset()
    wrong_fusions: tuple[WrongFusion, ...] = ()
    wrong_casts: tuple[WrongCast, ...] = ()
    sequence_operators: Mapping[str, int] = field(default_factory=dict[str, int])
    as_written: str = ""
    hazards: Mapping[str, str] = field(default_factory=dict[str, str])
    probed: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()
    evidence: str = ""

    @property
    def operators_on_float8(self) -> Mapping[str, int]:
        """The operators that take the most common float8 type, and the opset from which."""
        return self.kernels.get(DataType.FLOAT8E4M3FN, {})

    @property
    def breaks_cast_after_transpose(self) -> bool:
        """True if the target fails on a Cast between Transpose and MatMul."""
        return "transpose-cast-matmul-crashes" in self.hazards

    def has_kernel(self, op_type: str, dtype: DataType, opset: int) -> bool:
        """Whether the operator takes the type in a model of that opset; an opset older than those asked about counts
        as the oldest of them where the operator has not changed since."""
        if "kernels" in self.unknown and dtype in CODED_TYPES:
            return False
        if opset < OLDEST_OPSET and since_version(op_type, opset) == since_version(op_type, OLDEST_OPSET):
            opset = OLDEST_OPSET
        row = self.kernels.get(dtype)
        if row is None or op_type in row:
            return row is None or row[op_type] <= opset
        return bool(self.probed) and op_type not in self.probed and _HAS_ARITHMETIC in row

    def fusion_defect(self, op_type: str, dtype: DataType) -> str | None:
        """How the target's fusion of the operator goes wrong on the type; None where none does."""
        entries = (entry for entry in self.wrong_fusions if dtype in entry.types and op_type in entry.operators)
        return next((entry.how for entry in entries), None)

    def wrong_cast(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> WrongCast | None:
        """The entry that says the target computes this cast wrongly, beyond dispute; None where it does not."""
        found = (entry for entry in self.wrong_casts if entry.covers(source, to, saturate=saturate, opset=opset))
        return next((entry for entry in found if not entry.disputed), None)
