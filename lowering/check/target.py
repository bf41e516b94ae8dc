"""Obstacles between a model and one target, as far as the target's file describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.naming import same_names
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.qonnx import is_quantizer, runs_in_qonnx
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_inputs, op_formals, opset_of
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, all_values, imports_by_scope
from castsmith.lowering.check.branches import branch_findings
from castsmith.lowering.check.device import OF_RESULT, device_findings, is_prescribed, values_varied
from castsmith.lowering.check.forms import form_findings
from castsmith.lowering.check.loaded import refused_findings
from castsmith.lowering.check.occurrences import Occurrences, note, noted
from castsmith.lowering.check.pairs import (
    TARGET_LACKS_KERNEL,
    TARGET_MISCOMPUTES_CAST,
    narrowed_findings,
    pair_findings,
)
from castsmith.lowering.check.registered import UNREGISTERED_OPERATOR, lists_kernel, registered_findings
from castsmith.lowering.check.types import TYPE_NOT_ALLOWED
from castsmith.lowering.float8.needs import fails_when_run, fused_wrongly, lacks_kernel
from castsmith.numerics.types import CODED_TYPES, ELEMENT_TYPES, HALF_TYPES, type_name
from castsmith.targets.kernels import varied_input
from castsmith.targets.target import Target

TRIES = "`fit(target="
"""How the way out of what `optimize` and `convert` leave begins; `check` names `optimize` itself."""

OTHERWISE = "; otherwise "
"""Between a way out by a call and one by hand."""

TARGET_LACKS_TYPE = FindingCode(
    "target-lacks-type",
    "The model has values of a type that the target does not support.",
    why="The target rejects the model.",
    example="onnxruntime-android has no float8e4m3fn",
    advice="Run optimize --target, which replaces the type if it can.",
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If a plugin or another release of the runtime supports the type.",
)
TARGET_LACKS_OPERATOR = FindingCode(
    "target-lacks-operator",
    "The target does not support an operator of QONNX.",
    why="The target rejects the model.",
    example="onnxruntime-cpu has no operator Trunc of qonnx.custom_op.general",
    advice=(
        "Run optimize --target, which replaces QONNX operators and quantizers with standard operators. If it "
        "refuses, make the parameters that it names constant, or raise the opset."
    ),
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If the runtime registers it as a custom operator.",
)
TARGET_MISFUSES = FindingCode(
    "target-misfuses",
    "The target fuses this operator with others incorrectly.",
    why=("The target's optimizer rejects the model or changes its results, depending on the neighboring nodes."),
    example="onnxruntime-cpu drops a Relu before QuantizeLinear to float8e4m3fn, which is correct for uint8 only",
    advice="Run optimize --target, which replaces the operator so that it is not fused.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="automatic",
    silence="If you turn off the runtime's graph optimization.",
)
TARGET_UNKNOWN = FindingCode(
    "target-unknown",
    "Castsmith does not know a fact about the target.",
    why="Castsmith neither guesses nor reports what it does not know.",
    example="the newest opset of a target is unknown",
    advice="Add the fact to your own copy of the file: castsmith targets show T --json prints the format.",
    outcomes=(Outcome.UNCERTAIN, Outcome.NEITHER),
    fix="manual",
    silence="If your model does not depend on it.",
)
OPSET_TOO_NEW = FindingCode(
    "opset-too-new",
    "The model's opset is newer than the target accepts.",
    why="The target rejects the model.",
    example="opset 28, and the target accepts at most 26",
    advice="Run optimize --target, which lowers the opset if nothing changes. Otherwise it names the nodes.",
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If another release of the runtime accepts the opset.",
)
SAME_NODE_NAMES = FindingCode(
    "same-node-names",
    "Several nodes have the same name, and the target rejects that.",
    why="ONNX Runtime rejects the model with `two nodes with same node name`. ONNX's checker accepts it.",
    example="three Casts named graph_input_cast0",
    advice="Run optimize --target, which renames them.",
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="Never for this target: it rejects the model.",
)
IR_VERSION_TOO_NEW = FindingCode(
    "ir-version-too-new",
    "The model's IR version is newer than the target accepts.",
    why="The target rejects the file.",
    example="IR version 14, and the target accepts at most 13",
    advice="Run optimize --target, which lowers the IR version if the model does not need it.",
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If another release of the runtime accepts the IR version.",
)


def unreported_errors(
    model: onnx_ir.Model, inference: Inference, target: Target, reported: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the errors that remain in an optimized model, except the `reported`.

    Operators and kernels that the target does not register are warnings: the application may register them. So are
    casts that it computes otherwise: it loads them.
    """
    sites = {(finding.code, finding.site, finding.subject) for finding in reported}
    errors = [finding for finding in target_findings(model, inference, target) if finding.severity is Severity.ERROR]
    unregistered = registered_findings(model, inference, target, {finding.site for finding in errors})
    rest = chain(
        (replace(finding, severity=Severity.WARNING) if finding.code in _LOADED else finding for finding in errors),
        (replace(finding, severity=Severity.WARNING) for finding in unregistered),
    )
    way_out = f"{TRIES}{str(target)!r})` tries all other ways"
    return [
        replace(finding, help=way_out) for finding in rest if (finding.code, finding.site, finding.subject) not in sites
    ]


