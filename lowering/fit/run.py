"""fit: try the ways to make a model run on a target, and take the cheapest that the caller allows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import onnx_ir
from onnx_ir import DataType

from castsmith.collection import paused_collection
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.ir.records import Diagnostic, NodeItem, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.accuracy import Inputs, Reference, measure, reference
from castsmith.lowering.check.pairs import TARGET_MISCOMPUTES_CAST
from castsmith.lowering.check.registered import MALFORMED_OPERATOR, UNREGISTERED_OPERATOR
from castsmith.lowering.check.run import all_findings
from castsmith.lowering.check.standard import INVALID_MODEL
from castsmith.lowering.conversion import convert
from castsmith.lowering.fit.blame import in_users_words
from castsmith.lowering.fit.cost import Cost, cost_of
from castsmith.lowering.fit.results import FitResult, Step, Way
from castsmith.lowering.fit.ways import (
    VENDORS,
    Traits,
    conversions,
    exact_steps,
    ports_of,
    traits_of_model,
    weights_alone,
)
from castsmith.lowering.float8.apply import STORE_AS_CODES
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.quantized import nbits
from castsmith.lowering.results import Accuracy, ConvertResult, Result
from castsmith.numerics.arguments import flag, function, mapping, number
from castsmith.numerics.errors import ArgumentTypeError, CastsmithError, OptionError, present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name
from castsmith.passes.precision.evidence import keys_of
from castsmith.targets.target import as_target

if TYPE_CHECKING:
    from castsmith.targets.target import Target

_NEAR = 1.1
"""How much more than the model itself a result may cost so that no further way is tried."""
_WORTH_TELLING = 0.9
"""The most that a result with rounded values may cost, as a share of an exact one, to be told of."""
_MOST_MEASURED = 500
"""The nodes of the largest model whose error is measured for a hint alone."""
_TWICE = 2.0
"""How much more than a result with rounded values an exact one may cost and still be preferred."""


def fit(
    model: ModelLike,
    *,
    target: str | Target,
    exact: bool = False,
    max_error: float | None = None,
    inputs: Inputs | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    dims: Mapping[str, int] | None = None,
    all_ways: bool = False,
    progress: Callable[[str], None] | None = None,
) -> FitResult:
    """Make a model run on a target, by the cheapest of the ways that `optimize` and `convert` offer.

    Args:
        model: An onnx_ir.Model, a ModelProto, a torch ONNXProgram, or a path. It is not changed.
        target: The runtime, or its name.
        exact: Allow only results that are the same, bit for bit: no operators that add products in another order.
        max_error: The relative error that outputs may have; without it no value is rounded to another precision.
        inputs: Arrays to measure the error on: by name, several sets, an .npz, a folder; by default generated ones.
        ranges: Between which numbers the integers of inputs lie, by name: those that fit may become int32.
        dims: Sizes of symbolic dimensions, for generated inputs.
        all_ways: Try all ways, and do not stop at the first that is good enough.
        progress: Called with each way before it is tried.

    Returns:
        The model with the plan that made it. If no way leads to a model that the target accepts, the plan is empty and
        `diagnostics` has the errors.

    Raises:
        CastsmithError: ModelError for a model that cannot be read; PromotionError for operands without a common type;
            TargetError for an unknown target; OptionError for options that contradict each other.
    """
    flag("exact", exact, OptionError)
    flag("all_ways", all_ways, OptionError)
    function("progress", progress)
    max_error = None if max_error is None else number("max_error", max_error, above=True)
    ranges, dims = mapping("ranges", ranges), mapping("dims", dims)
    if exact and max_error is not None:
        raise OptionError("`exact` and `max_error` exclude each other: the first allows no error.")
    chosen = as_target(target)
    if chosen is None:
        raise ArgumentTypeError("target must be a Target or the name of one, not None.")
    source = as_model(model)
    tell: Callable[[str], None] = progress or (lambda _: None)
    traits, before = traits_of_model(source), cost_of(source)
    search = _Search(source, traits, chosen, not exact, ranges, all_ways, tell, before, max_error, inputs, dims)
    return search.decided()


_OF_THE_MODEL = (
    *(INVALID_MODEL.code, MALFORMED_OPERATOR.code, UNREGISTERED_OPERATOR.code),
    TARGET_MISCOMPUTES_CAST.code,
)
"""Errors that no way of fitting a model brings about or removes, and with which the target may load it.

