"""convert: a whole model in another precision: repaired, converted, cleaned of casts that change nothing, measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.io.loading import ModelLike, as_model, model_in_memory
from castsmith.ir.records import Diagnostic, Records, Severity, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, all_values, nodes_now, nodes_of
from castsmith.lowering.accuracy import Inputs, Reference, measure, reference
from castsmith.lowering.check.target import unreported_errors
from castsmith.lowering.fewest import Fewest
from castsmith.lowering.opset.loading import FitLoader
from castsmith.lowering.pipeline import name_of
from castsmith.lowering.results import ConvertResult
from castsmith.lowering.widen.unify import UnifyOperands
from castsmith.numerics.errors import CastsmithError, OptionError, did_you_mean, present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type
from castsmith.passes.core.rewrite_pass import note_provenance
from castsmith.passes.fold.run import FoldConstants
from castsmith.passes.precision.constants import Fates
from castsmith.passes.precision.patterns import Pattern, exact_pattern, parse_patterns
from castsmith.passes.precision.run import ConvertPrecision, PrecisionResult, parse_precision, require_something
from castsmith.passes.promote.insert import InsertPromoteTypes
from castsmith.passes.promote.resolve import ResolvePromoteTypes
from castsmith.passes.simplify.run import SimplifyCasts
from castsmith.targets.target import as_target, load_target
from castsmith.verification.bounds import Bound, bounds_and

if TYPE_CHECKING:
    from castsmith.numerics.types import TypeLike
    from castsmith.targets.target import Target

_MOST = 65504.0
"""The largest float16."""
MOST_ATTEMPTS = 64
"""Conversions that the search for `max_error` tries at most."""


@dataclass(frozen=True)
class Request:
    """The wishes of a caller of `convert`, checked."""

    to: DataType
    target: Target | None
    io: str
    keep: tuple[Pattern, ...]
    lower: tuple[Pattern, ...]
    bound: Callable[[str], Bound | None] | None
    proven: Mapping[str, Bound]
    fates: Fates
    provenance: bool
    progress: Callable[[str], None]


def convert(
    model: ModelLike,
    *,
    to: TypeLike,
    target: str | Target | None = None,
    keep_io_types: bool | str | Sequence[str] | None = None,
    keep: str | Sequence[str] = (),
    lower: str | Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    inputs: Inputs | None = None,
    max_error: float | None = None,
    measure: bool = False,
    dims: Mapping[str, int] | None = None,
    io: str | None = None,
    provenance: bool = True,
    in_place: bool = False,
    progress: Callable[[str], None] | None = None,
) -> ConvertResult:
    """Convert a whole model to another floating-point precision.

    Args:
        model: An onnx_ir.Model, a ModelProto, a torch ONNXProgram, or a path. It is not changed.
        to: float16, bfloat16 or float.
        target: The runtime to convert for, or its name: a node is converted only if the target has a kernel.
        keep_io_types: Leave the types of inputs and outputs (True, the default), convert them (False), or leave only
            those named.
        keep: Patterns of nodes that keep their type, by name, operator, or path of modules.
        lower: Patterns of nodes that are converted although their operator is sensitive.
        ranges: Between which numbers values lie, by name; one beyond the precision is not converted.
        inputs: Arrays to measure the error on: by name, several sets, an .npz, a folder, or `made-up`.
        max_error: The relative error that outputs may have: the fewest nodes that reach it keep their type. It is
            measured on `inputs`, by default on generated ones.
        measure: Measure the error on generated inputs if no `inputs` are given.
        dims: Sizes of symbolic dimensions, for generated inputs.
        io: `keep`, `convert`, or the names of inputs and outputs to convert, instead of `keep_io_types`.
        provenance: True to state in the metadata of new nodes which rule made them.
        in_place: Change a model in memory itself.
        progress: Called with the name of each step before it runs.

    Raises:
        CastsmithError: OptionError for a precision that the target lacks, a model that is in it already, a pattern
            that matches nothing, inputs that do not fit, or an error that cannot be reached; ModelError for a model
            that cannot be read; TargetError for an unknown target.
    """
    if io is not None and keep_io_types is not None:
        raise OptionError(
            "`io` and `keep_io_types` both say which inputs and outputs keep their types: pass one of them."
        )
    given = as_model(model)
    wanted = parse_precision(to)
    require_something(given, wanted)
    measured = inputs if inputs is not None or not (measure or max_error is not None) else "made-up"
    tell, known = progress or _silent, None
    if measured is not None:
        tell("measuring")
        known = reference(given.clone(), measured, dims)
    fates = Fates(wanted)
    proven = _proven(given, wanted, ranges or {}, fates)
    request = Request(
        wanted,
        as_target(target),
        io_choice(given, True if keep_io_types is None else keep_io_types) if io is None else io,
        parse_patterns(keep, "keep"),
        parse_patterns(lower, "lower"),
        _bounds(ranges, _evidence(known, wanted, made_up=measured == "made-up", search=max_error is not None), proven),
        proven,
        fates,
        provenance,
        tell,
    )
    if known is None or max_error is None:
        work = given if in_place or model_in_memory(model) is None else given.clone()
        return _measured(_attempt(work, request)[0], known)
    return _search(given, request, known, max_error)


def _silent(_: str) -> None:
    """Announce nothing."""


def _measured(result: ConvertResult, known: Reference | None) -> ConvertResult:
    return result if known is None else replace(result, error=measure(known, result.model))


def _search(model: onnx_ir.Model, request: Request, known: Reference, most: float) -> ConvertResult:
    """Keep the fewest nodes with which the error is at most `most`; `MOST_ATTEMPTS` conversions at most."""
    first, nodes = _attempt(model.clone(), request)
    first = _measured(first, known)
    best: tuple[frozenset[str], ConvertResult] | None = None

    def error(kept: frozenset[str]) -> float:
        nonlocal best
        found = _measured(_attempt(model.clone(), request, kept, most)[0], known) if kept else first
        measured = present(found.error, "the error of the conversion")
        worst = measured.worst if len(measured.sets) == len(known.runs) else float("inf")
        if worst <= most and (best is None or len(kept) < len(best[0])):
            best = kept, found
        return worst

    search = Fewest(nodes, error, most, MOST_ATTEMPTS)
    search.run()
    if best is None:
        plain, least = search.known[frozenset()], min(search.known.values())
        raise OptionError(
            f"`max_error` {most:g} is not reached: the error is {plain:.3g}, and {least:.3g} if every node is kept"
            " that can be."
        )
    return replace(best[1], attempts=len(search.known), kept=tuple(name for name in nodes if name in best[0]))


def _attempt(
    work: onnx_ir.Model, request: Request, kept: Collection[str] = (), most: float = 0.0
) -> tuple[ConvertResult, list[str]]:
    """Convert the model itself, and return the first results of the nodes that were converted.

    Args:
        kept: Nodes to leave, by their first results, so that the error stays below `most`.
    """
    known = set(all_nodes(work)) if request.provenance else set[onnx_ir.Node]()
    why = f"kept so that the error stays below {most:g}"
    keep = (*request.keep, exact_pattern(kept, why)) if kept else request.keep
    results = {node: next((value.name or "" for value in node.outputs), "") for node in all_nodes(work)}
    records, found = Records(), PrecisionResult(work, False)
    steps = (
        InsertPromoteTypes(promote_unsafe=True, half_constants=True, keep_output_types=True),
        ResolvePromoteTypes(),
        FoldConstants(target=request.target),
        *_widening(work, request.to),
        ConvertPrecision(
            request.to,
            request.target,
            request.io,
            keep=keep,
            lower=request.lower,
            bound=request.bound,
            fates=request.fates,
        ),
        *_without_double(work, request),
        *(() if request.target is None else (UnifyOperands(request.target),)),
        SimplifyCasts(target=request.target),
        *(() if request.target is None else (FitLoader(request.target),)),
    )
    mixed, repair, is_converted = set[Site](), False, False
    for step in steps:
        if isinstance(step, ConvertPrecision) and not is_converted:
            mixed = {each.site for each in _left_mixed(work)}
        if isinstance(step, InsertPromoteTypes):
            repair = _needs_repair(work)
        if isinstance(step, InsertPromoteTypes | ResolvePromoteTypes | FoldConstants) and not repair:
            continue
        request.progress(name_of(step))
        outcome = step(work)
        work = outcome.model
        records.extend(_as_warnings(outcome.records) if isinstance(step, InsertPromoteTypes) else outcome.records)
        if isinstance(step, ConvertPrecision) and isinstance(outcome, PrecisionResult):
            found = _with_second(found, outcome) if is_converted else outcome
            is_converted = is_converted or step.to == request.to
        if request.provenance and outcome.modified:
            note_provenance(work, nodes_now(work), known, outcome.records.rewrites)
    records.diagnostics += [each for each in _left_mixed(work) if each.site not in mixed]
    records.diagnostics += _unsupported(work, request.target, records.diagnostics)
    records.diagnostics += _without_kernel(work, request)
    names = _names(found, results)
    converted = [each.result for each in found.precisions.values() if each.dtype == request.to and each.result]
    result = ConvertResult(
        work,
        records.rewrites,
        records.refusals,
        records.diagnostics,
        precisions={
            name: (each.dtype, _told(request, results.get(node, ""), each.dtype, each.reason))
            for node, name in names.items()
            if (each := found.precisions[node])
        },
        regions={name: region for node, name in names.items() if (region := found.precisions[node].region)},
        operators={name: node.op_type for node, name in names.items()},
    )
    return result, list(dict.fromkeys(converted))


def _as_warnings(records: Records) -> Records:
    """The records of the repair: what it cannot set right was wrong before, and the conversion does not add to it."""
    found = [replace(each, severity=Severity.WARNING) for each in records.diagnostics]
    return replace(records, diagnostics=found)


def _widening(model: onnx_ir.Model, to: DataType) -> tuple[ConvertPrecision, ...]:
    """The exact step to float ahead of a conversion between the 16-bit types: what is then left is left in float."""
    other = {DataType.FLOAT16: DataType.BFLOAT16, DataType.BFLOAT16: DataType.FLOAT16}.get(to)
    types = infer_element_types(model, PromotionRules(promote_unsafe=True))
    held = other is not None and any(types.type_of(value) == other for value in all_values(model))
    return (ConvertPrecision(DataType.FLOAT, sources=(other,), lower=("*",)),) if held and other is not None else ()


def _without_double(model: onnx_ir.Model, request: Request) -> tuple[ConvertPrecision, ...]:
    """Return the step that takes the nodes left in double to float, if the target has no double."""
    target, double = request.target, DataType.DOUBLE
    if target is None or double not in target.lacks | target.off_device or request.to == DataType.FLOAT:
        return ()
    types = infer_element_types(model, PromotionRules(promote_unsafe=True))
    held = any(types.type_of(value) == double for value in all_values(model))
    every = Pattern("*", "", "*", f"{target} has no double")
    return (ConvertPrecision(DataType.FLOAT, sources=(double,), lower=(every,)),) if held else ()


def _with_second(found: PrecisionResult, second: PrecisionResult) -> PrecisionResult:
    """Return the first result with the nodes that a second conversion changed."""
    changed = {node: replace(each, region=0) for node, each in second.precisions.items() if each.region}
    return replace(found, precisions={**found.precisions, **changed})


def _unsupported(model: onnx_ir.Model, target: Target | None, known: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return a warning for all that the target refuses in the converted model: a conversion replaces no operators."""
    if target is None:
        return []
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    way_out = f"optimize for {target} lowers what it can"
    errors = unreported_errors(model, inference, target, known)
    return [replace(each, severity=Severity.WARNING, help=way_out) for each in errors]


