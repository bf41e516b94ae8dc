"""convert-precision: Compute nodes in float16, bfloat16 or float, in regions with as few casts between as possible.

Each node gets the requested precision if the schema and the target support it, its constants fit, and
it is not sensitive (`castsmith.passes.precision.operators`); otherwise it keeps its own. A minimum cut chooses for all
others, so that casts cost less than they save. Weights are rounded once, when the file is written; constants that
would overflow, or of which too many elements would vanish, are kept, and mask values become the lowest number. This is
the only pass that changes values, and it runs only on request.

    y = MatMul (x, w)  # (float[4,8], float[8,8]) -> float[4,8]
becomes
    x1 = Cast <to = float16> (x)
    y1 = MatMul (x1, w)  # (float16[4,8], float16[8,8]) -> float16[4,8]
    y = Cast <to = float> (y1)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.codes import FindingCode, Outcome, RefusalCode
from castsmith.ir.naming import Namer
from castsmith.ir.ops.casts import not_cast
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.records import Records, Refusal, RewriteResult, Site
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, all_values, holders, imports_by_scope
from castsmith.numerics.errors import CastsmithError, OptionError, did_you_mean
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import TypeLike, parse_type, type_name
from castsmith.passes.core.min_cut import solve
from castsmith.passes.core.options import OptionInfo, flag_info, invalid, items_of, option, text_info
from castsmith.passes.core.rewrite_pass import STORE_WEIGHT, SessionPass
from castsmith.passes.core.session import Session
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.apply import (
    CAST_AT_BORDER,
    CONVERT_INTERFACE,
    CONVERT_REGION,
    MASK_CONSTANT,
    ROUND_CONSTANT,
    Change,
    apply,
    regions,
)
from castsmith.passes.precision.constants import RoundingLosses
from castsmith.passes.precision.evidence import Evidence, Known
from castsmith.passes.precision.gains import price
from castsmith.passes.precision.patterns import Asked, Pattern, parse_patterns, require_matches
from castsmith.passes.precision.ports import Aim
from castsmith.passes.precision.problem import Problem
from castsmith.passes.precision.weights import store_weights
from castsmith.passes.promote.insert import SPECIALISE_FUNCTION, specialise_functions
from castsmith.targets.kernels import DEFAULT_TARGET
from castsmith.targets.target import Target, as_target, load_target

NAME = "convert-precision"
SOURCES: dict[DataType, frozenset[DataType]] = {
    DataType.FLOAT16: frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16}),
    DataType.BFLOAT16: frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16}),
    DataType.FLOAT: frozenset({DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16}),
}
"""The supported precisions, and the types that are converted to each."""

NOTHING_TO_CONVERT = FindingCode(
    "nothing-to-convert",
    "A model in a folder has nothing to convert, for example because it only uses integers.",
    why=("The model is copied unchanged, so that the results are complete. A single model is an error instead."),
    example="the model has no floating-point values: nothing in it is of bfloat16, double or float",
    advice="Nothing, if the model is as intended. Otherwise name another precision with --to.",
    outcomes=(Outcome.NEITHER,),
    fix="none",
    silence="Always, if models without floating-point values are expected.",
)
CONVERT_NODE = RefusalCode(
    "convert-node",
    "A node is not converted; the reason says why.",
    why=(
        "The operator is sensitive, the target or the opset does not support it, a constant does not fit, "
        "or the casts would cost more than they save."
    ),
    example="Softmax stays in a wider type by default: it divides by a sum of exponentials",
    advice=("Pass --force PATTERN to convert sensitive nodes. If a kernel is missing, choose another target or opset."),
    fix="opt-in",
    silence=(
        "Nodes that keep their type never fail a run; --explain lists them. If a single model has no value to convert, "
        "convert refuses it with exit code 2."
    ),
)


@dataclass(frozen=True)
class Precision:
    """The type that a node computes in, the reason, and the number of its region, 0 if it is not converted.

    Attributes:
        result: The name of its first result before the conversion.
    """

    dtype: DataType
    reason: str
    region: int = 0
    result: str = ""


@dataclass
class PrecisionResult(RewriteResult):
    """A RewriteResult with the precision of every node that computes with floating-point numbers."""

    precisions: dict[onnx_ir.Node, Precision] = field(default_factory=dict[onnx_ir.Node, Precision])


def _precision(name: str, value: object) -> object:
    try:
        return parse_precision(cast("TypeLike", value))
    except CastsmithError as error:
        raise type(error)(f"{name}: {error}") from None


def _patterns(name: str, value: object) -> object:
    return value if isinstance(value, str) else _several(name, value, "a str, or several")


def _types(name: str, value: object) -> object:
    dtypes = (value,) if isinstance(value, str) else _several(name, value, "element types")
    return tuple(parse_type(cast("TypeLike", dtype)) for dtype in dtypes)


def _several(name: str, value: object, expected: str) -> tuple[object, ...]:
    items = items_of(value)
    if items is None:
        raise invalid(name, value, expected, of_type=True)
    return items


@dataclass(frozen=True)
class ConvertPrecision(SessionPass):
    """Convert the nodes of a model to another floating-point precision.

    Attributes:
        to: float16, bfloat16 or float.
        target: The runtime whose kernels count; by default ONNX Runtime's CPU for float16 and float, and the schemas
            alone for bfloat16.
        io: `keep` keeps the types of inputs and outputs, `convert` changes them; otherwise the names of those to
            change, separated by commas.
        sources: The types to convert; by default all others.
        keep: Patterns of nodes to keep.
        lower: Patterns of nodes to convert although they are sensitive.
        sparing: Convert what `lower` names, and only as much more as the kinds of the operators demand.
        bound: Returns what is known of a value by its name, in a function `domain::function/value`; None: nothing.
        rounding_losses: The effects of rounding constants to this precision, as far as they are known.
        weights_only: Store the weights in the precision, each with a Cast back, and let all nodes compute as they do.

    Raises:
        OptionError: The target or the opset lacks the precision, or a pattern matches no node.
    """

    codes = (
        SPECIALISE_FUNCTION,
        CONVERT_REGION,
        ROUND_CONSTANT,
        MASK_CONSTANT,
        CAST_AT_BORDER,
        CONVERT_INTERFACE,
        CONVERT_NODE,
        NOTHING_TO_CONVERT,
        STORE_WEIGHT,
    )

    to: TypeLike = option(DataType.FLOAT16, OptionInfo("the precision: float16, bfloat16 or float", _precision))
    target: Target | str | None = None
    io: str = option("keep", text_info("keep or convert the types of inputs and outputs, or names of those to convert"))
    sources: tuple[TypeLike, ...] = option((), OptionInfo("types to convert, by default all others", _types))
    keep: str | tuple[str | Pattern, ...] = option((), OptionInfo("patterns of nodes that keep their type", _patterns))
    lower: str | tuple[str | Pattern, ...] = option(
        (), OptionInfo("patterns of nodes to convert though sensitive", _patterns)
    )
    sparing: bool = option(False, flag_info("convert no more than what `lower` names"))
    bound: Callable[[str], Known | None] | None = None
    rounding_losses: RoundingLosses | None = None
    weights_only: bool = option(False, flag_info("store weights in the precision, and cast each back"))

    def rewrite(self, session: Session) -> RewriteResult:
        model, to = session.model, parse_precision(self.to)
        if self.weights_only:
            return self._weights(session, to)
        target = as_target(self.target)
        aim = Aim(to, SOURCES[to] & frozenset(self.sources or SOURCES[to]), asked_target(target, to))
        require_possible(model, to, target)
        keep, lower = parse_patterns(self.keep, "keep"), parse_patterns(self.lower, "lower")
        nodes = list(all_nodes(model))
        require_matches(keep, nodes, "keep")
        require_matches(lower, nodes, "lower")
        records, rules = Records(), PromotionRules(promote_unsafe=True)
        asked_to_keep = Asked(keep, "as requested by", nodes)
        asked_to_lower = Asked(lower, "converted, as requested by", nodes)
        inference = specialise_functions(NAME, session, rules, records, aim.sources)
        imports = imports_by_scope(model, holders(model))
        sizes = Sizes(Shapes(model, inference), 64, {})
        converted_ports = ports_to_convert(model, self.io)
        problem = Problem(
            model,
            inference,
            imports,
            aim,
            asked_to_keep.with_all_inside(model),
            asked_to_lower.with_all_inside(model),
            converted_ports,
            Evidence(model, to, self.bound),
            sizes,
            self._losses(to),
        )
        problem.state()
        price(problem, sparing=self.sparing)
        sites = {node: site_of(node) for node in nodes}
        change = Change(problem, solve(problem.costs), Namer(model), NAME, records)
        apply(change)
        precisions = {
            node: replace(precision, result=sites[node].output)
            for node, precision in _precisions(change, sparing=self.sparing).items()
            if node in sites
        }
        change.records.refusals += [
            Refusal(NAME, CONVERT_NODE.code, sites[node], precision.reason)
            for node, precision in precisions.items()
            if precision.dtype != to and node.graph is not None and not self.sparing
        ]
        change.records.refusals += _outputs_that_stay(model, converted_ports, aim.sources)
        if change.records.rewrites:
            session.changed()
        return PrecisionResult(model, bool(change.records.rewrites), change.records, precisions=precisions)

    def _losses(self, to: DataType) -> RoundingLosses:
        """Return the effects of rounding to the precision: the stated ones, if they are of it."""
        stated = self.rounding_losses
        return RoundingLosses(to) if stated is None or stated.to != to else stated

    def _weights(self, session: Session, to: DataType) -> RewriteResult:
        """Store the weights alone in the precision."""
        model, target, name = session.model, as_target(self.target), type_name(to)
        if to == DataType.FLOAT:
            raise OptionError("`weights_only` stores weights in float16 or bfloat16, not in float.")
        if target is not None and to in target.lacks:
            raise OptionError(f"{target} has no {name}; name another precision or target.")
        require_possible(model, to, None)
        patterns, nodes = parse_patterns(self.keep, "keep"), list(all_nodes(model))
        require_matches(patterns, nodes, "keep")
        kept = Asked(patterns, "as requested by", nodes).with_all_inside(model)
        records, reasons = store_weights(NAME, session, to, self._losses(to), kept, CONVERT_NODE.code)
        precisions = {
            node: Precision(DataType.FLOAT, why or f"its weights are {name}", int(not why), node.outputs[0].name or "")
            for node, why in reasons.items()
        }
        return PrecisionResult(model, bool(records.rewrites), records, precisions=precisions)


def _outputs_that_stay(
    model: onnx_ir.Model, asked: Container[str | None], sources: Container[DataType | None]
) -> Iterator[Refusal]:
    """Yield the outputs that were to be converted but are constants, which cannot be renamed."""
    for value in model.graph.outputs:
        if value.name in asked and value.dtype in sources:
            reason = f"the output {value.name} is itself a constant of the model, and keeps its type"
            yield Refusal(NAME, CONVERT_INTERFACE.code, Site(model.graph.name or "", value.name or ""), reason)


def parse_precision(to: TypeLike) -> DataType:
    """Return the named precision. Raises OptionError for an unsupported type."""
    dtype = parse_type(to)
    if dtype not in SOURCES:
        supported = ", ".join(map(type_name, SOURCES))
        raise OptionError(f"a model cannot be converted to {type_name(dtype)}; expected one of {supported}.")
    return dtype


def asked_target(target: Target | None, to: DataType) -> Target | None:
    """Return the target whose kernels count: ONNX Runtime by default, except for bfloat16, of which it has few."""
    if target is not None:
        return None if "kernels" in target.unknown else target
    return None if to == DataType.BFLOAT16 else load_target(DEFAULT_TARGET)


def require_possible(model: onnx_ir.Model, to: DataType, target: Target | None) -> None:
    """Raise OptionError if the target or an opset lacks the precision."""
    name = type_name(to)
    if target is not None and not target.computes(to):
        lacks = f"has no {name}" if to in target.lacks else f"has no arithmetic in {name}"
        raise OptionError(f"{target} {lacks}; name another precision or target.")
    for scope in (model.graph, *model.functions.values()):
        opset = opset_of(scope.opset_imports, "")
        why = None if opset is None else not_cast([to], opset)
        if why is not None:
            raise OptionError(
                f"the model cannot be converted to {name}: {why.rstrip('.')}; onnx.version_converter raises it."
            )


def nothing_to_convert(model: onnx_ir.Model, to: DataType) -> str:
    """Return the reason why the model has nothing to convert, as a clause; empty if it has something."""
    types = infer_element_types(model, PromotionRules(promote_unsafe=True))
    held = {types.type_of(value) for value in all_values(model)}
    if held & SOURCES[to]:
        return ""
    already = f"the model is already in {type_name(to)}" if to in held else "the model has no floating-point values"
    return f"{already}: nothing in it is of {_or(SOURCES[to])}"


def require_something(model: onnx_ir.Model, to: DataType) -> None:
    """Raise OptionError if the model has nothing to convert."""
    why = nothing_to_convert(model, to)
    if why:
        raise OptionError(f"{why}.")


def _or(types: Iterable[DataType]) -> str:
    *names, last = sorted(map(type_name, types))
    return f"{', '.join(names)} or {last}"


def ports_to_convert(model: onnx_ir.Model, io: str) -> frozenset[str]:
    """Return the names of the inputs and outputs that change their type. Raises OptionError for an unknown name."""
    names = [value.name or "" for value in (*model.graph.inputs, *model.graph.outputs)]
    if io in ("keep", "convert"):
        return frozenset(names) if io == "convert" else frozenset()
    wanted = [part.strip() for part in io.split(",")]
    for name in wanted:
        if name not in names:
            way_out = did_you_mean(name, names, f"expected {', '.join(names)}")
            raise OptionError(f"`io=` names {name!r}, which is not an input or output; {way_out}")
    return frozenset(wanted)


def _precisions(change: Change, *, sparing: bool) -> dict[onnx_ir.Node, Precision]:
    problem, precisions = change.problem, dict[onnx_ir.Node, Precision]()
    numbers = {node: number for number, part in enumerate(regions(change.converted), 1) for node in part}
    to = type_name(change.to)
    for node in all_nodes(problem.model):
        reason = problem.reasons.get(node, "")
        preferred = problem.sensitivity.following.get(node, "")
        if node in change.converted:
            follows = f"its neighbors are {to}" if preferred else ""
            why = reason or follows or (_BETWEEN if sparing else f"{to} is supported, and its constants fit")
            precisions[node] = Precision(change.to, why, numbers[node])
        elif node in problem.nodes:
            dtype = _type_before(problem, node)
            worth = "nothing goes wrong there" if sparing else "the casts around it would cost more than it saves"
            precisions[node] = Precision(dtype, reason or preferred or worth)
        elif reason:
            precisions[node] = Precision(_type_before(problem, node), reason)
    return precisions


_BETWEEN = "it moves elements between nodes that are converted"


def _type_before(problem: Problem, node: onnx_ir.Node) -> DataType:
    values: Mapping[int, onnx_ir.Value | None] = dict(enumerate((*node.outputs, *node.inputs)))
    for value in values.values():
        dtype = problem.facts.source(value)
        if dtype is not None and dtype in problem.aim.sources:
            return dtype
    return DataType.FLOAT
