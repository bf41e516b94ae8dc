"""Attributes that are left out, and opsets between two versions of an operator: both are what its schema says.

An attribute at its default means the same as one that is left out. Between two versions of an operator nothing changes.
The models are those of the rules of bounds, with one operator each, as they are and with constants for all inputs.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
import onnx_ir

import castsmith
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.io.loading import from_proto
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from tests.analysis.bounds.operators import OPERATORS, case_of, types, versions
from tests.sampling import check_all, sampled

NEWEST = onnx.defs.onnx_opset_version()


first_opsets = cache(versions)


EVERY = [(op_type, opset, seed) for op_type in OPERATORS for opset in versions(op_type) for seed in range(3)]
CASES = sampled("operators in their versions", EVERY, 300, cover=lambda case: case[:1])
"""Each operator in one of its versions and some in others, with a seed of its attributes."""


def models(op_type: str, opset: int, seed: int) -> list[tuple[onnx.ModelProto, dict[str, tuple[float, float]]]]:
    """Return a model of the operator with inputs, and the same with constants."""
    case = case_of("", op_type, opset, types(op_type, opset)[0], seed)
    open_, closed = case.model(), case.model()
    feeds = next(case.feeds(1))
    closed.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in feeds.items())
    del closed.graph.input[:]
    return [(open_, case.ranges), (closed, {})]


def found(model: onnx.ModelProto, ranges: dict[str, tuple[float, float]]) -> list[object]:
    """Return what bounds, shapes and folding find in the model; both tests ask of the same models."""
    return _found(model.SerializeToString(deterministic=True), tuple(ranges.items()))


@cache
def _found(written: bytes, given: tuple[tuple[str, tuple[float, float]], ...]) -> list[object]:
    model, ranges = onnx.ModelProto.FromString(written), dict(given)
    bounded = castsmith.bounds(model, ranges=ranges)
    bounds = [(name, each.low, each.high, each.may_be_nan) for name, each in bounded.items()]
    session = Session(from_proto(model))
    shapes = Shapes(session.model, session.inference(PromotionRules()))
    dims = [
        (value.name, str(shapes.shape(value)), str(shapes.content(value)))
        for node in session.model.graph
        for value in node.outputs
    ]
    result = castsmith.optimize(model, passes=["fold-shapes", "fold-constants", "simplify-casts"], provenance=False)
    graph = onnx_ir.to_proto(result.model).graph
    constants = sorted((each.name, each.SerializeToString()) for each in graph.initializer)
    return [bounds, dims, [node.op_type for node in graph.node], constants]


def same(a: list[object], b: list[object], what: str) -> None:
    for one, other in zip(a, b, strict=True):
        np.testing.assert_equal(one, other, what)


def defaults(node: onnx.NodeProto, opset: int) -> dict[str, onnx.AttributeProto]:
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    every = {name: each.default_value for name, each in schema.attributes.items()}
    return {name: value for name, value in every.items() if value.type}


def with_defaults(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return the model with each attribute that it leaves out; None if it leaves out none that has a default."""
    copy, changed = onnx.ModelProto.FromString(model.SerializeToString()), False
    for node in copy.graph.node:
        given = {attribute.name for attribute in node.attribute}
        for name, value in defaults(node, opset).items():
            if name not in given:
                node.attribute.add().CopyFrom(value)
                node.attribute[-1].name = name
                changed = True
    return copy if changed else None


def without(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without the attributes that have a default, whatever they were."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    opset = copy.opset_import[0].version
    for node in copy.graph.node:
        names = defaults(node, opset).keys()
        kept = [attribute for attribute in node.attribute if attribute.name not in names]
        del node.attribute[:]
        node.attribute.extend(kept)
    return copy


def require_the_same_left_out(op_type: str, opset: int, seed: int) -> None:
    for model, ranges in models(op_type, opset, seed):
        for each in {made.SerializeToString(): made for made in (model, without(model))}.values():
            written = with_defaults(each, opset)
            if written is not None:
                same(found(each, ranges), found(written, ranges), op_type)


def require_the_same_up_to_the_next_version(op_type: str, opset: int, seed: int) -> None:
    later = [each for each in first_opsets(op_type) if each > opset]
    last = min(later, default=NEWEST + 1) - 1
    for model, ranges in models(op_type, opset, seed):
        names = {node.op_type for node in model.graph.node}
        versioned = {each for name in names for each in first_opsets(name)}
        last = min([last, *(each - 1 for each in versioned if each > opset)])
        before = found(model, ranges)
        if last > opset:
            model.opset_import[0].version = last
            same(before, found(model, ranges), f"{op_type} at {last}")


def test_an_attribute_at_its_default_is_one_that_is_left_out() -> None:
    check_all(require_the_same_left_out, CASES)


def test_between_two_versions_of_an_operator_nothing_changes() -> None:
    check_all(require_the_same_up_to_the_next_version, CASES)