_LOADED = (UNREGISTERED_OPERATOR.code, TARGET_MISCOMPUTES_CAST.code)


def target_findings(model: onnx_ir.Model, inference: Inference | None, target: Target) -> Iterator[Diagnostic]:
    """Yield the versions, element types and operators that the target does not support or gets wrong."""
    yield from _unknown_findings(model, target)
    yield from _version_findings(model, target)
    yield from _type_findings(model, inference, target)
    yield from _operator_findings(model, target)
    yield from _foreign_findings(model, target)
    yield from _name_findings(model, target)
    if inference is not None:
        yield from kernel_findings(model, inference, target)
        yield from pair_findings(model, inference, target)
        yield from narrowed_findings(model, inference, target)
        yield from form_findings(model, inference, target)
        yield from refused_findings(model, inference, target)
        yield from branch_findings(model, inference, target)
        yield from device_findings(model, inference, target)


_STATEMENTS = {
    "types": "element types",
    "kernels": "operators by type",
    "newest_opset": "newest opset",
    "newest_ir_version": "newest IR version",
}
"""The statements of a target about what it supports, in words."""


def _unknown_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    """Yield one note about what the target does not state, so that no finding about it can be expected."""
    names = [_STATEMENTS[key] for key in _STATEMENTS if key in target.unknown]
    if names:
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        message = f"the facts about {target} do not include its {listed}, so these are not checked"
        way_out = "state them in a target file of your own to have them checked"
        yield Diagnostic(TARGET_UNKNOWN.code, Severity.NOTE, Site(model.graph.name or ""), message, way_out)
    opset = opset_of(model.graph.opset_imports, "") or target.probed_from
    if opset < target.probed_from:
        message = f"operators by type of {target} were measured at opset {target.probed_from}, not at opset {opset}"
        yield Diagnostic(TARGET_UNKNOWN.code, Severity.NOTE, Site(model.graph.name or ""), message)


def _version_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    site = Site(model.graph.name or "")
    opset = opset_of(model.graph.opset_imports, "") or 0
    way_out = f"{lowering_to(target)} lowers it if that changes nothing"
    if opset > (target.fallback or target).newest_opset:
        message = f"the model is of opset {opset} and {target} accepts at most {target.newest_opset}"
        yield Diagnostic(OPSET_TOO_NEW.code, Severity.ERROR, site, message, way_out)
    if model.ir_version > target.newest_ir_version and "ir-version-unchecked" not in target.hazards:
        newest = target.newest_ir_version
        message = f"the model is of IR version {model.ir_version} and {target} accepts at most {newest}"
        yield Diagnostic(IR_VERSION_TOO_NEW.code, Severity.ERROR, site, message, way_out)


