"""The findings of `check`, from inference and the passes; the model is not changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import onnx
import onnx_ir

from castsmith.analysis.inference.walk import Inference, infer_element_types
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.errors import ModelError, OpsetError
from castsmith.ir.io.loading import ModelLike, structure
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.records import Diagnostic, Flaw, FlawKind, Refusal, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.validation import require_known_opset
from castsmith.ir.walks import all_nodes, imports_by_scope
from castsmith.lowering.check.casts import cast_findings
from castsmith.lowering.check.causes import with_causes
from castsmith.lowering.check.loaded import as_loaded
from castsmith.lowering.check.malformed import are_passed_over, malformed_findings, readable_model
from castsmith.lowering.check.pairs import TARGET_LACKS_KERNEL, TARGET_MISCOMPUTES_CAST
from castsmith.lowering.check.registered import UNREGISTERED_OPERATOR, registered_findings
from castsmith.lowering.check.scene import Scene, merged
from castsmith.lowering.check.standard import declaration_findings, operator_fits
from castsmith.lowering.check.target import OPSET_TOO_NEW, target_findings, with_taken_types
from castsmith.lowering.check.tried import with_tried_hints
from castsmith.lowering.check.trunc import trunc_findings
from castsmith.lowering.check.types import (
    MIXED_OPERAND_TYPES,
    UNKNOWN_OPERATOR,
    declared_findings,
    operand_findings,
    operator_findings,
    result_findings,
)
from castsmith.numerics.arguments import flag
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.errors import OptionError, PromotionError
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.passes.fold.run import UNDEFINED_CONSTANT_CAST, FoldConstants
from castsmith.targets.target import Target, as_target

if TYPE_CHECKING:
    from castsmith.lowering.accuracy import Inputs

_ANY_SIZE = 2**62
"""More bytes than any constant has, so that none is left unfolded for its size."""

DISPUTED_CONSTANT_CAST = FindingCode(
    "disputed-constant-cast",
    "The standard and major runtimes disagree on the cast of an element of a constant.",
    why="The schema is ambiguous, as for infinity to a fnuz type before opset 24.",
    example="y = Cast <to = float8e4m3fnuz> (w {inf})  at opset 19",
    advice="Pass --fold-disputed to fold as the standard says.",
    outcomes=(Outcome.UNCERTAIN,),
    fix="opt-in",
    silence="If only one runtime runs the model.",
)
WRONG_IN_FLOAT16 = FindingCode(
    "wrong-in-float16",
    "A value of a float16 model overflows, vanishes or becomes NaN on the inputs, which makes the outputs wrong.",
    why="float16 ends at 65504, and loses bits below 6e-5. Outputs may be finite and wrong all the same.",
    example="x_sq reaches 2.1e+06 (measured), beyond float16",
    advice="castsmith convert --to float16 computes such nodes in float; with --rescale it scales values instead.",
    outcomes=(Outcome.LOSSY,),
    fix="automatic",
    silence="If the runtime computes these nodes in float itself.",
)


def check(
    model: ModelLike,
    *,
    target: str | Target | None = None,
    strict_device: bool = False,
    promotion: PromotionRules | str | None = None,
    inputs: Inputs | None = None,
) -> list[Diagnostic]:
    """List the findings about the element types of a model.

    Args:
        model: An onnx_ir.Model, a ModelProto, a torch ONNXProgram or a path, valid or not; it is not changed.
        target: The runtime that the model is for, by name, by its JSON file, or as a Target: types and operators that
            it would refuse or compute wrongly are listed too.
        strict_device: List types that a device leaves to the CPU as errors, and not as a note with their number.
        promotion: The rules for operands that disagree, or the name of a preset of PromotionRules.
        inputs: Arrays to run a model in float16 on, as those of `convert`, or `made-up`: values that overflow or vanish
            are listed too.

    Returns:
        The findings, empty for a correct model. Each has a stable `code`, a `severity`, a place (`site`), a `message`,
        in `help`
        the fix, and in `follows` the index of the finding from which it follows.

    Raises:
        ModelError: The model cannot be read, or its opset is none.
        TargetError: The target is unknown.
        PromotionError: The preset is unknown.
    """
    flag("strict_device", strict_device, OptionError)
    rules, runtime = as_rules(promotion), as_target(target, strict=strict_device)
    loaded, flaws = readable_model(model)
    unimported = any(FlawKind.UNIMPORTED in flaw.kinds for flaw in flaws)
    if unimported and not (runtime and runtime.has_hazard("imports-unchecked")):
        loaded = None
    source = model if not flaws else loaded if are_passed_over(flaws) else None
    written = None if source is None else (lambda: structure(source))
    try:
        reported = [] if loaded is None else findings(loaded, rules, runtime, written)
    except OpsetError as error:
        newer = None if loaded is None else _newer_opset(loaded, runtime, str(error))
        if loaded is None or newer is None:
            raise
        reported = [newer]
        if newer.severity is not Severity.ERROR:
            loaded = loaded.clone()
            for scope in (loaded.graph, *loaded.functions.values()):
                scope.opset_imports.update(dict.fromkeys({*DEFAULT_DOMAINS} & {*scope.opset_imports}, NEWEST_OPSET))
            reported += findings(loaded, rules, runtime, written)
    if reported and loaded is not None and not flaws:
        reported = with_tried_hints(
            loaded, reported, rules, runtime, partial(all_findings, rules=rules, target=runtime)
        )
    flawed = {
        (flaw.site, flaw.site.output) for flaw in flaws if flaw.node is not None and FlawKind.SURPLUS not in flaw.kinds
    }
    others = (finding for finding in reported if (finding.site, finding.site.output) not in flawed)
    malformed = malformed_findings(flaws, loaded)
    if _is_unread(model, flaws, runtime):
        shown = [*malformed, *as_loaded(others, loaded, runtime)]
    else:
        shown = list(as_loaded((*malformed, *others), loaded, runtime))
    return shown if loaded is None or flaws or inputs is None else [*shown, *_half_findings(loaded, inputs, runtime)]


def _is_unread(model: ModelLike, flaws: Sequence[Flaw], target: Target | None) -> bool:
    """True for a file with so few fields that the target does not take it for a model."""
    is_suspect = bool(flaws) and target is not None and target.has_hazard("few-fields")
    return is_suspect and len(structure(model).ListFields()) < 3


def _newer_opset(model: onnx_ir.Model, target: Target | None, why: str) -> Diagnostic | None:
    """Return the finding about a model of a newer opset than those that are known; None for another fault."""
    opset, site = opset_of(model.graph.opset_imports, "") or 0, Site(model.graph.name or "")
    if opset <= NEWEST_OPSET:
        return None
    if target is None or "newest_opset" in target.unknown or target.has_hazard("opset-unchecked"):
        message = f"{why.rstrip('.')}, so it is checked as of that"
        return Diagnostic(UNKNOWN_OPERATOR.code, Severity.WARNING, site, message, "export the model at an older opset")
    message = f"the model is of opset {opset} and {target} accepts at most {target.newest_opset}"
    return Diagnostic(OPSET_TOO_NEW.code, Severity.ERROR, site, message, "export the model at an older opset")


def _half_findings(model: onnx_ir.Model, inputs: Inputs, target: Target | None) -> Iterator[Diagnostic]:
    """Yield the nodes that go wrong in float16 on these inputs, where a fault begins."""
    from castsmith.lowering.faults import half_faults  # imports what runs models

    for fault in half_faults(model, inputs, target=target):
        if fault.kind != "operand":
            way_out = "`convert(to='float16')` computes it in float"
            yield Diagnostic(WRONG_IN_FLOAT16.code, Severity.WARNING, site_of(fault.node), fault.reason, way_out)


def all_findings(model: onnx_ir.Model, rules: PromotionRules, target: Target | None) -> list[Diagnostic]:
    """Return what `check` finds in a sound model in memory, but for what only its inputs show; hints are not tried."""
    return findings(model, rules, target, lambda: structure(model))


def findings(
    model: onnx_ir.Model,
    rules: PromotionRules,
    target: Target | None,
    proto: Callable[[], onnx.ModelProto] | None = None,
) -> list[Diagnostic]:
    """Return everything found in the model, each with the finding from which it follows. Raises OpsetError.

    proto: Returns the model as it is written, for onnx to judge; large constants may be missing.
    """
    inference = _inferred(model, rules)
    if isinstance(inference, Diagnostic):
        return [inference]
    reported = list(_general_findings(model, inference, rules))
    if target is None:
        reported += operator_findings(model, targeted=False)
    else:
        reported = _for_target(Scene(model, inference, target), reported)
    if proto is not None and not any(finding.severity is Severity.ERROR for finding in reported):
        reported += declaration_findings(model, proto()) if target is None else operator_fits(model, inference)
    return with_causes(model, inference, reported)


def _inferred(model: onnx_ir.Model, rules: PromotionRules) -> Inference | Diagnostic:
    """Return the types of the values, or a finding if branches or states have no common type. Raises OpsetError."""
    require_known_opset(model)
    try:
        # After a promotion that the rules refuse, types are inferred as if it were allowed: one cause, one finding.
        return infer_element_types(model, replace(rules, promote_unsafe=True))
    except PromotionError as error:  # string or complex in joined branches or states: not the fault of one node
        text = str(error).rstrip(".")
        return Diagnostic(MIXED_OPERAND_TYPES.code, Severity.ERROR, Site(model.graph.name or ""), text)


def _general_findings(model: onnx_ir.Model, inference: Inference, rules: PromotionRules) -> Iterator[Diagnostic]:
    """Yield what is found for any runtime, by kind and then in the order of the graph."""
    nodes, imports = list(all_nodes(model)), imports_by_scope(model)
    yield from operand_findings(model, inference, rules)
    yield from result_findings(nodes, imports, inference)
    yield from declared_findings(model, inference)
    yield from cast_findings(model, inference)
    yield from _constant_findings(model)
    yield from trunc_findings(nodes, imports)


def _constant_findings(model: onnx_ir.Model) -> Iterator[Diagnostic]:
    """Yield casts of constants that the standard does not fix; those that fold_disputed would fold are disputed."""
    try:
        refused = _fold_refusals(model, disputed=False)
        undefined = Counter(_fold_refusals(model, disputed=True) if refused else ())
    except (ModelError, PromotionError):
        return  # an unreadable Trunc, or branches without a common type, which are separate findings
    for refusal in refused:
        if undefined[refusal]:
            kind, code, way_out = "undefined", UNDEFINED_CONSTANT_CAST.code, "change the constant"
        else:
            kind, code = "disputed", DISPUTED_CONSTANT_CAST.code
            way_out = "`fold_disputed` folds it by the schema's own table"
        undefined[refusal] -= 1
        message = f"the result of this cast is {kind}: {refusal.reason}"
        yield Diagnostic(code, Severity.WARNING, refusal.site, message, way_out)


def _fold_refusals(model: onnx_ir.Model, *, disputed: bool) -> list[Refusal]:
    records = FoldConstants(max_growth=_ANY_SIZE, fold_disputed=disputed).call(model.clone()).records
    sites = Counter((diagnostic.site, diagnostic.code) for diagnostic in records.diagnostics)
    return [refusal for refusal in records.refusals if sites[refusal.site, UNDEFINED_CONSTANT_CAST.code]]


def findings_by_target(model: onnx_ir.Model, targets: Iterable[Target]) -> dict[str, list[Diagnostic]]:
    """Return the findings for each target, as those of `findings`, by its name, from one inference of types.

    Raises:
        OpsetError: The opset of the model is unsupported.
    """
    inference = _inferred(model, PromotionRules())
    if isinstance(inference, Diagnostic):
        return {target.name: [inference] for target in targets}
    everywhere = list(_general_findings(model, inference, PromotionRules()))
    if not any(finding.severity is Severity.ERROR for finding in everywhere):
        everywhere += operator_fits(model, inference)
    return {target.name: _for_target(Scene(model, inference, target), everywhere) for target in targets}


def _for_target(scene: Scene, everywhere: list[Diagnostic]) -> list[Diagnostic]:
    """Return the findings for any runtime as the target takes them, and those about the target."""
    target, shared = scene.target, with_taken_types(everywhere, scene)
    reported = list(target_findings(scene))
    if not target.registry and not target.operators:  # which say more about operators
        reported += operator_findings(scene.model, targeted=True)
    errors = {
        finding.site
        for finding in (*shared, *reported)
        if finding.severity is Severity.ERROR and finding.code != TARGET_MISCOMPUTES_CAST.code  # which loads
    }
    registered = list(registered_findings(scene, errors))
    missing = {finding.site for finding in registered if finding.code == UNREGISTERED_OPERATOR.code}
    others = (
        finding for finding in reported if finding.code != TARGET_LACKS_KERNEL.code or finding.site not in missing
    )
    return [*shared, *merged((*others, *registered))]