def _without_kernel(model: onnx_ir.Model, request: Request) -> Iterator[Diagnostic]:
    """Yield a note about the first operator that keeps ONNX Runtime from loading a bfloat16 model of no target."""
    if request.target is not None or request.to != DataType.BFLOAT16:
        return
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    for each in unreported_errors(model, inference, load_target("onnxruntime-cpu"), ()):
        if each.code == "target-lacks-kernel":
            way_out = "give a target to leave the nodes in float for which it has no kernel"
            yield replace(each, severity=Severity.NOTE, help=way_out)
            return


def _evidence(known: Reference | None, to: DataType, *, made_up: bool, search: bool) -> dict[str, Bound]:
    """The measured bounds; on made-up inputs only a search uses them, and only those that exceed the precision."""
    if known is None or (made_up and not search):
        return {}
    found = known.measured()
    most = float(element_type(to).max)
    return {name: bound for name, bound in found.items() if not made_up or bound.magnitude > most}


def _bounds(
    ranges: Mapping[str, tuple[float, float]] | None, measured: Mapping[str, Bound], proven: Mapping[str, Bound]
) -> Callable[[str], Bound | None] | None:
    """The bounds that the caller states, else those that are proven to fit, else the measured ones, by name.

    A proven bound beyond the precision may be far from what the value reaches, so that it keeps no node.
    """
    stated = {name: Bound(float(low), float(high), "proven") for name, (low, high) in (ranges or {}).items()}
    safe = {name: bound for name, bound in proven.items() if bound.magnitude < _MOST}
    known = {**measured, **safe, **stated}
    return known.get if known else None