def _name_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding for each name that several nodes of a graph have, at the second of them."""
    for nodes in same_names(model) if target.refuses_same_names else ():
        message = f"{target} does not load a graph in which {len(nodes)} nodes are named {nodes[0].name!r}"
        way_out = f"{lowering_to(target)} gives each a name of its own"
        yield Diagnostic(SAME_NODE_NAMES.code, Severity.ERROR, site_of(nodes[1]), message, way_out, nodes[0].name or "")


def _type_findings(model: onnx_ir.Model, inference: Inference | None, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding per type, with the first value that has it."""
    where: dict[DataType, list[str]] = {dtype: [] for dtype in ELEMENT_TYPES if dtype in target.lacks}
    imports = imports_by_scope(model)
    for value in all_values(model):
        dtype = inference.type_of(value) if inference is not None else None
        declared = value.dtype if value.is_graph_output() else None  # which may be false
        for stated in dict.fromkeys((dtype or value.dtype, declared)):
            if stated is not None and stated in where and not is_prescribed(value, imports):
                where[stated].append(value.name or "(unnamed)")
    for dtype, names in where.items():
        if names:
            have = "has" if len(names) == 1 else "have"
            more = "" if len(names) == 1 else f"; the first is {names[0]}"
            subject = f"the value {names[0]}" if len(names) == 1 else f"{len(names)} values"
            message = f"{target} has no {type_name(dtype)}, which {subject} {have}{more}"
            site = Site(model.graph.name or "")
            way_out = f"{lowering_to(target)} replaces it if it can"
            subject = f"{target.name} {type_name(dtype)}"
            yield Diagnostic(TARGET_LACKS_TYPE.code, Severity.ERROR, site, message, way_out, subject)


def _operator_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    """Yield the operators of QONNX, unless the target supports them. Other domains may be registered in the runtime."""
    imports = imports_by_scope(model)
    for node in filter(is_quantizer, all_nodes(model)):
        function = model.functions.get(node.op_identifier())
        if (function is not None and len(function)) or node.graph is None:
            continue
        is_known = node.domain in target.domains
        if not is_known or not runs_in_qonnx(node, model.graph, imports[node.graph]):
            message = f"{target} has no operator {node.op_type} of {node.domain}"
            if is_known:
                message = f"{target} does not run this {node.op_type} of {node.domain}"
            way_out = f"{lowering_to(target)} replaces it if its parameters are constant"
            yield Diagnostic(TARGET_LACKS_OPERATOR.code, Severity.ERROR, site_of(node), message, way_out)


