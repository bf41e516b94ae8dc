"""The lowered nodes of QONNX and their parameters: the common part of lower-trunc and lower-quant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.constants import constant_tensor, new_constant
from castsmith.ir.errors import ModelError
from castsmith.ir.naming import Namer
from castsmith.ir.ops.qonnx import QONNX_DOMAINS, QUANTIZERS, is_quantizer, runs_in_qonnx
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Effect, Records, Refusal, Rewrite, RewriteResult, Site
from castsmith.ir.text import constant_item, site_of
from castsmith.ir.walks import all_nodes, drop_unused_domains
from castsmith.lowering.builder import FIRST_WITH_ROUND
from castsmith.lowering.encodings.storage import inferred_declared
from castsmith.lowering.inlining import BY_CALL, inline_or_refuse
from castsmith.numerics.errors import TruncError, present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.rewriting import Replacement, place_constant, replace_nodes
from castsmith.passes.core.session import Session
from castsmith.targets.target import Target

MAKE_CONSTANT = Rule(
    "make-constant",
    "A graph input with a default, used as a parameter of a QONNX operator, becomes that constant.",
    why=(
        "A bit width decides which operators are needed, so it must be known; exporters list initializers as inputs "
        "although they are never fed."
    ),
    example="- input float bits = {4}\n+ constant float bits = {4}",
    advice="If you feed that input, export one model for each value.",
    safety=(Effect.INTERFACE,),
)


Parameter = Callable[[onnx_ir.Value], onnx_ir.TensorProtocol | None]
"""Returns the constant or default of a value that must be a known number; None if it is computed.

An initializer that is also a graph input counts: QONNX requires its operators' parameters to be constant, and exporters
that list every initializer as an input leave no alternative. Those that are used become constants.
"""


def _require_numbers(node: onnx_ir.Node) -> None:
    """Raise ModelError for operands of other types than those in which the steps have a meaning."""
    for index, value in enumerate(node.inputs):
        dtype = DataType.FLOAT if value is None or value.dtype is None else value.dtype
        row = element_type(dtype)
        if row.kind not in (Kind.FLOATING, Kind.INTEGER) or row.bits < (16 if row.kind is Kind.FLOATING else 8):
            kinds = "floating-point numbers of at least 16 bits or integers of at least 8"
            raise ModelError(f"input {index} is {type_name(dtype)}, expected {kinds}")


LowerQuantizer = Callable[[onnx_ir.Node, Mapping[str, int], Parameter], Replacement]
"""Returns the replacement of a node, given the opset imports in force and what its parameters are.

Raises ModelError or TruncError if there is no exact replacement.
"""


def lower_quantizers(
    session: Session, rule: Rule, operators: Collection[str], lower: LowerQuantizer, target: Target
) -> RewriteResult:
    """Replace each node of the operators by the result of `lower`; the parameters that it used become constants.

    Nodes that the target runs itself stay. The pass has the name of its rule.
    """
    model, records, pass_name = session.model, Records(), rule.code
    names, reason = _functions_with_parameters(model, operators), BY_CALL
    if target.has_hazard("functions-unconverted") and any(
        node.op_identifier() in model.functions for node in all_nodes(model)
    ):
        names, reason = set(model.functions), f"{target} does not load calls of functions"
    inline_or_refuse(session, names, pass_name, records, reason)
    imports = session.imports

    def replaced(node: onnx_ir.Node) -> bool:
        if node.op_type not in operators or not _is_ours(model, node) or node.graph is None:
            return False
        return node.domain not in target.domains or not runs_in_qonnx(node, model.graph, imports[node.graph])

    used = dict[onnx_ir.Value, None]()

    def replace(node: onnx_ir.Node) -> Replacement | Refusal | None:
        if node.graph is None or not replaced(node):
            return None
        overridable = dict[onnx_ir.Value, None]()

        def parameter(value: onnx_ir.Value) -> onnx_ir.TensorProtocol | None:
            if value.is_graph_input() and value.is_initializer():
                overridable[value] = None
                return value.const_value
            return constant_tensor(value)

        try:
            opset = opset_of(imports[node.graph], "") or 0
            if opset < FIRST_WITH_ROUND:
                raise ModelError(f"rounding needs Round: raise the opset from {opset} to {FIRST_WITH_ROUND}")
            _require_numbers(node)
            replacement = lower(node, imports[node.graph], parameter)
        except (ModelError, TruncError) as error:
            reason = str(error).removeprefix(f"{site_of(node)}: ").rstrip(".")
            return Refusal(pass_name, rule.code, site_of(node), reason)
        used.update(overridable)
        return replacement

    nodes = [node for node in all_nodes(model) if replaced(node)]
    if nodes:
        types = dict(session.inference(PromotionRules()).types)
        values = [value for node in nodes for value in node.inputs if value is not None]
        for value in values:
            types.setdefault(value, DataType.FLOAT)  # QONNX: tensor(float32) where nothing else is declared
        with inferred_declared(model, types, tensors=values):
            records.extend(replace_nodes(session, pass_name, replace, types=types).records)
        records.rewrites += [_made_constant(model, value, pass_name) for value in used]
    if records.rewrites:
        session.changed()
        _drop_placeholders(model)
        drop_unused_domains(model, QONNX_DOMAINS)
    return RewriteResult(model, bool(records.rewrites), records)


def _is_ours(model: onnx_ir.Model, node: onnx_ir.Node) -> bool:
    """True for an operator of QONNX that the model does not define.

    Functions without nodes, which exporters add as placeholders, define nothing.
    """
    function = model.functions.get(node.op_identifier())
    return is_quantizer(node) and not (function is not None and len(function) > 0)


def _functions_with_parameters(model: onnx_ir.Model, operators: Collection[str]) -> set[onnx_ir.OperatorIdentifier]:
    """Return all functions, if one passes an input or attribute of its own on as a parameter of such an operator."""
    for function in model.functions.values():
        inputs = set(function.inputs)
        for node in function.all_nodes():
            if node.op_type in operators and _is_ours(model, node):
                handed_on = inputs.intersection(value for value in node.inputs[1:] if value is not None)
                if handed_on or any(attribute.is_ref() for attribute in node.attributes.values()):
                    return {name for name, function in model.functions.items() if len(function) > 0}
    return set()


def _drop_placeholders(model: onnx_ir.Model) -> None:
    """Remove placeholder functions of such operators that are no longer called."""
    called = {node.op_identifier() for node in all_nodes(model)}
    for name, function in list(model.functions.items()):
        if name[0] in QONNX_DOMAINS and name[1] in QUANTIZERS and not len(function) and name not in called:
            del model.functions[name]


def _made_constant(model: onnx_ir.Model, value: onnx_ir.Value, pass_name: str) -> Rewrite:
    """Turn a graph input with a default into that constant, if it is still used."""
    before, after = (constant_item(value, role) for role in ("input", "constant"))
    graph, site = model.graph, Site(model.graph.name or "", value.name or "")
    graph.inputs.remove(value)
    if not value.uses():
        del graph.initializers[value.name or ""]
    elif not Namer(model).takes_initializers(graph):
        tensor = present(value.const_value, "the default of the input")
        del graph.initializers[value.name or ""]
        constant = new_constant(value.name or "", tensor)
        value.replace_all_uses_with(constant)
        place_constant(constant, graph[0], Namer(model))
    reason = "a parameter of a quantization must be constant: the default is used, and a caller cannot replace it"
    return Rewrite(pass_name, MAKE_CONSTANT.code, site, before, after, reason, Effect.INTERFACE)
