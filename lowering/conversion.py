"""convert: a whole model in another precision: repaired, converted, cleaned of casts that change nothing, checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import infer_element_types
from castsmith.ir.io import as_model
from castsmith.ir.records import Diagnostic, Records, Severity
from castsmith.ir.rewrite_pass import RewritePass, note_provenance
from castsmith.ir.targets import as_target
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes
from castsmith.lowering.pipeline import Result
from castsmith.numerics.promotion import PromotionRules
from castsmith.passes.precision import Bound, ConvertPrecision, PrecisionResult, parse_precision, require_something
from castsmith.passes.promote import InsertPromoteTypes, ResolvePromoteTypes
from castsmith.passes.simplify import SimplifyCasts

if TYPE_CHECKING:
    from castsmith.ir.targets import Target
    from castsmith.numerics.types import TypeLike


@dataclass(frozen=True)
class ConvertResult(Result):
    """The converted model, with what was done, refused and noticed.

    precisions: what each node computes in, by its name, and the reason. regions: the number of the region that each
    converted node is in, by its name.
    """

    precisions: Mapping[str, tuple[DataType, str]] = field(default_factory=dict[str, tuple[DataType, str]])
    regions: Mapping[str, int] = field(default_factory=dict[str, int])


def convert(
    model: onnx_ir.Model | onnx.ModelProto | str | os.PathLike[str],
    *,
    to: TypeLike,
    target: str | Target | None = None,
    keep_io_types: bool | str | Sequence[str] = True,
    keep: str | Sequence[str] = (),
    lower: str | Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    provenance: bool = True,
    in_place: bool = False,
    progress: Callable[[str], None] | None = None,
) -> ConvertResult:
    """Convert a whole model to another floating-point precision.

    Args:
        model: An onnx_ir.Model, which is left as it is, a ModelProto, or a file.
        to: float16, bfloat16 or float.
        target: The runtime to convert for, or its name: a node is converted only if the target has a kernel.
        keep_io_types: True leaves the types of inputs and outputs, False converts them; names: those that are left.
        keep: Patterns of nodes that keep their type, by name, operator, or path of modules.
        lower: Patterns of nodes that are converted although their operator is sensitive.
        ranges: Between which numbers values lie, by name; one beyond the precision is not converted.
        provenance: Whether new nodes say in their metadata which rule made them.
        in_place: Change an onnx_ir.Model itself.
        progress: Called with the name of each step before it runs.

    Raises:
        CastsmithError: OptionError for a precision that the target lacks, a model that is in it already, or a pattern
            that matches nothing; ModelError for a model that cannot be read; TargetError for an unknown target.
    """
    chosen = as_target(target)
    given = as_model(model)
    work = given.clone() if given is model and not in_place else given
    require_something(work, parse_precision(to))
    known = set(all_nodes(work)) if provenance else set[onnx_ir.Node]()
    records, found = Records(), PrecisionResult(work, False)
    for step in _steps(to, chosen, io_choice(work, keep_io_types), keep, lower, ranges):
        if progress is not None:
            progress(_name(step))
        if isinstance(step, InsertPromoteTypes) and not _needs_repair(work):
            continue
        outcome = step(work)
        work = outcome.model
        records.extend(outcome.records)
        if isinstance(outcome, PrecisionResult):
            found = outcome
        if provenance and outcome.modified:
            note_provenance(work, known, outcome.records.rewrites)
    records.diagnostics += _left_mixed(work)
    names = _names(found)
    return ConvertResult(
        work,
        records.rewrites,
        records.refusals,
        records.diagnostics,
        precisions={names[node]: (each.dtype, each.reason) for node, each in found.precisions.items()},
        regions={names[node]: each.region for node, each in found.precisions.items() if each.region},
    )


def _steps(
    to: TypeLike,
    target: Target | None,
    io: str,
    keep: str | Sequence[str],
    lower: str | Sequence[str],
    ranges: Mapping[str, tuple[float, float]] | None,
) -> tuple[RewritePass, ...]:
    def bound(name: str) -> Bound | None:
        found = (ranges or {}).get(name)
        return None if found is None else Bound(float(found[0]), float(found[1]), "proven")

    patterns = [each if isinstance(each, str) else tuple(each) for each in (keep, lower)]
    return (
        InsertPromoteTypes(promote_unsafe=True),
        ResolvePromoteTypes(),
        ConvertPrecision(to, target, io, *patterns, bound=bound if ranges else None),
        SimplifyCasts(target=target),
    )


def _name(step: RewritePass) -> str:
    from castsmith.lowering.pipeline import name_of

    return name_of(step)


def io_choice(model: onnx_ir.Model, keep: bool | str | Sequence[str]) -> str:
    """The text by which ConvertPrecision is told the inputs and outputs whose types change."""
    if isinstance(keep, bool):
        return "keep" if keep else "convert"
    left = {keep} if isinstance(keep, str) else set(keep)
    names = [value.name or "" for value in (*model.graph.inputs, *model.graph.outputs)]
    unknown = sorted(left - set(names))
    if unknown:
        return unknown[0]  # refused by its name
    return ",".join(name for name in names if name not in left) or "keep"


def _needs_repair(model: onnx_ir.Model) -> bool:
    return infer_element_types(model, PromotionRules(promote_unsafe=True)).to_convert


def _left_mixed(model: onnx_ir.Model) -> list[Diagnostic]:
    """An error for each node whose operands disagree after all: the result would be refused by every runtime."""
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    nodes = [*inference.disagreements, *(node for node, found in inference.illegal.items() if found)]
    return [
        Diagnostic(
            "mixed-operands",
            Severity.ERROR,
            site_of(node),
            f"the operands of {node.name or node.op_type} are not of one type after the conversion",
            "report this model; the option keep leaves the node as it is",
        )
        for node in nodes
    ]


def _names(found: PrecisionResult) -> dict[onnx_ir.Node, str]:
    """A name for each node: its own, or that of its first result where it has none or shares it."""
    names, used = dict[onnx_ir.Node, str](), set[str]()
    for node in found.precisions:
        outputs = (value.name for value in node.outputs)
        base = next(filter(None, (node.name, *outputs)), node.op_type)
        name, count = base, 0
        while name in used:
            count += 1
            name = f"{base}_{count}"
        used.add(name)
        names[node] = name
    return names
