"""The comparison of two models: the inputs they are run on, the results compared, and the conclusions.

Each model is run one operator at a time (`verification.evaluate`), so that the meaning of the models is compared and
not an engine's rewrites. If the engine is a runtime, the second model is also run in it as a whole, and changes made by
the runtime are reported separately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx_ir

from castsmith.analysis.bounds.rounding import is_float
from castsmith.analysis.inference.walk import known_types
from castsmith.ir.errors import ModelError, VerificationError
from castsmith.ir.io.loading import ModelLike, as_model
from castsmith.ir.io.saving import reloaded
from castsmith.ir.records import Site
from castsmith.ir.text import node_item, site_of
from castsmith.ir.validation import require_known_opset
from castsmith.ir.walks import all_nodes
from castsmith.numerics.arguments import count, flag, function, mapping, number, text, texts
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules, as_rules
from castsmith.numerics.types import type_name
from castsmith.verification.checker import Term
from castsmith.verification.compare import (
    EXACT,
    Count,
    Difference,
    How,
    Interfaces,
    Tolerance,
    compare,
    difference,
    distances,
    element_text,
    interfaces,
    on_common_ground,
)
from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.evaluate.engines import OURSELVES, TITLES, Engine, EngineError
from castsmith.verification.evaluate.evaluator import Evaluator, Path
from castsmith.verification.evaluate.indices import depends_on_inputs
from castsmith.verification.evaluate.limits import Budget, FeedError, LimitError, seconds_for
from castsmith.verification.evaluate.names import MEMORY
from castsmith.verification.evaluate.promotion import dtype_of
from castsmith.verification.inputs.demands import Demands, demands
from castsmith.verification.inputs.drawn import Feeds, Sizes
from castsmith.verification.inputs.given import GivenInputs, given_sets
from castsmith.verification.inputs.sets import SETS, Sets
from castsmith.verification.prove.proof import Held, Proof, prove
from castsmith.verification.unseen import open_ends
from castsmith.verification.verdict import Mismatch, Traced, Verdict
from castsmith.verification.whole import Whole

_SETS_AFTER_PASSES = 6
"""Sets after each pass of `optimize`, half of the default: the whole is compared once more at the end."""

_MOST_WHOLE = 40
"""Sets on which the runtime runs the whole model too: more than the default, fewer than small inputs get."""

_MOST_SKIPPED = 2
"""Skipped sets for each that ran, beyond which what was tested is no sample of what the models take."""

_PART_OF_PROOF = 0.5
"""The fraction of the time for reading the models and searching for witnesses; the rest is for running them."""


def verify(
    a: ModelLike,
    b: ModelLike,
    *,
    rtol: float | Mapping[str, float] = 0.0,
    atol: float | Mapping[str, float] = 0.0,
    engine: str = "onnxruntime",
    promotion: PromotionRules | str | None = None,
    sets: int = SETS,
    seed: int = 0,
    nan_bits: bool = False,
    dims: Sizes | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | None = None,
    accept: Collection[str] = (),
    allow_unreached: bool = False,
    seconds: float | None = None,
    memory: int = MEMORY,
    prove: bool = False,
    trace: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Verdict:
    """Compare the results of two models bit for bit, or within a tolerance.

    Args:
        a: The first model: an onnx_ir.Model, a ModelProto, a torch ONNXProgram, a Result or a path.
        b: The second model.
        rtol: How far an element may be from that of `a`, relative to it: |a - b| <= atol + rtol * |a|. With a tolerance
            the generated inputs are ordinary numbers, and the largest errors are in `Verdict.outputs`. A mapping has
            a number for each output by its name, and under "" that of the others.
        atol: How far an element may be from that of `a`, in the same way.
        engine: The engine that runs everything except conversions: `onnxruntime`, `openvino` or `reference`.
        promotion: The rules for operands that disagree in type, or the name of a preset.
        sets: The number of sets of adversarial inputs; more if the inputs are small.
        seed: The seed of random inputs.
        nan_bits: A NaN of another sign or payload is a difference.
        dims: Sizes of symbolic dimensions by name.
        shapes: Shapes of inputs by name, for those whose dimensions have no names.
        inputs: Sets of inputs that replace the generated ones: arrays by name, several of them, an .npz or a folder.
        accept: The inputs and outputs whose element type may differ, or `all`; they are compared through it: codes of
            float8 as uint8, a wider or a narrower type.
        allow_unreached: Models may be equal although the inputs did not reach all parts in which they differ.
        seconds: The limit of processor time, by default 20 to 120 by the size of the models.
        memory: The limit of memory in MiB, the models apart. Inputs may take an eighth of it.
        prove: Report equality only if it is proven for all inputs.
        trace: Measure also the values within the models, and the errors of all outputs: `Verdict.traced`.
        progress: Called with the name of each set of inputs before it runs.

    Returns:
        The verdict, true if the models are equal.

    Raises:
        ModelError: A model or the inputs cannot be read, or an opset is unsupported.
        OptionError: The inputs, shapes or tolerances are not those of the model.
        EngineError: The engine is unknown or not installed.
        PromotionError: The rules refuse a promotion.
    """
    started = time.monotonic()
    sets, seed, memory = count("sets", sets), count("seed", seed), count("memory", memory, 1)
    dims, shapes = mapping("dims", dims), mapping("shapes", shapes)
    seconds = None if seconds is None else number("seconds", seconds, above=True)
    switches = {"nan_bits": nan_bits, "allow_unreached": allow_unreached, "prove": prove, "trace": trace}
    for name, switch in switches.items():
        flag(name, switch, OptionError)
    function("progress", progress)
    text("engine", engine)
    a, b = as_model(a), as_model(b)
    for model in (a, b):
        require_known_opset(model)
    rules = as_rules(promotion)
    declared = interfaces(a, b, texts("accept", accept))
    tolerances = _tolerances(a, rtol, atol)
    verdict = Verdict(
        engine, interface=list(declared.differences), tolerances={k: t for k, t in tolerances.items() if t}
    )
    runner = Engine(engine)
    if not verdict.interface:
        budget = Budget(seconds or seconds_for((a, b)), memory=memory)
        how = How(nan_bits, seed, prove, allow_unreached, tolerances, trace)
        comparison = _Comparison(a, b, rules, runner, budget, declared, verdict, how)
        tried = comparison.sets
        feeds = (
            given_sets(a, inputs, partial=True)
            if inputs is not None
            else tried.made(
                sets,
                {**dims, **shapes},
                verdict.runs,
                comparison.wanting,
                ordinary=bool(verdict.tolerances),
            )
        )
        comparison.all(feeds, progress)
    verdict.stood_in = tuple(sorted(runner.stood_in))
    verdict.computed = {name: tuple(sorted(runner.ran[name])) for name in (OURSELVES, *TITLES) if name in runner.ran}
    verdict.notes += dict.fromkeys(runner.crashes)
    verdict.seconds = time.monotonic() - started
    return verdict


def _tolerances(
    model: onnx_ir.Model, rtol: float | Mapping[str, float], atol: float | Mapping[str, float]
) -> dict[str, Tolerance]:
    """Return the tolerance of each output. Raises OptionError for a negative number, or one of no output."""
    names = [value.name or "" for value in model.graph.outputs]
    numbers: list[list[float]] = []
    for option, tolerance in (("rtol", rtol), ("atol", atol)):
        by_output = tolerance if isinstance(tolerance, Mapping) else {"": tolerance}
        for name, limit in by_output.items():
            if name and name not in names:
                raise OptionError(f"{option} names the unknown output {name!r}; expected {', '.join(names)}.")
            number(option, limit)
        numbers.append([float(by_output.get(name, by_output.get("", 0.0))) for name in names])
    return dict(zip(names, map(Tolerance, *numbers), strict=True))


def require_same(
    before: onnx_ir.Model,
    after: onnx_ir.Model,
    what: str,
    **options: Any,
) -> Verdict:
    """Compare two models as `verify` does, as read from files, with names resolved again.

    Raises:
        VerificationError: They differ; the message names the value and the node.
    """
    try:
        after = reloaded(after)
    except ModelError as error:
        raise VerificationError(f"verification failed: after {what}, the model cannot be read: {error}") from None
    settings: dict[str, Any] = {"sets": _SETS_AFTER_PASSES, **options}
    verdict = verify(reloaded(before), after, **settings)
    return require_no_difference(verdict, what)


def require_no_difference(verdict: Verdict, what: str) -> Verdict:
    """Return the verdict. Raises VerificationError if the models differ."""
    if not verdict.different:
        return verdict
    if verdict.mismatch is None:
        raise VerificationError(f"verification failed: after {what}, {verdict.interface[0]}.")
    mismatch, shown = verdict.mismatch, verdict.mismatch.difference
    if not mismatch.value:
        raise VerificationError(f"verification failed: after {what}, on inputs {mismatch.inputs} the model {shown.b}.")
    value = f"{mismatch.value}{list(shown.index) if shown.index else ''} ({mismatch.site})"
    raise VerificationError(
        f"verification failed: after {what}, {value} is {shown.b} and was {shown.a} on inputs {mismatch.inputs}."
    )


_GIVE = "pass inputs that the models accept and that reach it (`inputs=`)"


@dataclass
class _Comparison:
    a: onnx_ir.Model
    b: onnx_ir.Model
    rules: PromotionRules
    runner: Engine
    budget: Budget
    declared: Interfaces
    verdict: Verdict
    how: How
    first: Evaluator = field(init=False)
    second: Evaluator = field(init=False)
    sets: Sets = field(init=False)
    failed: tuple[Feeds, EngineError] | None = None
    """Inputs on which the first model did not run, and why."""

    def __post_init__(self) -> None:
        self.first = Evaluator(self.a, self.rules, self.runner, self.budget)
        self.second = Evaluator(self.b, self.rules, self.runner, self.budget)
        recoded = self.declared.recoded.items()
        recodings = {name: Held(how.a, how.b, how.through == "code") for name, how in recoded}
        how: dict[str, Any] = {"rules": self.rules, "nan_bits": self.how.nan_bits, "held": recodings}
        try:
            self.proof = prove(self.a, self.b, **how, pause=partial(self.budget.require_time, _PART_OF_PROOF))
        except LimitError:
            self.proof = Proof.of_nothing()
            reason = "reading the models for a proof took longer than the time limit (`seconds=` allows more)"
            self.verdict.unsure.append(reason)
        self.demands = Demands()
        if not self.verdict.tolerances:
            may_search, limits = partial(self.budget.has_time, _PART_OF_PROOF), self._limits()
            self.demands = demands(self.proof, nan_bits=self.how.nan_bits, limits=limits, may_search=may_search)
        self.demands.watch((self.first.coverage, self.second.coverage))
        notes = self.verdict.notes
        self.sets = Sets(self.a, self.b, self.first, self.budget, self.declared, self.how.seed, notes, self.demands)
        self.whole = Whole(self.b, self.runner.name, self.budget.left) if self.runner.name != "reference" else None
        self.verdict.outputs = {value.name or "": Count() for value in self.a.graph.outputs}

    def _limits(self) -> dict[Term, tuple[int, int]]:
        """Return the numbers that inputs have to be between, by the terms of the first model."""
        recoded, values = self.declared.recoded, self.proof.ours.values
        inputs = [(value, recoded[value.name or ""]) for value in self.a.graph.inputs if value.name in recoded]
        limits = [(value, recoding.limits) for value, recoding in inputs if recoding.limits is not None]
        return {term: ends for value, ends in limits for term in values.get(value, ())}

    def all(self, sets: Iterator[tuple[str, Feeds]], progress: Callable[[str], None] | None) -> None:
        """Run the sets until one shows a difference, all with a tolerance, and draw the conclusions."""
        shown: Feeds | None = None
        try:
            for name, feeds in sets:
                if progress is not None:
                    progress(f"inputs: {name}")
                before = self.verdict.mismatch
                self._run_set(name, feeds)
                if before is not self.verdict.mismatch or (shown is None and name in self.verdict.runs):
                    shown = feeds
                if self.verdict.mismatch is not None and not self.verdict.tolerances:
                    break
        except FeedError as error:
            self.sets.unread = str(error).rstrip(".")
        if self.verdict.mismatch is None:
            self._conclude()
        if self.how.trace and shown is not None:
            self.verdict.traced = self._traced(shown)

    def wanting(self) -> bool:
        """True while branches were not taken, or comparisons had only one result."""
        return bool(self._open_ends())

    # ---- one set

    def _run_set(self, name: str, feeds: Feeds) -> None:
        """Run both models on one set of inputs, compare the results, and note findings."""
        verdict, recoded = self.verdict, self.declared.recoded
        try:
            expected = self.sets.result(feeds)
        except EngineError as error:
            verdict.skipped.append((name, str(error)))
            self.failed = feeds, error
            return
        theirs = self._theirs(feeds)
        try:
            results = self.second.run(theirs)
        except LimitError as error:
            verdict.skipped.append((name, f"the second model: {error}"))
            return
        except EngineError as error:
            if error.open:
                verdict.skipped.append((name, f"the second model depends on undefined results: {error}"))
                return
            if error.unsupported:
                verdict.skipped.append((name, f"no engine runs the second model: {error}"))
                return
            gone = Difference((), "runs", f"does not run: {str(error).rstrip('.')}", 0, 0)
            verdict.mismatch = verdict.mismatch or Mismatch(name, "", Site(self.b.graph.name or ""), (None, None), gone)
            return
        for output, content in expected.items():
            tolerance = self.how.tolerances[output]
            count, nan_bits = verdict.outputs[output], self.how.nan_bits
            contents, recoding = (content, results[output]), recoded.get(output)
            output_difference = compare(*contents, count, recoding, nan_bits, tolerance, measured=self.how.trace)
            if output_difference is not None and verdict.mismatch is None:
                earlier = self._first_difference(name, feeds, theirs, tolerance)
                value = next(value for value in self.b.graph.outputs if value.name == output)
                verdict.mismatch = earlier or self._mismatch(name, value, output_difference, {}, None)
            if output_difference is not None and not verdict.tolerances and not self.how.trace:
                return
        verdict.runs.append(name)
        if self.whole is not None and not verdict.runtime and len(verdict.runs) <= _MOST_WHOLE:
            verdict.runtime += self.whole.differences(name, theirs, results, self.second, self.how)

    # ---- the place of a difference

    def _first_difference(
        self, name: str, feeds: Feeds, theirs: Feeds, tolerance: Tolerance = EXACT
    ) -> Mismatch | None:
        """Return the first value of B, in loops and calls too, that differs in A."""
        mismatches: list[Mismatch] = []
        arrays = {key: array for key, array in theirs.items() if isinstance(array, np.ndarray)}

        def see(path: Path, value: onnx_ir.Value, ours: Tensor | None, tensor: Tensor) -> None:
            arrays[value.name or ""] = tensor.array
            if mismatches or ours is None or (tolerance and _is_constant(value)):
                return
            pair, how = self._pair(value, ours, tensor), dict[str, Any](nan_bits=self.how.nan_bits, tolerance=tolerance)
            value_difference = None if pair is None else difference(*pair, ours.undefined, **how)
            if value_difference is not None:
                mismatches.append(self._mismatch(name, value, value_difference, arrays, tensor.array, path))

        return mismatches[0] if self._side_by_side(feeds, theirs, see) and mismatches else None

    def _traced(self, feeds: Feeds) -> list[Traced]:
        """Return how the values that both models have depart; of one in a loop, the worst."""
        worst = dict[str, Traced]()

        def see(path: Path, value: onnx_ir.Value, ours: Tensor | None, tensor: Tensor) -> None:
            del path
            pair = None if ours is None or _is_constant(value) else self._pair(value, ours, tensor)
            if pair is None or ours is None or not is_float(dtype_of(pair[0])):
                return
            defined = np.True_ if ours.undefined is None else ~ours.undefined
            apart, _ = distances(*pair)
            size = np.abs(pair[0].astype(np.float64))
            magnitude = float(size.max(initial=0.0, where=defined & np.isfinite(size)))
            largest = float(apart.max(initial=0.0, where=defined))
            name = value.name or ""
            error = largest / magnitude if largest and magnitude else largest
            before = worst.get(name, Traced(name, 0.0, 0.0))
            worst[name] = Traced(name, max(magnitude, before.magnitude), max(error, before.error))

        self._side_by_side(feeds, self._theirs(feeds), see)
        return list(worst.values())

    def _theirs(self, feeds: Feeds) -> Feeds:
        """Return the inputs of A as those of B."""
        recoded = self.declared.recoded
        return {k: recoded[k].to_b(v) if k in recoded and isinstance(v, np.ndarray) else v for k, v in feeds.items()}

    def _pair(self, value: onnx_ir.Value, ours: Tensor, tensor: Tensor) -> tuple[Array, Array] | None:
        """Return a value of both models in a comparable form; None if there is none."""
        if value not in self.b.graph.outputs:
            return on_common_ground(ours.array, tensor.array)
        recoding = self.declared.recoded.get(value.name or "")
        return (ours.array, tensor.array) if recoding is None else recoding.pair(ours.array, tensor.array)

    def _side_by_side(
        self, feeds: Feeds, theirs: Feeds, see: Callable[[Path, onnx_ir.Value, Tensor | None, Tensor], None]
    ) -> bool:
        """Run both again, and call `see` with each value of B and what A has of the same name; False if one stops."""
        of_first: dict[tuple[Path, str], Tensor] = {}
        stored_bytes = 0
        self.budget.extend()

        def keep(path: Path, value: onnx_ir.Value, tensor: Tensor) -> None:
            nonlocal stored_bytes
            stored_bytes += tensor.array.nbytes
            self.budget.require_memory(stored_bytes)
            of_first[path, value.name or ""] = tensor

        def watch(path: Path, value: onnx_ir.Value, tensor: Tensor) -> None:
            see(path, value, of_first.get((path, value.name or "")), tensor)

        try:
            self.first.run(feeds, keep)
            self.second.run(theirs, watch)
        except EngineError:
            return False
        return True

    def _mismatch(
        self,
        name: str,
        value: onnx_ir.Value,
        here: Difference,
        arrays: Mapping[str, Array],
        array: Array | None,
        path: Path = (),
    ) -> Mismatch:
        node = value.producer()
        theirs = next((n for n in all_nodes(self.a) if any(o.name == value.name for o in n.outputs)), None)
        site = site_of(node) if node is not None else Site(self.a.graph.name or "")
        operands: list[str] = []
        for operand in node.inputs if node is not None and array is not None else ():
            content = arrays.get(operand.name or "") if operand is not None else None
            if operand is not None and content is not None and content.shape == array.shape and here.index:  # type: ignore[union-attr]
                operands.append(f"{operand.name}{list(here.index)} = {element_text(content, here.index)}")
        nodes = (
            None if theirs is None else node_item(theirs, known_types(self.a)),
            None if node is None else node_item(node, known_types(self.b)),
        )
        within = tuple(f"{outer}, iteration {turn}" if turn else outer for outer, turn in path)
        return Mismatch(name, value.name or "", site, nodes, here, tuple(operands), within)

    # ---- what may be concluded

    def _conclude(self) -> None:
        verdict = self.verdict
        self._declared_types()
        verdict.proven = self.proof.proven
        tested = [name for name in verdict.outputs if name not in verdict.proven]
        if not verdict.outputs:
            verdict.unsure.append("the models have no outputs, so there is nothing to compare")
        if not verdict.runs:
            self._nothing_ran(tested)
        for name in tested if verdict.runs else ():
            count = verdict.outputs[name]
            if not count.compared:
                why = self._why_none(count)
                self._unsure(
                    f"no element of the output {name} was compared: {why}",
                    _GIVE if "without a seed" not in why else "give that operator a seed",
                )
            elif not count.numbers:
                self._unreached([f"the output {name} was NaN wherever it was compared"])
            if count.open_in_b:
                text = f"{count.open_in_b} elements of {name} are undefined only in the second model"
                self._unreached([f"{text}: runtimes may differ there"])
        if tested and verdict.runs:
            self._unreached(dict.fromkeys(self._open_ends()))
        title = TITLES[self.runner.name] if self.whole is not None else ""
        if (
            self.whole is not None
            and self.whole.invalid
            and not Whole(self.a, self.runner.name, self.budget.call).reason
        ):
            text = f"{title} loads the first model but not the second: {self.whole.reason}"
            self._unsure(text, f"compare without {title} (`engine='reference'`)")
        for name in tested if self.how.prove else ():
            self._unsure(f"the output {name} is not proven, only tested", "leave out `prove=` to accept tests")
        if self.sets.unread and verdict.runs and (tested or verdict.unsure):
            verdict.unsure.append(self.sets.unread)
        elif tested and verdict.runs and _MOST_SKIPPED * len(verdict.runs) < len(verdict.skipped):
            self._unreached([f"the models ran on {len(verdict.runs)} sets of inputs and not on {len(verdict.skipped)}"])
        self._report()

    def _unsure(self, reason: str, advice: str) -> None:
        """Note a reason not to call the models equal, and what would decide it."""
        self.verdict.unsure.append(reason)
        if advice not in self.verdict.advice:
            self.verdict.advice.append(advice)

    def _unreached(self, reasons: Iterable[str], ways: Sequence[str] = (_GIVE,)) -> None:
        """Note reasons that the caller may accept, and the other ways to decide them."""
        for reason in reasons:
            if self.how.allow_unreached:
                self.verdict.accepted.append(f"not reached, as allowed: {reason}")
            else:
                self._unsure(reason, ", or ".join([*ways, "accept that (`allow_unreached`)"]))

    def _declared_types(self) -> None:
        """Compare the declared types of outputs: other types are a difference, except for a corrected declaration.

        A declaration is corrected if the first model does not compute its declared type and the second declares the
        type that both compute.
        """
        for name, change in self.declared.outputs.items():
            value = next(value for value in self.b.graph.outputs if value.name == name)
            computed = self.second.coverage.output_types.get(name)
            ours = next(value for value in self.a.graph.outputs if value.name == name)
            shape = self.second.coverage.output_shapes.get(name, ())
            wrong = ours.dtype != computed or not _fits(ours, shape)
            if computed is not None and value.dtype == computed and wrong and _fits(value, shape):
                self.verdict.notes.append(f"{change}; the first model computes the type that the second declares")
            else:
                self.verdict.interface.append(change)

    def _nothing_ran(self, tested: Sequence[str]) -> None:
        skipped, verdict = self.verdict.skipped, self.verdict
        reason = skipped[0][1].rstrip(".") if skipped else self.sets.unread or "there are no inputs"
        by_name = {name: size for name, size in self.sets.made_up.items() if "[" not in name}
        sizes = " ".join(f"{name}={size}" for name, size in by_name.items())
        way = f"; Castsmith chose the sizes of symbolic dimensions: {sizes}; pass valid ones (`dims=`)" if sizes else ""
        text = f"the models did not run on any of the inputs: {reason}{way}"
        unsupported, shapes = (
            self.failed is not None and self.failed[1].unsupported,
            len(by_name) < len(self.sets.made_up),
        )
        ways = [f"{_GIVE}{' or their shapes (`shapes=`)' if shapes else ''}"]
        if unsupported or "`" in reason:  # no input helps, or it names the option itself
            ways = []
        if ways and self._runs_by_reference():
            ways = ["run them by the reference implementation (`engine='reference'`)"]
        if not tested and verdict.outputs:
            self._unreached([text], ways)
        elif ways:
            self._unsure(text, ways[0])
        else:
            verdict.unsure.append(f"{text}; no option decides that" if unsupported else text)

    def _runs_by_reference(self) -> bool:
        """True if the reference implementation runs the first model on inputs on which the engine does not."""
        if self.failed is None or self.runner.name == "reference":
            return False
        try:
            Evaluator(self.a, self.rules, Engine("reference"), self.budget).run(self.failed[0])
        except EngineError:
            return False
        return True

    def _why_none(self, count: Count) -> str:
        if not count.elements:
            return "it is empty"
        random = sorted(self.first.random)
        drawn = [name for name in random if name.endswith("(no seed)")]
        if drawn:
            return f"it depends on {drawn[0].removesuffix(' (no seed)')} without a seed"
        return f"all {count.elements} depend on undefined results"

    def _open_ends(self) -> list[str]:
        """Yield computations that differ between the models and that the inputs did not cover."""
        exact = not self.verdict.tolerances
        return [*self.demands.unmet(), *open_ends(self.proof, self.first, self.second, exact=exact)]

    def _report(self) -> None:
        verdict = self.verdict
        for title, evaluator in (("first", self.first), ("second", self.second)):
            nodes = list(all_nodes(evaluator.model))
            verdict.not_reached += [f"{text} in the {title} model" for _, _, text in evaluator.coverage.untaken(nodes)]
            flat = [text for node, text in evaluator.coverage.flat(nodes) if depends_on_inputs(node.outputs[0])]
            verdict.not_reached += [f"{text} in the {title} model" for text in flat]
            tables = evaluator.coverage.rows.items() if len(verdict.proven) < len(verdict.outputs) else ()
            for node, rows in tables:
                if not rows.all():
                    text = f"{int((~rows).sum())} of the {rows.size} rows of {site_of(node)} in the {title} model"
                    verdict.not_reached.append(text)
            for name in sorted(evaluator.random):
                seeded = (
                    "it has a seed, so it was compared"
                    if not name.endswith("(no seed)")
                    else "it has no seed, so nothing that depends on it was compared"
                )
                verdict.notes.append(f"{name} in the {title} model draws random numbers: {seeded}")
        for name, recoding in self.declared.recoded.items():
            types = f"{type_name(recoding.a)} in the first model and {type_name(recoding.b)} in the second"
            verdict.accepted.append(f"{name} is {types}, compared through {_THROUGH[recoding.through]}")


def _is_constant(value: onnx_ir.Value) -> bool:
    """True if a node without operands makes the value, such as a weight, at which no error begins."""
    node = value.producer()
    return node is not None and not node.inputs


_THROUGH = {"code": "the code", "wider": "the wider type", "narrower": "the narrower type"}


def _fits(value: onnx_ir.Value, shape: tuple[int, ...]) -> bool:
    """True if a result has the declared shape."""
    if value.shape is None:
        return True
    declared = [dim if isinstance(dim, int) else None for dim in value.shape]
    return len(declared) == len(shape) and all(a in (None, b) for a, b in zip(declared, shape, strict=True))