def _foreign_findings(model: onnx_ir.Model, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding for each operator of ONNX Runtime that the target, another runtime, takes for a plugin."""
    occurrences = dict[str, Occurrences]()
    if target.lacks_domain(CONTRIB_DOMAIN):
        for node in all_nodes(model):
            if node.domain == CONTRIB_DOMAIN and node.op_identifier() not in model.functions:
                note(occurrences, node.op_type, node)
    for op_type, occurrence in occurrences.items():
        message = f"{target} has no operator {op_type} of {CONTRIB_DOMAIN}{occurrence.more()}: it needs a plugin"
        way_out = f"{lowering_to(target)} replaces quantizers{OTHERWISE}export without the optimizer of ONNX Runtime"
        yield Diagnostic(UNREGISTERED_OPERATOR.code, Severity.ERROR, occurrence.first, message, way_out, op_type)


def kernel_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding for each operator and type, at the first node; a type that the target lacks has its own."""
    imports, lacking, misfused = imports_by_scope(model), dict[str, Occurrences](), dict[str, Occurrences]()
    unknown = dict[DataType, None]()
    for node in all_nodes(model):
        if node.domain not in DEFAULT_DOMAINS or node.op_identifier() in model.functions or node.graph is None:
            continue
        if node.op_type == "Constant" and "constants-unchecked" in target.hazards:  # it becomes a weight
            continue
        opset = _opset_of_kernels(target, opset_of(imports[node.graph], ""))
        for dtype in types_asked_about(node, inference.type_of, target):
            if "kernels" in target.unknown and dtype not in target.off_device | target.kernels.keys():
                unknown.update({dtype: None} if dtype in CODED_TYPES else {})
            elif fails_when_run(node, dtype, target):
                note(lacking, f"{target} runs no {node.op_type} of {type_name(dtype)} with a reduction", node)
            elif (reason := lacks_kernel(node, dtype, target, opset)) is not None:
                if not lists_kernel(node, opset, inference, target) and not target.leaves_unchecked(
                    node.op_type, varied_input(node.op_type), dtype
                ):
                    note(lacking, reason, node)
            elif (reason := fused_wrongly(node, dtype, target)) is not None:
                note(misfused, reason, node)
    way_out = f"{lowering_to(target)} replaces it if there is an exact replacement"
    yield from noted(lacking, TARGET_LACKS_KERNEL, Severity.ERROR, way_out)
    yield from noted(misfused, TARGET_MISFUSES, Severity.WARNING, way_out)
    if unknown:
        names = ", ".join(type_name(dtype) for dtype in unknown)
        message = f"the operators of {target} that support {names} are unknown"
        way_out = f"{lowering_to(target)} replaces all of them"
        yield Diagnostic(TARGET_UNKNOWN.code, Severity.WARNING, Site(model.graph.name or ""), message, way_out)


def _opset_of_kernels(target: Target, opset: int | None) -> int:
    """Return the opset whose kernels count: the newest for a target that has all of them whatever the model says."""
    return target.newest_opset if opset is None or target.has_hazard("opset-unchecked") else opset


def with_taken_types(
    findings: Iterable[Diagnostic], model: onnx_ir.Model, inference: Inference, target: Target
) -> list[Diagnostic]:
    """Return the findings; types that the standard allows at another opset are warnings if the target has kernels."""
    accepted = set[tuple[Site, str]]()
    for node in all_nodes(model) if target.has_hazard("opset-unchecked") else ():
        operands = [
            pair
            for disagreement in inference.illegal.get(node, ())
            for pair in zip(disagreement.indexes, disagreement.types, strict=False)
        ]
        results = filter(None, map(inference.type_of, node.outputs)) if node.op_type in OF_RESULT else ()
        if all(_takes(node, *operand, target) for operand in operands) and all(
            target.has_kernel(node.op_type, dtype, target.newest_opset) for dtype in results
        ):
            accepted.add((site_of(node), site_of(node).output))
    return [
        replace(finding, severity=Severity.WARNING)
        if finding.code == TYPE_NOT_ALLOWED.code and (finding.site, finding.site.output) in accepted
        else finding
        for finding in findings
    ]


def _takes(node: onnx_ir.Node, index: int, dtype: DataType, target: Target) -> bool:
    """True if the input may have the type at some opset, or though the standard does not allow it."""
    opset, varied = target.newest_opset, varied_input(node.op_type)
    if op_formals("", node.op_type, opset) is None:
        return False
    if target.leaves_unchecked(node.op_type, index, dtype):
        return True
    variables = [formal and formal.variable for formal in actual_inputs(("", node.op_type, opset), len(node.inputs))]
    return variables[index] == variables[varied] and target.has_kernel(node.op_type, dtype, opset)


def lowering_to(target: Target) -> str:
    """Return the call that lowers a model to the target, as Python code; the command line shows its own options."""
    return f"`optimize(target={str(target)!r})`"


def types_asked_about(
    node: onnx_ir.Node, type_of: Callable[[onnx_ir.Value | None], DataType | None], target: Target
) -> list[DataType]:
    """Return the types of the node that the rows of the target's `kernels` describe.

    For a probed operator, the type that the probe varied: that of its first operand in most cases. For others, all
    narrow types, which have few kernels, and for which the lowering uses the same rows.
    """
    if node.op_type in (target.probed or (target.fallback.probed if target.fallback else ())):
        types = [type_of(value) for value in values_varied(node)]
        scale = type_of(node.inputs[1]) if node.op_type in LINEAR else None
        if scale is not None and not target.computes(scale):  # the probe varied the type of the codes
            types.append(scale)
    else:
        narrow = (*CODED_TYPES, *HALF_TYPES)
        types = [dtype for value in (*node.inputs, *node.outputs) if (dtype := type_of(value)) in narrow]
    return list(dict.fromkeys(dtype for dtype in types if dtype is not None and dtype not in target.lacks))