def _proven(
    model: onnx_ir.Model, to: DataType, ranges: Mapping[str, tuple[float, float]], fates: Fates
) -> dict[str, Bound]:
    """The bounds that hold for every input, for a precision that has less range than float; empty for others.

    The weights are read for them, and the effects of rounding are found in the same pass.
    """
    if to != DataType.FLOAT16:
        return {}
    inputs = {value.name for value in model.graph.inputs}
    given = {name: ends for name, ends in ranges.items() if name in inputs}
    try:
        found = bounds_and(model, ranges=given, promotion=PromotionRules(promote_unsafe=True), also=fates.reader)
    except CastsmithError:  # no bound is needed for a conversion
        return {}
    within = {
        value.name for function in model.functions.values() for node in nodes_of(function) for value in node.outputs
    }
    # A value of a function has one name in all calls, of which each has other bounds.
    return {name: bound for name, bound in found.items() if bound.how == "proven" and name not in within}


def _told(request: Request, result: str, dtype: DataType, reason: str) -> str:
    """Return the reason for the precision of a node, with a remark if its first result is proven to fit."""
    bound = request.proven.get(result)
    if dtype != DataType.FLOAT16 or request.to != dtype or bound is None:
        return reason
    if bound.magnitude < _MOST:
        return f"{reason}; its result is proven to fit"
    return f"{reason}; it may reach {bound.magnitude:.6g}: measure it on inputs"


