"""lower-casts: Replace casts that the target computes otherwise by operators that it computes exactly.

A target that holds a narrow integer in a wider one neither wraps nor clips what is cast to it: the low bits are taken
before the cast. To bool, the value is compared with 0, which is True for NaN and for every other number but 0. A double
or a wide integer that the target casts to a 16-bit float by way of float, and so rounds twice, is rounded once before.
Casts of values that are known to fit are left alone. Types of at most 8 bits that are codes are lowered by
lower-float8.

    y = Cast <to = int16> (x)
becomes
    n = Cast <to = int32> (x), low = BitwiseAnd (n, 32767), sign = BitwiseAnd (n, 32768), s = Sub (low, sign)
    y = Cast <to = int16> (s)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.ir.codes import Rule
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Refusal, RewriteResult
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder, ReplacementBuilder, as_replacement
from castsmith.lowering.encodings.integer import WIDE_INTEGERS, rounds_since, wide
from castsmith.lowering.encodings.ladder import ROUND_IN_PLACE, round_in_place
from castsmith.lowering.encodings.storage import inferred_declared
from castsmith.lowering.formats import NarrowPolicy
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import CODED_TYPES, HALF_TYPES, element_type, type_name
from castsmith.passes.core.casts import cast_of
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement, detach, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.targets.kernels import varied_input
from castsmith.targets.target import Target

NAME = "lower-casts"

WRAP_BEFORE_CAST = Rule(
    "wrap-before-cast",
    "An integer is masked to its low bits before a cast to a narrower type that the target stores in a wider one.",
    why="The target neither wraps nor clips: OpenVINO holds int16 in int32, so 70000 stays 70000.",
    example=(
        "- y = Cast <to = uint16> (x)\n"
        "+ n = Cast <to = int32> (x)\n"
        "+ low = BitwiseAnd (n, 65535)\n"
        "+ y = Cast <to = uint16> (low)"
    ),
    advice="If it is skipped, raise the opset to 18, which has BitwiseAnd.",
)
COMPARE_WITH_ZERO = Rule(
    "compare-with-zero",
    "A cast to bool becomes a comparison with 0.",
    why="The target casts some numbers, or NaN, to False.",
    example="- y = Cast <to = bool> (x)\n+ zero = Equal (x, 0)\n+ y = Not (zero)",
    advice="If it is skipped, raise the opset to 11, which compares floats.",
)


_ROUNDED_TWICE = (DataType.DOUBLE, *WIDE_INTEGERS)
"""Types with more digits than float, by way of which a target may cast them to a 16-bit float."""


@dataclass(frozen=True)
class _Cast:
    """A cast of `x` between two types, in a model of an opset."""

    x: onnx_ir.Value
    source: DataType
    to: DataType
    opset: int


@dataclass(frozen=True)
class LowerCasts(SessionPass):
    """Replace casts that the target computes otherwise by operators that it computes exactly.

    Attributes:
        target: The runtime that the model is for.
    """

    codes = (WRAP_BEFORE_CAST, COMPARE_WITH_ZERO, ROUND_IN_PLACE)

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        inference = session.inference(PromotionRules())
        ranges = Ranges(inference)

        def lowered(node: onnx_ir.Node) -> Replacement | Refusal | None:
            step = cast_of(node, inference)
            if step is None or node.graph is None:
                return None
            opset = opset_of(session.imports[node.graph], "") or 0
            return self._lowered(node, _Cast(step[0], step[1], step[2].target, opset), ranges)

        with inferred_declared(session.model, inference.types):
            return replace_nodes(session, NAME, lowered, types=inference.types)

    def _lowered(self, node: onnx_ir.Node, cast: _Cast, ranges: Ranges) -> Replacement | Refusal | None:
        """Return what replaces the cast, or why nothing can; None for one that is right, or right for its values."""
        needs, fitting, wrong = (0, ""), cast.to, self._wrong(cast)
        why = f"{self.target} casts {type_name(cast.source)} to {type_name(cast.to)} wrongly: {wrong}"
        if self.target.keeps_high_bits(cast.source, cast.to):
            rule, write = WRAP_BEFORE_CAST, _wrapped
            why = f"{self.target} holds {type_name(cast.to)} in a wider type, and does not wrap"
        elif wrong and cast.to == DataType.BOOL and cast.source not in CODED_TYPES:
            rule, write = COMPARE_WITH_ZERO, _compared
        elif wrong and cast.to in {*HALF_TYPES} - self.target.lacks and cast.source in _ROUNDED_TWICE:
            rule, write = ROUND_IN_PLACE, _rounded
            fitting, needs = DataType.FLOAT, rounds_since(cast.source)
        else:
            return None
        range_ = ranges.get(cast.x)
        if range_ is not None and range_.fits(fitting):
            return None
        if cast.opset < needs[0]:
            way_out = f"rounding before it needs {needs[1]}: raise the opset from {cast.opset} to {needs[0]}"
            return Refusal(NAME, rule.code, site_of(node), f"{why}, and {way_out}")
        build = ReplacementBuilder(node, doubles=bool(self.target.as_written))
        y = write(build, cast)
        lacking = next((text for new in build.nodes if (text := self._lacks(new, cast.opset))), "")
        if lacking:
            detach(build.nodes)
            return Refusal(NAME, rule.code, site_of(node), f"{why}, and it has no {lacking} to replace the cast with")
        return as_replacement(build, rule.code, why, y)

    def _wrong(self, cast: _Cast) -> str:
        entry = self.target.wrong_cast(cast.source, cast.to, saturate=True, opset=cast.opset)
        return "" if entry is None else entry.wrong

    def _lacks(self, node: onnx_ir.Node, opset: int) -> str:
        """Return the operator, type and opset of a node that the target has no kernel for; empty if it has one."""
        value = node.inputs[varied_input(node.op_type)]
        dtype = None if value is None else value.dtype
        if dtype is None or self.target.has_kernel(node.op_type, dtype, opset):
            return ""
        return f"{node.op_type} of {type_name(dtype)} at opset {opset}"


def _wrapped(build: Builder, cast: _Cast) -> onnx_ir.Value:
    """Return the integer of the type's low bits: those below the sign less the sign."""
    row, number = element_type(cast.to), build.cast(cast.x, DataType.INT32)
    if not row.signed:
        return build.cast(build.op("BitwiseAnd", number, 2**row.bits - 1), cast.to)
    sign = 2 ** (row.bits - 1)
    low = build.op("Sub", build.op("BitwiseAnd", number, sign - 1), build.op("BitwiseAnd", number, sign))
    return build.cast(low, cast.to)


def _compared(build: Builder, cast: _Cast) -> onnx_ir.Value:
    return build.op("Not", build.op("Equal", cast.x, 0))


def _rounded(build: Builder, cast: _Cast) -> onnx_ir.Value:
    """Return the number rounded in place, so that float holds the result."""
    number = round_in_place(build, wide(build, cast.x), cast.to, NarrowPolicy())
    return build.cast(build.cast(number, DataType.FLOAT), cast.to)
