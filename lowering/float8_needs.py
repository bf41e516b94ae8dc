"""Why a model's float8 values cannot stay with a target: each reason, and the node or value that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import read_cast
from castsmith.ir.constants import constant_tensor
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.rewriting import all_nodes
from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.text import site_of
from castsmith.lowering.storage import declared_values
from castsmith.lowering.targets import Target
from castsmith.numerics.types import FLOAT8_TYPES, type_name

Types = Mapping[onnx_ir.Value, DataType]


@dataclass(frozen=True)
class Need:
    """One reason to lower, and where it shows."""

    site: Site
    reason: str


def is_float8(value: onnx_ir.Value | None, types: Types) -> bool:
    """Whether the value is a float8 tensor, or a sequence of them."""
    return value is not None and types.get(value, value.dtype) in FLOAT8_TYPES


def touches_float8(node: onnx_ir.Node, types: Types) -> bool:
    """Whether the node takes or gives float8."""
    return any(is_float8(value, types) for value in (*node.inputs, *node.outputs))


def needs(model: onnx_ir.Model, target: Target, types: Types, opset: int) -> Iterator[Need]:
    """What the target lacks or gets wrong of the model's float8: the type itself, a kernel, a cast."""
    for value in declared_values(model):
        dtype = types.get(value, value.dtype)
        if dtype is not None and dtype in FLOAT8_TYPES and dtype in target.lacks:
            yield Need(Site(model.graph.name or "", value.name or ""), f"{target.name} has no {type_name(dtype)}")
            return
    for node in all_nodes(model):
        if node.domain in DEFAULT_DOMAINS and touches_float8(node, types):
            reason = (
                _lacks_kernel(node, target, opset)
                or _fused_wrongly(node, target)
                or _computes_wrongly(node, target, types, opset)
            )
            if reason is not None:
                yield Need(site_of(node), reason)


def other_types_that_target_lacks(model: onnx_ir.Model, target: Target, types: Types) -> list[Diagnostic]:
    """An error for each type in the model that the target lacks and that no sequence replaces, at its first value."""
    found: dict[DataType, Diagnostic] = {}
    for value in declared_values(model):
        dtype = types.get(value, value.dtype)
        if dtype is not None and dtype in target.lacks and dtype not in FLOAT8_TYPES and dtype not in found:
            message = f"{value.name} is {type_name(dtype)}, which {target.name} lacks and Castsmith cannot replace"
            site = Site(model.graph.name or "", value.name or "")
            found[dtype] = Diagnostic("type-not-in-target", Severity.ERROR, site, message)
    return list(found.values())


def _lacks_kernel(node: onnx_ir.Node, target: Target, opset: int) -> str | None:
    kernels = target.operators_on_float8
    if not kernels or kernels.get(node.op_type, opset + 1) <= opset:
        return None
    return f"{target.name} has no {node.op_type} of float8 at opset {opset}"


def _fused_wrongly(node: onnx_ir.Node, target: Target) -> str | None:
    how = target.fused_wrongly_on_float8.get(node.op_type)
    if how is None or constant_tensor(node.inputs[0]) is not None:
        return None
    return f"{target.name} fuses {node.op_type} of float8 wrongly: {how}"


def _computes_wrongly(node: onnx_ir.Node, target: Target, types: Types, opset: int) -> str | None:
    source, to, saturate = _conversion(node, types)
    if source is None or to is None:
        return None
    wrong = target.wrong_cast(source, to, saturate=saturate, opset=opset)
    return (
        None if wrong is None else f"{target.name} casts {type_name(source)} to {type_name(to)} wrongly: {wrong.wrong}"
    )


def _conversion(node: onnx_ir.Node, types: Types) -> tuple[DataType | None, DataType | None, bool]:
    """The types between which the node converts, and whether it saturates; None and None where it converts nothing."""
    operands = [None if value is None else types.get(value, value.dtype) for value in node.inputs]
    meaning = read_cast(node, operands[1] if node.op_type == "CastLike" else None)
    if meaning is not None:
        return operands[0], meaning.to, meaning.saturate
    if node.op_type == "QuantizeLinear":
        to = types.get(node.outputs[0], node.outputs[0].dtype)
        return DataType.FLOAT, to, node.attributes.get_int("saturate", 1) == 1
    return None, None, True
