"""The number of casts never rises, a second run finds nothing, and what is claimed is what is counted."""

from __future__ import annotations

from random import Random

import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.passes.place.chains import Casting
from castsmith.passes.place.problem import LAUNCH_BYTES, MovingNode, Problem
from tests.graphs.random_graphs import random_model as mixed_model
from tests.graphs.random_valid import random_valid_model
from tests.graphs.scoped_graphs import scoped_model
from tests.passes.place.place_regions import random_model
from tests.sampling import check_all, sampled

_IDENTITIES = """<ir_version: 10, opset_import: ["": 21]>
g (float16[2] x) => (float[2] y, float[2] z) { a = Cast <to = 1> (x) y = Identity (a) z = Identity (a) }"""
_SHAPE_VECTOR = """<ir_version: 10, opset_import: ["": 21]>
g (int32[4] x, float[4] d, int64[1] i, int64[1] j) => (float[N] y, float[M] z)
{ a = Cast <to = 7> (x) b = Gather (a, i) c = Gather (a, j) y = Expand (d, b) z = Expand (d, c) }"""
_LARGE = """<ir_version: 10, opset_import: ["": 21]>
g (float16[64, 1024, 1024] x, int64[1] i, int64[1] j) => (float[A, B, C] y, float[D, E, F] z)
{ a = Cast <to = 1> (x) y = Gather (a, i) z = Gather (a, j) }"""
FLATTEN = """<ir_version: 10, opset_import: ["": 21]>
g (float16[batch, seq] x) => (float16[A, B] y)
{ a = Cast <to = 1> (x) f = Flatten (a) t = Transpose (f) y = Cast <to = 10> (t) }"""
_SHARED = """<ir_version: 10, opset_import: ["": 21]>
g (float16[4] x, bool c) => (float[4] y, float[4] z) {
  a = Cast <to = 1> (x)
  y = If (c) <then_branch = t () => (float[4] p) { p = Identity (a) },
              else_branch = e () => (float[4] q) { q = Neg (a) }>
  z = Relu (a)
}"""


def casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type in ("Cast", "CastLike") for node in all_nodes(model))


@pytest.mark.parametrize("text", [_IDENTITIES, _SHAPE_VECTOR, _LARGE, FLATTEN, _SHARED])
def test_never_more_casts(text: str) -> None:
    model = onnx_ir.from_onnx_text(text)
    assert casts(castsmith.optimize(model).model) <= casts(model)


def _again(model: onnx_ir.Model) -> None:
    try:
        result = castsmith.optimize(model, promotion=castsmith.PromotionRules(promote_unsafe=True))
    except castsmith.PromotionError:
        return  # operands for which there is no common type
    again = castsmith.optimize(result.model, promotion=castsmith.PromotionRules(promote_unsafe=True))
    assert [(each.rule, each.before, each.after) for each in again.rewrites] == []


@pytest.mark.parametrize("seed", sampled("random models of two runs", range(40), 6))
def test_a_second_run_finds_nothing(seed: int) -> None:
    _again(random_model(seed, 12))
    _again(onnx_ir.from_proto(scoped_model(seed)))
    _again(onnx_ir.from_proto(random_valid_model(Random(seed))))
    _again(onnx_ir.from_proto(mixed_model(Random(seed))[0]))


@pytest.mark.parametrize("seed", sampled("random models of two runs", range(40), 6))
def test_valid_models_get_no_more_casts(seed: int) -> None:
    protos = scoped_model(seed), random_valid_model(Random(seed))
    for model in (random_model(seed, 12), *map(onnx_ir.from_proto, protos)):
        assert casts(castsmith.optimize(model).model) <= casts(model)


# The time of all launches of 4096 casts; that they are casts weighs as much as one byte: 4096 * 2**12 == 2**24.
_LAUNCHES = 4096 * LAUNCH_BYTES
_SAVING: list[tuple[int, int, int, bool]] = [
    # the bytes and casts of a region, the bytes of its moves without any cast, and whether that saves something
    (0, 4096, 0, True),
    (0, 4096, _LAUNCHES, True),
    (0, 4096, _LAUNCHES + 1, False),  # the same time
    (0, 4096, _LAUNCHES + 2, False),
    (7, 4096, _LAUNCHES + 7, True),
    (7, 4096, _LAUNCHES + 8, False),
    (0, 1, LAUNCH_BYTES, True),
    (0, 1, LAUNCH_BYTES + 1, False),
    (9, 0, 8, False),  # no fewer casts
]


def _require_saving(before: int, casts_before: int, moved: int, saves: bool) -> None:
    move = MovingNode(onnx_ir.node("Identity", []), DataType.INT8, (), moved)
    problem = Problem([move], [], Casting((), 21), before, casts_before)
    assert problem.saves(problem.kept) is saves


def test_a_choice_saves_casts_and_time() -> None:
    check_all(_require_saving, _SAVING)
