"""The properties that hold for every model and every target, asked of one model file.

What loads before loads after; `check` has no error that `optimize` did not report; a pass is `modified` exactly if the
serialised model changed, and then there is a record. Beside them: no internal error, valid stays valid, inputs and
outputs change only where a record says so, a second run changes nothing, there are no more casts unless operands were
repaired or types lowered, and the bits are the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import onnx
import onnx_ir
from onnx_ir.passes import PassBase, PassResult

import castsmith
from castsmith.ir.records import Effect, RewriteResult, Severity
from castsmith.ir.walks import all_nodes
from castsmith.lowering import pipeline, registry
from castsmith.lowering.check.run import findings
from tests.soak.sweep.execute import checker_refusal, load_in_openvino, ort_session, same_bits, short

TARGETS: tuple[str | None, ...] = (None, "onnxruntime-cpu", "tensorrt-10", "onnxruntime-android", "openvino-cpu")
"""The targets asked unless told otherwise; None for no target."""

_LOADED_BY_ORT = (None, "onnxruntime-cpu")
_EXACT = (Effect.BIT_EXACT, Effect.BIT_EXACT_BUT_NAN, Effect.INTERFACE)

_MAY_ADD_CASTS = {name for name, place in registry.PASSES.items() if ".promote." in place or ".lowering." in place}
"""The passes that repair a model, or lower what a target lacks."""

Announce = Callable[[str], None]
ORIGINAL = "load the original in "
"""Message before a runtime loads the original, so that a crash can be attributed to the runtime."""


@dataclass
class Judgement:
    """The findings for one model and one target.

    Attributes:
        problems: Pairs of kind and text.
        refusals: The refused changes with reasons.
        bits: The outcome of the comparison of results.
        whole: True if the whole model was refused.
    """

    target: str | None
    problems: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    refusals: list[str] = field(default_factory=list[str])
    bits: str = "not asked"
    bits_text: str = ""
    whole: bool = False
    rewrites: int = 0


@dataclass(frozen=True)
class Original:
    """A model file and what accepts it, asked once and not for each target."""

    path: str
    valid: bool
    loaders: Mapping[str, bool]


def judge(
    path: str,
    targets: Sequence[str | None] = TARGETS,
    announce: Announce = lambda _: None,
    without: Sequence[str] = (),
) -> Iterator[Judgement]:
    """Judge the model in the file for each target. without: runtimes that are not asked."""
    loaders: dict[str, bool] = {}
    for name in sorted({name for target in targets for name in _loaders(target)}):
        announce(ORIGINAL + name)
        loaders[name] = name not in without and _loads(name, path)
    announce("check the original")
    original = Original(path, _is_valid(path), loaders)
    for target in targets:
        announce(f"optimize for {target or 'no target'}")
        yield _judged(original, target)


def _judged(original: Original, target: str | None) -> Judgement:
    judgement = Judgement(target)
    problem = judgement.problems
    watched: list[str] = []
    try:
        loaded = castsmith.load(original.path)
        before = _serialised(loaded)
        with _watching(watched):
            result = castsmith.optimize(loaded, target=target)
    except castsmith.CastsmithError as error:
        judgement.whole = True
        judgement.refusals.append(f"{type(error).__name__}: {error}")
        return judgement
    except Exception as error:
        problem.append(("internal error", _with_place(error)))
        return judgement
    problem += [("modified", text) for text in watched]
    judgement.rewrites = len(result.rewrites)
    judgement.refusals += [f"{r.pass_name}/{r.rule} at {r.site}: {r.reason} {r.witness}" for r in result.refusals]
    errors = [d for d in result.diagnostics if d.severity is Severity.ERROR]
    judgement.refusals += [f"{d.code} at {d.site}: {d.message}" for d in errors]
    if _serialised(loaded) != before:
        problem.append(("modified", "optimize changed the model that it was given"))
    changed = _serialised(result.model) != before
    if changed != bool(result.rewrites):
        problem.append(("modified", f"the model changed: {changed}; rewrites: {len(result.rewrites)}"))
    casts = _casts(loaded), _casts(result.model)
    if casts[1] > casts[0] and not any(r.pass_name in _MAY_ADD_CASTS for r in result.rewrites):
        problem.append(("casts", f"{casts[1]} instead of {casts[0]}"))
    with tempfile.TemporaryDirectory() as folder:
        after = os.path.join(folder, "after.onnx")
        try:
            castsmith.save(result.model, after)
            saved = castsmith.load(after)
            problem += _again(saved, target)
            problem += _unreported(saved, target, result)
        except Exception as error:
            problem.append(("internal error", f"on the result: {_with_place(error)}"))
            return judgement
        problem += _interface(original.path, after, result)
        if errors:
            judgement.bits, judgement.bits_text = "not asked", "refused: nothing would be written"
            return judgement
        if original.valid:
            problem += _invalid(after)
        for name in _loaders(target):
            if original.loaders[name]:
                problem += _not_loading(name, after)
        if not changed:
            judgement.bits, judgement.bits_text = "same", "nothing changed"
            return judgement
        effects = sorted({r.effect.value for r in result.rewrites if r.effect not in _EXACT})
        outcome = same_bits(original.path, after, effects)
        judgement.bits, judgement.bits_text = outcome.how, outcome.text
        if outcome.how == "different":
            problem.append(("bits", outcome.text))
    return judgement


def _casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type in ("Cast", "CastLike") for node in all_nodes(model))


def _loaders(target: str | None) -> tuple[str, ...]:
    """The runtimes that are asked whether they load what is made for the target."""
    if target == "openvino-cpu":
        return ("openvino",)
    return ("onnxruntime", "onnxruntime optimized") if target in _LOADED_BY_ORT else ()


def _load(name: str, path: str) -> None:
    if name == "openvino":
        load_in_openvino(path)
    else:
        ort_session(path, optimized="optimized" in name)


def _loads(name: str, path: str) -> bool:
    try:
        _load(name, path)
    except Exception:  # each runtime raises classes of its own
        return False
    return True


def _not_loading(name: str, path: str) -> Iterator[tuple[str, str]]:
    try:
        _load(name, path)
    except Exception as error:
        yield "loading -> not loading", f"{name}: {short(error)}"


def _is_valid(path: str) -> bool:
    return checker_refusal(path) is None


def _invalid(path: str) -> Iterator[tuple[str, str]]:
    refusal = checker_refusal(path)
    if refusal is not None:
        yield "valid -> invalid", refusal


def _again(saved: onnx_ir.Model, target: str | None) -> Iterator[tuple[str, str]]:
    """A second run changes nothing."""
    before = _serialised(saved)
    again = castsmith.optimize(saved, target=target)
    if again.rewrites:
        r = again.rewrites[0]
        text = f"{r.pass_name}/{r.rule} at {r.site}: {r.before} -> {r.after}"
        yield "idempotence", f"{len(again.rewrites)} more rewrites, the first: {text}"
    elif _serialised(again.model) != before:
        yield "idempotence", "a second run changes the model without a record"


def _unreported(saved: onnx_ir.Model, target: str | None, result: castsmith.Result) -> Iterator[tuple[str, str]]:
    """Errors that `check` finds in the result and `optimize` did not report."""
    chosen = None if target is None else castsmith.load_target(target)
    reported = {(d.code, d.site) for d in result.diagnostics}
    refused = {r.site for r in result.refusals}
    for found in findings(saved, castsmith.PromotionRules(), chosen):
        if found.severity is Severity.ERROR and (found.code, found.site) not in reported and found.site not in refused:
            yield "check", f"{found.code} at {found.site}: {found.message}"


def _interface(before: str, after: str, result: castsmith.Result) -> Iterator[tuple[str, str]]:
    """Inputs and outputs that changed although no record says so."""
    old, new = (onnx.load(path, load_external_data=False).graph for path in (before, after))
    given = [{t.name for t in g.initializer} | {t.values.name for t in g.sparse_initializer} for g in (old, new)]
    said = {r.site.node for r in result.rewrites} | {word for r in result.rewrites for word in r.after.split()}
    inputs = [[v for v in g.input if v.name not in names] for g, names in zip((old, new), given, strict=True)]
    for what, a, b in (("inputs", *inputs), ("outputs", list(old.output), list(new.output))):
        if [v.name for v in a] != [v.name for v in b]:
            yield "interface", f"{what} were {[v.name for v in a]} and are {[v.name for v in b]}"
            continue
        for x, y in zip(a, b, strict=True):
            if x.type != y.type and x.name not in said:
                yield "interface", f"{x.name} was {_type_text(x)} and is {_type_text(y)}, and no record says so"
    defaults = [v.name for v in old.input if v.name in given[0]]
    lost = [name for name in defaults if name not in {v.name for v in new.input}]
    if lost and not any(name in said for name in lost):
        yield "interface", f"inputs with defaults are gone: {lost}"


def _type_text(value: onnx.ValueInfoProto) -> str:
    return " ".join(str(value.type).split())


@contextmanager
def _watching(found: list[str]) -> Generator[None]:
    """Compare what each pass says of itself with the model before and after it."""

    def watched(spec: str, settings: Mapping[str, Any]) -> PassBase:
        return _Watched(registry.make_pass(spec, settings), spec, found)

    with patch.object(pipeline, "make_pass", watched):
        yield


class _Watched(PassBase):
    def __init__(self, inner: PassBase, name: str, found: list[str]) -> None:
        self.inner, self.name, self.found = inner, name, found

    @property
    def in_place(self) -> bool:
        return self.inner.in_place

    @property
    def changes_input(self) -> bool:
        return self.inner.changes_input

    def __call__(self, model_or_result: onnx_ir.Model | PassResult, /) -> PassResult:
        model = model_or_result if isinstance(model_or_result, onnx_ir.Model) else model_or_result.model
        before = _serialised(model)
        result = self.inner(model)
        changed = _serialised(result.model) != before
        records = len(result.records.rewrites) if isinstance(result, RewriteResult) else 0
        if not changed == result.modified == bool(records):
            self.found.append(f"{self.name}: changed {changed}, modified {result.modified}, {records} rewrites")
        return result

    def call(self, model: onnx_ir.Model) -> PassResult:
        return self(model)


def _serialised(model: onnx_ir.Model) -> bytes:
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def _with_place(error: BaseException) -> str:
    """The exception, and the innermost place of Castsmith that it passed."""
    place, at = "", error.__traceback__
    while at is not None:
        name = at.tb_frame.f_globals.get("__name__", "")
        if name.startswith("castsmith."):
            place = f"{name}:{at.tb_lineno}"
        at = at.tb_next
    return f"{short(error)} ({place})"
