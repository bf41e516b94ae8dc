"""convert: a whole model in another precision: repaired, converted, cleaned of casts that change nothing, measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.remembered import Remembered
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.io.loading import ModelLike, as_model, model_in_memory
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.accuracy import Reference, is_made_up, measure, reference
from castsmith.lowering.check.pairs import TARGET_LACKS_KERNEL
from castsmith.lowering.check.target import unreported_errors
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES, declared_findings
from castsmith.lowering.faults import LIMITS, WRONG, Fault, computes_in_half, faults, reference_of
from castsmith.lowering.fewest import fewest
from castsmith.lowering.fitting import Proof
from castsmith.lowering.inlining import inline_functions, obstacle_to_inlining
from castsmith.lowering.opset.loading import FitLoader
from castsmith.lowering.opset.raising import FIRST_WITH_BFLOAT16
from castsmith.lowering.opset.version import RaiseOpset, opset_asked
from castsmith.lowering.registry import PIPELINE, make_pass, needs_target
from castsmith.lowering.rescale.edits import NAME as RESCALE
from castsmith.lowering.rescale.run import Rescale, RescaleResult
from castsmith.lowering.results import Accuracy, ConvertResult
from castsmith.lowering.running import Run, leftovers
from castsmith.lowering.widen.unify import UnifyOperands
from castsmith.numerics.errors import CastsmithError, OptionError, did_you_mean, present, require
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type, type_name
from castsmith.passes.core.convert_options import ConvertOptions
from castsmith.passes.core.options import takes
from castsmith.passes.core.session import Session
from castsmith.passes.fold.run import FoldConstants
from castsmith.passes.precision.constants import RoundingLosses
from castsmith.passes.precision.evidence import Known, keys_of
from castsmith.passes.precision.patterns import Asked, Pattern, exact_pattern, parse_patterns
from castsmith.passes.precision.run import ConvertPrecision, PrecisionResult, parse_precision, require_something
from castsmith.passes.promote.insert import InsertPromoteTypes
from castsmith.passes.promote.resolve import ResolvePromoteTypes
from castsmith.passes.simplify.facts import NAME as SIMPLIFY
from castsmith.passes.simplify.run import SimplifyCasts
from castsmith.targets.target import as_target, load_target
from castsmith.verification.bounds import Bound, bounds_remembering

if TYPE_CHECKING:
    from castsmith.targets.target import Target

_RULES = PromotionRules(promote_unsafe=True)
_MOST = 65504.0
"""The largest float16."""
_MARGIN = 8.0
"""How much more than on the inputs a value may reach before it is lost, where only a proof says that it may be."""
_MOST_ROUNDS = 8
"""Rounds in which faults are mended: each finds at least one more node, and the tests need 3."""
MOST_ATTEMPTS = 64
"""Conversions that the search for `max_error` tries at most."""
_CAREFUL_ATTEMPTS = 3
"""Conversions that keep only the first node of each path that loses numbers. As many more keep the nodes behind of the
same operators, as layers repeat them, and then all of them, so that few follow."""

MAY_NOT_FIT = FindingCode(
    "may-not-fit",
    "An output that is finite for all inputs in the given ranges may be infinite or NaN after a conversion.",
    why=(
        "A bound is the worst case: the actual values may be much smaller. Inputs "
        "and outputs that you convert on request are rounded even if they do not fit."
    ),
    example='castsmith.convert("model.onnx", to="float16", ranges={"x": (0, 1e6)}, keep_io_types=False)',
    advice="Measure the error on inputs. Keep the types of inputs and outputs, or keep the nodes that may overflow.",
    outcomes=(Outcome.LOSSY,),
    fix="none",
    silence="If the error on your inputs is small.",
)


INFINITE_ERROR = FindingCode(
    "infinite-error",
    "An output is infinite or NaN after the conversion, although it was a number before.",
    why="A runtime would give infinities or NaN. Keeping more nodes in float does not prevent that.",
    example='castsmith.convert("model.onnx", to="float16", inputs="data.npz", lower="*")',
    advice="Leave the types of inputs and outputs as they are, force no nodes, or convert the model to float.",
    outcomes=(Outcome.OTHERWISE,),
    fix="none",
    silence="Never: the result is not usable on these inputs.",
)


@dataclass(frozen=True)
class Request:
    """What a caller asks of `convert`, and what is known of the values of the model."""

    options: ConvertOptions
    to: DataType
    target: Target | None
    io: str
    keep: tuple[Pattern, ...]
    lower: tuple[Pattern, ...]
    losses: RoundingLosses
    stated: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    measured: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """What the inputs show, also made-up ones, for the report."""
    reached: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """What values reach on the inputs of the caller, if there are no ranges for which a proof would have to hold."""
    proven: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    bound: Callable[[str], Known | None] | None = None
    remembered: Remembered = field(default_factory=Remembered)

    def fits_by_far(self, node: onnx_ir.Node, keys: Mapping[onnx_ir.Value, str]) -> bool:
        """True if all results of the node were measured, with a magnitude that leaves a margin."""
        bounds = [self.reached.get(keys.get(value, "")) for value in node.outputs]
        return all(bound is not None and bound.magnitude * _MARGIN <= _MOST for bound in bounds)


@takes(ConvertOptions)
def convert(model: ModelLike, options: ConvertOptions) -> ConvertResult:
    """Convert a whole model to another floating-point precision.

    Each option of `castsmith.ConvertOptions` is an argument of that name.

    Args:
        model: An onnx_ir.Model, a ModelProto, a torch ONNXProgram, or a path. It is not changed.

    Raises:
        CastsmithError: OptionError for a precision that the target lacks, a model that is in it already, a pattern
            that matches nothing, inputs that do not fit, or an error that cannot be reached; ModelError for a model
            that cannot be read; TargetError for an unknown target.
    """
    original, to = as_model(model), parse_precision(options.to)
    half = to == DataType.FLOAT16 and computes_in_half(original)
    if not half:
        if options.rescale and to != DataType.FLOAT16:
            raise OptionError("`rescale` is for float16: other types have the range of float.")
        require_something(original, to)
    is_own = options.in_place or model_in_memory(model) is None
    if options.rescale:
        result = _rescaled(original, options, half=half)
    elif half:
        result = _healed(original, options)
    else:
        result = _converted(original, options, to, is_own=is_own)
    if not is_own:
        return result
    if result.model is not original:
        _put_into(original, result.model)
    return replace(result, model=original)


def _converted(original: onnx_ir.Model, options: ConvertOptions, to: DataType, *, is_own: bool) -> ConvertResult:
    """Convert a model of a wider type, or of the other one of 16 bits; is_own: it may be changed."""
    request, search = _request(original, options, to), options.max_error is not None
    measures = options.inputs is not None or options.measure or search
    baseline = _baseline(original, request) if measures else None
    stated, made_up = request.stated, is_made_up(options.inputs)
    bounded = not options.weights_only and (to == DataType.FLOAT16 or stated)
    proven = _bounds_of(original, stated, request.remembered) if bounded else {}
    measured = {} if baseline is None else baseline.measured()
    evidence = _evidence(measured, to, made_up=made_up, search=search)
    request = replace(request, measured=measured, proven=proven, bound=_known(to, stated, evidence, proven))
    if not stated:
        request = replace(request, reached=evidence)
    if baseline is not None and options.max_error is not None:
        return _search(original, request, baseline, options.max_error)
    work = original if is_own else original.clone()
    return _judged(_measured(_without_losses(work, request, baseline).result, baseline), _way_out(request))


def _request(original: onnx_ir.Model, options: ConvertOptions, to: DataType) -> Request:
    keep, lower = parse_patterns(options.keep, "keep"), parse_patterns(options.lower, "lower")
    stated, io = _stated(original, options.ranges or {}), _io_choice(original, options)
    return Request(options, to, as_target(options.target), io, keep, lower, RoundingLosses(to), stated)


def _baseline(original: onnx_ir.Model, request: Request, *, half: bool = False) -> Reference:
    """Return what the model, or a model in float16 widened to float, computes on the inputs of the request."""
    options, stated, target = request.options, request.stated, request.target
    if options.progress is not None:
        options.progress("measuring")
    if half:
        return reference_of(original, options.inputs, options.dims, stated, target)
    return reference(original.clone(), options.inputs, options.dims, ranges=stated, target=target)


def _put_into(model: onnx_ir.Model, source: onnx_ir.Model) -> None:
    """Make the content of the source that of the model."""
    model.graph, model.ir_version = source.graph, source.ir_version
    model.functions.clear()
    model.functions.update(source.functions)


def _measured(result: ConvertResult, baseline: Reference | None) -> ConvertResult:
    return result if baseline is None else replace(result, error=measure(baseline, result.model))


def _judged(result: ConvertResult, way_out: str) -> ConvertResult:
    """Return the result with an error for each output whose measured error is infinite."""
    graph, outputs = result.model.graph.name or "", () if result.error is None else result.error.outputs
    infinite = [
        Diagnostic(
            INFINITE_ERROR.code,
            Severity.ERROR,
            Site(graph, output.name),
            f"the output {output.name} is infinite or NaN on the inputs, where that of the model is a number",
            way_out,
        )
        for output in outputs
        if output.absolute == float("inf")
    ]
    return replace(result, diagnostics=[*result.diagnostics, *infinite]) if infinite else result


def _way_out(request: Request) -> str:
    """Return what to leave out of the request, in which an output became infinite."""
    if request.io != "keep":
        return "let inputs and outputs keep their types"
    return "convert without `lower`" if request.lower else "convert to bfloat16, which has the range of float"


def _search(model: onnx_ir.Model, request: Request, baseline: Reference, most: float) -> ConvertResult:
    """Keep the fewest nodes with which the error is at most `most`; `MOST_ATTEMPTS` conversions at most."""
    plain = _without_losses(model.clone(), request, baseline)
    first, nodes = _measured(plain.result, baseline), list(dict.fromkeys(plain.converted().values()))
    errors = list[float]()
    best: tuple[frozenset[str], _Attempt, ConvertResult] | None = None

    def holds(kept: frozenset[str]) -> bool:
        nonlocal best
        attempt, result = plain, first
        if kept:
            keep = (*plain.keep, exact_pattern(kept, f"kept so that the error stays below {most:g}"))
            attempt = _attempt(model.clone(), request, keep)
            result = _measured(attempt.result, baseline)
        measured = present(result.error, "the error of the conversion")
        errors.append(measured.worst if len(measured.sets) == len(baseline.runs) else float("inf"))
        if errors[-1] <= most:
            best = kept, attempt, result
        return errors[-1] <= most

    fewest(nodes, holds, MOST_ATTEMPTS)
    if best is None:
        raise OptionError(
            f"`max_error` {most:g} is not reached: the error is {errors[0]:.3g}, and {min(errors):.3g} if every node is"
            " kept that can be."
        )
    kept, attempt, result = best
    result = replace(result, attempts=len(errors), kept=tuple(name for name in nodes if name in kept))
    return replace(attempt, result=result).told(request, attempt.proof(request)) if kept else result


@dataclass(frozen=True)
class _Attempt:
    """One conversion.

    Attributes:
        result: The result.
        keep: The patterns of the nodes that were kept.
        nodes: The nodes of `result.precisions`, by their names there.
        first: The first result of each node before, by its name.
        keys: The names by which values were known before.
    """

    result: ConvertResult
    keep: tuple[Pattern, ...]
    nodes: Mapping[str, onnx_ir.Node]
    first: Mapping[onnx_ir.Node, str]
    keys: Mapping[onnx_ir.Value, str]

    def converted(self) -> dict[onnx_ir.Node, str]:
        """The nodes that were converted, each with its first result before."""
        regions = self.result.regions
        return {node: self.first.get(node, "") for name, node in self.nodes.items() if name in regions}

    def proof(self, request: Request) -> Proof | None:
        """The bounds before and after; None if nothing was proven before."""
        if not request.proven:
            return None
        after = _bounds_of(self.result.model, request.stated, request.remembered)
        return Proof(self.result.model, request.to, request.proven, after, self.keys)

    def told(self, request: Request, proof: Proof | None) -> ConvertResult:
        """The result, with a remark where the first result of a node is proven to fit, or may not."""
        if proof is None:
            return self.result
        precisions = dict(self.result.precisions)
        for node, name in ((node, name) for name, node in self.nodes.items()):
            dtype, reason = precisions[name]
            if not node.outputs or not dtype == request.to == DataType.FLOAT16:
                continue
            before = request.proven.get(self.keys.get(node.outputs[0], ""))
            if proof.fits(node.outputs[0]):
                precisions[name] = dtype, f"{reason}; its result is proven to fit"
            elif before is not None and before.magnitude >= _MOST:
                precisions[name] = dtype, f"{reason}; it may reach {before.magnitude:.6g}: measure it on inputs"
        # Of inputs without ranges the bounds alone say too little to warn.
        lost = _lost_outputs(self.result.model, proof) if request.stated else ()
        diagnostics = [*self.result.diagnostics, *lost]
        return replace(self.result, precisions=precisions, diagnostics=diagnostics)

    def magnitudes(
        self, request: Request, scaled: Mapping[str, tuple[str, int]] | None = None
    ) -> Iterator[tuple[str, float]]:
        """Yield the name of each node whose first result was measured or bounded before, and its largest magnitude.

        scaled: The keys of scaled values, each with its key before and the power of two that it is divided by.
        """
        for name, node in self.nodes.items():
            key = self.keys.get(node.outputs[0], "") if node.outputs else ""
            key, exponent = (scaled or {}).get(key, (key, 0))
            bound = request.measured.get(key) or (None if request.bound is None else request.bound(key))
            if bound is not None and bound.how != "unknown":
                yield name, bound.magnitude * 2.0**-exponent


def _lost_outputs(model: onnx_ir.Model, proof: Proof) -> Iterator[Diagnostic]:
    """Yield a warning for each output that is finite before the conversion, and may be infinite or NaN after it."""
    for value in model.graph.outputs:
        if proof.is_lost(value):
            message = f"the output {value.name} may be infinite or NaN in {type_name(proof.to)}; before, it is finite"
            help_ = "measure it on inputs, or keep the types of inputs and outputs"
            yield Diagnostic(
                MAY_NOT_FIT.code, Severity.WARNING, Site(model.graph.name or "", value.name or ""), message, help_
            )


def _without_losses(model: onnx_ir.Model, request: Request, baseline: Reference | None) -> _Attempt:
    """Convert the model; what would make an infinity or NaN of a number, as is proven or measured, stays in float."""
    keep, kept, before = request.keep, set[str](), model.clone()
    attempts, operators = 0, set[str]()
    while True:
        attempt, attempts = _attempt(model, request, keep), attempts + 1
        proof = attempt.proof(request)
        converted = attempt.converted()
        losses = {} if proof is None else proof.losses(converted)
        operators.update(node.op_type for node in losses)
        if proof is not None and losses and attempts > _CAREFUL_ATTEMPTS:
            every = {node.op_type for node in all_nodes(attempt.result.model)}
            losses = proof.losses(converted, every if attempts > 2 * _CAREFUL_ATTEMPTS else operators)
        asked = Asked(request.lower, "", losses).with_all_inside(attempt.result.model) if request.lower else {}
        names = defaultdict[str, set[str]](set)
        for node, why in losses.items():
            sound = request.fits_by_far(node, attempt.keys)
            if not sound and node not in asked and converted[node] not in (*kept, ""):
                names[why].add(converted[node])
        if not names and baseline is not None and request.to == DataType.FLOAT16:
            for fault in faults(baseline, attempt.result.model):
                if converted.get(fault.node, "") not in (*kept, "") and fault.node not in asked:
                    names[fault.reason].add(converted[fault.node])
        if not names:
            return replace(attempt, result=attempt.told(request, proof))
        kept.update(*names.values())
        keep = (*keep, *(exact_pattern(lost, why) for why, lost in names.items()))
        _put_into(model, before.clone())


def _healed(original: onnx_ir.Model, options: ConvertOptions) -> ConvertResult:
    """Heal a model that computes in float16 already: what float16 does not hold is computed in float, and nothing else.

    The model is widened to float, which is exact, and both are run on inputs. Where float16 goes wrong the nodes are
    computed in float, and a minimum cut places the casts. What is wrong only once the rest is right is found in the
    next round. A model of which nothing is wrong stays as it is.
    """
    request = replace(_request(original, options, DataType.FLOAT), io="keep")
    baseline = _baseline(original, request, half=True)
    request = replace(request, measured=baseline.measured())
    reasons, healed = defaultdict[tuple[str, str], set[str]](set), list[Fault]()

    def attempt() -> ConvertResult:
        lower = tuple(exact_pattern(names, why, operator) for (why, operator), names in reasons.items())
        half = (DataType.FLOAT16,)
        step = ConvertPrecision(
            DataType.FLOAT, request.target, sources=half, keep=request.keep, lower=lower, sparing=True
        )
        return _attempt(original.clone(), request, request.keep, step).result

    result = _unless_tidied(attempt(), original)
    for _ in range(_MOST_ROUNDS):
        done = set[str]().union(*reasons.values())
        fresh = [fault for fault in faults(baseline, result.model) if fault.name and fault.name not in done]
        if not fresh:
            break
        healed += fresh
        for fault in fresh:
            reasons[fault.reason, fault.node.op_type].add(fault.name)
        result = attempt()
    error = measure(baseline, result.model)
    if options.max_error is not None and error.worst > options.max_error:
        raise OptionError(f"`max_error` {options.max_error:g} is not reached: the error is {error.worst:.3g}.")
    before = measure(baseline, original) if healed else error
    result = replace(result, error=error, before=before, faults=tuple(healed))
    return _judged(result, "convert the model to float: `convert(to='float')`")


NOT_RESCALED = FindingCode(
    "not-rescaled",
    "No powers of two were found that move a value into the range of float16.",
    why="Some operators cannot be scaled, and the range of some values is too large for any scale.",
    example="y = Exp (x)  # reaches 1e+06",
    advice="Convert without --rescale, which computes such nodes in float.",
    outcomes=(Outcome.LOSSY,),
    fix="none",
    silence="If the error on your inputs is small.",
)
_NO_FLOAT = "converted, so that no node is in float"


def _rescaled(original: onnx_ir.Model, options: ConvertOptions, *, half: bool) -> ConvertResult:
    """Scale values by powers of two; functions whose calls need different ones become their nodes."""
    result, functions = _scaled(original, options, half=half), {*original.functions}
    is_wrong = any(diagnostic.code == NOT_RESCALED.code for diagnostic in result.diagnostics)
    if is_wrong and functions and obstacle_to_inlining(original, functions) is None:
        session = Session(original.clone())
        inlined = inline_functions(session, functions, RESCALE, "its calls need different powers of two")
        expanded = _scaled(session.model, options, half=half)
        if present(expanded.error, "an error").worst < present(result.error, "an error").worst:
            result = replace(expanded, rewrites=[inlined, *expanded.rewrites])
    return _judged(result, "convert without `rescale`")


def _unless_tidied(result: ConvertResult, model: onnx_ir.Model) -> ConvertResult:
    """Return the result; with the model as it was if nothing is done to it but to merge nodes and to drop casts."""
    if all(rewrite.pass_name == SIMPLIFY for rewrite in result.rewrites):
        return replace(result, model=model, rewrites=[])
    return result


def _scaled(original: onnx_ir.Model, options: ConvertOptions, *, half: bool) -> ConvertResult:
    """Scale the values of the model, converted as a whole to float16 if it is not already, by powers of two."""
    request = _request(original, options, DataType.FLOAT16)
    baseline = _baseline(original, request, half=half)
    request = replace(request, lower=(Pattern("*", "", "*", _NO_FLOAT),), measured=baseline.measured())
    untouched = ConvertPrecision(DataType.FLOAT, sources=(DataType.FLOAT16,), sparing=True) if half else None
    attempt = _attempt(original.clone(), request, request.keep, untouched)
    plain = _unless_tidied(attempt.result, original)
    result, detected = plain, list[Fault]()
    unsolved: tuple[str, ...] = ()
    before = error = measure(baseline, plain.model)
    for _ in range(_MOST_ROUNDS):
        names = {fault.name for fault in detected}
        fresh = [fault for fault in faults(baseline, result.model) if fault.name not in names]
        if not fresh:
            break
        detected += fresh
        # A model in float is scaled first, so that its weights are rounded where they have all bits.
        run = Run(Session(plain.model.clone() if half else original.clone()), options.provenance, options.progress)
        scaled = run.apply(Rescale(baseline, tuple(detected)))
        require(isinstance(scaled, RescaleResult), "rescale states no factors")
        scaled = cast("RescaleResult", scaled)
        if half:
            base, moved = replace(plain, model=run.session.model), {pair[0]: pair for pair in scaled.moved.values()}
        else:
            attempt, moved = _attempt(run.session.model, request, request.keep), scaled.moved
            base = attempt.result
        rewrites = [*run.records.rewrites, *base.rewrites]
        magnitudes = dict(attempt.magnitudes(request, moved))
        result = replace(base, rewrites=rewrites, factors=scaled.factors, magnitudes=magnitudes)
        error = measure(baseline, result.model)
        if error.worst <= WRONG:
            break
        unsolved = scaled.unsolved
    notes = list(_not_rescaled(result.model, unsolved, error)) if (detected or not half) and error.worst > WRONG else []
    diagnostics = [*result.diagnostics, *notes]
    return replace(result, error=error, before=before, faults=tuple(detected), diagnostics=diagnostics)


def _not_rescaled(model: onnx_ir.Model, unsolved: Iterable[str], error: Accuracy) -> Iterator[Diagnostic]:
    """Yield what no scale was found for; where there is nothing of that, the outputs that are wrong all the same."""
    messages = {name: f"no power of two was found that moves {name} into the range of float16" for name in unsolved}
    messages = messages or {
        output.name: f"with powers of two alone {output.name} has an error of {output.relative:.2g};"
        " its values vary too much"
        for output in error.outputs
        if output.relative > WRONG
    }
    for name, message in messages.items():
        site = Site(model.graph.name or "", name)
        yield Diagnostic(NOT_RESCALED.code, Severity.WARNING, site, message, "convert without `rescale`")


def _attempt(
    work: onnx_ir.Model, request: Request, keep: tuple[Pattern, ...], main: ConvertPrecision | None = None
) -> _Attempt:
    """Convert the model itself; `keep` says which nodes to leave, and `main` how, by default as requested."""
    keys = keys_of(work)
    results = {node: next((value.name or "" for value in node.outputs), "") for node in all_nodes(work)}
    run = Run(Session(work), request.options.provenance, request.options.progress)
    _raise_opset(run, request)
    if request.options.weights_only:
        step = ConvertPrecision(
            request.to, request.target, keep=keep, rounding_losses=request.losses, weights_only=True
        )
        conversion = _precisions(run, step)
    else:
        conversion = _converted_and_cleaned(run, request, keep, main)
    names, records = _names(conversion, results), run.records
    precisions = {name: conversion.precisions[node] for node, name in names.items()}
    result = ConvertResult(
        run.session.model,
        records.rewrites,
        records.refusals,
        records.diagnostics,
        precisions={name: (precision.dtype, precision.reason) for name, precision in precisions.items()},
        regions={name: precision.region for name, precision in precisions.items() if precision.region},
        operators={name: node.op_type for node, name in names.items()},
    )
    first = {node: precision.result for node, precision in conversion.precisions.items()}
    attempt = _Attempt(result, keep, {name: node for node, name in names.items()}, first, keys)
    return replace(attempt, result=replace(result, magnitudes=dict(attempt.magnitudes(request))))


def _raise_opset(run: Run, request: Request) -> None:
    """Raise the opset where the target or the precision asks for that. Raises OptionError for bfloat16 without it."""
    newer = opset_asked(run.session, request.target, request.to)
    if newer is not None:
        run.apply(RaiseOpset(*newer))
    now = opset_of(run.session.model.graph.opset_imports, "")
    is_older = now is not None and now < FIRST_WITH_BFLOAT16
    if request.to == DataType.BFLOAT16 and run.records.refusals and is_older:
        why = run.records.refusals[0].reason
        raise OptionError(f"bfloat16 needs opset 13, and {why}; export the model at opset 13.")


def _converted_and_cleaned(
    run: Run, request: Request, keep: tuple[Pattern, ...], main: ConvertPrecision | None
) -> PrecisionResult:
    """Repair the model, convert it, and lower what the target does not support."""
    session, target = run.session, request.target
    if target is not None:  # what replaces an operator of a vendor is converted like all else
        run.apply(make_pass("lower-custom", {"target": target}))
    widening, without_double = ((), ()) if main else (_widening(session, request.to), _without_double(session, request))
    _repair(run, target)
    mixed = {diagnostic.site for diagnostic in _left_mixed(session)}
    main = main or ConvertPrecision(
        request.to,
        target,
        request.io,
        keep=keep,
        lower=request.lower,
        bound=request.bound,
        rounding_losses=request.losses,
    )
    for step in widening:
        run.apply(step)
    conversion = _precisions(run, main)
    for step in without_double:
        changed = _precisions(run, step).precisions
        changed = {node: replace(precision, region=0) for node, precision in changed.items() if precision.region}
        conversion = replace(conversion, precisions={**conversion.precisions, **changed})
    if target is not None:
        run.apply(UnifyOperands(target))
    run.apply(SimplifyCasts(target=target))
    if target is not None:
        run.apply(FitLoader(target))
        _lower(run, target)
    diagnostics = run.records.diagnostics
    diagnostics += [diagnostic for diagnostic in _left_mixed(session) if diagnostic.site not in mixed]
    if target is not None:  # all that it still refuses
        left = leftovers(session, _RULES, target)
        diagnostics += [replace(diagnostic, severity=Severity.WARNING) for diagnostic in left]
    elif request.to == DataType.BFLOAT16:
        diagnostics += _without_kernel(session)
    return conversion


def _repair(run: Run, target: Target | None) -> None:
    """Make operands agree, and declarations with what is computed, if any disagree.

    What that cannot set right was wrong before, and the conversion does not add to it: a warning.
    """
    inference = run.session.inference(_RULES)
    if not inference.to_convert and next(declared_findings(run.session.model, inference), None) is None:
        return
    promote = InsertPromoteTypes(promote_unsafe=True, half_constants=True, keep_output_types=True)
    run.apply(promote)
    diagnostics = run.records.diagnostics
    diagnostics[:] = [replace(diagnostic, severity=Severity.WARNING) for diagnostic in diagnostics]
    for step in (ResolvePromoteTypes(), FoldConstants(target=target)):
        run.apply(step)


def _lower(run: Run, target: Target) -> None:
    """Replace what the target does not support, as `optimize` does; `leftovers` tells of the rest."""
    count, is_legal = len(run.records.diagnostics), not leftovers(run.session, _RULES, target)
    for name in (*filter(needs_target, PIPELINE), "fold-constants"):
        if is_legal:
            break
        result = run.apply(make_pass(name, {"target": target, "promote_unsafe": True}))
        del run.records.diagnostics[count:]
        is_legal = result.modified and not leftovers(run.session, _RULES, target)


def _precisions(run: Run, step: ConvertPrecision) -> PrecisionResult:
    result = run.apply(step)
    require(isinstance(result, PrecisionResult), "convert-precision states no precisions")
    return cast("PrecisionResult", result)


def _widening(session: Session, to: DataType) -> tuple[ConvertPrecision, ...]:
    """The exact step to float ahead of a conversion between the 16-bit types: what is then left is left in float."""
    source = {DataType.FLOAT16: DataType.BFLOAT16, DataType.BFLOAT16: DataType.FLOAT16}.get(to)
    if source is None or not _holds(session, source):
        return ()
    return (ConvertPrecision(DataType.FLOAT, sources=(source,), lower=("*",)),)


def _without_double(session: Session, request: Request) -> tuple[ConvertPrecision, ...]:
    """Return the step that takes the nodes left in double to float, if the target has no double."""
    target, double = request.target, DataType.DOUBLE
    if target is None or double not in target.lacks | target.off_device:
        return ()
    every = Pattern("*", "", "*", f"{target} has no double")
    return (ConvertPrecision(DataType.FLOAT, sources=(double,), lower=(every,)),) if _holds(session, double) else ()


def _holds(session: Session, dtype: DataType) -> bool:
    """True if a value of the model has the type."""
    types = session.inference(_RULES)
    return any(types.type_of(value) == dtype for value in all_values(session.model))


def _without_kernel(session: Session) -> Iterator[Diagnostic]:
    """Yield a note about the first operator that keeps ONNX Runtime from loading a bfloat16 model of no target."""
    for diagnostic in unreported_errors(session.model, session.inference(_RULES), load_target("onnxruntime-cpu"), ()):
        if diagnostic.code == TARGET_LACKS_KERNEL.code:
            way_out = "`target=` keeps nodes without a kernel in float"
            yield replace(diagnostic, severity=Severity.NOTE, help=way_out)
            return


def _evidence(measured: Mapping[str, Bound], to: DataType, *, made_up: bool, search: bool) -> Mapping[str, Bound]:
    """The measured bounds; on made-up inputs only a search uses them, and only those that exceed the precision."""
    if not made_up:
        return measured
    most = float(element_type(to).max)
    return {name: bound for name, bound in measured.items() if search and bound.magnitude > most}


def _known(
    to: DataType,
    stated: Mapping[str, tuple[float, float]],
    measured: Mapping[str, Bound],
    proven: Mapping[str, Bound],
) -> Callable[[str], Known | None] | None:
    """What the caller states, else what is proven to fit, else what was measured, by name.

    A proven bound beyond the precision may be far from what the value reaches, so that it keeps no node. If there are
    measurements, what vanishes keeps none either: where that does harm is found by running the result.
    """
    safe = {name: bound for name, bound in proven.items() if bound.magnitude < _MOST}
    if measured and to == DataType.FLOAT16:
        measured, safe = (
            {name: bound for name, bound in bounds.items() if not 0 < bound.magnitude < LIMITS.normal}
            for bounds in (measured, safe)
        )
    evidence = {name: Known(bound.low, bound.high, bound.how) for name, bound in {**measured, **safe}.items()}
    evidence |= {name: Known(*ends) for name, ends in stated.items()}
    return evidence.get if evidence else None


def _stated(model: onnx_ir.Model, ranges: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The ranges, by the names of `keys_of`: a name that only functions have counts in each of them."""
    keys, stated = keys_of(model) if ranges else {}, dict[str, tuple[float, float]]()
    for name, (low, high) in ranges.items():
        named = {key for key in keys.values() if key == name} or {
            key for value, key in keys.items() if value.name == name
        }
        if not named:
            names = sorted({value.name for value in keys if value.name})
            way_out = did_you_mean(name, names, "expected the name of a value")
            raise OptionError(f"`ranges` names {name!r}, which is not a value of the model; {way_out}")
        stated.update(dict.fromkeys(named, (low, high)))
    return stated


