"""A target: the types, operators and limits of one runtime, and its errors, as in its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from onnx_ir import DataType

from castsmith.ir.ops import MOVERS
from castsmith.numerics.errors import CastsmithError
from castsmith.numerics.types import CODED_TYPES

_HAS_ARITHMETIC = "Add"

QUANTIZATION_RULES = {
    "constant-zero-points-of-zero": "the zero point must be a constant of zeros",
    "positive-scales": "every scale must be above 0",
    "int4-of-constants": "int4 is for weights alone, so the operand must be a constant",
    "blocks-of-the-last-two-axes": "blocks must lie along one of the last two axes",
    "constant-scales": "every scale must be a constant",
    "whole-blocks": "block_size must divide the axis, of a tensor of two or more dimensions",
    "no-blocks-to-quantize": "QuantizeLinear has no block_size",
}
"""The rules of quantization that a target may have, with their descriptions."""


class TargetError(CastsmithError, ValueError):
    """A target that is unknown, or whose file does not describe one."""


@dataclass(frozen=True)
class WrongCast:
    """Casts that the target computes differently from the schema, and the evidence.

    Attributes:
        saturate: Only with this setting, unless None.
        before_opset: Only in models of an older opset, unless None.
        disputed: Other trusted implementations do the same, so the cast is left to the target.
        inherent: It follows from how the target holds the types, such as int64 in 32 bits, or no sequence of other
            operators is known, so the cast is left to the target.
    """

    sources: frozenset[DataType]
    targets: frozenset[DataType]
    wrong: str
    evidence: str
    saturate: bool | None = None
    before_opset: int | None = None
    disputed: bool = False
    inherent: bool = False

    def covers(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> bool:
        """True if this cast is one of them."""
        return (
            source in self.sources
            and to in self.targets
            and self.saturate in (None, saturate)
            and (self.before_opset is None or opset < self.before_opset)
        )


@dataclass(frozen=True)
class WrongFusion:
    """Operators whose fusion with others is wrong on these types, unless they are constant, and the effect."""

    types: frozenset[DataType]
    operators: frozenset[str]
    how: str


@dataclass(frozen=True)
class Target:
    """One runtime, as its file describes it.

    Attributes:
        name: The name, such as `onnxruntime-cpu`.
        description: What it is, one phrase.
        newest_opset: The newest supported opset of the default domain.
        newest_ir_version: The newest supported IR version.
        lacks: The unsupported element types, less those `off_device`.
        kernels: For each type the operators that support it, and the first opset of each; a type without a row is
            supported by every operator whose schema allows it, and an operator that was not `probed` supports the types
            that have arithmetic.
        fallback: The target that runs the nodes which this one, a device, does not: ONNX Runtime leaves what an
            execution provider lacks to that of the CPU.
        off_device: Types that the device lacks and the fallback has; those that have a lowering are in `lacks` instead.
        quantization: The rules of its QuantizeLinear and DequantizeLinear beyond the standard, some of
            `QUANTIZATION_RULES`, each with its source.
        one_type: Operators whose operands of elements must all be of one type, where the standard allows several, each
            with its source.
        dropped: For each type the operators without a kernel for their newest definition, and the opset of it.
        wrong_fusions: Fusions that change results or fail.
        wrong_casts: Casts that it computes differently from the schema.
        sequence_operators: Operators outside the common set that encodings may use, and the first opset of each.
        as_written: Evidence that each operator is computed by itself and rounded to its type, never contracted or
            re-associated with others; empty if that is false or unknown. Doubles are then rounded by sums.
        hazards: Changes that its optimizer makes to arithmetic, by name, with descriptions.
        probed: The operators whose kernels were measured.
        domains: Domains of custom operators that the target supports itself, such as those of QONNX.
        unknown: The fields whose values are unknown. If `kernels` is one, types that can be codes are never left to the
            target; an unknown newest opset or IR version is not enforced.
        evidence: How the facts were found.
    """

    name: str
    description: str
    newest_opset: int
    newest_ir_version: int
    lacks: frozenset[DataType] = frozenset()
    kernels: Mapping[DataType, Mapping[str, int]] = field(default_factory=dict[DataType, Mapping[str, int]])
    fallback: Target | None = None
    off_device: frozenset[DataType] = frozenset()
    quantization: Mapping[str, str] = field(default_factory=dict[str, str])
    one_type: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: Mapping[DataType, Mapping[str, int]] = field(default_factory=dict[DataType, Mapping[str, int]])
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
        """The operators that support the most common float8 type, and the first opset of each."""
        return self.kernels.get(DataType.FLOAT8E4M3FN, {})

    @property
    def operators_without_uint8(self) -> frozenset[str]:
        """The operators that only move elements and do not support uint8, in which codes are kept."""
        return MOVERS & (self.probed - self.kernels.get(DataType.UINT8, dict.fromkeys(self.probed, 1)).keys())

    @property
    def breaks_cast_after_transpose(self) -> bool:
        """True if the target fails on a Cast between Transpose and MatMul."""
        return "transpose-cast-matmul-crashes" in self.hazards

    @property
    def refuses_same_names(self) -> bool:
        """True if the target, or its fallback, does not load a graph with two nodes of one name."""
        return self._has_in_any("same-node-names")

    @property
    def refuses_idle_attributes(self) -> bool:
        """True if the target, or its fallback, does not load a Cast with attributes that have no effect."""
        return self._has_in_any("attributes-without-effect")

    def _has_in_any(self, hazard: str) -> bool:
        """True if the target, or its fallback, has the hazard."""
        return hazard in self.hazards or (self.fallback is not None and self.fallback._has_in_any(hazard))

    def divides_in_float(self, opset: int) -> bool:
        """True if QuantizeLinear of a 16-bit float does not round the quotient to the type of the division."""
        name = "quantize-divides-in-float"
        return name in self.hazards or (f"{name}-below-23" in self.hazards and opset < 23)

    @property
    def complete_opset(self) -> int:
        """The newest opset at which the target has not `dropped` any operator of float."""
        return min((self.newest_opset, *(first - 1 for first in self.dropped.get(DataType.FLOAT, {}).values())))

    def drops(self, op_type: str, dtypes: Iterable[DataType | None], opset: int) -> int | None:
        """Return the newest opset below this one with a kernel of an operator that the target `dropped`, or None."""
        found = (self.dropped.get(dtype, {}).get(op_type, opset + 1) for dtype in dtypes if dtype is not None)
        first = min(found, default=opset + 1)
        return first - 1 if first <= opset else None

    def has_kernel(self, op_type: str, dtype: DataType, opset: int) -> bool:
        """True if the operator supports the type in a model of that opset."""
        if self.fallback is not None and dtype in self.off_device:
            return self.fallback.has_kernel(op_type, dtype, opset)
        if "kernels" in self.unknown and dtype in CODED_TYPES:
            return False
        if self.drops(op_type, (dtype,), opset) is not None:
            return False
        row = self.kernels.get(dtype)
        if row is None or op_type in row:
            return row is None or row[op_type] <= opset
        return bool(self.probed) and op_type not in self.probed and _HAS_ARITHMETIC in row

    def lacks_domain(self, domain: str) -> bool:
        """True if the target has no operators of the domain, as far as its custom operators are known."""
        return bool(self.domains) and domain not in self.domains

    def computes(self, dtype: DataType) -> bool:
        """True if the target has arithmetic in the type, and does not only move or convert it."""
        if self.fallback is not None and dtype in self.off_device:
            return self.fallback.computes(dtype)
        row = self.kernels.get(dtype)
        return dtype not in self.lacks and (row is None or _HAS_ARITHMETIC in row)

    def fusion_defect(self, op_type: str, dtype: DataType) -> str | None:
        """Return the effect of the target's fusion of the operator on the type; None if it is correct."""
        entries = (entry for entry in self.wrong_fusions if dtype in entry.types and op_type in entry.operators)
        return next((entry.how for entry in entries), None)

    def wrong_cast(self, source: DataType, to: DataType, *, saturate: bool, opset: int) -> WrongCast | None:
        """Return the entry that says the target computes this cast wrongly; None if the cast is left to it."""
        if self.fallback is not None and {source, to} & self.off_device:
            return self.fallback.wrong_cast(source, to, saturate=saturate, opset=opset)
        found = (entry for entry in self.wrong_casts if entry.covers(source, to, saturate=saturate, opset=opset))
        return next((entry for entry in found if not (entry.disputed or entry.inherent)), None)

    def strict(self) -> Target:
        """Return the device alone, without the fallback."""
        return replace(self, lacks=self.lacks | self.off_device, off_device=frozenset(), fallback=None)
