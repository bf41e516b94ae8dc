"""widen-floats: operators on float16 or bfloat16 for which the target has no kernel compute in float instead.

Where the target keeps the type but lacks the operator, the operands are cast to float and the result back: the
operator's result in float, rounded once. For +, -, *, / and square root that is the result in the type itself, since
float has more than twice its precision and two bits; for others, whose last bits the standard leaves to runtimes, it is
the usual meaning. Where the target lacks the type, its values become floats and each result is rounded in place. Casts
to these types that the target rounds twice are rounded once.

    y = Add (a, b)
becomes
    a_float = Cast <to = float> (a), b_float = Cast <to = float> (b), s = Add (a_float, b_float)
    y = Cast <to = bfloat16> (s)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.errors import ModelError
from castsmith.ir.inference import infer_element_types
from castsmith.ir.kept_types import outdated
from castsmith.ir.naming import Namer
from castsmith.ir.ops import MOVES
from castsmith.ir.passing import RewritePass
from castsmith.ir.records import Diagnostic, Records, Refusal, RewriteResult, Severity
from castsmith.ir.rewriting import Replacement, all_nodes, apply_replacement
from castsmith.ir.schemas import DEFAULT_DOMAINS, input_types, opset_of
from castsmith.ir.scopes import imports_by_scope
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder, new_constants
from castsmith.lowering.float8_needs import Types
from castsmith.lowering.interface import STORED, WIDE, require_interface, widen_interface
from castsmith.lowering.storage import inferred_declared, mentioned_types, retyped_attributes
from castsmith.lowering.widen_casts import round_casts_once
from castsmith.lowering.widen_effect import effect_in_float
from castsmith.lowering.widen_functions import inline_ambiguous
from castsmith.lowering.widen_linear import expand_linear
from castsmith.lowering.widen_order import cast_before_transpose
from castsmith.lowering.widen_storage import widen_storage, widened_tensor
from castsmith.numerics.promotion import PromotionRules
from castsmith.numerics.types import HALF_TYPES, type_name

NAME = "widen-floats"
_HOLDERS = {*("Loop", "Scan", "If"), *(name for name in MOVES if "Sequence" in name or "Optional" in name)}
"""Operators that carry values about as they are, and whose kernels do not depend on the element type."""

Rule = Callable[[onnx_ir.Node, Target, Types, int], Replacement | Refusal | None]


@dataclass(frozen=True)
class WidenFloats(RewritePass):
    """See the module.

    target: where the model is to run. interface: `stored` leaves the graph inputs and outputs of a type that the target
    has as they are, `wide` makes them float. Those of a type that it lacks are float in any case.
    """

    target: Target
    interface: str = STORED

    def call(self, model: onnx_ir.Model) -> RewriteResult:
        require_interface(self.interface)
        records = Records()
        if {DataType.UNDEFINED, *HALF_TYPES} & mentioned_types(model):
            self._widen(model, records)
        records.rewrites += cast_before_transpose(model, self.target, NAME)
        return RewriteResult(model, bool(records.rewrites), records)

    def _widen(self, model: onnx_ir.Model, records: Records) -> None:
        records.rewrites += widen_interface(model, NAME, HALF_TYPES if self.interface == WIDE else ())
        records.rewrites += inline_ambiguous(model, self.target, NAME)
        _run(model, self.target, _linear, records)
        records.rewrites += round_casts_once(model, self.target, NAME)
        _run(model, self.target, _widened, records)
        outdated(model)
        for dtype in HALF_TYPES:
            if dtype in self.target.lacks:
                widen_storage(model, self.target, dtype, records)


def _run(model: onnx_ir.Model, target: Target, rule: Rule, records: Records) -> None:
    outdated(model)
    types, namer = infer_element_types(model, PromotionRules()).types, Namer(model)
    imports = imports_by_scope(model)
    with inferred_declared(model, types):
        for node in list(all_nodes(model)):
            if node.domain not in DEFAULT_DOMAINS or node.graph is None or node.op_identifier() in model.functions:
                continue
            answer = rule(node, target, types, opset_of(imports[node.graph], "") or 0)
            if isinstance(answer, Replacement):
                records.rewrites.append(apply_replacement(NAME, node, answer, namer))
            elif answer is not None:
                records.refusals.append(answer)
                message = f"{answer.reason}, and {target.name} has no kernel for it"
                records.diagnostics.append(Diagnostic("no-kernel", Severity.ERROR, answer.site, message))


def _lacking(node: onnx_ir.Node, target: Target, types: Types, opset: int) -> list[DataType]:
    """The half types of the node for which the target, which has them, has no kernel of it."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    there = {types.get(value, value.dtype) for value in values} & {*HALF_TYPES} - target.lacks
    return [dtype for dtype in HALF_TYPES if dtype in there and not target.has_kernel(node.op_type, dtype, opset)]


def _linear(node: onnx_ir.Node, target: Target, types: Types, opset: int) -> Replacement | Refusal | None:
    """QuantizeLinear and DequantizeLinear, which round in the middle, step by step."""
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    there = {types.get(value, value.dtype) for value in values}
    absent = [dtype for dtype in HALF_TYPES if dtype in there & target.lacks]
    lacking = absent or _lacking(node, target, types, opset)
    if not lacking:
        return None
    try:
        return expand_linear(node, target, types, opset, lacking[0])
    except ModelError as error:
        return Refusal(NAME, "widen", site_of(node), str(error))


def _widened(node: onnx_ir.Node, target: Target, types: Types, opset: int) -> Replacement | Refusal | None:
    """The node in float, where the target has no kernel of a half type for it."""
    lacking = [] if node.op_type in _HOLDERS else _lacking(node, target, types, opset)
    if not lacking:
        return None
    dtype = lacking[0]
    if obstacle := _obstacle(node, dtype, target, types, opset):
        return Refusal(NAME, "widen", site_of(node), obstacle)
    build = Builder(new_constants([]))
    inputs = [
        build.cast(value, DataType.FLOAT) if value is not None and types.get(value, value.dtype) == dtype else value
        for value in node.inputs
    ]
    attributes = retyped_attributes(node, dtype, DataType.FLOAT, widened_tensor)
    wide = onnx_ir.Node("", node.op_type, inputs, attributes, num_outputs=len(node.outputs))
    build.nodes.append(wide)
    outputs: list[onnx_ir.Value] = []
    for old, new in zip(node.outputs, wide.outputs, strict=True):
        narrow = types.get(old, old.dtype) == dtype
        new.type, new.shape = onnx_ir.TensorType(DataType.FLOAT) if narrow else old.type, old.shape
        new.name = f"{old.name}_float" if narrow else old.name
        outputs.append(build.cast(new, dtype) if narrow else new)
        outputs[-1].name = old.name
    reason = f"{target.name} has no {node.op_type} of {type_name(dtype)} at opset {opset}: in float, rounded once"
    return Replacement("widen", reason, tuple(build.nodes), outputs=tuple(outputs), effect=effect_in_float(node))


def _obstacle(node: onnx_ir.Node, dtype: DataType, target: Target, types: Types, opset: int) -> str | None:
    imports: Mapping[str, int] = {"": opset}
    for index, value in enumerate(node.inputs):
        narrow = value is not None and types.get(value, value.dtype) == dtype
        if narrow and DataType.FLOAT not in input_types(node, index, imports):
            return f"{node.op_type} takes no float as input {index}"
    if not target.has_kernel(node.op_type, DataType.FLOAT, opset):
        return f"{node.op_type} of float is lacking too"
    return None
