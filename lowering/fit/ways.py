"""The ways that may make a model run on a target, in the order in which they are tried.

Exact ways first: the lowering alone, then with the target's own operators, weights of a byte each, and narrower types;
those that change the types of inputs and outputs last. Then the same behind a conversion to another precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.fit.results import Step
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.quantized.tensorrt import DOMAIN as TENSORRT_DOMAIN
from castsmith.lowering.quantized.use import NAME as USE_VENDOR
from castsmith.lowering.registry import REPAIR
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import CODED_TYPES, Kind, element_type, type_name
from castsmith.passes.core.options import Vendor
from castsmith.passes.precision.run import SOURCES
from castsmith.passes.precision.weights import large_weights
from castsmith.targets.target import Target

VENDORS: tuple[Vendor, ...] = (CONTRIB_DOMAIN, TENSORRT_DOMAIN)
"""Domains of operators that one runtime has."""
_NARROWED = (DataType.INT64, DataType.DOUBLE)
_PRECISIONS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
"""The precisions to convert to; one that holds more values first."""


@dataclass(frozen=True)
class Traits:
    """What a model has that decides which ways may help it.

    Attributes:
        types: The element types of its values.
        ports: Those of its inputs and outputs, by name.
    """

    types: frozenset[DataType]
    ports: Mapping[str, DataType]


def traits_of_model(model: onnx_ir.Model) -> Traits:
    """Return what decides which ways may help the model."""
    inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
    types = {inference.type_of(value) for value in all_values(model)}
    return Traits(frozenset(filter(None, types)), ports_of(model))


def ports_of(model: onnx_ir.Model) -> dict[str, DataType]:
    """Return the element types of the inputs and outputs, by name."""
    ports = (*model.graph.inputs, *model.graph.outputs)
    return {value.name or "": value.dtype for value in ports if value.dtype is not None}


Ranges = Mapping[str, tuple[float, float]]


def exact_steps(
    model: onnx_ir.Model, traits: Traits, target: Target, ranges: Ranges, *, reorder: bool
) -> Iterator[Step]:
    """Yield calls of `optimize`, one of which may be enough.

    Args:
        model: The model, which is not changed.
        traits: What decides which ways may help it.
        ranges: Between which numbers the integers of inputs lie.
        reorder: Operators that add products in another order may be used.
    """
    name: dict[str, Any] = {"target": str(target)}
    byte: dict[str, Any] = {"storage": "byte"}
    narrow: dict[str, Any] = {"narrow": tuple(map(type_name, _narrowed(traits, target, ranges)))}
    if ranges:
        narrow["ranges"] = ranges
    yield Step("optimize", name)
    vendors = [vendor for vendor in VENDORS if reorder and _is_expressible(model, vendor, target)]
    yield from (Step("optimize", {**name, "vendor": vendor}) for vendor in vendors)
    yield Step("optimize", {**name, **byte})
    yield from (Step("optimize", {**name, "vendor": vendor, **byte}) for vendor in vendors)
    if narrow["narrow"]:
        yield Step("optimize", {**name, **narrow})
    lacking = {dtype for dtype in traits.ports.values() if dtype in target.lacks}
    if any(dtype in CODED_TYPES or element_type(dtype).kind is Kind.FLOATING for dtype in lacking - {DataType.DOUBLE}):
        yield Step("optimize", {**name, "interface": "wide"})
    if narrow["narrow"] and lacking & {*_NARROWED}:
        yield Step("optimize", {**name, **narrow, "narrow_interface": True})


def _is_expressible(model: onnx_ir.Model, vendor: Vendor, target: Target) -> bool:
    """True if quantized formats of the model can be written in the vendor's operators, and the target has these."""
    if vendor not in target.domains or not any(
        node.op_type in LINEAR or node.domain in VENDORS for node in all_nodes(model)
    ):
        return False
    written = optimize(model, target=target, vendor=vendor, passes=(*REPAIR, "lower-custom", USE_VENDOR))
    return any(rewrite.pass_name == USE_VENDOR for rewrite in written.rewrites)


def _narrowed(traits: Traits, target: Target, ranges: Ranges) -> list[DataType]:
    """Return the types to narrow: those that the target lacks, and int64 if ranges are known."""
    wide = target.lacks | target.off_device | ({DataType.INT64} if ranges else set[DataType]())
    return [dtype for dtype in _NARROWED if dtype in traits.types & wide]


def conversions(traits: Traits, target: Target, *, from_any: bool) -> Iterator[Step]:
    """Yield calls of `convert` that may help, before one of `optimize`.

    from_any: Also from types in which the target computes itself: half the bits may halve the bytes, and save no node.
    """
    for to in _PRECISIONS:
        sources = SOURCES[to] & traits.types
        if not sources or not target.computes(to) or not (from_any or any(not target.computes(t) for t in sources)):
            continue
        options: dict[str, Any] = {"to": type_name(to), "target": str(target)}
        if to == DataType.FLOAT:
            options["lower"] = ("*",)
        yield Step("convert", options)
        lacking = [name for name, dtype in traits.ports.items() if dtype in target.lacks and dtype in sources]
        if lacking:
            plain = len(lacking) < len(traits.ports) and not any("," in name for name in lacking)
            yield Step("convert", {**options, "io": ",".join(lacking) if plain else "convert"})


def weights_alone(model: onnx_ir.Model, target: Target) -> Iterator[Step]:
    """Yield the call of `convert` that makes the file smaller, and nothing legal that is not."""
    half = next((to for to in (DataType.FLOAT16, DataType.BFLOAT16) if to not in target.lacks), None)
    if half is not None and next(large_weights(model), None) is not None:
        yield Step("convert", {"to": type_name(half), "target": str(target), "weights_only": True})
