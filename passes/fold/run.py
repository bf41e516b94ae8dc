"""fold-constants: Replace conversions of constants by their results.

Conversions are Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear, ConvertPromoteTypes and QONNX Trunc.

A constant may reach one through operators that only move elements: Identity, Reshape, Transpose, Squeeze, Unsqueeze,
Flatten, Slice, Concat, Gather, Expand, Split, ScatterND, ConstantOfShape. They fold with the conversion, not without.

Exact: the value is computed by the numeric core as the schema of the model's opset says, and is made once however many
nodes ask for it. Refused: a conversion of which any element is not DEFINED by the schema (with `fold_disputed`: neither
DEFINED nor DISPUTED), so that what a runtime gives there stays its own; the first such element is named. Refused too,
before any memory is taken: a constant beyond the budget, as a float8 weight decoded to float is. Refused, unless
`fold_quantized`: a DequantizeLinear that is part of a quantized operator, if the target has a kernel for it.

    float[3] w = {1, 2.5, -3}
    y = Cast <to = float8e4m3fn> (w)
becomes
    float8e4m3fn[3] y = {1, 2.5, -3}
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from castsmith.analysis.inference.walk import called_with_several_types
from castsmith.ir.codes import FindingCode, Outcome, RefusalCode
from castsmith.ir.constants import constant_tensor
from castsmith.ir.naming import Namer
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Diagnostic, Records, Refusal, RewriteResult, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import constant_bytes, graph_of
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.status import Definedness
from castsmith.passes.core.options import FoldAs, shared
from castsmith.passes.core.rewrite_pass import SessionPass, is_stored_weight
from castsmith.passes.core.rewriting import Replacement, apply_replacement
from castsmith.passes.core.session import Session
from castsmith.passes.fold.reading import CONVERTING, Reader, may_convert
from castsmith.passes.fold.rule import FOLD_CONSTANT, FOLD_GROWTH, FOLD_INVALID, FOLD_UNDEFINED, NAME, Folding
from castsmith.passes.fold.values import Constants
from castsmith.targets.kernels import takes_operator
from castsmith.targets.target import Target

# A runtime fuses `DequantizeLinear (x), DequantizeLinear (w) -> Conv -> QuantizeLinear` into a convolution of integers.
# With the weight in float it cannot: the model is slower, and ONNX Runtime quantizes the weight again, to other values.


UNDEFINED_CONSTANT_CAST = FindingCode(
    "undefined-constant-cast",
    "The standard does not define the result of casting an element of a constant.",
    why="Runtimes give different numbers for it, so Castsmith does not fold it.",
    example="y = Cast <to = int8> (w {1000})",
    advice="Change the constant, or clip it before the cast.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="manual",
    silence="If no result depends on the element.",
)
FOLD_QUANTIZED = RefusalCode(
    "fold-quantized",
    "A DequantizeLinear of a constant is kept, because it is part of a quantized operator.",
    why="Runtimes fuse DequantizeLinear, operator and QuantizeLinear and run them on integers.",
    example="MatMul of DequantizeLinear (x) and DequantizeLinear (w)",
    advice="The option fold_quantized of fold-constants folds it anyway.",
    fix="on-request",
)


def belongs_to_quantized_operator(node: onnx_ir.Node) -> bool:
    """True if the result is an operand beside that of another DequantizeLinear that is not constant."""
    return _dequantizes(node) and any(
        _dequantizes(producer) and constant_tensor(producer.inputs[0]) is None
        for consumer in node.outputs[0].consumers()
        for operand in consumer.inputs
        if operand is not None and (producer := operand.producer()) is not None
    )


def _dequantizes(node: onnx_ir.Node) -> bool:
    return node.op_type == "DequantizeLinear" and node.domain in DEFAULT_DOMAINS


_SCRATCH = 1 << 20
"""Bytes that an intermediate array may take beyond those of the model's constants and the budget."""


