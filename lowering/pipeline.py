"""optimize: Run the passes in order, with the records of all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

import onnx_ir
from onnx_ir.passes import PassBase

from castsmith.collection import paused_collection
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.io.loading import ModelLike, own_model
from castsmith.ir.records import Diagnostic, Effect, Rewrite, Severity, Site
from castsmith.ir.walks import constant_bytes
from castsmith.lowering.registry import AFTER, ON_REQUEST, PASSES, PIPELINE, make_pass, name_of, needs_target
from castsmith.lowering.results import Result
from castsmith.lowering.running import Run, leftovers
from castsmith.numerics.errors import OptionError, did_you_mean, present
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.passes.core.options import PASS_OPTIONS, Options, stated_rules, takes
from castsmith.passes.core.session import Session

if TYPE_CHECKING:
    from castsmith.targets.target import Target
    from castsmith.verification.verdict import Verdict

_GROWING = ("fold-shapes", "fold-constants")
"""The passes that may make the file larger, within a limit for all their runs together."""
_MOST_ROUNDS = 8
"""Largest number of rounds of the passes while they find something: the result of one may be simplified by another.

Every rewrite lowers a measure (`castsmith.passes.core.cost`), so that no run should get there.
"""


UNSETTLED = FindingCode(
    "unsettled",
    "The passes of optimize still change the model after the maximum number of rounds.",
    why="Two of them undo each other, which is a defect. The result is valid, and computes the same.",
    example="optimize model.onnx -o optimized.onnx",
    advice="Please report the model. Passes that you name (--passes) run once each.",
    outcomes=(Outcome.NEITHER,),
    fix="none",
    silence="Always: nothing is wrong with the result.",
)


@takes(Options)
def optimize(model: ModelLike, options: Options) -> Result:
    """Fix the element types of `model`, and legalize it for `target` if given.

    Each option of `castsmith.Options` is an argument of that name.

    Args:
        model: An onnx_ir.Model, a ModelProto, a torch ONNXProgram, or a path. It is not changed; the result shares the
            tensors of a model in memory.

    Returns:
        The optimized model with the records of all passes.

    Raises:
        ModelError: The model cannot be read.
        PromotionError: The rules refuse a promotion.
        TargetError: The target is unknown.
        OptionError: A pass is unknown, or an option does not support its value.
        VerificationError: The results of the model changed.
    """
    options = replace(options, target=_target(options))  # an error of the options comes before one of the model
    with paused_collection():
        loaded = own_model(model, in_place=options.in_place)
        path = model if isinstance(model, str | os.PathLike) else None
        return optimize_loaded(loaded, options, path)


def optimize_loaded(model: onnx_ir.Model, options: Options, path: str | os.PathLike[str] | None = None) -> Result:
    """Do what `optimize` does to a model that was just loaded, which is changed and not checked again.

    path: The file of the model, from which a certificate starts.
    """
    rules, target = rules_of(options), _target(options)
    session = Session(model, in_order=True)
    run = Run(session, options.provenance, options.progress)
    if options.certificate:
        from castsmith.lowering.certificate import certifier_of  # imports onnx's reference implementation

        run.certifier = certifier_of(model, path)
    compare = None if options.verify is None else _comparison(model.clone(), options, rules)
    verdict: Verdict | None = None
    schedule = _Schedule.of(options, targeted=target is not None)
    settings = {**asdict(rules), **{name: getattr(options, name) for name in PASS_OPTIONS}, "target": target}
    growth = _Growth(session, options.max_total_growth)
    while (spec := schedule.next()) is not None:
        name = name_of(spec)
        growth.before(name)
        settings["max_total_growth"] = growth.allowance
        result = run.apply(make_pass(spec, settings) if isinstance(spec, str) else spec)
        schedule.ended(name, modified=result.modified)
        if result.modified:
            growth.after(name)
            if compare is not None:
                verdict = compare(session, name)
    if schedule.unsettled:
        message = f"the passes still change the model after {_MOST_ROUNDS} rounds"
        help_ = "the result is valid; please report the model"
        run.records.diagnostics.append(
            Diagnostic(UNSETTLED.code, Severity.NOTE, Site(session.model.graph.name or ""), message, help_)
        )
    if options.passes is None and options.until is None:
        _report_what_is_left(session, replace(rules, promote_unsafe=True), target)
    if compare is not None and verdict is None:
        verdict = compare(session, "no pass")
    records = run.records
    certificate = None if run.certifier is None else run.certifier.certificate(session.model)
    return Result(session.model, records.rewrites, records.refusals, records.diagnostics, verdict, certificate)


@dataclass
class _Schedule:
    """The passes still to run: those that the caller names, once each; else all, in rounds until none finds anything.

    Attributes:
        remaining: The passes that are left in this round.
        again: The passes of each further round; none if the caller names passes, or the last one.
        by_default: Leave out a pass that found nothing since the last change.
    """

    remaining: list[str | PassBase]
    again: Sequence[str | PassBase]
    by_default: bool
    rounds: int = 1
    settled: set[str] = field(default_factory=set[str])
    """The passes that found nothing since the last change."""

    @classmethod
    def of(cls, options: Options, *, targeted: bool) -> _Schedule:
        on_request = [name for name, on in (("use-vendor", options.vendor), ("narrow-types", options.narrow)) if on]
        specs = _specs(options.passes, options.until, on_request, targeted=targeted)
        by_default = options.passes is None
        return cls(specs, tuple(specs) if by_default and options.until is None else (), by_default)

    @property
    def unsettled(self) -> bool:
        """True if a pass of a further round may find something."""
        return bool(set(self.again) - self.settled)

    def next(self) -> str | PassBase | None:
        """Return the next pass; None at the end."""
        while self.remaining or (self.rounds < _MOST_ROUNDS and self.unsettled):
            if not self.remaining:
                self.remaining, self.rounds = list(self.again), self.rounds + 1
            spec = self.remaining.pop(0)
            if not (self.by_default and spec in self.settled):
                return spec
        return None

    def ended(self, name: str, *, modified: bool) -> None:
        """Note that the pass of that name has run."""
        self.settled = set() if modified else self.settled | {name}
        if self.by_default and modified and self.remaining:
            self.remaining[:0] = AFTER.get(name, ())


@dataclass
class _Growth:
    """The bytes by which the passes that fold may still make the file grow, all their runs together."""

    session: Session
    allowance: int
    counted: int | None = None
    """The bytes of the constants, if nothing else changed them since they were counted."""

    def before(self, name: str) -> None:
        if self.counted is None and name in _GROWING:
            self.counted = constant_bytes(self.session.model)

    def after(self, name: str) -> None:
        """Count the growth of a pass that changed the model."""
        if self.counted is not None and name in _GROWING:
            now = constant_bytes(self.session.model)
            self.allowance, self.counted = self.allowance - min(max(now - self.counted, 0), self.allowance), now
        else:
            self.counted = None


def _comparison(before: onnx_ir.Model, options: Options, rules: PromotionRules) -> Callable[[Session, str], Verdict]:
    """Return what raises VerificationError if the model computes something else after the pass of that name."""
    from castsmith.verification.run import require_same

    return lambda session, name: require_same(
        before,
        session.model,
        name,
        accept=retyped(session.records.rewrites),
        engine=present(options.verify, "the engine"),
        promotion=replace(rules, promote_unsafe=True),
        dims=options.verify_dims,
        inputs=options.verify_inputs,
    )


def _report_what_is_left(session: Session, rules: PromotionRules, target: Target | None) -> None:
    """Add the errors of the optimized model that no pass reported, and what a device leaves to the CPU."""
    diagnostics = session.records.diagnostics
    if target is not None:
        from castsmith.lowering.float8.needs import TYPE_NOT_IN_TARGET

        # That a type stays is one cause, which the finding about the result states.
        diagnostics[:] = [finding for finding in diagnostics if finding.code != TYPE_NOT_IN_TARGET.code]
    diagnostics += leftovers(session, rules, target)
    if target is not None:
        from castsmith.lowering.check.device import device_findings
        from castsmith.lowering.check.scene import Scene

        diagnostics += device_findings(Scene(session.model, session.inference(rules), target))


def rules_of(options: Options) -> PromotionRules:
    """Return the rules for operands whose types disagree. Raises PromotionError for an unknown preset."""
    return replace(as_rules(options.promotion), **stated_rules(options))


def retyped(rewrites: Iterable[Rewrite]) -> set[str]:
    """Return the inputs and outputs of the model whose element type the rewrites changed intentionally."""
    return {rewrite.site.node for rewrite in rewrites if rewrite.effect is Effect.INTERFACE}


def _specs(
    passes: Sequence[str | PassBase] | None, until: str | None, on_request: Sequence[str], *, targeted: bool
) -> list[str | PassBase]:
    if passes is None:
        names = list(PIPELINE)
        for name in on_request:
            place = names.index(next(later for later in list(PASSES)[list(PASSES).index(name) :] if later in names))
            names[place:place] = (name, *ON_REQUEST[name])
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
