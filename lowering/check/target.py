"""Obstacles between a model and one target, as far as the target's file describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.naming import same_names
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.qonnx import is_quantizer, runs_in_qonnx
from castsmith.ir.ops.schemas import actual_inputs, op_formals, opset_of
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_values, graph_of
from castsmith.lowering.check.device import OF_RESULT, device_findings, is_prescribed, values_varied
from castsmith.lowering.check.forms import form_findings
from castsmith.lowering.check.loaded import refused_findings
from castsmith.lowering.check.pairs import (
    TARGET_LACKS_KERNEL,
    TARGET_MISCOMPUTES_CAST,
    narrowed_findings,
    pair_findings,
)
from castsmith.lowering.check.registered import UNREGISTERED_OPERATOR, lists_kernel, registered_findings
from castsmith.lowering.check.scene import Rule, Scene, merged, once
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
    scene = Scene(model, inference, target)
    errors = [finding for finding in target_findings(scene) if finding.severity is Severity.ERROR]
    unregistered = registered_findings(scene, {finding.site for finding in errors})
    lasting = (
        *(replace(finding, severity=Severity.WARNING) if finding.code in _LOADED else finding for finding in errors),
        *(replace(finding, severity=Severity.WARNING) for finding in unregistered),
    )
    way_out = f"{TRIES}{str(target)!r})` tries all other ways"
    sites = {(finding.code, finding.site, finding.subject) for finding in reported}
    return [
        replace(finding, help=way_out)
        for finding in merged(lasting)
        if (finding.code, finding.site, finding.subject) not in sites
    ]


_LOADED = (UNREGISTERED_OPERATOR.code, TARGET_MISCOMPUTES_CAST.code)


def target_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield the versions, element types and operators that the target does not support or gets wrong."""
    for rule in _RULES:
        yield from rule(scene)


_STATEMENTS = {
    "types": "element types",
    "kernels": "operators by type",
    "newest_opset": "newest opset",
    "newest_ir_version": "newest IR version",
}
"""The statements of a target about what it supports, in words."""


def _unknown_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield one note about what the target does not state, so that no finding about it can be expected."""
    target = scene.target
    names = [_STATEMENTS[key] for key in _STATEMENTS if key in target.unknown]
    if names:
        listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
        message = f"the facts about {target} do not include its {listed}, so these are not checked"
        way_out = "state them in a target file of your own to have them checked"
        yield Diagnostic(TARGET_UNKNOWN.code, Severity.NOTE, scene.site, message, way_out)
    opset = opset_of(scene.model.opset_imports, "") or target.probed_from
    if opset < target.probed_from:
        message = f"operators by type of {target} were measured at opset {target.probed_from}, not at opset {opset}"
        yield Diagnostic(TARGET_UNKNOWN.code, Severity.NOTE, scene.site, message)


def _version_findings(scene: Scene) -> Iterator[Diagnostic]:
    target, now = scene.target, scene.model.ir_version
    opset, way_out = opset_of(scene.model.opset_imports, "") or 0, f"{scene.lowering} lowers it if that changes nothing"
    if opset > (target.fallback or target).newest_opset:
        message = f"the model is of opset {opset} and {target} accepts at most {target.newest_opset}"
        yield Diagnostic(OPSET_TOO_NEW.code, Severity.ERROR, scene.site, message, way_out)
    if now > target.newest_ir_version and "ir-version-unchecked" not in target.hazards:
        message = f"the model is of IR version {now} and {target} accepts at most {target.newest_ir_version}"
        yield Diagnostic(IR_VERSION_TOO_NEW.code, Severity.ERROR, scene.site, message, way_out)


def _name_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield one finding for each name that several nodes of a graph have, at the second of them."""
    for nodes in same_names(scene.model) if scene.target.refuses_same_names else ():
        name, way_out = nodes[0].name, f"{scene.lowering} gives each a name of its own"
        message = f"{scene.target} does not load a graph in which {len(nodes)} nodes are named {name!r}"
        yield Diagnostic(SAME_NODE_NAMES.code, Severity.ERROR, site_of(nodes[1]), message, way_out, name or "")


