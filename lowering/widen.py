"""widen-floats: operators on float16 or bfloat16 for which the target has no kernel compute in float instead.

Where the target keeps the type but lacks the operator, the operands are cast to float and the result back: the
operator's result in float, rounded once. For +, -, *, / and square root that is the result in the type itself, since
float has more than twice its precision and two bits; for others, whose last bits the standard leaves to runtimes, it is
the usual meaning. Where the target lacks the type, its values become floats and each result is rounded in place.

    y = Add (a, b)
becomes
    a_float = Cast <to = float> (a), b_float = Cast <to = float> (b), s = Add (a_float, b_float)
    y = Cast <to = bfloat16> (s)
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.passing import RewritePass
from castsmith.ir.records import Diagnostic, Records, Refusal, RewriteResult, Severity
from castsmith.ir.rewriting import Replacement, all_nodes, apply_replacement
from castsmith.ir.schemas import DEFAULT_DOMAINS, input_types, opset_of
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder
from castsmith.lowering.codes import HALF_TYPES
from castsmith.lowering.float8_moves import MOVES
from castsmith.lowering.float8_needs import Types
from castsmith.lowering.storage import TYPE_ATTRIBUTES
from castsmith.lowering.targets import Target
from castsmith.lowering.widen_storage import widen_storage
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import type_name

NAME = "widen-floats"
_HOLDERS = {*("Loop", "Scan", "If"), *(name for name in MOVES if "Sequence" in name or "Optional" in name)}
"""Operators that carry values about as they are, and whose kernels do not depend on the element type."""


@dataclass(frozen=True)
class WidenFloats(RewritePass):
    """See the module. target: where the model is to run."""

    target: Target

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        records, namer = Records(), Namer(model)
        opset = opset_of(model.graph.opset_imports, "")
        if opset is None:
            return RewriteResult(model, False, records)
        types = infer_element_types(model, PromotionRules()).types
        for node in list(all_nodes(model)):
            answer = _widened(node, self.target, types, opset)
            if isinstance(answer, Replacement):
                records.rewrites.append(apply_replacement(NAME, node, answer, namer))
            elif answer is not None:
                records.refusals.append(answer)
                message = f"{answer.reason}, and {self.target.name} has no kernel for it"
                records.diagnostics.append(Diagnostic("no-kernel", Severity.ERROR, answer.site, message))
        for dtype in HALF_TYPES:
            if dtype in self.target.lacks:
                widen_storage(model, self.target, dtype, records)
        return RewriteResult(model, bool(records.rewrites), records)


def _widened(node: onnx_ir.Node, target: Target, types: Types, opset: int) -> Replacement | Refusal | None:
    """The node in float, where the target has no kernel of a half type for it."""
    lacking = [
        dtype
        for dtype in HALF_TYPES
        if dtype not in target.lacks
        and not target.has_kernel(node.op_type, dtype, opset)
        and any(value is not None and types.get(value, value.dtype) == dtype for value in (*node.inputs, *node.outputs))
    ]
    if node.domain not in DEFAULT_DOMAINS or not lacking or node.op_type in _HOLDERS:
        return None
    dtype = lacking[0]
    if obstacle := _obstacle(node, dtype, target, types, opset):
        return Refusal(NAME, "widen", site_of(node), obstacle)
    build = Builder(_no_constants)
    inputs = [
        build.cast(value, DataType.FLOAT) if value is not None and types.get(value, value.dtype) == dtype else value
        for value in node.inputs
    ]
    wide = onnx_ir.Node("", node.op_type, inputs, list(node.attributes.values()), num_outputs=len(node.outputs))
    build.nodes.append(wide)
    outputs: list[onnx_ir.Value] = []
    for old, new in zip(node.outputs, wide.outputs, strict=True):
        narrow = types.get(old, old.dtype) == dtype
        new.type, new.shape = onnx_ir.TensorType(DataType.FLOAT) if narrow else old.type, old.shape
        new.name = f"{old.name}_float" if narrow else old.name
        outputs.append(build.cast(new, dtype) if narrow else new)
        outputs[-1].name = old.name
    reason = f"{target.name} has no {node.op_type} of {type_name(dtype)} at opset {opset}: in float, rounded once"
    return Replacement("widen", reason, tuple(build.nodes), outputs=tuple(outputs))


def _obstacle(node: onnx_ir.Node, dtype: DataType, target: Target, types: Types, opset: int) -> str | None:
    imports = {"": opset}
    if any(name in node.attributes for name in TYPE_ATTRIBUTES):
        return f"{node.op_type} names a type of {type_name(dtype)}"
    for index, value in enumerate(node.inputs):
        if value is not None and types.get(value, value.dtype) == dtype:
            if value.type is None:
                value.type = onnx_ir.TensorType(dtype)
            if DataType.FLOAT not in input_types(node, index, imports):
                return f"{node.op_type} takes no float as input {index}"
    if not target.has_kernel(node.op_type, DataType.FLOAT, opset):
        return f"{node.op_type} of float is lacking too"
    return None


def _no_constants(_name: str, _array: object) -> onnx_ir.Value:
    raise AssertionError
