"""Model-local functions whose types differ from call to call are inlined where operators in them have to be widened."""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import Inference, infer_element_types
from castsmith.ir.records import Rewrite
from castsmith.ir.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.targets import Target
from castsmith.lowering.float8_functions import inline_functions, takes_a_type
from castsmith.lowering.storage import mentioned_types
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import HALF_TYPES


def inline_ambiguous(model: onnx_ir.Model, target: Target, pass_name: str) -> list[Rewrite]:
    """Inline the functions that may need widening for one call and not, or otherwise, for another."""
    if not model.functions:
        return []
    halves = mentioned_types(model) & {DataType.UNDEFINED, *HALF_TYPES}
    inference = infer_element_types(model, PromotionRules())
    halves = {*HALF_TYPES} if DataType.UNDEFINED in halves else halves
    names = {
        name
        for name, function in model.functions.items()
        if _is_ambiguous(function, inference) and _may_need_widening(function, target, halves)
    }
    return [inline_functions(model, names, pass_name)] if names else []


def _is_ambiguous(function: onnx_ir.Function, inference: Inference) -> bool:
    if any(takes_a_type(node) for node in function.all_nodes()):
        return True
    return len(inference.signatures.get(function, ())) > 1


def _may_need_widening(function: onnx_ir.Function, target: Target, halves: set[DataType]) -> bool:
    opset = opset_of(function.opset_imports, "") or 0
    return bool(halves & target.lacks) or any(
        not target.has_kernel(node.op_type, dtype, opset) or node.op_type in ("Cast", "CastLike")
        for node in function.all_nodes()
        if node.domain in DEFAULT_DOMAINS
        for dtype in halves
    )