def _bounds_of(
    model: onnx_ir.Model, stated: Mapping[str, tuple[float, float]], remembered: Remembered
) -> dict[str, Bound]:
    """The bounds that hold for every input in the stated ranges, by name; empty if the model cannot be bounded.

    remembered: What was found of the weights before, so that those of the converted model are not read.
    """
    ranges = {name: ends for value in model.graph.inputs if (ends := stated.get(name := value.name or ""))}
    try:
        bounds = bounds_remembering(model, ranges=ranges, promotion=_RULES, remembered=remembered)
    except CastsmithError:  # no bound is needed for a conversion
        return {}
    return {name: bound for name, bound in bounds.items() if bound.how == "proven"}


def _io_choice(model: onnx_ir.Model, options: ConvertOptions) -> str:
    """Return the text by which ConvertPrecision is given the inputs and outputs whose types change."""
    keep = options.keep_io_types
    if options.io is not None:
        return options.io
    if keep is None or isinstance(keep, bool):
        return "convert" if keep is False else "keep"
    kept = {keep} if isinstance(keep, str) else set(keep)
    names = [value.name or "" for value in (*model.graph.inputs, *model.graph.outputs)]
    for name in sorted(kept - set(names)):
        way_out = did_you_mean(name, names, f"expected {', '.join(names)}")
        raise OptionError(f"`keep_io_types` names {name!r}, which is not an input or output; {way_out}")
    return ",".join(name for name in names if name not in kept) or "keep"


def _left_mixed(session: Session) -> list[Diagnostic]:
    """An error for each node whose operands disagree after all: the result would be refused by every runtime."""
    inference = session.inference(_RULES)
    nodes = [*inference.disagreements, *(node for node, refusals in inference.illegal.items() if refusals)]
    return [
        Diagnostic(
            MIXED_OPERAND_TYPES.code,
            Severity.ERROR,
            site_of(node),
            f"the operands of {node.name or node.op_type} have different types after the conversion",
            "report this model; the option keep leaves the node as it is",
        )
        for node in nodes
    ]


def _names(conversion: PrecisionResult, results: Mapping[onnx_ir.Node, str]) -> dict[onnx_ir.Node, str]:
    """A name for each node of the model: its own, else that of its first result; results: these names before.

    Casts that the conversion itself put in have no name here.
    """
    names, used = dict[onnx_ir.Node, str](), set[str]()
    for node, precision in conversion.precisions.items():
        if node.op_type == "Cast" and node not in results:
            continue
        base = node.name or results.get(node) or precision.result or node.op_type
        name, count = base, 0
        while name in used:
            count += 1
            name = f"{base}_{count}"
        used.add(name)
        names[node] = name
    return names
