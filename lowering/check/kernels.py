"""Operators of a model that one target would refuse or compute wrongly for their type, by the target's file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import Inference
from castsmith.ir.ops import (
    DEFAULT_DOMAINS,
    Conversion,
    Moves,
    operators,
    opset_of,
)
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.targets import Target, varied_input
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, imports_by_scope
from castsmith.lowering.float8 import fused_wrongly, lacks_kernel
from castsmith.numerics.types import CODED_TYPES, HALF_TYPES, type_name

_OF_RESULT = operators(
    lambda row: row.conversion in (Conversion.CAST, Conversion.QUANTIZE) or row.moves in (Moves.FLOW, Moves.MAKE)
)
"""Operators that were probed with the types of their results."""


@dataclass
class _Found:
    """The first place of a finding, and the number of its nodes."""

    first: Site
    nodes: set[onnx_ir.Node] = field(default_factory=set[onnx_ir.Node])

    def more(self) -> str:
        """Return the number of nodes, if there are several."""
        return "" if len(self.nodes) == 1 else f", in {len(self.nodes)} nodes, of which this is the first"


def kernel_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding for each operator and type, at the first node; a type that the target lacks has its own."""
    imports, lacking, misfused = imports_by_scope(model), dict[str, _Found](), dict[str, _Found]()
    unknown = dict[DataType, None]()
    for node in all_nodes(model):
        if node.domain not in DEFAULT_DOMAINS or node.op_identifier() in model.functions or node.graph is None:
            continue
        opset = opset_of(imports[node.graph], "") or 1
        for dtype in types_asked_about(node, inference.type_of, target):
            if "kernels" in target.unknown:
                unknown.update({dtype: None} if dtype in CODED_TYPES else {})
            elif (reason := lacks_kernel(node, dtype, target, opset)) is not None:
                lacking.setdefault(reason, _Found(site_of(node))).nodes.add(node)
            elif (reason := fused_wrongly(node, dtype, target)) is not None:
                misfused.setdefault(reason, _Found(site_of(node))).nodes.add(node)
    way_out = f"{lowering_to(target)} replaces it if there is an exact replacement"
    for reason, found in lacking.items():
        yield Diagnostic("target-lacks-kernel", Severity.ERROR, found.first, reason + found.more(), way_out)
    for reason, found in misfused.items():
        yield Diagnostic("target-misfuses", Severity.WARNING, found.first, reason + found.more(), way_out)
    if unknown:
        names = ", ".join(type_name(dtype) for dtype in unknown)
        message = f"the operators of {target.name} that support {names} are unknown"
        way_out = f"{lowering_to(target)} replaces all of them"
        yield Diagnostic("target-unknown", Severity.WARNING, Site(model.graph.name or ""), message, way_out)


def lowering_to(target: Target) -> str:
    """Return the call that lowers a model to the target, as Python code; the command line shows its own options."""
    return f"`optimize(target={target.name!r})`"


def types_asked_about(
    node: onnx_ir.Node, type_of: Callable[[onnx_ir.Value | None], DataType | None], target: Target
) -> list[DataType]:
    """Return the types of the node that the rows of the target's `kernels` describe.

    For a probed operator, the type that the probe varied: that of its first operand in most cases. For others, all
    narrow types, which have few kernels, and for which the lowering uses the same rows.
    """
    if node.op_type in target.probed:
        if node.op_type == "Cast":
            values = [*node.inputs, *node.outputs]
        elif node.op_type in _OF_RESULT:
            values = list(node.outputs)
        else:
            values = list(node.inputs)[varied_input(node.op_type) :][:1]
        wanted = [type_of(value) for value in values]
    else:
        narrow = (*CODED_TYPES, *HALF_TYPES)
        wanted = [dtype for value in (*node.inputs, *node.outputs) if (dtype := type_of(value)) in narrow]
    return list(dict.fromkeys(dtype for dtype in wanted if dtype is not None and dtype not in target.lacks))
