"""Every operator whose elements are followed, at every opset and in every type, against two others that compute it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx_ir
import onnxscript.optimizer
import pytest
from onnx.reference import ReferenceEvaluator

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.contents import FOLLOWED
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.walks import all_nodes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.symbols import Poly, Unknown
from castsmith.passes.shapes.run import FoldShapes, computes_from_constants
from tests.graphs.golden import read
from tests.sampling import check_all, sampled

OPSETS = (7, 9, 11, 13, 15, 18, 21, 23)
INTEGERS = ("int64", "int32", "uint8", "int8", "uint64")
_A, _B = [7, 1, 10, 3, 12, 0], [2, 5, 7, 3, 1, 6]
_BITS = [1, 0, 1, 1, 0, 0]

Case = tuple[str, list[Any], dict[str, Any]]


def _I(*elements: int) -> np.ndarray:  # noqa: N802
    return np.array(elements, np.int64)


# Operands of the type under test are lists; those of a type of their own are arrays.
CASES: list[Case] = [
    *((op, [_A, _B], {}) for op in ("Add", "Mul", "Div", "Mod", "Max", "Min", "Pow")),
    *((op, [[9, 9, 100, 30, 12, 9], _B], {}) for op in ("Sub", "Mod", "Div")),
    *((op, [_A, _B], {}) for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")),
    *((op, [np.array(_BITS, bool), np.array(_B) > 4], {}) for op in ("And", "Or", "Xor")),
    *((op, [[[1, 2, 3], [4, 5, 6]]], {"axes": [0]}) for op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")),
    *((op, [[[1, 2, 3], [4, 5, 6]]], {"keepdims": 0}) for op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")),
    *((op, [[[1, 2, 3], [4, 5, 6]], _I(1)], {}) for op in ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin")),
    *((op, [_A], {}) for op in ("Abs", "Neg", "Sign", "Identity")),
    ("Not", [np.array(_BITS, bool)], {}),
    ("Add", [_A, 5], {}),
    ("Where", [np.array(_BITS, bool), _A, _B], {}),
    ("Clip", [_A, 2, 50], {}),
    ("Range", [2, 20, 3], {}),
    ("CumSum", [_A, np.array(0)], {"exclusive": 1, "reverse": 1}),
    ("CumSum", [[[1, 2], [3, 4]], np.array(1)], {}),
    ("Tile", [[[1, 2], [3, 4]], _I(2, 3)], {}),
    ("Trilu", [[[1, 2, 3], [4, 5, 6]], np.array(1)], {"upper": 0}),
    ("Trilu", [[[1, 2, 3], [4, 5, 6]]], {}),
    ("NonZero", [[[1, 0, 3], [0, 5, 6]]], {}),
    ("Gather", [_A, _I(3, 0, -1)], {}),
    ("Gather", [[[1, 2, 3], [4, 5, 6]], np.array(1)], {"axis": 1}),
    ("GatherElements", [[[1, 2, 3], [4, 5, 6]], np.array([[0, 1, 1]])], {}),
    ("GatherND", [[[1, 2, 3], [4, 5, 6]], np.array([[0, 1], [1, -1]])], {}),
    ("ScatterND", [_A, np.array([[1], [4]]), [50, 60]], {}),
    ("Slice", [_A, _I(1), _I(5), _I(0), _I(2)], {}),
    ("Slice", [_A], {"starts": [-3], "ends": [6]}),
    ("Concat", [_A, _B], {"axis": 0}),
    ("Split", [_A], {"axis": 0}),
    ("Expand", [_A, _I(2, 6)], {}),
    ("Reshape", [_A, _I(2, -1)], {}),
    ("Flatten", [[[1, 2, 3], [4, 5, 6]]], {"axis": 0}),
    ("Transpose", [[[1, 2, 3], [4, 5, 6]]], {}),
    ("Squeeze", [[[1], [2]]], {"axes": [1]}),
    ("Squeeze", [[[1], [2]], _I(1)], {}),
    ("Unsqueeze", [_A], {"axes": [0]}),
    ("Unsqueeze", [_A, _I(1)], {}),
    ("ConstantOfShape", [_I(2, 3)], {"value": onnx.numpy_helper.from_array(np.array([5], np.int32))}),
    ("Shape", [[[1, 2, 3], [4, 5, 6]]], {}),
    ("Shape", [[[1, 2, 3], [4, 5, 6]]], {"start": -1}),
    ("Size", [[[1, 2, 3], [4, 5, 6]]], {}),
    *(("Cast", [_A], {"to": to}) for to in (1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13)),
    *(("CastLike", [_A, np.array(0, dtype)], {}) for dtype in (*INTEGERS, bool, np.float32)),
]
FLOATS: list[Case] = [
    *(
        (op, [[6.0, 1.5, 8.0], [2.0, 0.5, 4.0]], {})
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Less")
    ),
    *((op, [[6.25, 1.5, 2.5, 8.0]], {}) for op in ("Floor", "Ceil", "Round", "Abs", "Neg", "Sign")),
    ("Sqrt", [[6.25, 16.0, 0.25]], {}),
    ("Cast", [[6.25, 1.0, -8.5]], {"to": 7}),
    ("Cast", [[6.25, 1.0, -8.5]], {"to": 11}),
]

WRAPPING: list[Case] = [
    ("Add", [[100], [100]], {}),
    ("Sub", [[-100], [100]], {}),
    ("Mul", [[100], [100]], {}),
    ("Neg", [[-128]], {}),
    ("Abs", [[-128]], {}),
    ("Div", [[1], [0]], {}),
    ("Mod", [[1], [0]], {}),
    ("ReduceSum", [[100, 100]], {}),
    ("ReduceProd", [[100, 100]], {}),
]
"""Overflows of int8, and operands without a result: they are not followed."""


def _models() -> Iterator[tuple[str, onnx.ModelProto]]:
    for number, (op, operands, attributes) in enumerate([*CASES, *FLOATS]):
        types = INTEGERS if number < len(CASES) else ("float32", "float64", "float16")
        seen: set[int] = set()
        for opset in OPSETS:
            if not onnx.defs.has(op, opset, "") or (since := onnx.defs.get_schema(op, opset, "").since_version) in seen:
                continue
            seen.add(since)
            for dtype in types:
                model = _model(op, operands, attributes, opset, dtype)
                if model is not None:
                    yield f"{number}-{op}-{opset}-{dtype}", model


def _model(op: str, operands: list[Any], attributes: dict[str, Any], opset: int, dtype: str) -> onnx.ModelProto | None:
    """The node of constants; None where the schema of the opset does not take it."""
    arrays = [each if isinstance(each, np.ndarray) else np.array(each, dtype) for each in operands]
    names = [f"x{index}" for index in range(len(arrays))]
    count = 2 if op == "Split" else 1
    outputs = [f"y{index}" for index in range(count)]
    attributes = {**attributes, **({"num_outputs": 2} if op == "Split" and opset >= 18 else {})}
    node = onnx.helper.make_node(op, names, outputs, **attributes)
    initializers = [onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)]
    graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name=each) for each in outputs], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    try:
        typed = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        onnx.checker.check_model(typed)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return None
    return typed


MODELS = dict(_models())


def some(domain: str) -> list[str]:
    """Return names of models, with each operator among them."""
    return sampled(domain, MODELS, 250, cover=lambda name: [name.split("-")[1]])


def _ours(proto: onnx.ModelProto) -> list[Any]:
    """The elements that are known of each output; None where some are not."""
    model = onnx_ir.from_proto(proto)
    inference = infer_element_types(model, PromotionRules())
    shapes = Shapes(model, inference)
    found: list[Any] = []
    for value in model.graph.outputs:
        content, dtype = shapes.content(value), inference.type_of(value)
        assert dtype is not None
        unknown = content is None or any(isinstance(each, Poly | Unknown) for each in content.ravel().tolist())
        if unknown or content is None:
            found.append(None)
            continue
        numbers = content if dtype.is_integer() else content.astype(float)
        found.append(np.array(numbers.tolist(), dtype.numpy()).reshape(content.shape))
    return found


def require_as_the_reference(name: str) -> None:
    model = MODELS[name]
    expected = ReferenceEvaluator(model).run(None, {})
    for ours, theirs in zip(_ours(model), expected, strict=True):
        assert ours is not None
        assert ours.dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_as_the_reference_computes_it() -> None:
    check_all(require_as_the_reference, some("arithmetic of shapes"))


def test_as_onnxscript_folds_it() -> None:
    different: set[str] = set()
    for name in some("arithmetic of shapes that onnxscript folds"):
        proto = MODELS[name]
        model = onnx_ir.from_proto(proto)
        onnxscript.optimizer.fold_constants(model)
        for ours, value in zip(_ours(proto), model.graph.outputs, strict=True):
            theirs = value.const_value
            if theirs is not None and not np.array_equal(theirs.numpy(), ours):
                different.add(name)
    assert different == set()


def test_every_operator_that_is_followed_is_compared() -> None:
    assert {op for op, _, _ in (*CASES, *FLOATS)} >= FOLLOWED - {"Sum"}


@pytest.mark.parametrize("case", WRAPPING, ids=lambda case: case[0])
def test_overflow_is_not_followed(case: Case) -> None:
    op, operands, attributes = case
    model = _model(op, operands, attributes, 18, "int8") or _model(op, operands, attributes, 18, "int32")
    if model is not None and op.startswith("Reduce"):
        model = _model(op, [[2**30, 2**30]], attributes, 18, "int32")
    assert model is not None
    assert _ours(model) == [None]


@pytest.mark.parametrize(("op", "expected"), [("Div", [-3, -3, 3]), ("Mod", [1, -1, -1])])
def test_signs(op: str, expected: list[int]) -> None:
    model = _model(op, [[-7, 7, -7], [2, -2, -2]], {}, 18, "int64")
    assert model is not None
    assert _ours(model)[0].tolist() == expected


def test_a_look_at_the_operators_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that the pass leaves after that look are those that it leaves after it has followed all shapes."""
    golden = sorted((Path(__file__).parents[2] / "passes" / "golden").glob("*/*.onnxtxt"))
    models = [MODELS[name] for name in some("models to look at for shapes")]
    sources = [*models, *(onnx_ir.to_proto(read(path).model()) for path in golden)]
    looked = [computes_from_constants(all_nodes(onnx_ir.from_proto(proto))) for proto in sources]
    monkeypatch.setattr("castsmith.passes.shapes.run.computes_from_constants", bool)
    for proto, found in zip(sources, looked, strict=True):
        result = FoldShapes()(onnx_ir.from_proto(proto))
        assert found or not (result.modified or result.records.refusals)
    assert 40 < looked.count(False) < len(looked) - 40


@pytest.mark.parametrize(
    "branch",
    [
        "w = Expand (o, m) b = Cast <to = 7> (w)",
        "b = If (c) <then_branch = u () => (p) { p = Identity (s) }, else_branch = v () => (q) {"
        " w = Expand (o, m) q = Cast <to = 7> (w) }>",
    ],
)
def test_what_only_the_branches_of_a_folded_if_read_goes_with_it(branch: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 21]> g (float[2,3] x, float[1] o) => (float[2,3] y) {{
        s = Shape (x) two = Constant <value_int = 2> () n = Size (s) c = Equal (n, two) m = Add (s, s)
        r = If (c) <then_branch = t () => (a) {{ a = Identity (s) }}, else_branch = e () => (b) {{ {branch} }}>
        y = Expand (o, r) }}"""
    result = castsmith.optimize(onnx_ir.from_onnx_text(text))
    assert [node.op_type for node in all_nodes(result.model)] == ["Expand"]
