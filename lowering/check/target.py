"""Obstacles between a model and one target, as far as the target's file describes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import Inference
from castsmith.ir.ops import is_quantizer, opset_of, read_cast
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.targets import Target
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, graphs_with_initializers, imports_by_scope
from castsmith.lowering.check.kernels import kernel_findings, lowering_to
from castsmith.lowering.check.trunc import trunc_findings
from castsmith.numerics.types import ELEMENT_TYPES, type_name


def unreported_errors(
    model: onnx_ir.Model, inference: Inference, target: Target, reported: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the errors that remain in an optimized model, except those in `reported`."""
    known = {(each.code, each.site) for each in reported}
    found = (*target_findings(model, inference, target), *trunc_findings(model))
    return [each for each in found if each.severity is Severity.ERROR and (each.code, each.site) not in known]


def target_findings(model: onnx_ir.Model, inference: Inference | None, target: Target) -> Iterator[Diagnostic]:
    """Yield the versions, element types and operators that the target does not support or gets wrong."""
    yield from _version_findings(model, target)
    yield from _type_findings(model, inference, target)
    yield from _operator_findings(model, target)
    if inference is not None:
        yield from kernel_findings(model, inference, target)
        yield from _cast_findings(model, inference, target)


def _version_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    site = Site(model.graph.name or "")
    opset = opset_of(model.graph.opset_imports, "") or 0
    way_out = f"{lowering_to(target)} lowers it if that changes nothing"
    if opset > target.newest_opset:
        message = f"the model is of opset {opset} and {target.name} accepts at most {target.newest_opset}"
        yield Diagnostic("opset-too-new", Severity.ERROR, site, message, way_out)
    if model.ir_version > target.newest_ir_version:
        newest = target.newest_ir_version
        message = f"the model is of IR version {model.ir_version} and {target.name} accepts at most {newest}"
        yield Diagnostic("ir-version-too-new", Severity.ERROR, site, message, way_out)


def _type_findings(model: onnx_ir.Model, inference: Inference | None, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding per type, with the first value that has it."""
    where: dict[DataType, list[str]] = {dtype: [] for dtype in ELEMENT_TYPES if dtype in target.lacks}
    for value in dict.fromkeys(_values(model)):
        dtype = inference.type_of(value) if inference is not None else None
        dtype = dtype or value.dtype
        if dtype is not None and dtype in where:
            where[dtype].append(value.name or "(unnamed)")
    for dtype, names in where.items():
        if names:
            have = "has" if len(names) == 1 else "have"
            more = "" if len(names) == 1 else f", of which {names[0]} is the first"
            subject = f"the value {names[0]}" if len(names) == 1 else f"{len(names)} values"
            message = f"{target.name} has no {type_name(dtype)}, which {subject} {have}{more}"
            site = Site(model.graph.name or "")
            way_out = f"{lowering_to(target)} lowers the supported types"
            yield Diagnostic("target-lacks-type", Severity.ERROR, site, message, way_out)


def _values(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    for graph in graphs_with_initializers(model):
        yield from graph.inputs
        yield from graph.initializers.values()
    for function in model.functions.values():
        yield from function.inputs
    for node in all_nodes(model):
        yield from node.outputs


def _operator_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    """Yield the operators of QONNX, unless the target supports them. Other domains may be registered in the runtime."""
    for node in all_nodes(model):
        function = model.functions.get(node.op_identifier())
        if is_quantizer(node) and node.domain not in target.domains and (function is None or not len(function)):
            message = f"{target.name} has no operator {node.op_type} of {node.domain}"
            way_out = f"{lowering_to(target)} replaces it if its parameters are constant"
            yield Diagnostic("target-lacks-operator", Severity.ERROR, site_of(node), message, way_out)


def _cast_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        meaning = read_cast(node, like)
        source = inference.type_of(node.inputs[0]) if node.inputs else None
        if meaning is None or meaning.to is None or source is None or node.graph is None:
            continue
        opset = opset_of(imports[node.graph], "") or 1
        entry = target.wrong_cast(source, meaning.to, saturate=meaning.saturate, opset=opset)
        if entry is not None:
            message = f"{target.name} computes {type_name(source)} to {type_name(meaning.to)} wrongly: it {entry.wrong}"
            way_out = f"{lowering_to(target)} replaces it"
            yield Diagnostic("target-miscomputes-cast", Severity.WARNING, site_of(node), message, way_out)
