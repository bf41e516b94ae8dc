"""optimize: Run the passes in order, with the records of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import onnx_ir
from onnx_ir.passes import PassBase

from castsmith.collection import paused_collection
from castsmith.ir.codes import FindingCode
from castsmith.ir.io.loading import ModelLike, own_model
from castsmith.ir.records import Diagnostic, Effect, Rewrite, Severity, Site
from castsmith.lowering.registry import AFTER, ON_REQUEST, PASSES, PIPELINE, make_pass, name_of, needs_target
from castsmith.lowering.results import Result
from castsmith.lowering.running import Run, leftovers
from castsmith.numerics.errors import OptionError, did_you_mean, present
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.passes.core.options import PASS_OPTIONS, FoldAs, Interface, Options, Storage, Vendor, stated_rules
from castsmith.passes.core.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from castsmith.lowering.custom import Lowering
    from castsmith.numerics.types import TypeLike
    from castsmith.targets.target import Target
    from castsmith.verification.evaluate.names import EngineName
    from castsmith.verification.verdict import Verdict

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
    rules, target = rules_of(options), _target(options)
    session = Session(model, in_order=True)
    run = Run(session, options.provenance, options.progress)
    comparison = None if options.verify is None else _Comparison(model.clone(), options, rules)
    schedule = _Schedule.of(options, targeted=target is not None)
    settings = {**asdict(rules), **{name: getattr(options, name) for name in PASS_OPTIONS}, "target": target}
    growth = _Growth(session, options.max_total_growth)
    while (spec := schedule.next()) is not None:
        name = name_of(spec)
        growth.before(name)
        settings["max_total_growth"] = growth.left
        result = run.apply(make_pass(spec, settings) if isinstance(spec, str) else spec)
        schedule.ended(name, modified=result.modified)
        if result.modified:
            growth.after(name)
            if comparison is not None:
                comparison.require_same(session, name)
    if schedule.unsettled:
        message = f"the passes still change the model after {_MOST_ROUNDS} rounds"
        help_ = "the result is valid; please report the model"
        run.records.diagnostics.append(
            Diagnostic(UNSETTLED.code, Severity.NOTE, Site(session.model.graph.name or ""), message, help_)
        )
    if options.passes is None and options.until is None:
        _report_what_is_left(session, replace(rules, promote_unsafe=True), target)
    if comparison is not None and comparison.verdict is None:
        comparison.require_same(session, "no pass")
    records, verdict = run.records, None if comparison is None else comparison.verdict
    return Result(session.model, records.rewrites, records.refusals, records.diagnostics, verdict)


@dataclass
class _Schedule:
    """The passes still to run: those that the caller names, once each; else all, in rounds until none finds anything.

    Attributes:
        left: The passes that are left in this round.
        again: The passes of each further round; none if the caller names passes, or the last one.
        by_default: Leave out a pass that found nothing since the last change.
    """

    left: list[str | PassBase]
    again: Sequence[str | PassBase]
    by_default: bool
    rounds: int = 1
    settled: set[str] = field(default_factory=set[str])
    """The passes that found nothing since the last change."""

    @classmethod
    def of(cls, options: Options, *, targeted: bool) -> _Schedule:
        asked = [name for name, on in (("use-vendor", options.vendor), ("narrow-types", options.narrow)) if on]
        specs = _specs(options.passes, options.until, asked, targeted=targeted)
        by_default = options.passes is None
        return cls(specs, tuple(specs) if by_default and options.until is None else (), by_default)

    @property
    def unsettled(self) -> bool:
        """True if a pass of a further round may find something."""
        return bool(set(self.again) - self.settled)

    def next(self) -> str | PassBase | None:
        """Return the next pass; None at the end."""
        while self.left or (self.rounds < _MOST_ROUNDS and self.unsettled):
            if not self.left:
                self.left, self.rounds = list(self.again), self.rounds + 1
            spec = self.left.pop(0)
            if not (self.by_default and spec in self.settled):
                return spec
        return None

    def ended(self, name: str, *, modified: bool) -> None:
        """Note that the pass of that name has run."""
        self.settled = set() if modified else self.settled | {name}
        if self.by_default and modified and self.left:
            self.left[:0] = AFTER.get(name, ())


@dataclass
class _Growth:
    """The bytes by which the passes that fold may still make the file grow, all their runs together."""

    session: Session
    left: int
    held: int | None = None
    """The bytes of the constants, if nothing else changed them since they were counted."""

    def before(self, name: str) -> None:
        if self.held is None and name in _GROWING:
            self.held = self.session.survey.constant_bytes()

    def after(self, name: str) -> None:
        """Count the growth of a pass that changed the model."""
        if self.held is not None and name in _GROWING:
            now = self.session.survey.constant_bytes()
            self.left, self.held = self.left - min(max(now - self.held, 0), self.left), now
        else:
            self.held = None


@dataclass
class _Comparison:
    """The model before all passes, with which it is compared after each."""

    before: onnx_ir.Model
    options: Options
    rules: PromotionRules
    verdict: Verdict | None = None

    def require_same(self, session: Session, name: str) -> None:
        """Raise VerificationError if the model computes something else after the pass of that name."""
        from castsmith.verification.run import require_same

        self.verdict = require_same(
            self.before,
            session.model,
            name,
            accept=retyped(session.records.rewrites),
            engine=present(self.options.verify, "the engine"),
            promotion=replace(self.rules, promote_unsafe=True),
            dims=self.options.verify_dims,
            inputs=self.options.verify_inputs,
        )


def _report_what_is_left(session: Session, rules: PromotionRules, target: Target | None) -> None:
    """Add the errors of the optimized model that no pass reported, and what a device leaves to the CPU."""
    told = session.records.diagnostics
    if target is not None:
        from castsmith.lowering.float8.needs import TYPE_NOT_IN_TARGET

        # That a type stays is one cause, which the finding about the result states.
        told[:] = [each for each in told if each.code != TYPE_NOT_IN_TARGET.code]
    told += leftovers(session, rules, target)
    if target is not None:
        from castsmith.lowering.check.device import device_findings

        told += device_findings(session.model, session.inference(rules), target)


def rules_of(options: Options) -> PromotionRules:
    """Return the rules for operands whose types disagree. Raises PromotionError for an unknown preset."""
    return replace(as_rules(options.promotion), **stated_rules(options))


def retyped(rewrites: Iterable[Rewrite]) -> set[str]:
    """Return the inputs and outputs of the model whose element type the rewrites changed intentionally."""
    return {rewrite.site.node for rewrite in rewrites if rewrite.effect is Effect.INTERFACE}


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
