"""optimize: Run the passes in order, with the records of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import onnx_ir
from onnx_ir.passes import PassBase

from castsmith.collection import paused_collection
from castsmith.ir.codes import FindingCode
from castsmith.ir.io.loading import ModelLike, own_model
from castsmith.ir.ops.qonnx import TRUNCS
from castsmith.ir.records import Diagnostic, Effect, Rewrite, RewriteResult, Severity, Site
from castsmith.lowering.registry import AFTER, ON_REQUEST, PASSES, PIPELINE, make_pass, needs_target, pass_name
from castsmith.lowering.results import Result
from castsmith.numerics.errors import OptionError, did_you_mean
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.passes.core.options import PASS_OPTIONS, FoldAs, Interface, Options, Storage, Vendor, stated_rules
from castsmith.passes.core.rewrite_pass import RewritePass, SessionPass, note_provenance
from castsmith.passes.core.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from castsmith.lowering.custom import Lowering
    from castsmith.numerics.types import TypeLike
    from castsmith.targets.target import Target
    from castsmith.verification.evaluate.names import EngineName

_GROWING = ("fold-shapes", "fold-constants")
"""The passes that may make the file larger, within a limit for all their runs together."""
_MOST_ROUNDS = 8
"""Largest number of rounds of the passes while they find something: the result of one may be simplified by another.

