"""narrow-types: On request, narrow int64 to int32 and double to float where the result is identical for every input.

Exact: an operator is narrowed if all its operands and results of the wide type are known to fit: constants
whose every element fits, indices, counts and values computed from them within int32, doubles that were cast from
float or less and since then only picked, moved or compared. Operators whose schema requires the wide type keep it,
behind casts, as do graph inputs and outputs unless `narrow_interface` is set; a stretch of mere moves that is wide at
both of its ends stays. Bodies of functions stay too. Refused, with a number that shows why: operators with an operand
or result that may not fit.

    n = Shape (x)                      # float[2, 3, N], so that N may be anything: with largest_dim = 2147483647
    y = Gather (table, Add (n, one))
becomes
    n = Shape (x)
    n_int32 = Cast <to = int32> (n), one_int32 = 1
    y = Gather (table, Add (n_int32, one_int32))
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Range, Ranges
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome, Rule
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, op_key
from castsmith.ir.records import Diagnostic, Records, Refusal, RewriteResult, Severity, Site
from castsmith.ir.text import site_of
from castsmith.lowering.builder import Builder, ReplacementBuilder, as_replacement, computed_in
from castsmith.lowering.interface import NARROW_INTERFACE, convert_inputs, convert_outputs
from castsmith.lowering.narrow.facts import NARROWER, SAME, Facts, refusal_text
from castsmith.lowering.narrow.places import Place, groups_of, worth_it
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import OptionError, did_you_mean
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import Kind, TypeLike, element_type, type_name
from castsmith.passes.core.cost import ON_EITHER
from castsmith.passes.core.options import narrowed_types, shared
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.rewriting import Replacement, apply_replacement
from castsmith.passes.core.session import Session
from castsmith.targets.kernels import takes_type
from castsmith.targets.target import Target

NAME = "narrow-types"

ASSUMED_LARGEST_DIM = FindingCode(
    "assumed-largest-dim",
    "narrow-types assumed that no dimension exceeds the given number.",
    why="The model does not fix its dimensions. Counting in int32 is correct up to that number.",
    example="optimize --narrow int64 --largest-dim 1000000",
    advice="Without --largest-dim only values that are correct for all dimensions are narrowed.",
    outcomes=(Outcome.NEITHER,),
    fix="none",
    silence="If each dimension of your inputs stays below the number.",
)
ASSUMED_RANGE = FindingCode(
    "assumed-range",
    "narrow-types assumed that the integers of an input lie in the given range.",
    why="An int64 input may hold any number. Indices computed from it in int32 are correct within the range.",
    example="optimize --narrow int64 --range ids=0:50000",
    advice="Without --range only values that are correct for all inputs are narrowed.",
    outcomes=(Outcome.NEITHER,),
    fix="none",
    silence="If your inputs stay in the range.",
)
NARROW_OPERATOR = Rule(
    "narrow",
    "An operator on int64 or double computes in int32 or float. Skipped, with an example, if a value may not fit.",
    why="The option `narrow` requests it, and every operand and result is known to fit.",
    example="- k = Add (n, one)  # int64\n+ k = Cast <to = int64> (Add (n_int32, one_int32))",
    advice="If it is skipped, insert a Clip, pass `--largest-dim`, or request a narrow interface.",
    silence="Leave out --narrow.",
    certified=False,
)


@dataclass(frozen=True)
class NarrowTypes(SessionPass):
    """Narrow int64 to int32 and double to float where the result is identical for every input.

    Attributes:
        narrow: The types to narrow: `int64`, `double`, or both joined by `+`; none by default.
        narrow_interface: Narrow graph inputs too, and outputs that are known to fit.
        ranges: Between which numbers the integers of inputs lie, by name.
        largest_dim: Upper bound of every dimension that the model does not fix; 0 if unknown.
        target: As in SimplifyCasts.
    """

    codes = (
        NARROW_OPERATOR,
        NARROW_INTERFACE,
        ASSUMED_LARGEST_DIM,
        ASSUMED_RANGE,
    )

    narrow: TypeLike | Sequence[TypeLike] = shared("narrow")
    narrow_interface: bool = shared("narrow_interface")
    ranges: Mapping[str, tuple[float, float]] | None = shared("ranges")
    largest_dim: int = shared("largest_dim")
    target: Target | None = None

    def rewrite(self, session: Session) -> RewriteResult:
        model, dtypes, records = session.model, narrowed_types("narrow", self.narrow), Records()
        if not dtypes:
            return RewriteResult(model, False, records)
        to, reason = {dtype: NARROWER[dtype] for dtype in dtypes}, "requested to be narrow"
        if self.narrow_interface:
            records.rewrites += convert_inputs(session, NAME, NARROW_INTERFACE.code, to, reason)
        inference = session.inference(PromotionRules())
        stated = _stated(model, inference, self.ranges or {})
        ranges = Ranges(inference, known={**stated})
        if self.largest_dim:
            ranges = replace(ranges, largest_dim=self.largest_dim)
        facts = Facts(inference, ranges)
        if self.narrow_interface:
            fitting = {value for value in model.graph.outputs if inference.type_of(value) in to and facts.fits(value)}
            records.rewrites += convert_outputs(session, NAME, NARROW_INTERFACE.code, to, reason, fitting)
        places, namer = list(_places(model, facts, dtypes, self.target, records)), session.namer()
        for place in worth_it(places, inference):
            replacement = _narrowed(place)
            records.rewrites.append(apply_replacement(session, NAME, place.node, replacement, namer, inference.types))
        for value, range_ in stated.items() if records.rewrites else ():
            message, site = f"assumed: {value.name} holds {range_}", Site(model.graph.name or "", value.name or "")
            records.diagnostics.append(Diagnostic(ASSUMED_RANGE.code, Severity.NOTE, site, message))
        if self.largest_dim and records.rewrites:
            message, site = f"assumed: no dimension exceeds {self.largest_dim}", Site(model.graph.name or "")
            records.diagnostics.append(Diagnostic(ASSUMED_LARGEST_DIM.code, Severity.NOTE, site, message))
        return RewriteResult(model, bool(records.rewrites), records)


def _stated(
    model: onnx_ir.Model, inference: Inference, ranges: Mapping[str, tuple[float, float]]
) -> dict[onnx_ir.Value, Range | None]:
    """Return the stated ranges of the inputs of integers. Raises OptionError for a name that is no input."""
    inputs, stated = {value.name or "": value for value in model.graph.inputs}, dict[onnx_ir.Value, Range | None]()
    for name, (low, high) in ranges.items():
        if name not in inputs:
            way_out = did_you_mean(name, inputs, f"expected {', '.join(inputs)}")
            raise OptionError(f"`ranges` names {name!r}, which is not an input of the model; {way_out}")
        dtype = inference.type_of(inputs[name])
        if dtype is not None and element_type(dtype).kind is Kind.INTEGER:
            stated[inputs[name]] = Range(math.ceil(low), math.floor(high))
    return stated


def _places(
    model: onnx_ir.Model, facts: Facts, dtypes: Collection[DataType], target: Target | None, records: Records
) -> Iterator[Place]:
    """Return the places where each type can be narrowed, and the refusals of other nodes that could use less."""
    imports = model.graph.opset_imports
    for node in model.graph.all_nodes():
        key = op_key(node, imports) if node.domain in DEFAULT_DOMAINS else None
        if key is None or node.op_identifier() in model.functions or node.op_type in ON_EITHER:
            continue
        for dtype in dtypes:
            inputs, outputs = list[int](), list[int]()
            for _, ins, outs in groups_of(node, key, dtype, facts.inference):
                refusal = _obstacle(node, dtype, ins, outs, facts)
                if refusal is None and not takes_type(node, ins[0], NARROWER[dtype], imports, target):
                    lacking = f"the target has no kernel of {node.op_type} for {type_name(NARROWER[dtype])}"
                    refusal = Refusal(NAME, NARROW_OPERATOR.code, site_of(node), lacking)
                if refusal is None:
                    inputs += ins
                    outputs += outs
                else:
                    records.refusals.append(refusal)
            if inputs:
                yield Place(node, dtype, tuple(inputs), tuple(outputs))
                break


def _obstacle(
    node: onnx_ir.Node, dtype: DataType, inputs: tuple[int, ...], outputs: tuple[int, ...], facts: Facts
) -> Refusal | None:
    """Return the reason why the node cannot have the narrower type there, with a number that shows it."""
    values = [*(node.inputs[index] for index in inputs), *(node.outputs[index] for index in outputs)]
    loose = next((value for value in values if value is not None and not facts.fits(value)), None)
    if node.op_type not in SAME[dtype]:
        witness = facts.witness(loose) if loose is not None else ""
        reason = f"{node.op_type} of {type_name(dtype)} may give different bits in {type_name(NARROWER[dtype])}"
        return Refusal(NAME, NARROW_OPERATOR.code, site_of(node), reason, witness)
    if loose is not None:
        return Refusal(NAME, NARROW_OPERATOR.code, site_of(node), refusal_text(loose, dtype), facts.witness(loose))
    return None


def _narrowed(place: Place) -> Replacement:
    """Return the node in the narrower type, with casts around it, which simplify-casts removes again."""
    node, to = place.node, NARROWER[place.dtype]
    build, narrowed = ReplacementBuilder(node, ""), {node.outputs[index] for index in place.outputs}

    def operand(index: int, value: onnx_ir.Value) -> onnx_ir.Value:
        if index not in place.inputs:
            return value
        value.type = value.type or onnx_ir.TensorType(place.dtype)
        return _narrowed_constant(build, value, to) or build.cast(value, to)

    attributes = list(node.attributes.values())
    outputs = computed_in(build, to, attributes, operand, lambda old: place.dtype if old in narrowed else None)
    reason = f"all operands and results of {type_name(place.dtype)} are known to fit {type_name(to)}"
    return as_replacement(build, NARROW_OPERATOR.code, reason, *outputs)


_MOST = 1 << 16
"""Elements up to which a constant is narrowed at once: simplify-casts would see through its Cast and take it back."""


def _narrowed_constant(build: Builder, value: onnx_ir.Value, to: DataType) -> onnx_ir.Value | None:
    """Return a constant in the narrower type for a small constant; None for other values."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size > _MOST:
        return None
    return build.constant(cast(np.asarray(tensor.numpy()), to), f"{value.name}_{type_name(to)}")
