"""Regions at their limits: casts in a row, and the sizes of constants."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Ranges
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.naming import Namer
from castsmith.ir.records import RewriteResult
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes import PlaceCasts
from castsmith.passes.core.cost import Legality
from castsmith.passes.place.problem import Problem
from castsmith.passes.place.regions import find_regions, pose
from castsmith.passes.place.sizes import Sizes
from castsmith.targets.target import load_target
from tests.sampling import check_all

_HEAD = '<ir_version: 10, opset_import: ["": 21]>'


def placed(model: onnx_ir.Model) -> RewriteResult:
    result = PlaceCasts()(model)
    assert isinstance(result, RewriteResult)
    return result


@pytest.mark.parametrize(("count", "refused"), [(63, False), (64, False), (65, True)])
def test_64_casts_in_a_row(count: int, refused: bool) -> None:
    casts = [f"c{number} = Cast <to = {(10, 1)[number % 2]}> (c{number - 1})" for number in range(1, count + 1)]
    last = ("float16", "float")[count % 2]
    text = f"g (float16[2,3] c0) => ({last}[3,2] y) {{ {' '.join(casts)} y = Transpose (c{count}) }}"
    result = placed(onnx_ir.from_onnx_text(_HEAD + text))
    told = [refusal.reason for refusal in result.records.refusals]
    assert told == ["chain of more than 64 casts; skipped"] * refused
    assert result.modified != refused


@pytest.mark.parametrize(("count", "cast_at_once"), [(1023, True), (1024, True), (1025, False)])
def test_a_constant_of_1024_elements_is_cast_at_once(count: int, cast_at_once: bool) -> None:
    weight = f"<float16[{count}] w = {{{', '.join(['1'] * count)}}}>"
    text = f"g (int64[1] k) => (float[N] y) {weight} {{ a = Reshape (w, k) y = Cast <to = 1> (a) }}"
    model = onnx_ir.from_onnx_text(_HEAD + text)
    assert placed(model).modified == cast_at_once
    (held,) = model.graph.initializers.values()
    assert held.dtype == (onnx_ir.DataType.FLOAT if cast_at_once else onnx_ir.DataType.FLOAT16)


CRASHES = replace(load_target("onnxruntime-cpu"), hazards={"transpose-cast-matmul-crashes": ""})
SOUND = replace(CRASHES, hazards={})
PLAIN, HELD, OF_HALF, NO_FLOAT = Legality(), Legality(CRASHES), Legality(SOUND), Legality(narrowed=[DataType.FLOAT])
ALL = "FLOAT16 KEEP, FLOAT AFTER, FLOAT BEFORE"
CHOICES: list[tuple[str, Legality, str]] = [
    # The nodes after x in float16 (s in float, i in int8), what is legal, and the choices of the node that makes t.
    ("t = Transpose (x) c = Cast <to = 1> (t) y = Neg (c)", PLAIN, ALL),
    ("t = Transpose (x) c = Cast <to = 1> (t) y = Neg (c)", NO_FLOAT, "FLOAT16 KEEP"),
    # A half that a float holds is rounded to itself.
    ("c = Cast <to = 1> (x) t = Transpose (c) y = Neg (t)", PLAIN, "FLOAT KEEP, FLOAT16 AFTER"),
    # What becomes of a float that no int8 holds is open.
    ("t = Transpose (i) c = Cast <to = 1> (t) y = Neg (c)", PLAIN, "INT8 KEEP, FLOAT AFTER"),
    ("c = Cast <to = 1> (i) t = Transpose (c) y = Neg (t)", PLAIN, "FLOAT KEEP, INT8 BEFORE"),
    # No cast is put between a Transpose and its MatMul.
    ("c = Cast <to = 1> (x) t = Transpose (c) y = MatMul (t, s)", OF_HALF, "FLOAT KEEP, FLOAT16 AFTER"),
    ("c = Cast <to = 1> (x) t = Transpose (c) y = MatMul (t, s)", PLAIN, "FLOAT KEEP, FLOAT16 AFTER"),
    ("c = Cast <to = 1> (x) t = Transpose (c) y = MatMul (t, s)", HELD, "FLOAT KEEP"),
    ("c = Cast <to = 1> (x) t = Transpose (c) y = MatMul (s, t)", HELD, "FLOAT KEEP"),
    ("t = Transpose (x) c = Cast <to = 1> (t) y = MatMul (c, s)", HELD, ALL),
    ("c = Cast <to = 1> (x) t = Transpose (c) y = Neg (t)", HELD, "FLOAT KEEP, FLOAT16 AFTER"),
    ("c = Cast <to = 1> (x) t = Reshape (c, k) y = MatMul (t, s)", HELD, "FLOAT KEEP, FLOAT16 AFTER"),
    ("c = Cast <to = 1> (x) t = Transpose (c) u = Abs (t) y = MatMul (t, s)", HELD, "FLOAT KEEP, FLOAT16 AFTER"),
    ("c = Cast <to = 1> (x) t = Transpose (c) y = Neg (c)", HELD, "FLOAT KEEP, FLOAT16 AFTER"),
]  # fmt: skip


def require_choices(text: str, legality: Legality, expected: str) -> None:
    model = onnx_ir.from_onnx_text(
        f"{_HEAD} g (float16[2,2] x, float[2,2] s, int8[2,2] i, int64[2] k) => (float[2,2] y) {{ {text} }}"
    )
    inference, imports = infer_element_types(model, PromotionRules(promote_unsafe=True)), model.graph.opset_imports
    (region,) = find_regions(model.graph, inference, imports, Ranges(inference))
    sizes = Sizes(Shapes(model, inference), 64, {})
    problem = pose(region, inference, imports, sizes, legality=legality, namer=Namer(model))
    assert isinstance(problem, Problem)
    (choices,) = [move.choices for move in problem.moves if move.node.outputs[0].name == "t"]
    assert ", ".join(f"{choice.dtype.name} {choice.mode.name}" for choice in choices) == expected


def test_the_types_that_a_move_may_get() -> None:
    check_all(require_choices, CHOICES)


def test_a_cast_without_results_and_a_model_without_an_opset() -> None:
    moved = "a = Cast <to = 1> (x) b = Transpose (a) y = Cast <to = 10> (b)"
    model = onnx_ir.from_onnx_text(
        f"{_HEAD} g (float16[2,2] x) => (float16[2,2] y) {{ u = Cast <to = 1> (x) {moved} }}"
    )
    model.graph[0].resize_outputs(0)
    assert placed(model).modified
    assert [node.op_type for node in model.graph] == ["Cast", "Transpose"]
    model = onnx_ir.from_onnx_text(f"{_HEAD} g (float16[2,2] x) => (float16[2,2] y) {{ {moved} }}")
    model.graph.opset_imports.clear()
    assert not placed(model).modified
