"""Passes in a row infer types once: what a session keeps is what the next pass would have found itself."""

from __future__ import annotations

from pathlib import Path
from random import Random

import onnx
import onnx_ir
import pytest

import castsmith
from benchmarks.graphs import cast_graph
from castsmith.analysis.inference.walk import Inference, infer_element_types
from castsmith.ir.naming import has_clashes
from castsmith.ir.survey import survey
from castsmith.ir.validation import require_order
from castsmith.ir.walks import imports_by_scope
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes import FoldConstants, InsertPromoteTypes, PlaceCasts, ResolvePromoteTypes, SimplifyCasts
from castsmith.passes.core.rewrite_pass import SessionPass
from castsmith.passes.core.session import Session
from tests.graphs.golden import read
from tests.graphs.random_graphs import random_model
from tests.passes.place import place_regions
from tests.sampling import check_all, sampled, shortened

GOLDEN = sorted((Path(__file__).parents[2] / "passes" / "golden").glob("*/*.onnxtxt"))
UNSAFE = PromotionRules(promote_unsafe=True)


def passes() -> list[SessionPass]:
    first = InsertPromoteTypes(promote_unsafe=True)
    return [first, ResolvePromoteTypes(), FoldConstants(), SimplifyCasts(), PlaceCasts(), SimplifyCasts()]


def kept(model: onnx_ir.Model) -> tuple[int, int]:
    """Run the passes in one session; how often it knew the types after a pass, and after one that rewrote something."""
    session, found, after_rewrites = Session(model), 0, 0
    for each in passes():
        result = each.run(session)
        inference = session._inference  # pyright: ignore[reportPrivateUsage]
        if inference is not None:
            found += 1
            after_rewrites += result.modified
            assert known(model, inference) == known(model, infer_element_types(model, UNSAFE)), each
        assert session.imports == imports_by_scope(model), each
        now, passed_on = survey(model), session.survey
        assert (passed_on.nodes, passed_on.holders) == (
            now.nodes,
            now.holders,
        ), each
        assert passed_on.domains >= now.domains, each
        assert all(passed_on.of({node.op_type}) == now.of({node.op_type}) for node in now.nodes), each
        assert not has_clashes(model), each
        if session.in_order:
            require_order(now.nodes)
    return found, after_rewrites


def known(model: onnx_ir.Model, inference: Inference) -> dict[str | None, onnx_ir.DataType | None]:
    scopes = [model.graph, *model.graph.subgraphs()]
    for function in model.functions.values():
        scopes += [function.graph, *function.subgraphs()]
    values = [value for scope in scopes for value in (*scope.inputs, *(v for node in scope for v in node.outputs))]
    return {f"{value.name} {id(value)}": inference.type_of(value) for value in values}


def test_is_right_on_golden_cases() -> None:
    paths = sampled("golden cases with types", GOLDEN, len(GOLDEN), cover=lambda path: [path.parent])
    counts = [kept(read(path).model()) for path in paths]
    assert sum(found for found, _ in counts) > 4 * len(paths)
    assert sum(after for _, after in counts) > len(paths) / 4


@pytest.mark.parametrize("seed", sampled("random models with types", range(40), 40))
def test_is_right_on_random_models(seed: int) -> None:
    model = onnx_ir.from_proto(random_model(Random(seed))[0])
    try:
        kept(model)
    except PromotionError:
        pytest.skip("operands that no rule brings together")


def test_is_right_where_casts_move() -> None:
    counts = [kept(place_regions.random_model(seed, 12)) for seed in range(shortened("regions with types", 60, 60))]
    assert sum(after for _, after in counts) > len(counts) / 2


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


def test_a_change_that_no_rewrite_tells_is_told() -> None:
    model = onnx_ir.from_proto(cast_graph(20, 10))
    session = Session(model)
    mine = session.inference(UNSAFE)
    assert session.inference(UNSAFE) is mine
    assert session.inference(PromotionRules(pytorch_scalar_promotion=True)) is not mine
    mine = session.inference(UNSAFE)
    session.changed()
    assert session.inference(UNSAFE) is not mine


def require_nothing_left(path: Path) -> None:
    model = read(path).model()
    for each in passes():
        each(model)
        assert not model.meta


def test_a_pass_alone_leaves_nothing_behind_in_the_model() -> None:
    check_all(require_nothing_left, GOLDEN)


def test_operators_are_told_apart_by_what_is_imported_and_not_where() -> None:
    """The same mapping, changed: what was inferred by the opset before is not taken for the one after."""
    model = onnx_ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 6]> g (int64[2] x, int64[2] n) => (z) { z = Pow (x, n) }"""
    )
    inference = infer_element_types(model, UNSAFE)
    assert inference.to_convert
    model.graph.opset_imports[""] = 12
    inference.walk(model.graph, model.graph.opset_imports)
    assert not inference.to_convert