Operators may be registered by the application, but for those of another runtime. Wrong casts are replaced by every way,
where that is possible.
"""


def _obstacles(model: onnx_ir.Model, findings: Iterable[Diagnostic]) -> tuple[str, ...]:
    """Return the errors that keep the target from running the model, each once."""
    of_vendors = {site_of(node) for node in all_nodes(model) if node.domain in VENDORS}
    errors = (finding for finding in findings if finding.severity is Severity.ERROR)
    standing = (error.message for error in errors if error.code not in _OF_THE_MODEL or error.site in of_vendors)
    return tuple(dict.fromkeys(standing))


_FUNCTIONS: Mapping[str, Callable[..., Result]] = {"optimize": optimize, "convert": convert}


@dataclass
class _Attempt:
    """A way with the model that it led to, and what `check` finds in it."""

    way: Way
    result: Result | None = None
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    keeps_ports: bool = True
    """False if the type of an input or output changed that the target has."""

    @property
    def cost(self) -> float:
        """The cost of the result; infinite without one."""
        return float("inf") if self.way.cost is None else self.way.cost.total

    @property
    def rank(self) -> tuple[bool, bool, bool, float, int]:
        """Legal ways first, then exact ones, those that keep inputs and outputs, the cheapest, and the shortest."""
        return not self.way.legal, self.way.lossy, not self.keeps_ports, self.cost, len(self.way.steps)


@dataclass
class _Search:
    """The ways that were tried so far.

    Attributes:
        model: The model as it was passed.
        traits: What it has that decides which ways may help it.
        target: The runtime.
        reorder: Operators that add products in another order may be used.
        ranges: Between which numbers the integers of inputs lie.
        every: No way is left out.
        tell: Called with each step before it is done.
        before: The cost of the model.
        most: The largest error allowed; None if nothing may be rounded.
        inputs: The inputs to measure on; generated ones if None.
        dims: Sizes of symbolic dimensions, for generated inputs.
        refused: The smallest error of a way that exceeds the largest one allowed.
    """

    model: onnx_ir.Model
    traits: Traits
    target: Target
    reorder: bool
    ranges: Mapping[str, tuple[float, float]]
    every: bool
    tell: Callable[[str], None]
    before: Cost
    most: float | None
    inputs: Inputs | None
    dims: Mapping[str, int] | None
    attempts: list[_Attempt] = field(default_factory=list[_Attempt])
    refused: str = ""
    _is_too_inexact: bool = False
    """True if float was too inexact: precisions that hold fewer values follow."""
    _reference: Reference | None = None

    def decided(self) -> FitResult:
        """Try the exact ways, then those that round values if these cost too much, and return the choice."""
        exact = self.best_exact()
        cheap = exact is not None and self.is_good
        lossy = self.best_conversion(exact) if self.every or not cheap else None
        if lossy is not None and self.most is not None:
            return self.with_magnitudes(self.fitted(lossy, ""))
        hint = self.hint(exact, lossy)
        return self.refusal(hint) if exact is None else self.fitted(exact, hint)

    @property
    def is_good(self) -> bool:
        """True if a way leads to a legal model that costs hardly more than the model itself."""
        legal = [attempt for attempt in self.attempts if attempt.way.legal and attempt.keeps_ports]
        return any(attempt.way.cost is not None and attempt.way.cost.is_within(_NEAR, self.before) for attempt in legal)

    @paused_collection()
    def best_exact(self) -> _Attempt | None:
        """Try the ways that round nothing; an error of the first, which has no options, is one of the model."""
        for step in exact_steps(self.model, self.traits, self.target, self.ranges, reorder=self.reorder):
            if not self.every and self.is_good:
                break
            if self._may_help(step, self.attempts):
                result = self._run(step, self.model) if self.attempts else self._call(step, self.model)
                self._note((step,), result, lossy=False)
        return self._best(self.attempts)

    def best_behind(self, conversion: Step) -> _Attempt | None:
        """Try the ways that begin with the conversion, until one is legal."""
        converted, behind = self._run(conversion, self.model), list[_Attempt]()
        if isinstance(converted, str):
            self._note((conversion,), converted, lossy=True)
            return None
        conversion = replace(conversion, cost=cost_of(converted.model))
        traits = traits_of_model(converted.model)
        for step in exact_steps(converted.model, traits, self.target, self.ranges, reorder=self.reorder):
            if not self.every and self._best(behind):
                break
            if self._may_help(step, behind) and (self.every or not _may_change_ports(step)):
                steps, result = _joined(conversion, converted, step, self._run(step, converted.model))
                behind.append(self._note(steps, result, lossy=True))
        return self._best(behind)

    def _may_help(self, step: Step, before: Iterable[_Attempt]) -> bool:
        """True if the step may come to something else than those before it, and is not worse for sure."""
        if "storage" in step.options and not any(_packs(attempt.result) for attempt in before):
            return False
        return self.every or not (_may_change_ports(step) and self._best(before))

    def is_beside_the_point(self) -> bool:
        """True if every way leaves the same, so that another precision will not help either."""
        outcomes = {attempt.way.obstacles for attempt in self.attempts if attempt.result is not None}
        return not self.every and len(outcomes) == 1 and outcomes != {()}

    def _best(self, attempts: Iterable[_Attempt]) -> _Attempt | None:
        legal = (attempt for attempt in attempts if attempt.way.legal)
        return min(legal, key=lambda attempt: attempt.rank, default=None)

    def _run(self, step: Step, model: onnx_ir.Model) -> Result | str:
        """Do the step; return the reason if it cannot be done."""
        try:
            return self._call(step, model)
        except CastsmithError as error:
            return str(error)

    def _call(self, step: Step, model: onnx_ir.Model) -> Result:
        self.tell(str(step))
        return _FUNCTIONS[step.command](model, **{**step.options, "target": self.target})

    @paused_collection()
    def _note(self, steps: tuple[Step, ...], result: Result | str, *, lossy: bool) -> _Attempt:
        """Return a way that was tried, or one with fewer options that came to the same."""
        if isinstance(result, str):
            self.attempts.append(_Attempt(Way(steps, lossy=lossy, obstacles=(result,))))
            return self.attempts[-1]
        cost, retyped = cost_of(result.model), dict(_retyped_ports(self.traits.ports, result.model))
        reordered = any(rewrite.rule == nbits.USE_MATMUL_NBITS.code for rewrite in result.rewrites)
        changes = (*retyped.values(), *(("MatMulNBits adds products in a different order",) if reordered else ()))
        findings = all_findings(result.model, PromotionRules(), self.target)
        obstacles = _obstacles(result.model, (*result.diagnostics, *findings))
        way = Way((*steps[:-1], replace(steps[-1], cost=cost)), not obstacles, cost, changes, lossy, None, obstacles)
        for attempt in self.attempts:
            if _comes_to_the_same(attempt.way, way):
                return attempt
        keeps_ports = all(self.traits.ports[name] in self.target.lacks for name in retyped)
        self.attempts.append(_Attempt(way, result, findings, keeps_ports))
        return self.attempts[-1]

    def fitted(self, best: _Attempt, hint: str) -> FitResult:
        """Return the model to which a way led."""
        result = present(best.result, "the result of a legal way")
        return FitResult(
            result.model,
            result.rewrites,
            result.refusals,
            result.diagnostics,
            plan=list(best.way.steps),
            changes=best.way.changes,
            error=best.way.error,
            before=self.before,
            ways=self._ways(),
            findings=best.findings,
            hint=hint,
            conversion=result if isinstance(result, ConvertResult) else None,
        )

    def refusal(self, hint: str) -> FitResult:
        """Return the model as it was passed, with what stands in the way of the way that leaves the least."""
        results = [attempt for attempt in self.attempts if attempt.result is not None]
        nearest = min(results, key=lambda attempt: (attempt.way.lossy, len(attempt.way.obstacles)))
        result, ways = present(nearest.result, "the result of the first way"), self._ways()
        help_ = f"{len(ways)} ways were tried" if len(ways) > 1 else "it has no exact replacement"
        findings = (*result.diagnostics, *nearest.findings)
        errors = [replace(finding, help=help_) for finding in findings if finding.severity is Severity.ERROR]
        diagnostics = in_users_words(self.model, result.rewrites, errors)
        return FitResult(self.model, diagnostics=diagnostics, before=self.before, ways=ways, hint=hint)

    def _ways(self) -> list[Way]:
        return [attempt.way for attempt in sorted(self.attempts, key=lambda attempt: attempt.rank)]

    def best_conversion(self, exact: _Attempt | None) -> _Attempt | None:
        """Return the cheapest way that rounds values, if the best exact one costs more than twice as much."""
        ways = list[_Attempt]()
        for conversion in self._conversions(exact):
            if not self.every and (ways or self._is_too_inexact):
                break
            best = self.best_behind(conversion)
            if self.is_beside_the_point():
                break
            if best is None:
                continue
            is_worth_it = exact is None or exact.cost > _TWICE * best.cost
            is_measured = is_worth_it or self.every  # with its error
            if not is_measured and conversion.options["to"] != type_name(DataType.FLOAT):
                break  # another type of 16 bits costs as much
            if is_measured and self._is_accurate(best) and is_worth_it:
                ways.append(best)
        return min(ways, key=lambda attempt: attempt.rank, default=None)

    def with_magnitudes(self, fitted: FitResult) -> FitResult:
        """Return the result with the largest magnitude of each node in the model as it was passed, as measured."""
        if fitted.conversion is None or self._reference is None:
            return fitted
        measured, keys = self._reference.measured(), keys_of(self.model)
        nodes = (node for node in all_nodes(self.model) if node.outputs)
        labels = [(node.name or node.outputs[0].name or "", node) for node in nodes]
        counts = Counter(label for label, _ in labels)
        magnitudes = {
            label: bound.magnitude
            for label, node in labels
            if counts[label] == 1  # `precisions` tells the others apart by numbers
            and label in fitted.conversion.precisions
            and (bound := measured.get(keys[node.outputs[0]])) is not None
        }
        return replace(fitted, conversion=replace(fitted.conversion, magnitudes=magnitudes))

    def _conversions(self, exact: _Attempt | None) -> Iterator[Step]:
        """Yield conversions of the whole model; then of a part, which takes long, if nothing else is legal."""
        entire = list(conversions(self.traits, self.target, from_any=self.every or exact is None))
        yield from entire
        if self.every:
            yield from weights_alone(self.model, self.target)
        if self.most is not None and exact is None and self.refused:
            self._is_too_inexact = False
            yield from (replace(step, options={**step.options, "max_error": self.most}) for step in entire)

    def _is_accurate(self, attempt: _Attempt) -> bool:
        """Measure the error of a way; True if it is allowed, or would be, and where that takes too long for a hint."""
        if self.most is None and not self.every and self.before.nodes > _MOST_MEASURED:
            return True
        try:
            if self._reference is None:
                self.tell("measuring")
                self._reference = reference(self.model.clone(), self.inputs, self.dims)
            error = measure(self._reference, present(attempt.result, "the result of a legal way").model)
        except CastsmithError as why:
            attempt.way = replace(attempt.way, obstacles=(str(why),))
            self.refused = self.refused or str(why).rstrip(".")
            return False
        attempt.way = replace(attempt.way, error=error)
        if self.most is None or error.worst <= self.most:
            return True
        self._is_too_inexact = attempt.way.steps[0].options["to"] == type_name(DataType.FLOAT)
        too_large = f"its error is {error.worst:.2g} on {self._sets(error)}, above {self.most:g}"
        attempt.way = replace(attempt.way, obstacles=(too_large,))
        self.refused = self.refused or f"`{attempt.way.steps[0]}` would be legal, but {too_large}"
        return False

    def _sets(self, error: Accuracy) -> str:
        count = len(error.sets)
        return f"{count} set{'' if count == 1 else 's'} of {'generated ' if self.inputs is None else ''}inputs"

    def hint(self, exact: _Attempt | None, lossy: _Attempt | None) -> str:
        """Return the sentence about what is not taken: what would allow it, or what it would save."""
        if lossy is not None:
            step, cost, error = lossy.way.steps[0], lossy.way.cost, lossy.way.error
            if error is None:
                return f"`max_error` allows `{step}`: {cost}; `all_ways` measures its error"
            return (
                f"`max_error` {_rounded_up(error.worst)} allows `{step}`: {cost}, and an error of"
                f" {error.worst:.2g} on {self._sets(error)}"
            )
        others = [
            attempt
            for attempt in self.attempts
            if attempt.way.lossy and attempt.way.legal and not attempt.way.obstacles
        ]
        cheapest = min(others, key=lambda attempt: attempt.cost, default=None)
        if exact is None or cheapest is None or cheapest.cost > _WORTH_TELLING * exact.cost:
            return self.refused
        return f"`{cheapest.way.steps[0]}` costs {cheapest.cost / exact.cost:.0%} of this, and rounds values"


def _rounded_up(error: float) -> str:
    """Return the least number of one digit that is not below the error."""
    if not 0 < error < float("inf"):
        return "1e-7"
    power = math.floor(math.log10(error))
    digit = math.ceil(error / 10.0**power)
    return f"{digit}e{power}" if digit < 10 else f"1e{power + 1}"


def _comes_to_the_same(first: Way, second: Way) -> bool:
    """True if both begin alike, apart from options, and have the same outcome."""
    pairs = [(way.steps[0].command, len(way.steps), way.cost, way.changes, way.obstacles) for way in (first, second)]
    return pairs[0] == pairs[1]


def _packs(result: Result | None) -> bool:
    """True if the result has weights of less than a byte each, which it unpacks."""
    rewrites = () if result is None else result.rewrites
    stored = (rewrite for rewrite in rewrites if rewrite.rule == STORE_AS_CODES.code)
    return any(isinstance(item, NodeItem) for rewrite in stored for item in rewrite.made)


def _may_change_ports(step: Step) -> bool:
    """True if the step may change the types of inputs and outputs, which their users have to follow."""
    return bool({"interface", "narrow_interface"} & step.options.keys())


def _joined(first: Step, converted: Result, step: Step, then: Result | str) -> tuple[tuple[Step, ...], Result | str]:
    """Return the steps and the result of a conversion and what was done after it; of the conversion, if nothing was."""
    if isinstance(then, str):
        return (first, step), then
    rewrites, refusals = [*converted.rewrites, *then.rewrites], [*converted.refusals, *then.refusals]
    result = replace(converted, model=then.model, rewrites=rewrites, refusals=refusals, diagnostics=then.diagnostics)
    return (first, step) if then.rewrites else (first,), result


def _retyped_ports(before: Mapping[str, DataType], after: onnx_ir.Model) -> Iterator[tuple[str, str]]:
    """Yield the name of each input or output whose type is another one, and a phrase that says so."""
    types = ports_of(after)
    for name, dtype in before.items():
        if name in types and types[name] != dtype:
            yield name, f"{name} is {type_name(types[name])} instead of {type_name(dtype)}"
