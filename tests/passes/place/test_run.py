"""place-casts on random graphs: no bit changes, fewer casts afterwards, and nothing to do in a second run."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith import optimize
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.passes.place.run import PlaceCasts
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for
from tests.passes.place.place_regions import PAIRS, random_model
from tests.passes.place.test_cut import problems
from tests.sampling import sampled

SEEDS = sampled("random regions", range(30 * len(PAIRS)), 24, cover=lambda seed: [seed % len(PAIRS)])


def casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type == "Cast" for node in model.graph)


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_and_cost_of_random_regions(seed: int) -> None:
    before, after = random_model(seed, 12), random_model(seed, 12)
    result = PlaceCasts()(after)
    onnx.checker.check_model(onnx_ir.to_proto(after), full_check=True)
    feeds = inputs_for(before, seed)
    for old, new in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(
            np.ascontiguousarray(old).view(np.uint8), np.ascontiguousarray(new).view(np.uint8)
        )
    assert result.modified == (casts(after) < casts(before))
    if result.modified:
        assert sum(p.before for p in problems(after)) < sum(p.before for p in problems(before))
    assert not PlaceCasts()(after).modified


def test_the_types_that_a_session_knows_stay_right() -> None:
    """Regions that follow, and the records, read them; a value that has another type meanwhile is known by it."""
    rules, changed = PromotionRules(promote_unsafe=True), 0
    for seed in range(len(PAIRS)):
        session = Session(random_model(seed, 12))
        before = session.inference(rules)
        changed += PlaceCasts().rewrite(session).modified
        after = infer_element_types(session.model, rules)
        values = [value for node in session.model.graph for value in node.outputs]
        assert [before.type_of(value) for value in values] == [after.type_of(value) for value in values], seed
    assert changed > 2


def test_a_cast_is_not_moved_back_and_forth_across_a_reshape_of_unknown_size() -> None:
    """Outputs of an If may have no shape, and a flattened lowering has length `?`: both keep their element count."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (bool first, float[2] x) => (float[2] y) {
            c = Cast <to = 17> (x)
            chosen = If (first) <
                then_branch = yes () => (float8e4m3fn[2] p) { p = Identity (w) },
                else_branch = no () => (float8e4m3fn[2] q) { q = Identity (c) }
            >
            y = Cast <to = 1> (chosen)
        }"""
    )
    model.graph.initializer.append(onnx.helper.make_tensor("w", 17, [2], bytes([0x3C, 0xFE]), raw=True))
    rules = [rewrite.rule for rewrite in optimize(model, target="onnxruntime-android").rewrites]
    assert "place-casts" not in rules