@dataclass(frozen=True)
class FoldConstants(SessionPass):
    """Fold conversions of constants.

    Attributes:
        max_growth: Bytes of tensor data by which folding one node may make the file grow.
        max_total_growth: Bytes by which folding all of them may make it grow.
        fold_disputed: Fold elements on which runtimes disagree, by the schema's own table.
        fold_as: Fold casts that the standard leaves open as this runtime computes them (`onnxruntime` or `reference`),
            if reproducible.
        fold_quantized: Fold the weights of quantized operators too, which runtimes then no longer recognise.
        target: The runtime whose kernels limit the added nodes; `onnxruntime-cpu` if None.
    """

    codes = (
        FOLD_CONSTANT,
        FOLD_UNDEFINED,
        FOLD_GROWTH,
        FOLD_INVALID,
        FOLD_QUANTIZED,
        UNDEFINED_CONSTANT_CAST,
    )

    max_growth: int = shared("max_growth")
    max_total_growth: int = shared("max_total_growth")
    fold_disputed: bool = shared("fold_disputed")
    fold_as: FoldAs = shared("fold_as")
    fold_quantized: bool = shared("fold_quantized")
    target: Target | None = None

    def rewrite(self, session: Session) -> RewriteResult:
        model, namer, records = session.model, session.namer(), Records()
        folding = self._folding(session, namer)
        survey = session.survey
        nodes = [node for node in (survey.nodes if survey.domains else survey.of(CONVERTING)) if may_convert(node)]
        nodes = [node for node in nodes if not node.metadata_props or not is_stored_weight(node)]
        types = folding.reader.inference.types
        for node in nodes:
            if node.graph is None:  # removed meanwhile
                continue
            outcome = self._keep(node, session) or folding.fold(node)
            if isinstance(outcome, Replacement):
                operands = [value for value in node.inputs if value is not None]
                records.rewrites.append(apply_replacement(session, NAME, node, outcome, namer, types))
                for value in operands:
                    folding.forget(value)
            elif outcome is not None:
                records.refusals.append(outcome)
        records.diagnostics += [
            _diagnostic(refusal) for refusal in records.refusals if refusal.rule == FOLD_UNDEFINED.code
        ]
        return RewriteResult(model, bool(records.rewrites), records)

    def _keep(self, node: onnx_ir.Node, session: Session) -> Refusal | None:
        codes = constant_tensor(node.inputs[0]) if node.inputs else None
        if self.fold_quantized or codes is None or not belongs_to_quantized_operator(node):
            return None
        opset = opset_of(session.imports[graph_of(node)], "") or 0
        if not takes_operator(node.op_type, codes.dtype, opset, self.target):
            return None
        reason = (
            "it is the weight of a quantized operator, which runtimes would not recognise (fold_quantized folds it)"
        )
        return Refusal(NAME, FOLD_QUANTIZED.code, site_of(node), reason)

    def _folding(self, session: Session, namer: Namer) -> Folding:
        inference = session.follow(PromotionRules(promote_unsafe=True))
        held, imports = session.holders, session.imports
        depths: dict[onnx_ir.Graph, int] = {}
        for graph, node in held.items():
            outer = node.graph
            depths[graph] = 1 + (depths.get(outer, 0) if isinstance(outer, onnx_ir.Graph) else 0)
        constants = Constants(depths, imports, lambda: constant_bytes(session.model) + self.max_growth + _SCRATCH)
        reader = Reader(constants, inference, imports, called_with_several_types(inference))
        tolerated = Definedness.DISPUTED if self.fold_disputed else Definedness.DEFINED
        limits = self.max_growth, self.max_total_growth
        return Folding(constants, reader, held, namer, *limits, tolerated, self.target, self.fold_as)


def _diagnostic(refusal: Refusal) -> Diagnostic:
    what = f"the result of this {refusal.site.op} of a constant"
    message = f"the ONNX standard does not define {what}, so it is kept: {refusal.reason}"
    way_out = "change the constant, or let the runtime decide"
    return Diagnostic(UNDEFINED_CONSTANT_CAST.code, Severity.WARNING, refusal.site, message, way_out)