def io_choice(model: onnx_ir.Model, keep: bool | str | Sequence[str]) -> str:
    """The text by which ConvertPrecision is given the inputs and outputs whose types change."""
    if isinstance(keep, bool):
        return "keep" if keep else "convert"
    left = {keep} if isinstance(keep, str) else set(keep)
    names = [value.name or "" for value in (*model.graph.inputs, *model.graph.outputs)]
    for name in sorted(left - set(names)):
        way_out = did_you_mean(name, names, f"expected {', '.join(names)}")
        raise OptionError(f"`keep_io_types` names {name!r}, which is not an input or output; {way_out}")
    return ",".join(name for name in names if name not in left) or "keep"


def _needs_repair(model: onnx_ir.Model) -> bool:
    return infer_element_types(model, PromotionRules(promote_unsafe=True)).to_convert


def _left_mixed(model: onnx_ir.Model) -> list[Diagnostic]:
    """An error for each node whose operands disagree after all: the result would be refused by every runtime."""
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    nodes = [*inference.disagreements, *(node for node, found in inference.illegal.items() if found)]
    return [
        Diagnostic(
            "mixed-operand-types",
            Severity.ERROR,
            site_of(node),
            f"the operands of {node.name or node.op_type} are not of one type after the conversion",
            "report this model; the option keep leaves the node as it is",
        )
        for node in nodes
    ]


def _names(found: PrecisionResult, results: Mapping[onnx_ir.Node, str]) -> dict[onnx_ir.Node, str]:
    """A name for each node of the model: its own, else that of its first result; results: these names before.

    Casts that the conversion itself put in have no name here.
    """
    names, used = dict[onnx_ir.Node, str](), set[str]()
    for node, each in found.precisions.items():
        if node.op_type == "Cast" and node not in results:
            continue
        base = node.name or results.get(node) or each.result or node.op_type
        name, count = base, 0
        while name in used:
            count += 1
            name = f"{base}_{count}"
        used.add(name)
        names[node] = name
    return names