def _type_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield one finding per type, with the first value that has it."""
    target = scene.target
    where: dict[DataType, list[str]] = {dtype: [] for dtype in ELEMENT_TYPES if dtype in target.lacks}
    for value in all_values(scene.model):
        declared = value.dtype if value.is_graph_output() else None  # which may be false
        for stated in dict.fromkeys((scene.type_of(value) or value.dtype, declared)):
            if stated is not None and stated in where and not is_prescribed(value, scene.imports):
                where[stated].append(value.name or "(unnamed)")
    for dtype, names in where.items():
        if names:
            which = f"the value {names[0]} has" if len(names) == 1 else f"{len(names)} values have"
            more = "" if len(names) == 1 else f"; the first is {names[0]}"
            message = f"{target} has no {type_name(dtype)}, which {which}{more}"
            way_out, subject = f"{scene.lowering} replaces it if it can", f"{target.name} {type_name(dtype)}"
            yield Diagnostic(TARGET_LACKS_TYPE.code, Severity.ERROR, scene.site, message, way_out, subject)


def _operator_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield the operators of QONNX, unless the target supports them, and those of ONNX Runtime for another runtime.

    Other domains may be registered in the runtime.
    """
    target, functions = scene.target, scene.model.functions
    for node in scene.nodes:
        function = functions.get(node.op_identifier())
        if is_quantizer(node) and not (function is not None and len(function)):
            is_known = node.domain in target.domains
            if not is_known or not runs_in_qonnx(node, scene.model.graph, scene.imports[graph_of(node)]):
                says = "does not run this" if is_known else "has no operator"
                message = f"{target} {says} {node.op_type} of {node.domain}"
                way_out = f"{scene.lowering} replaces it if its parameters are constant"
                yield Diagnostic(TARGET_LACKS_OPERATOR.code, Severity.ERROR, site_of(node), message, way_out)
        if node.domain == CONTRIB_DOMAIN and target.lacks_domain(CONTRIB_DOMAIN) and function is None:
            message = f"{target} has no operator {node.op_type} of {CONTRIB_DOMAIN}, which needs a plugin"
            way_out = f"{scene.lowering} replaces quantizers{OTHERWISE}export without the optimizer of ONNX Runtime"
            yield once(UNREGISTERED_OPERATOR, Severity.ERROR, node, message, way_out)


def kernel_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield the operators without a kernel for a type; a type that the target lacks has its own finding."""
    target, unknown = scene.target, dict[DataType, None]()
    way_out = f"{scene.lowering} replaces it if there is an exact replacement"
    for node in scene.standard:
        if node.op_type == "Constant" and "constants-unchecked" in target.hazards:  # it becomes a weight
            continue
        opset = _opset_of_kernels(target, scene.opset(node))
        for dtype in types_asked_about(node, scene.type_of, target):
            reason = None
            if "kernels" in target.unknown and dtype not in target.off_device | target.kernels.keys():
                unknown.update({dtype: None} if dtype in CODED_TYPES else {})
            elif fails_when_run(node, dtype, target):
                reason = f"{target} runs no {node.op_type} of {type_name(dtype)} with a reduction"
            elif (lacking := lacks_kernel(node, dtype, target, opset)) is not None:
                unchecked = target.leaves_unchecked(node.op_type, varied_input(node.op_type), dtype)
                reason = None if unchecked or lists_kernel(node, opset, scene) else lacking
            elif (misfused := fused_wrongly(node, dtype, target)) is not None:
                yield once(TARGET_MISFUSES, Severity.WARNING, node, misfused, way_out)
            if reason is not None:
                yield once(TARGET_LACKS_KERNEL, Severity.ERROR, node, reason, way_out)
    if unknown:
        message = f"the operators of {target} that support {', '.join(map(type_name, unknown))} are unknown"
        yield Diagnostic(
            TARGET_UNKNOWN.code, Severity.WARNING, scene.site, message, f"{scene.lowering} replaces all of them"
        )


_RULES: tuple[Rule, ...] = (
    *(_unknown_findings, _version_findings, _type_findings, _operator_findings, _name_findings, kernel_findings),
    *(pair_findings, narrowed_findings, form_findings, refused_findings, device_findings),
)


def _opset_of_kernels(target: Target, opset: int | None) -> int:
    """Return the opset whose kernels count: the newest for a target that has all of them whatever the model says."""
    return target.newest_opset if opset is None or target.has_hazard("opset-unchecked") else opset


def with_taken_types(findings: Iterable[Diagnostic], scene: Scene) -> list[Diagnostic]:
    """Return the findings; types that the standard allows at another opset are warnings if the target has kernels."""
    accepted, target = set[tuple[Site, str]](), scene.target
    for node in scene.nodes if target.has_hazard("opset-unchecked") else ():
        operands = [
            pair
            for disagreement in scene.inference.illegal.get(node, ())
            for pair in zip(disagreement.indexes, disagreement.types, strict=False)
        ]
        results = filter(None, map(scene.type_of, node.outputs)) if node.op_type in OF_RESULT else ()
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
