"""lower-casts: Replace casts that the target computes otherwise by operators that it computes exactly.

A target that holds a narrow integer in a wider one neither wraps nor clips what is cast to it: the low bits are taken
before the cast. To bool, the value is compared with 0, which is True for NaN and for every other number but 0. Casts of
values that are known to fit are left alone. Types of at most 8 bits that are codes are lowered by lower-float8.

    y = Cast <to = int16> (x)
becomes
    n = Cast <to = int32> (x), low = BitwiseAnd (n, 32767), sign = BitwiseAnd (n, 32768), s = Sub (low, sign)
    y = Cast <to = int16> (s)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Records, Refusal, RewriteResult
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.encodings.storage import inferred_declared
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import CODED_TYPES, element_type, type_name
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement, apply_replacement, detach
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


@dataclass(frozen=True)
class _Pair:
    """A cast of `x` between two types, in a model of an opset."""

    node: onnx_ir.Node
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

    codes = (
        WRAP_BEFORE_CAST,
        COMPARE_WITH_ZERO,
    )

    target: Target

    def rewrite(self, session: Session) -> RewriteResult:
        records = Records()
        inference = session.inference(PromotionRules())
        ranges, namer = Ranges(inference), session.namer()
        with inferred_declared(session.model, inference.types):
            for pair in _pairs(session, inference):
                range_ = ranges.get(pair.x)
                if range_ is not None and range_.fits(pair.to):
                    continue
                answer = self._lowered(pair)
                if isinstance(answer, Replacement):
                    rewrite = apply_replacement(session, NAME, pair.node, answer, namer, inference.types)
                    records.rewrites.append(rewrite)
                elif answer is not None:
                    records.refusals.append(answer)
        return RewriteResult(session.model, bool(records.rewrites), records)

    def _lowered(self, pair: _Pair) -> Replacement | Refusal | None:
        constants: list[onnx_ir.Value] = []
        build = Builder(new_constants(constants, f"{pair.node.outputs[0].name}_"))
        if self.target.keeps_high_bits(pair.source, pair.to):
            rule = WRAP_BEFORE_CAST.code
            why = f"{self.target} holds {type_name(pair.to)} in a wider type, and does not wrap"
            y = build.cast(_low_bits(build, pair.x, pair.to), pair.to)
        elif pair.to == DataType.BOOL and pair.source not in CODED_TYPES and (wrong := self._wrong(pair)):
            rule, why = COMPARE_WITH_ZERO.code, f"{self.target} casts {type_name(pair.source)} to bool wrongly: {wrong}"
            y = build.op("Not", build.op("Equal", pair.x, 0))
        else:
            return None
        lacking = next((text for node in build.nodes if (text := self._lacks(node, pair.opset))), "")
        if lacking:
            detach(build.nodes)
            return Refusal(NAME, rule, site_of(pair.node), f"{why}, and it has no {lacking} to replace the cast with")
        y.name = pair.node.outputs[0].name
        return Replacement(rule, why, tuple(build.nodes), tuple(constants), outputs=(y,))

    def _wrong(self, pair: _Pair) -> str:
        entry = self.target.wrong_cast(pair.source, pair.to, saturate=True, opset=pair.opset)
        return "" if entry is None else entry.wrong

    def _lacks(self, node: onnx_ir.Node, opset: int) -> str:
        """Return the operator, type and opset of a node that the target has no kernel for; empty if it has one."""
        value = node.inputs[varied_input(node.op_type)]
        dtype = None if value is None else value.dtype
        if dtype is None or self.target.has_kernel(node.op_type, dtype, opset):
            return ""
        return f"{node.op_type} of {type_name(dtype)} at opset {opset}"


def _pairs(session: Session, inference: Inference) -> Iterator[_Pair]:
    """Yield the casts, each with the operand that it has when its turn comes."""
    for node in list(session.nodes_of(CASTS)):
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        meaning, x = read_cast(node, like), node.inputs[0] if node.inputs else None
        source = None if x is None else inference.type_of(x) or x.dtype
        if meaning is not None and meaning.to is not None and source is not None and x is not None and node.graph:
            yield _Pair(node, x, source, meaning.to, opset_of(session.imports[node.graph], "") or 0)


def _low_bits(build: Builder, x: onnx_ir.Value, to: DataType) -> onnx_ir.Value:
    """Return the integer of the type's low bits in int32: those below the sign less the sign."""
    row, whole = element_type(to), build.cast(x, DataType.INT32)
    if not row.signed:
        return build.op("BitwiseAnd", whole, 2**row.bits - 1)
    sign = 2 ** (row.bits - 1)
    return build.op("Sub", build.op("BitwiseAnd", whole, sign - 1), build.op("BitwiseAnd", whole, sign))
