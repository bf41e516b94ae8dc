"""Branches of If whose results have several ranks, for a target that needs one unless it chooses the branch itself."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.analysis.inference.disagreement import rank_of
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, graphs_of
from castsmith.lowering.check.forms import TARGET_LACKS_FORM
from castsmith.targets.target import Target

_HAZARD = "branches-of-several-ranks"


def branch_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield each If that the target does not load: an error if its condition is not known before the model runs."""
    for node in all_nodes(model) if target.has_hazard(_HAZARD) else ():
        if node.op_type != "If" or node.domain not in DEFAULT_DOMAINS or node.inputs[0] is None:
            continue
        outputs = [graph.outputs for graph in graphs_of(node)]
        ranks = [{rank_of(value, inference.ranks) for value in values} for values in zip(*outputs, strict=False)]
        differ = any(len(by_branch) > 1 and None not in by_branch for by_branch in ranks)
        if differ and (is_known := known_before_run(node.inputs[0])) is not True:
            certain = is_known is False
            message = (
                f"{target} {'does' if certain else 'may'} not load this If: the results of its branches differ in rank"
            )
            way_out = "give the results of both branches one rank, or make the condition a constant"
            severity = Severity.ERROR if certain else Severity.WARNING
            yield Diagnostic(TARGET_LACKS_FORM.code, severity, site_of(node), message, way_out, _HAZARD)


def known_before_run(value: onnx_ir.Value) -> bool | None:
    """Return whether the value is computed from constants and fixed sizes alone; None if a shape is not declared."""
    return _is_fixed(value, {})


def _is_fixed(value: onnx_ir.Value, cache: dict[onnx_ir.Value, bool | None]) -> bool | None:
    if value not in cache:
        cache[value] = None
        cache[value] = _computed_fixed(value, cache)
    return cache[value]


def _computed_fixed(value: onnx_ir.Value, cache: dict[onnx_ir.Value, bool | None]) -> bool | None:
    node = value.producer()
    if constant_tensor(value) is not None or value.const_value is not None:
        return True
    if node is None:
        return False
    first = node.inputs[0] if node.inputs else None
    if node.op_type in ("Shape", "Size") and first is not None:
        return None if first.shape is None else first.shape.is_static()
    source = None if first is None else first.producer()
    if node.op_type == "Gather" and source is not None and source.op_type == "Shape" and source.inputs[0] is not None:
        shape, index = source.inputs[0].shape, constant_tensor(node.inputs[1])
        if shape is None or index is None or index.size != 1:
            return None
        place = int(index.numpy().item())
        return isinstance(shape[place], int) if -len(shape) <= place < len(shape) else None
    operands = {_is_fixed(operand, cache) for operand in node.inputs if operand is not None}
    return False if False in operands else None if None in operands else True