Every rewrite lowers a measure (`castsmith.passes.core.cost`), so that no run should get there.
"""


UNSETTLED = FindingCode(
    "unsettled",
    "The passes of optimize still change the model after their largest number of rounds.",
    why="Two of them undo each other, which is a defect. The result is valid, and computes the same.",
    example="optimize model.onnx -o optimized.onnx",
    advice="Please report the model. Passes that you name (--passes) run once each.",
    fix="none",
    silence="Always: nothing is wrong with the result.",
)


def optimize(
    model: ModelLike,
    *,
    target: str | Target | None = Options.target,
    strict_device: bool = Options.strict_device,
    promotion: PromotionRules | str | None = Options.promotion,
    promote_unsafe: bool | None = Options.promote_unsafe,
    pytorch_scalar_promotion: bool | None = Options.pytorch_scalar_promotion,
    u64_integer_promotion_target: TypeLike | None = Options.u64_integer_promotion_target,
    library: str | None = Options.library,
    weak_scalars: bool | None = Options.weak_scalars,
    half_constants: bool | None = Options.half_constants,
    keep_output_types: bool = Options.keep_output_types,
    max_growth: int = Options.max_growth,
    max_total_growth: int = Options.max_total_growth,
    fold_disputed: bool = Options.fold_disputed,
    fold_as: FoldAs = Options.fold_as,
    fold_quantized: bool = Options.fold_quantized,
    interface: Interface = Options.interface,
    storage: Storage = Options.storage,
    emit_functions: bool = Options.emit_functions,
    vendor: Vendor = Options.vendor,
    narrow: TypeLike | Sequence[TypeLike] = Options.narrow,
    narrow_interface: bool = Options.narrow_interface,
    largest_dim: int = Options.largest_dim,
    in_place: bool = Options.in_place,
    passes: Sequence[str | PassBase] | None = Options.passes,
    lowerings: Mapping[str, Lowering] | None = Options.lowerings,
    until: str | None = Options.until,
    progress: Callable[[str], None] | None = Options.progress,
    verify: EngineName | None = Options.verify,
    verify_dims: Mapping[str, int] | None = Options.verify_dims,
    verify_inputs: Sequence[tuple[str, Mapping[str, NDArray[Any]]]] | None = Options.verify_inputs,
    provenance: bool = Options.provenance,
) -> Result:
    """Fix the element types of `model`, and legalize it for `target` if given.

    Args:
        model: An onnx_ir.Model, a ModelProto, a torch ONNXProgram, or a path. It is not changed; the result shares the
            tensors of a model in memory.
        target: The runtime to legalize the model for, or its name; none by default.
        strict_device: Refuse types that a device, such as the GPU of `onnxruntime-webgpu`, leaves to the CPU; otherwise
            a note counts them.
        promotion: The rules for operands that disagree, or the name of a preset of PromotionRules; by default those of
            ConvertPromoteTypes, without unsafe promotion.
        promote_unsafe: As in PromotionRules. This and the next five options override a preset; if you pass
            PromotionRules, set them there.
        pytorch_scalar_promotion: As in PromotionRules.
        u64_integer_promotion_target: As in PromotionRules.
        library: As in PromotionRules.
        weak_scalars: As in PromotionRules.
        half_constants: As in PromotionRules.
        keep_output_types: Cast outputs back to their declared types.
        max_growth: Bytes by which folding one node may grow the file.
        max_total_growth: Bytes by which all folding may grow the file.
        fold_disputed: Fold casts on which runtimes disagree, too.
        fold_as: Fold casts that the standard leaves open as `onnxruntime` or `reference` computes them.
        fold_quantized: Fold the weights of quantized operators, too.
        interface: Replacement of graph inputs and outputs of a type that the target lacks: `stored` keeps them as
            stored, uint8 codes or, of 16 bits, floats; `wide` makes those of at most 8 bits that the target lacks, and
            all float16 and bfloat16, floats, or bytes for integers.
        storage: Storage of weights of 4 and 2 bits that the target lacks: `packed` or `byte`.
        emit_functions: Emit lowered conversions as model-local functions.
        vendor: Write quantized formats in the operators of ONNX Runtime (`com.microsoft`) or of TensorRT (`trt`), which
            the target must run. Weights stay exact; MatMulNBits adds the products in another order than MatMul.
        narrow: The types to narrow, `int64`, `double` or both, where the result is identical for every input; none by
            default.
        narrow_interface: Narrow graph inputs too, and outputs that are known to fit.
        largest_dim: Upper bound of every dimension that the model does not fix; 0 if unknown.
        in_place: Change a model in memory itself, which saves the time of copying it.
        passes: The passes to run, in order, by name, with options as `name{option=value}`, or as objects; by default
            all that apply.
        lowerings: Lowerings of custom operators by operator name, as in LowerCustom.
        until: The name of the last pass to run.
        progress: Called with the name of each pass before it runs.
        verify: An engine (`onnxruntime`, `openvino` or `reference`) that compares the model before and after each pass,
            as read from a file; the result lists what was compared.
        verify_dims: Sizes of symbolic dimensions by name, as in `castsmith.verify`.
        verify_inputs: The inputs to compare on, as in `castsmith.verify`.
        provenance: Note in the metadata of new nodes which rule made them.

    Returns:
        The optimized model with the records of all passes.

    Raises:
        ModelError: The model cannot be read.
        PromotionError: The rules refuse a promotion.
        TargetError: The target is unknown.
        OptionError: A pass is unknown, or an option does not support its value.
        VerificationError: The results of the model changed.
    """
    return _optimize(
        model,
        Options(
            target=target,
            strict_device=strict_device,
            promotion=promotion,
            promote_unsafe=promote_unsafe,
            pytorch_scalar_promotion=pytorch_scalar_promotion,
            u64_integer_promotion_target=u64_integer_promotion_target,
            library=library,
            weak_scalars=weak_scalars,
            half_constants=half_constants,
            keep_output_types=keep_output_types,
            max_growth=max_growth,
            max_total_growth=max_total_growth,
            fold_disputed=fold_disputed,
            fold_as=fold_as,
            fold_quantized=fold_quantized,
            interface=interface,
            storage=storage,
            emit_functions=emit_functions,
            vendor=vendor,
            narrow=narrow,
            narrow_interface=narrow_interface,
            largest_dim=largest_dim,
            in_place=in_place,
            passes=passes,
            lowerings=lowerings,
            until=until,
            progress=progress,
            verify=verify,
            verify_dims=verify_dims,
            verify_inputs=verify_inputs,
            provenance=provenance,
        ),
    )


def _optimize(model: ModelLike, options: Options) -> Result:
    options = replace(options, target=_target(options))  # an error of the options comes before one of the model
    with paused_collection():
        return optimize_loaded(own_model(model, in_place=options.in_place), options)


def optimize_loaded(model: onnx_ir.Model, options: Options) -> Result:
    """Do what `optimize` does to a model that was just loaded, which is changed and not checked again."""
    rules, passes, until = rules_of(options), options.passes, options.until
    chosen = _target(options)
    session = Session(model, chosen, in_order=True)
    settings: dict[str, Any] = {
        **asdict(rules),
        **{name: getattr(options, name) for name in PASS_OPTIONS},
        "target": chosen,
    }
    verify, provenance = options.verify, options.provenance
    settled, verdict, held = set[str](), None, None
    before = None if verify is None else session.model.clone()
    comparing: dict[str, Any] = {
        "engine": verify,
        "promotion": replace(rules, promote_unsafe=True),
        "dims": options.verify_dims,
        "inputs": options.verify_inputs,
    }
    known = set(session.nodes) if provenance else set[onnx_ir.Node]()
    asked = [name for name, wanted in (("use-vendor", options.vendor), ("narrow-types", options.narrow)) if wanted]
    specs = _specs(passes, until, asked, targeted=chosen is not None)
    whole, rounds = (list(specs) if passes is None and until is None else []), 1
    while specs or (rounds < _MOST_ROUNDS and set(whole) - settled):
        if not specs:
            specs, rounds = list(whole), rounds + 1
        spec = specs.pop(0)
        name = name_of(spec)
        if passes is None and spec in settled:
            continue
        if options.progress is not None:
            options.progress(name)
        if held is None and name in _GROWING:
            held = session.survey.constant_bytes()
        outcome = _run(make_pass(spec, settings) if isinstance(spec, str) else spec, name, session)
        settled = set[str]() if outcome.modified else settled | {name}
        session.record(outcome.records)
        if outcome.modified and held is not None and name in _GROWING:
            now, left = session.survey.constant_bytes(), settings["max_total_growth"]
            settings["max_total_growth"], held = left - min(max(now - held, 0), left), now
        elif outcome.modified:
            held = None
        if before is not None and outcome.modified:
            from castsmith.verification.run import require_same

            accepted = retyped(session.records.rewrites)
            verdict = require_same(before, session.model, name, accept=accepted, **comparing)
        if provenance and outcome.modified:
            note_provenance(session.model, session.nodes, known, outcome.records.rewrites)
        if passes is None and outcome.modified and specs:
            specs[:0] = AFTER.get(name, ())
    if set(whole) - settled:
        message = f"the passes still change the model after {_MOST_ROUNDS} rounds"
        help_ = "the result is valid; please report the model"
        site = Site(session.model.graph.name or "")
        session.records.diagnostics.append(Diagnostic(UNSETTLED.code, Severity.NOTE, site, message, help_))
    if passes is None and until is None:
        _report_what_is_left(session, replace(rules, promote_unsafe=True), chosen)
    if before is not None and verdict is None:
        from castsmith.verification.run import require_same

        verdict = require_same(before, session.model, "no pass", **comparing)
    records = session.records
    return Result(session.model, records.rewrites, records.refusals, records.diagnostics, verdict)


def _report_what_is_left(session: Session, rules: PromotionRules, target: Target | None) -> None:
    """Add the errors of the optimized model that no pass reported, and what a device leaves to the CPU."""
    from castsmith.lowering.check.trunc import trunc_findings
    from castsmith.lowering.check.types import result_findings

    inference, told = session.inference(rules), session.records.diagnostics
    known = {(each.code, each.site) for each in told}
    nodes, imports = session.nodes, session.imports
    found = (*result_findings(nodes, imports, inference), *trunc_findings(session.nodes_of(TRUNCS), imports))
    told += [each for each in found if each.severity is Severity.ERROR and (each.code, each.site) not in known]
    if target is not None:
        from castsmith.lowering.check.device import device_findings
        from castsmith.lowering.check.target import unreported_errors
        from castsmith.lowering.float8.needs import TYPE_NOT_IN_TARGET

        # That a type stays is one cause, which the finding about the result states.
        told[:] = [each for each in told if each.code != TYPE_NOT_IN_TARGET.code]
        told += unreported_errors(session.model, inference, target, told)
        told += device_findings(session.model, inference, target)


def rules_of(options: Options) -> PromotionRules:
    """Return the rules for operands whose types disagree. Raises PromotionError for an unknown preset."""
    return replace(as_rules(options.promotion), **stated_rules(options))


def _run(each: PassBase, name: str, session: Session) -> RewriteResult:
    """Run a pass of Castsmith in the session, or a foreign pass, which may change anything, on its model."""
    if isinstance(each, SessionPass):
        return each.run(session)
    if isinstance(each, RewritePass):
        result = each(session.model)
    else:
        from castsmith.passes.managers import run_recorded

        result = run_recorded(each, session.model, name)
    session.changed(result.model)
    return result


def retyped(rewrites: Iterable[Rewrite]) -> set[str]:
    """Return the inputs and outputs of the model whose element type the rewrites changed intentionally."""
    return {rewrite.site.node for rewrite in rewrites if rewrite.effect is Effect.INTERFACE}


def name_of(spec: str | PassBase) -> str:
    """Return the name of the pass, or of its class if it has none."""
    if isinstance(spec, str):
        return pass_name(spec)
    kind = type(spec)
    return next((name for name, home in PASSES.items() if _is_at(kind, home)), kind.__name__)


def _is_at(kind: type, home: str) -> bool:
    """True if the class is the one at `package:Class`, in whichever module of the package it is written."""
    package, _, name = home.partition(":")
    return kind.__qualname__ == name and f"{kind.__module__}.".startswith(f"{package}.")


def _specs(
    passes: Sequence[str | PassBase] | None, until: str | None, asked: Sequence[str], *, targeted: bool
) -> list[str | PassBase]:
    if passes is None:
        names = list(PIPELINE)
        for name in asked:
            here = names.index(next(each for each in list(PASSES)[list(PASSES).index(name) :] if each in names))
            names[here:here] = (name, *ON_REQUEST[name])
        passes = [name for name in names if targeted or not needs_target(name)]
    names = [name_of(spec) for spec in passes]
    if until is None:
        return list(passes)
    if until not in names:
        way_out = did_you_mean(until, names, f"expected {', '.join(names)}")
        raise OptionError(f"unknown pass {until!r} for until; {way_out}")
    return list(passes[: names.index(until) + 1])


def _target(options: Options) -> Target | None:
    """Return the target; targets are imported only if there is one."""
    if options.target is None:
        return None
    from castsmith.targets.target import as_target

    return as_target(options.target, strict=options.strict_device)
