"""Reasons why values of the types that can be codes must be lowered for a target, and their places."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.walks import all_nodes, all_values
from castsmith.numerics.types import CODED_TYPES, HALF_TYPES, type_name
from castsmith.targets.kernels import broken_block_rule
from castsmith.targets.statements import QUANTIZATION_RULES
from castsmith.targets.target import Target

Types = Mapping[onnx_ir.Value, DataType]
Coded = Collection[DataType]


TYPE_NOT_IN_TARGET = FindingCode(
    "type-not-in-target",
    "The target does not support a type, and Castsmith cannot replace it.",
    why="The result would not load.",
    example="the target has no complex64",
    advice="Change the model, or choose another target.",
    outcomes=(Outcome.REFUSED,),
    fix="manual",
    silence="Never for this target: it rejects the model.",
)


def is_coded(value: onnx_ir.Value | None, types: Types, coded: Coded = CODED_TYPES) -> bool:
    """True if the value is a tensor, or a sequence of tensors, of one of the types."""
    return value is not None and types.get(value, value.dtype) in coded


def touches_coded(node: onnx_ir.Node, types: Types, coded: Coded = CODED_TYPES) -> bool:
    """True if the node uses or makes one of the types."""
    return any(is_coded(value, types, coded) for value in (*node.inputs, *node.outputs))


def coded_types(node: onnx_ir.Node, types: Types) -> dict[DataType, None]:
    """Return the types that can be codes among the node's operands and results, in their order."""
    values = (value for value in (*node.inputs, *node.outputs) if value is not None)
    dtypes = (types.get(value, value.dtype) for value in values)
    return {dtype: None for dtype in dtypes if dtype is not None and dtype in CODED_TYPES}


def reasons_to_lower(model: onnx_ir.Model, target: Target, types: Types, opset: int) -> dict[DataType, str]:
    """Return the types that must become codes, each with the first reason.

    Those that the target lacks, has no kernel for or gets wrong; and those that share a node with one of them, so that
    no node has codes of one type and values of another.
    """
    reasons: dict[DataType, str] = {}
    for dtype, reason in _needs(model, target, types, opset):
        reasons.setdefault(dtype, reason)
    meetings = [dtypes for node in all_nodes(model) if len(dtypes := coded_types(node, types)) > 1]
    spreading = bool(reasons)
    while spreading:
        spreading = False
        for dtypes in meetings:
            first = next((dtype for dtype in dtypes if dtype in reasons), None)
            for dtype in dtypes if first is not None else ():
                if dtype not in reasons and first is not None:
                    reasons[dtype] = f"it shares a node with {type_name(first)}, and {reasons[first]}"
                    spreading = True
    return reasons


def _needs(model: onnx_ir.Model, target: Target, types: Types, opset: int) -> Iterator[tuple[DataType, str]]:
    """Yield the types that the target lacks, runs no operator of, or gets wrong, each with the reason."""
    for value in all_values(model):
        dtype = types.get(value, value.dtype)
        if dtype is not None and dtype in CODED_TYPES and dtype in target.lacks:
            yield dtype, f"{target} has no {type_name(dtype)}"
    for node in all_nodes(model):
        if node.domain not in DEFAULT_DOMAINS:
            continue
        wrong = _computes_wrongly(node, target, types, opset) or _lacks_blocks(node, target)
        for dtype in coded_types(node, types):
            reason = lacks_kernel(node, dtype, target, opset) or fused_wrongly(node, dtype, target) or wrong
            if reason is not None:
                yield dtype, reason


def _lacks_blocks(node: onnx_ir.Node, target: Target) -> str | None:
    rule = broken_block_rule(node, target)
    return None if rule is None else f"{target} does not take this {node.op_type}: {QUANTIZATION_RULES[rule]}"


def other_types_that_target_lacks(model: onnx_ir.Model, target: Target, types: Types) -> list[Diagnostic]:
    """Yield an error for each type that the target lacks and that has no encoding, at its first value."""
    findings: dict[DataType, Diagnostic] = {}
    for value in all_values(model):
        dtype = types.get(value, value.dtype)
        if dtype is not None and dtype in target.lacks and dtype not in (*CODED_TYPES, *HALF_TYPES, *findings):
            message = f"{value.name} is {type_name(dtype)}, which {target} lacks and which has no replacement"
            site = Site(model.graph.name or "", value.name or "")
            findings[dtype] = Diagnostic(TYPE_NOT_IN_TARGET.code, Severity.ERROR, site, message)
    return list(findings.values())


def lacks_kernel(node: onnx_ir.Node, dtype: DataType, target: Target, opset: int) -> str | None:
    """Return the reason why the target cannot run the node of this type; None if it has a kernel for it."""
    if target.has_kernel(node.op_type, dtype, opset):
        return None
    at = "" if target.has_hazard("opset-unchecked") else f" at opset {opset}"
    return f"{target} has no {node.op_type} of {type_name(dtype)}{at}"


def fails_when_run(node: onnx_ir.Node, dtype: DataType, target: Target) -> bool:
    """True for a scatter that reduces float16, where the target's kernel loads and then refuses the type."""
    if dtype != DataType.FLOAT16 or "half-scatter-reductions" not in target.hazards:
        return False
    refused = {"ScatterElements": ("add", "mul"), "ScatterND": ("add", "mul", "min", "max")}.get(node.op_type, ())
    return node.attributes.get_string("reduction", "none") in refused


def fused_wrongly(node: onnx_ir.Node, dtype: DataType, target: Target) -> str | None:
    """Return the effect of the target's fusion of the node of this type, if it is wrong."""
    how = target.fusion_defect(node.op_type, dtype)
    if how is None or constant_tensor(node.inputs[0]) is not None:
        return None
    return f"{target} fuses {node.op_type} of {type_name(dtype)} wrongly: {how}"


def _computes_wrongly(node: onnx_ir.Node, target: Target, types: Types, opset: int) -> str | None:
    source, to, saturate = _conversion(node, types)
    if source is None or to is None:
        return None
    if node.op_type in CASTS and not target.loads_cast(source, to):
        return f"{target} has no Cast of {type_name(source)} to {type_name(to)}"
    wrong = target.wrong_cast(source, to, saturate=saturate, opset=opset)
    return None if wrong is None else f"{target} casts {type_name(source)} to {type_name(to)} wrongly: {wrong.wrong}"


def _conversion(node: onnx_ir.Node, types: Types) -> tuple[DataType | None, DataType | None, bool]:
    """Return the types between which the node converts, and whether it saturates; None and None for other nodes."""
    operands = [None if value is None else types.get(value, value.dtype) for value in node.inputs]
    meaning = read_cast(node, operands[1] if node.op_type == "CastLike" else None)
    if meaning is not None:
        return operands[0], meaning.to, meaning.saturate
    if node.op_type == "QuantizeLinear":
        to = types.get(node.outputs[0], node.outputs[0].dtype)
        return DataType.FLOAT, to, node.attributes.get_int("saturate", 1) == 1
    return None, None, True
