"""optimize: the passes in their order, with the records of all of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir
from onnx_ir.passes import PassBase

from castsmith.ir.inference import infer_element_types, lend
from castsmith.ir.io import as_model
from castsmith.ir.records import Diagnostic, Effect, Records, Refusal, Rewrite, RewriteResult
from castsmith.ir.rewrite_pass import note_provenance
from castsmith.ir.walks import all_nodes, all_tensors
from castsmith.lowering.registry import (
    AFTER,
    ON_REQUEST,
    PASSES,
    PIPELINE,
    OptionError,
    make_pass,
    needs_target,
    pass_name,
)
from castsmith.numerics.promotion import PromotionRules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from castsmith.ir.targets import Target
    from castsmith.ir.verify import Verdict
    from castsmith.lowering.custom import Lowering

_FIRST_LOWERING = "lower-trunc"
_GROWING = "fold-constants"
"""The pass that may make the file larger, within a limit for all its runs together."""
_MOST_ROUNDS = 8
"""How often the passes run one after the other, as long as they find something: what one makes, another simplifies."""


@dataclass(frozen=True)
class Result:
    """The optimized model, and what was done, refused and noticed on the way, in order; the verdict of `verify`."""

    model: onnx_ir.Model
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    verdict: Verdict | None = None

    def summary(self) -> str:
        """One sentence: the counts of rewrites, refusals and diagnostics, and what `verify` concluded."""
        counts = {"rewrite": self.rewrites, "refusal": self.refusals, "diagnostic": self.diagnostics}
        text = ", ".join(f"{len(records)} {name}{'' if len(records) == 1 else 's'}" for name, records in counts.items())
        return text if self.verdict is None else f"{text}; verified: {self.verdict.summary()}"

    def _repr_html_(self) -> str:
        from castsmith.ir.notebook import notebook_html

        told = [(each.severity.value, each.code, str(each.site), each.message, each.help) for each in self.diagnostics]
        done = [(e.rule, str(e.site), e.before, e.after, e.reason, e.effect.value) for e in self.rewrites]
        left = [(each.rule, str(each.site), each.reason, each.witness) for each in self.refusals]
        tables = [
            (("severity", "diagnostic", "place", "message", "help"), told),
            (("rewrite", "place", "before", "after", "reason", "effect"), done),
            (("refusal", "place", "reason", "witness"), left),
        ]
        return notebook_html(self.summary(), tables)


def optimize(
    model: onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str],
    *,
    target: str | Target | None = None,
    promotion: PromotionRules | str | None = None,
    keep_output_types: bool = False,
    max_growth: int = 4096,
    max_total_growth: int = 1 << 20,
    fold_disputed: bool = False,
    fold_as: str = "",
    fold_quantized: bool = False,
    interface: str = "stored",
    storage: str = "packed",
    emit_functions: bool = False,
    narrow: Sequence[str] = (),
    narrow_interface: bool = False,
    largest_dim: int = 0,
    in_place: bool = False,
    passes: Sequence[str | PassBase] | None = None,
    lowerings: Mapping[str, Lowering] | None = None,
    until: str | None = None,
    progress: Callable[[str], None] | None = None,
    verify: str | None = None,
    verify_dims: Mapping[str, int] | None = None,
    verify_inputs: Sequence[tuple[str, Mapping[str, NDArray[Any]]]] | None = None,
    provenance: bool = True,
) -> Result:
    """Make the element types of `model` right, and legal for `target` where one is named.

    model: an onnx_ir.Model, which is left as it is (the result shares its tensors), a ModelProto, or a file.
    promotion: the rules for operands that disagree, or the name of a preset of PromotionRules; by default those of
        ConvertPromoteTypes, nothing unsafe.
    keep_output_types: as of InsertPromoteTypes.
    max_growth, max_total_growth, fold_disputed, fold_as, fold_quantized: as of FoldConstants.
    interface: `stored` has graph inputs and outputs of a type that the target lacks as they are kept, uint8 codes or,
        of 16 bits, floats; `wide` has those of at most 8 bits that the target lacks, and all float16 and bfloat16, as
        floats, or bytes for integers.
    storage, emit_functions: as of LowerFloat8.
    narrow: the types to narrow, `int64` and `double`, where no value can tell; nothing by default.
    narrow_interface, largest_dim: as of NarrowTypes.
    in_place: change an onnx_ir.Model itself, which saves the time of copying it.
    passes: the passes to run, in order, by name, with options as `name{option=value}`, or themselves; by default all
        that apply.
    lowerings: what to make of operators of your own domains on the way to the target, as of LowerCustom.
    until: the name of the pass to stop after.
    progress: called with the name of each pass before it runs.
    verify: an engine (`onnxruntime`, `openvino` or `reference`) that runs the model before all and after each pass, as
        a file of it would be read; the result says what was compared. verify_dims, verify_inputs: as of
        `castsmith.verify`.
    provenance: whether new nodes say in their metadata which rule made them.

    Raises CastsmithError: ModelError for what cannot be read, PromotionError for a promotion that the rules refuse,
    TargetError for an unknown target, OptionError for an unknown pass, VerificationError where bits change.
    """
    rules = PromotionRules.preset(promotion) if isinstance(promotion, str) else promotion or PromotionRules()
    chosen = _target(target) if isinstance(target, str) else target
    given = as_model(model)
    result_model = given.clone() if given is model and not in_place else given
    settings = {
        **asdict(rules),
        "keep_output_types": keep_output_types,
        "max_growth": max_growth,
        "max_total_growth": max_total_growth,
        "fold_disputed": fold_disputed,
        "fold_as": fold_as,
        "fold_quantized": fold_quantized,
        "interface": interface,
        "storage": storage,
        "emit_functions": emit_functions,
        "narrow": "+".join(narrow),
        "narrow_interface": narrow_interface,
        "largest_dim": largest_dim,
        "target": chosen,
        "lowerings": lowerings,
    }
    if lowerings and chosen is None:
        raise OptionError("lowerings need a target: name the one that the model is for.")
    records, settled, inference = Records(), set[str](), None
    before, verdict = None if verify is None else result_model.clone(), None
    comparing: dict[str, Any] = {
        "engine": verify,
        "promotion": replace(rules, promote_unsafe=True),
        "dims": verify_dims,
        "inputs": verify_inputs,
    }
    known = set(all_nodes(result_model)) if provenance else set[onnx_ir.Node]()
    asked = [name for name in ON_REQUEST if narrow]
    specs = _specs(passes, until, asked, targeted=chosen is not None)
    whole, rounds = (list(specs) if passes is None and until is None else []), 1
    while specs or (rounds < _MOST_ROUNDS and set(whole) - settled):
        if not specs:
            specs, rounds = list(whole), rounds + 1
        spec = specs.pop(0)
        name = name_of(spec)
        if passes is None and spec in settled:
            continue
        if progress is not None:
            progress(name)
        size = _constant_bytes(result_model) if name == _GROWING else 0
        with lend(result_model, inference):
            outcome = (make_pass(spec, settings) if isinstance(spec, str) else spec)(result_model)
        handed_on = outcome.inference if isinstance(outcome, RewriteResult) else None
        same = outcome.model is result_model and not outcome.modified
        inference = handed_on or (inference if same else None)
        result_model = outcome.model
        settled = set[str]() if outcome.modified else settled | {name}
        made = outcome.records if isinstance(outcome, RewriteResult) else Records()
        _add(records, made)
        if name == _GROWING:
            max_total_growth -= min(max(_constant_bytes(result_model) - size, 0), max_total_growth)
            settings["max_total_growth"] = max_total_growth
        if before is not None and outcome.modified:
            from castsmith.ir.verify import require_same

            verdict = require_same(before, result_model, name, accept=retyped(records.rewrites), **comparing)
        if provenance and outcome.modified:
            note_provenance(result_model, known, made.rewrites)
        if passes is None and outcome.modified and specs:
            specs[:0] = AFTER.get(name, ())
    if chosen is not None and passes is None and until is None:
        from castsmith.lowering.check import unreported_errors

        with lend(result_model, inference):
            final = infer_element_types(result_model, replace(rules, promote_unsafe=True))
        records.diagnostics += unreported_errors(result_model, final, chosen, records.diagnostics)
    if before is not None and verdict is None:
        from castsmith.ir.verify import require_same

        verdict = require_same(before, result_model, "no pass", **comparing)
    return Result(result_model, records.rewrites, records.refusals, records.diagnostics, verdict)


def retyped(rewrites: Iterable[Rewrite]) -> set[str]:
    """The inputs and outputs of the model whose element type the rewrites changed on purpose."""
    return {rewrite.site.node for rewrite in rewrites if rewrite.effect is Effect.INTERFACE}


def _add(records: Records, made: Records) -> None:
    """Add what a pass recorded, but what an earlier run of it refused or noticed already."""
    records.rewrites += made.rewrites
    records.refusals += (Counter(made.refusals) - Counter(records.refusals)).elements()
    records.diagnostics += (Counter(made.diagnostics) - Counter(records.diagnostics)).elements()


def _constant_bytes(model: onnx_ir.Model) -> int:
    return sum(tensor.nbytes for tensor in all_tensors(model))


def name_of(spec: str | PassBase) -> str:
    """What the pass is called: by its name where it has one, else as its class is."""
    if isinstance(spec, str):
        return pass_name(spec)
    kind = type(spec)
    home = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, each in PASSES.items() if each == home), kind.__name__)


def _specs(
    passes: Sequence[str | PassBase] | None, until: str | None, asked: Sequence[str], *, targeted: bool
) -> list[str | PassBase]:
    if passes is None:
        requested = [each for name in asked for each in (name, *ON_REQUEST[name])]
        here = PIPELINE.index(_FIRST_LOWERING)
        names = [*PIPELINE[:here], *requested, *PIPELINE[here:]]
        passes = [name for name in names if targeted or not needs_target(name)]
    names = [name_of(spec) for spec in passes]
    if until is None:
        return list(passes)
    if until not in names:
        raise OptionError(f"{until!r} is not one of the passes to run, which are {', '.join(names)}.")
    return list(passes[: names.index(until) + 1])


def _target(name: str) -> Target:
    from castsmith.ir.targets import load_target

    return load_target(name)
