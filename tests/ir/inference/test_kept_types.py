"""Passes in a row infer types once: what the next one is lent is what it would have found itself."""

from __future__ import annotations

from pathlib import Path
from random import Random

import onnx
import onnx_ir
import pytest

import castsmith
from benchmarks.graphs import cast_graph
from castsmith.ir.inference.cache import lend
from castsmith.ir.inference.walk import LENT, Inference, infer_element_types
from castsmith.ir.rewrite_pass import RewritePass
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes import FoldConstants, InsertPromoteTypes, PlaceCasts, ResolvePromoteTypes, SimplifyCasts
from tests.graphs.golden import read
from tests.graphs.random_graphs import random_model
from tests.passes.place import place_regions

GOLDEN = sorted((Path(__file__).parents[2] / "passes" / "golden").glob("*/*.onnxtxt"))
UNSAFE = PromotionRules(promote_unsafe=True)


def passes() -> list[RewritePass]:
    first = InsertPromoteTypes(promote_unsafe=True)
    return [first, ResolvePromoteTypes(), FoldConstants(), SimplifyCasts(), PlaceCasts(), SimplifyCasts()]


def handed_on(model: onnx_ir.Model) -> tuple[int, int]:
    """Run the passes, each with what the one before handed on; how often it was something, after a rewrite too."""
    inference: Inference | None = None
    found = after_rewrites = 0
    for each in passes():
        with lend(model, inference):
            result = each(model)
        assert LENT not in model.meta
        inference = result.inference if result.modified else result.inference or inference
        if inference is not None:
            found += 1
            after_rewrites += result.modified
            assert known(model, inference) == known(model, infer_element_types(model, UNSAFE)), each
    return found, after_rewrites


def known(model: onnx_ir.Model, inference: Inference) -> dict[str | None, onnx_ir.DataType | None]:
    scopes = [model.graph, *model.graph.subgraphs()]
    for function in model.functions.values():
        scopes += [function.graph, *function.subgraphs()]
    values = [value for scope in scopes for value in (*scope.inputs, *(v for node in scope for v in node.outputs))]
    return {f"{value.name} {id(value)}": inference.type_of(value) for value in values}


def test_is_right_on_golden_cases() -> None:
    counts = [handed_on(read(path).model()) for path in GOLDEN]
    assert sum(found for found, _ in counts) > 4 * len(GOLDEN)
    assert sum(after for _, after in counts) > 50


@pytest.mark.parametrize("seed", range(40))
def test_is_right_on_random_models(seed: int) -> None:
    model = onnx_ir.from_proto(random_model(Random(seed))[0])
    try:
        handed_on(model)
    except PromotionError:
        pytest.skip("operands that no rule brings together")


def test_is_right_where_casts_move() -> None:
    counts = [handed_on(place_regions.random_model(seed, 12)) for seed in range(60)]
    assert sum(after for _, after in counts) > 30


def test_optimize_infers_each_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walked, walk = list[onnx_ir.Node](), Inference.walk

    def counted(self: Inference, scope: onnx_ir.Graph, imports: dict[str, int]) -> None:
        nodes = list(scope)
        walked.extend(nodes)
        walk(self, nodes, imports)

    monkeypatch.setattr(Inference, "walk", counted)
    model = cast_graph(2000, 500)
    assert castsmith.optimize(onnx.ModelProto.FromString(model.SerializeToString())).rewrites
    assert len(walked) == len(set(walked)) == len(model.graph.node)


def test_is_lent_for_the_time_of_the_block_only() -> None:
    model = onnx_ir.from_proto(cast_graph(20, 10))
    mine = infer_element_types(model, UNSAFE)
    with lend(model, mine):
        assert infer_element_types(model, UNSAFE) is mine
        assert infer_element_types(model, PromotionRules(pytorch_scalar_promotion=True)) is not mine
    assert infer_element_types(model, UNSAFE) is not mine
