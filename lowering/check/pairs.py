"""Casts between types that the target does not load, computes otherwise, or whose values it holds in other types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_values
from castsmith.lowering.check.device import is_prescribed
from castsmith.lowering.check.scene import Scene, once
from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import HALF_TYPES, Kind, element_type, type_name
from castsmith.passes.core.casts import cast_before, cast_of
from castsmith.targets.target import Target

TypeOf = Callable[[onnx_ir.Value | None], DataType | None]
_BEYOND_INT32 = (DataType.UINT32, DataType.INT64, DataType.UINT64)
LEFT = "check that your values are not among those, or that their last bits do not matter"
"""Way out of what is left to the target."""

TARGET_LACKS_KERNEL = FindingCode(
    "target-lacks-kernel",
    "The target has no kernel for an operator on this type.",
    why="The target rejects the model. `castsmith targets show` lists what it supports.",
    example="onnxruntime-cpu has no MatMul of bfloat16 at opset 20",
    advice="Run optimize --target, which computes it in another type or replaces it, if that is exact.",
    outcomes=(Outcome.REFUSED,),
    fix="automatic",
    silence="If a plugin or another release of the runtime has the kernel.",
)
TARGET_MISCOMPUTES_CAST = FindingCode(
    "target-miscomputes-cast",
    "The target computes a cast differently from the standard.",
    why=(
        "The wrong results were measured; the target's file has the evidence (castsmith targets show T). A note is "
        "about how the target holds a type, such as int64 in 32 bits or float16 in float: that stays as it is."
    ),
    example="q = Cast <to = float8e4m3fn, saturate = 0> (x) gives 448 where the standard says NaN",
    advice="Run optimize --target, which replaces the cast with exact operators.",
    outcomes=(Outcome.OTHERWISE, Outcome.HELD),
    fix="automatic",
    silence="If your values are not among those with wrong results.",
)


def pair_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield casts that are wrong, each at its place; and those that do not load or are left to the target, by kind."""
    target, inference, replaced = scene.target, scene.inference, f"{scene.lowering} replaces it"
    for node in scene.nodes:
        opset = scene.opset(node) or target.newest_opset
        if divided := divided_in_float(node, scene.type_of, target, opset):
            message = (
                f"{target} computes QuantizeLinear of {type_name(divided)} wrongly: it does not round the quotient"
            )
            yield Diagnostic(TARGET_MISCOMPUTES_CAST.code, Severity.ERROR, site_of(node), message, replaced)
        step = cast_of(node, inference)
        if step is None:
            continue
        x, source, meaning = step
        to, range_ = meaning.target, scene.ranges.get(x)
        pair = f"{type_name(source)} to {type_name(to)}"
        if not target.loads_cast(source, to):
            way_out = f"{replaced} if there is an exact replacement"
            yield once(TARGET_LACKS_KERNEL, Severity.ERROR, node, f"{target} has no Cast of {pair}", way_out)
            continue
        if (range_ is not None and range_.fits(to)) or _is_widened(x, to, inference):
            continue
        inherent = list[str]()
        entry = target.wrong_cast(source, to, saturate=meaning.saturate, opset=opset, inherent=True)
        wrong = ""
        if entry is not None and entry.inherent:
            inherent.append(f"{target} casts {pair} differently: it {entry.wrong}")
        elif entry is not None:
            wrong = f"it {entry.wrong}"
        elif target.keeps_high_bits(source, to):
            wrong = f"it holds {type_name(to)} in a wider type, and does not wrap"
        if wrong:
            message = f"{target} computes {pair} wrongly: {wrong}"
            yield Diagnostic(TARGET_MISCOMPUTES_CAST.code, Severity.ERROR, site_of(node), message, replaced)
        if "casts-are-merged" in target.hazards and _follows_wide_integer(x, source, to, inference):
            inherent.append(f"{target} merges this cast with the one before it, so numbers beyond int32 change")
        if target.leaves_unrounded(source, to):
            inherent.append(f"{target} holds {type_name(to)} in a wider type, so this cast does not round")
        for message in inherent:
            yield once(TARGET_MISCOMPUTES_CAST, Severity.NOTE, node, message, LEFT)


def _is_widened(x: onnx_ir.Value, to: DataType, inference: Inference) -> bool:
    """True for the result of a cast from a type of which `to` holds every value."""
    step = cast_before(x, inference)
    return step is not None and embeds(step[1], to)


def _follows_wide_integer(x: onnx_ir.Value, source: DataType, to: DataType, inference: Inference) -> bool:
    """True for a cast to an integer of what was cast from a float to an integer with numbers beyond int32."""
    if source not in _BEYOND_INT32 or element_type(to).kind is not Kind.INTEGER or embeds(source, to):
        return False
    step = cast_before(x, inference)
    return step is not None and element_type(step[1]).kind is Kind.FLOATING


def narrowed_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield one note per type that the target holds in a smaller one, at the first value that may not fit there."""
    missing = dict(scene.target.narrowed)
    for value in all_values(scene.model) if missing else ():
        dtype = scene.type_of(value)
        if dtype is None or dtype not in missing or is_prescribed(value, scene.imports):
            continue
        range_, holder = scene.ranges.get(value), missing[dtype]
        if range_ is None or not range_.fits(holder):
            del missing[dtype]
            wide, small = type_name(dtype), type_name(holder)
            message = (
                f"{scene.target} holds {wide} in {small}: numbers that {small} lacks change, first in {value.name}"
            )
            yield Diagnostic(TARGET_MISCOMPUTES_CAST.code, Severity.NOTE, scene.site, message, LEFT, wide)


def divided_in_float(node: onnx_ir.Node, type_of: TypeOf, target: Target, opset: int) -> DataType | None:
    """Return the half type in which a QuantizeLinear divides, if the target divides in float instead; else None."""
    if node.op_type != "QuantizeLinear" or node.domain not in DEFAULT_DOMAINS or not target.divides_in_float(opset):
        return None
    stated = node.attributes.get_int("precision", 0)
    dtype = DataType(stated) if stated else type_of(node.inputs[1])
    return dtype if dtype in HALF_TYPES else None
