"""Bounds by operator and structure: what is proven, how tight, and what is said where nothing is known."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith import bounds
from castsmith.analysis.bounds import sums, weights
from castsmith.analysis.bounds.interval import Ball
from castsmith.analysis.bounds.rounding import rounded
from castsmith.verification.bounds import exceeding
from tests.analysis.bounds.rules.grids import check_tight

_LAYERS = {
    "matmul": ("float[2,3] x", "float[3,1] w = {1, -2, 3}", "y = MatMul (x, w)", 6.0),
    "gemm": ("float[2,3] x", "float[1,3] w = {1, -2, 3}", "y = Gemm <alpha = 0.5, transB = 1> (x, w)", 3.0),
    "conv": ("float[1,1,5] x", "float[1,1,3] w = {1, -2, 3}", "y = Conv <pads = [1, 1]> (x, w)", 6.0),
    "conv-transpose": (
        "float[1,1,5] x",
        "float[1,1,4] w = {1, -2, 3, 4}",
        "y = ConvTranspose <strides = [2]> (x, w)",
        6.0,
    ),
    "einsum": ("float[2,3] x", "float[3] w = {2, 2, 2}", 'y = Einsum <equation = "ij,j->i"> (x, w)', 6.0),
    "layer-norm": ("float[2,4] x", "float[4] w = {1, 2, 3, 4}", "y = LayerNormalization (x, w)", math.sqrt(3) * 4),
    "rms-norm": ("float[2,4] x", "float[4] w = {1, 2, 3, 4}", "y = RMSNormalization (x, w)", 8.0),
    "softmax": ("float[2,4] x", "float[1] w = {1}", "y = Softmax (x)", 1.0),
    "tanh": ("float[2,4] x", "float[1] w = {1}", "y = Tanh (x)", math.tanh(1)),
    "gelu": ("float[2,4] x", "float[1] w = {1}", "y = Gelu (x)", 0.8413447),
    "sum": ("float[2,4] x", "int64[1] w = {1}", "y = ReduceSum (x, w)", 4.0),
    "mean": ("float[2,4] x", "int64[1] w = {1}", "y = ReduceMean (x, w)", 1.0),
    "norm": ("float[2,4] x", "int64[1] w = {1}", "y = ReduceL2 (x, w)", 2.0),
    "batch-norm": (
        "float[1,1,2] x",
        "float[1] w = {4}",
        "y = BatchNormalization <epsilon = 0.0> (x, w, w, w, w)",
        6.0,
    ),
    "div": ("float[2,4] x", "float[1] w = {0.25}", "y = Div (x, w)", 4.0),
    "pow": ("float[2,4] x", "float w = {2}", "y = Pow (x, w)", 1.0),
}


def _model(body: str, inputs: str = "float[2,4] x", constants: str = "", opset: int = 23) -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => (float y) <{constants}> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", _LAYERS)
def test_single_layers_are_tight(name: str) -> None:
    inputs, constants, body, true = _LAYERS[name]
    found = bounds(_model(body, inputs, constants), ranges={"x": (-1, 1)})["y"]
    assert found.how == "proven"
    assert true <= found.magnitude
    assert found.magnitude <= 2 * true


@pytest.mark.parametrize("name", ["matmul", "gemm", "conv"])
def test_of_very_large_constants_the_ends_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_MOST", 2)
    inputs, constants, body, true = _LAYERS[name]
    found = bounds(_model(body, inputs, constants), ranges={"x": (-1, 1)})["y"]
    assert found.how == "proven"
    assert true < found.magnitude <= 3 * true


def test_products_are_bounded_alike_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    model = _model("n = LayerNormalization (x, s, o) a = MatMul (n, w) y = Gemm <transB = 1> (a, v)", "float[2,6] x")
    shapes = {"s": (6,), "o": (6,), "w": (6, 5), "v": (4, 5)}
    arrays = {name: draw.integers(-3, 4, shape).astype(np.float32) for name, shape in shapes.items()}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    whole = bounds(model)
    monkeypatch.setattr(sums, "_CHUNK", 7)
    parts = bounds(model)
    for name in ("a", "y"):
        assert parts[name].how == "proven"
        assert (parts[name].low, parts[name].high) == (whole[name].low, whole[name].high)


@pytest.mark.parametrize("scale", [1.0, 2.0**-148, 2.0**60, 2.0**120])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_a_large_matrix_is_bounded_in_float_a_little_wider(
    scale: float, layout: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    matrix = np.asarray(
        draw.standard_normal((96, 7)) * 2.0 ** draw.integers(-30, 4, (96, 7)) * scale, np.float32, layout
    )
    center, half = draw.standard_normal((3, 96)), 2.0 ** draw.integers(-200, 3, (3, 96))
    center[0], half[1], center[2, ::2] = 0, 0, 0
    ball = Ball(9.8, half[0], center[1], 0.0)
    monkeypatch.setattr(sums, "_CHUNK", 50)
    held = weights.weights_of(matrix)

    def result(product: sums.Product[Any]) -> Any:
        held.compute(product)
        return product.result

    boxes = [(center - half, center + half), (center[:, :1] - 1, center[:, :1] + 1)]
    exact = [result(sums.box_product(*box, held.layout)) for box in boxes]
    low, high = (exact_ball := result(sums.ball_product(ball, held.layout)))[0]
    monkeypatch.setattr(sums, "_LARGE", 0)
    for (least, most, size), found in zip(
        exact, [result(sums.box_product(*box, held.layout)) for box in boxes], strict=True
    ):
        assert (found.least <= least).all()
        assert (found.most >= most).all()
        assert (found.size >= size).all()
        margin = 1e-4 * size + 96 * 2.0**-120
        assert (found.least >= least - margin).all()
        assert (found.most <= most + margin).all()
    (least, most), size = result(sums.ball_product(ball, held.layout))
    assert (least <= low).all()
    assert (most >= high).all()
    assert (size >= exact_ball[1]).all()
    margin = 1e-4 * exact_ball[1] + 96 * 2.0**-60
    assert (least >= low - margin).all()
    assert (most <= high + margin).all()
    unknown = result(sums.box_product(np.full((1, 1), -np.inf), np.zeros((1, 1)), held.layout))
    assert np.isneginf(unknown.least).all()
    assert np.isposinf(unknown.most).all()


def test_a_normalization_bounds_whatever_comes_in() -> None:
    model = _model("y = LayerNormalization (x, w)", constants="float[4] w = {1, 1, 1, 1}")
    found = bounds(model)
    assert found["x"].how == "unknown"
    assert found["y"].how == "proven"
    assert found["y"].magnitude <= 2.01
    assert found["y"].assumes
    assert found["y"].depends_on == ("x",)


def test_normalizations_that_exporters_write_out() -> None:
    text = """m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) d2 = Sub (x, m) two = Constant <value = float {2}> ()
        q = Pow (d2, two) v = ReduceMean <axes = [-1]> (q) e = Constant <value = float {1e-6}> () a = Add (v, e)
        r = Sqrt (a) y = Div (d, r)"""
    assert bounds(_model(text, opset=13))["y"].magnitude <= 2.01
    text = """m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) q = Mul (d, d) v = ReduceMean <axes = [-1]> (q)
        e = Constant <value = float {1e-6}> () a = Add (v, e) r = Sqrt (a) i = Reciprocal (r) g = Mul (i, w)
        xs = Mul (x, g) ms = Mul (m, g) b = Sub (w, ms) y = Add (xs, b)"""
    found = bounds(_model(text, constants="float[4] w = {1, 1, 1, 1}", opset=13), ranges={"x": (-1, 1)})["y"]
    assert found.magnitude <= 3.1


def test_attention_is_a_convex_combination() -> None:
    text = "t = Transpose <perm = [1, 0]> (x) s = MatMul (x, t) p = Softmax (s) v = Identity (z) y = MatMul (p, v)"
    model = _model(text, "float[8,4] x, float[8,3] z")
    found = bounds(model, ranges={"x": (-100, 100), "z": (-2, 3)})["y"]
    assert found.how == "proven"
    check_tight((found.low, found.high), (-2, 3))


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [
        ("y = Sub (x, x)", 0.0, 0.0),
        ("y = Mul (x, x)", 0.0, 4.0),
        ("c = Less (x, w) y = Where (c, x, w)", -1.0, 0.5),
        ("c = Greater (x, w) y = Where (c, w, x)", -1.0, 0.5),
        ("c = Greater (x, w) n = Neg (x) y = Where (c, x, n)", -0.5, 2.0),
        ("c = Greater (x, w) n = Neg (x) y = Where (c, n, x)", -2.0, 0.5),
        ("y = Clip (x, , w)", -1.0, 0.5),
        ("y = Relu (x)", 0.0, 2.0),
        ("y = Min (x, w)", -1.0, 0.5),
        ("s = Shape (x) f = Cast <to = 1> (s) y = ReduceMax <keepdims = 0> (f)", 4.0, 4.0),
        ("a = Unsqueeze (x, z) y = Concat <axis = 0> (a, a)", -1.0, 2.0),
        ("c = Cast <to = 9> (x) y = If (z) <then_branch = t () => (float[2,4] a) { a = Neg (x) }, "
         "else_branch = e () => (float[2,4] b) { b = Relu (x) }>", -2.0, 2.0),
    ],
)  # fmt: skip
def test_relations_and_moves(body: str, low: float, high: float) -> None:
    constants = "float w = {0.5}, int64[1] z = {0}"
    if "If (z)" in body:
        constants = "float w = {0.5}"
        model = _model(body, "float[2,4] x, bool z", constants)
    else:
        model = _model(body, constants=constants)
    found = bounds(model, ranges={"x": (-1, 2)})["y"]
    assert (found.how, found.low, found.high) == ("proven", low, high)


def test_softplus_of_what_a_test_leaves() -> None:
    """Softplus alone may overflow inside of itself; PyTorch writes it with a Where, behind which it does not."""
    body = "c = Greater (x, w) s = Softplus (x) y = Where (c, %s)"
    one, other = (
        bounds(_model(body % operands, constants="float w = {20}"), ranges={"x": (-1, 300)})["y"]
        for operands in ("x, s", "s, x")
    )
    assert (one.how, one.high, other.how) == ("proven", 300.0, "unknown")


_DECAYS = "a = Abs (x) d = Neg (a) s = CumSum %s (d, axis) e = Slice (s, %s) y = Sub (e, s)"


@pytest.mark.parametrize(
    ("attributes", "slice_", "none_is_positive"),
    [
        ("", "last, end, axis", True),
        ("", "last, end, axis, one", True),
        ("<exclusive = 1>", "last, end, axis", True),
        ("<reverse = 1>", "last, end, axis", False),
        ("", "second, end, axis", False),
        ("", "last, end, other", False),
        ("", "last, begin, axis, last", False),
    ],
)
def test_what_is_left_of_decays(attributes: str, slice_: str, none_is_positive: bool) -> None:
    constants = ", ".join(
        f"int64[1] {name} = {{{number}}}"
        for name, number in {
            "axis": 1, "other": 0, "last": -1, "second": -2, "end": 2**40, "begin": -(2**40), "one": 1,
        }.items()
    )  # fmt: skip
    found = bounds(_model(_DECAYS % (attributes, slice_), constants=constants), ranges={"x": (-100, 100)})["y"]
    assert found.how == "proven"
    assert (found.high < 1e-3) == none_is_positive


def test_loops_widen() -> None:
    body = """n = Constant <value = int64 {1000}> () t = Constant <value = bool {1}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[2,4] s) => (bool co, float[2,4] so)
        { co = Identity (c) k = Constant <value = float {1}> () u = Add (s, k) so = %s }>"""
    growing = bounds(_model(body % "Identity (u)"), ranges={"x": (-1, 1)})["y"]
    assert growing.how == "unknown"
    assert growing.low >= -1
    limited = bounds(_model(body % "Tanh (u)"), ranges={"x": (-1, 1)})["y"]
    assert limited.how == "proven"
    assert limited.magnitude < 1.01


@pytest.mark.parametrize("body", ["y = Sqrt (x)", "y = Log (x)", "y = Div (x, x)", "y = Mod <fmod = 1> (x, x)"])
def test_what_may_be_nan_is_not_proven(body: str) -> None:
    found = bounds(_model(body), ranges={"x": (-1, 1)})["y"]
    assert found.how == "unknown"
    assert found.may_be_nan


def test_overflow_of_the_own_type_is_not_proven() -> None:
    assert bounds(_model("y = Mul (x, x)"), ranges={"x": (-1e30, 1e30)})["y"].how == "unknown"
    assert bounds(_model("y = Exp (x)"), ranges={"x": (0, 100)})["y"].how == "unknown"


def test_measured_where_nothing_is_proven() -> None:
    arrays = [{"x": np.array([[1, 2, 3, 4], [0, 0, 0, 0.5]], np.float32)}]
    found = bounds(_model("y = Mul (x, x)"), inputs=arrays)
    assert (found["y"].how, found["y"].low, found["y"].high) == ("measured", 0.0, 16.0)
    found = bounds(_model("y = Mul (x, x)"), ranges={"x": (-8, 8)}, inputs=arrays)
    assert (found["y"].how, found["y"].measured, found["y"].margin) == ("proven", (0.0, 16.0), 4.0)


def test_a_run_that_refutes_an_assumption_counts_more_than_the_proof() -> None:
    """Without a range, nothing overflows by assumption; of what overflows on an input, only that is said."""
    model = _model("s = Mul (x, x) d = Sub (s, s) y = Relu (d) z = Neg (x)")
    big = [{"x": np.full((2, 4), 1e30, np.float32)}]
    found = bounds(model, inputs=big)
    assert [(found[name].how, found[name].may_be_nan) for name in "sdy"] == [
        ("measured", False), ("measured", True), ("measured", True)
    ]  # fmt: skip
    assert (found["s"].low, found["s"].high) == (math.inf, math.inf)
    assert [(each.value, each.kind) for each in exceeding(found, "bfloat16")] == [
        ("s", "infinite"), ("d", "nan"), ("y", "nan")
    ]  # fmt: skip
    assert bounds(model)["d"].how == bounds(model, inputs=[{"x": np.ones((2, 4), np.float32)}])["d"].how == "proven"
    assert (
        bounds(model, ranges={"x": (-1, 1)}, inputs=big)["z"].how == "proven"
    )  # for the range, which it is outside of


def test_what_a_type_does_not_hold() -> None:
    body = "a = Mul (x, w) b = Tanh (a) c = Mul (b, z) y = Add (a, c)"
    model = _model(body, constants="float w = {1e6}, float z = {1e-12}")
    found = exceeding(bounds(model, ranges={"x": (-1, 1)}), "float16")
    assert [(each.value, each.kind, each.first, each.cause) for each in found] == [
        ("w", "overflow", True, "w"),
        ("z", "vanish", True, "z"),
        ("a", "overflow", False, "w"),
        ("c", "vanish", False, "z"),
        ("y", "overflow", False, "w"),
    ]
    assert "divide its operands by 16" in found[2].proposal
    assert "make it smaller" in found[0].proposal
    assert not exceeding(bounds(_model("y = Tanh (x)")), "float16")[1:]


def test_the_inputs_that_would_settle_most() -> None:
    model = _model("a = Mul (x, x) b = Neg (a) y = Add (b, z)", "float[2,4] x, float[2,4] z")
    assert bounds(model).settling == [("x", 4), ("z", 2)]


def test_functions_and_weights_in_other_forms() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2,4] x) => (float[2,2] y) <float16[4,2] w = {15360, 16384, 15360, 16384, 15360, 16384, 15360, 16384}>
        { c = Cast <to = 1> (w) y = f.product (x, c) }
        <domain: "f", opset_import: ["" : 21]> product (a, b) => (r) { r = MatMul (a, b) }"""
    found = bounds(onnx.parser.parse_model(text), ranges={"x": (0, 1)})["y"]
    check_tight((found.low, found.high), (0, 8))  # columns of 1 and 2, four terms each


def test_a_call_that_leaves_out_outputs() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { y = f.both (x) }
        <domain: "f", opset_import: ["" : 21]> both (a) => (r, s) { r = Relu (a) s = Neg (a) }"""
    assert bounds(onnx.parser.parse_model(text))["y"].low == 0


def test_more_dimensions_than_an_array_has() -> None:
    """An input with so many is refused; the model may still make a value with them."""
    many = ", ".join(map(str, range(69)))
    found = bounds(_model("u = Unsqueeze (x, a) y = Relu (u)", "float[1] x", f"int64[69] a = {{{many}}}"))
    assert (found["y"].low, found["u"].depends_on) == (0, ("x",))


def test_functions_of_another_opset() -> None:
    """The function is computed by its own: before opset 13 a softmax along axis 1 covers all axes behind it."""
    text = """<ir_version: 10, opset_import: ["" : 13, "f" : 1]> m (float[2,2] x) => (float[2,2] y) { y = f.h (x) }
        <domain: "f", opset_import: ["" : %d]> h (a) => (r) { r = ReduceMax <axes = [0]> (a) }"""
    assert bounds(onnx.parser.parse_model(text % 13), ranges={"x": (-1, 2)})["y"].high == 2
    text = text.replace("ReduceMax <axes = [0]> (a)", "Clip <min = 0.0> (a)")
    assert bounds(onnx.parser.parse_model(text % 6), ranges={"x": (-1, 2)})["y"].low == 0


@pytest.mark.parametrize("ranges", [{"z": (0, 1)}, {"x": (1, 0)}, {"x": (0, math.inf)}, {"x": (math.nan, 1)}])
def test_bad_ranges(ranges: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(castsmith.OptionError, match="range"):
        bounds(_model("y = Neg (x)"), ranges=ranges)


def test_the_model_is_not_changed() -> None:
    model = _model("y = Neg (x)")
    before = model.SerializeToString()
    bounds(model)
    assert model.SerializeToString() == before


def test_the_ends_of_a_range_are_those_of_the_type() -> None:
    found = bounds(_model("y = Neg (x)"), ranges={"x": (0.1, 2.7)})
    assert found["y"].low <= -float(np.float32(2.7))
    assert found["x"].low <= float(np.float32(0.1))


def test_a_normalization_of_unknown_length() -> None:
    body = "y = InstanceNormalization <epsilon = 0.01> (x, w, w)"
    found = bounds(_model(body, "float[1,2,N] x", "float[2] w = {1, 1}"), ranges={"x": (-1, 1)})["y"]
    assert found.how == "proven"
    assert 20 <= found.magnitude <= 22


def test_weights_that_are_repeated_sum_up_to_more() -> None:
    """A softmax along an axis of length 1 is 1; repeated along it, the elements sum up to its new length."""
    body = "p = Softmax (x) o = Identity (w) q = Mul (p, o) y = MatMul (q, z)"
    model = _model(body, "float[2,1] x, float[8,3] z", "float[1,8] w = {1, 1, 1, 1, 1, 1, 1, 1}")
    assert bounds(model, ranges={"x": (-1, 1), "z": (0, 1)})["y"].high >= 8
    body = "p = Softmax (x) e = Expand (p, w) y = MatMul (e, z)"
    model = _model(body, "float[2,N] x, float[M,3] z", "int64[2] w = {2, 8}")
    found = bounds(model, ranges={"x": (-1, 1), "z": (0, 1)})["y"]
    assert found.how == "unknown" or found.high >= 8


def test_cumulative_sums() -> None:
    model = _model("y = CumSum (x, z)", constants="int64 z = {1}")
    found = bounds(model, ranges={"x": (-1, 2)})["y"]
    check_tight((found.low, found.high), (-4, 8))


def test_masks_and_images_have_a_range_by_default() -> None:
    model = _model("f = Cast <to = 1> (attention_mask) y = Mul (f, x)", "int64[2,4] attention_mask, float[2,4] x")
    found = bounds(model, ranges={"x": (0, 5)})["y"]
    assert (found.how, found.low, found.high) == ("proven", 0.0, 5.0)
    assert found.assumes == ("attention_mask is 0 or 1, as its name says",)
    assert bounds(model, ranges={"x": (0, 5), "attention_mask": (0, 3)})["y"].high == 15.0
    other = _model("f = Cast <to = 1> (unmasked) y = Mul (f, x)", "int64[2,4] unmasked, float[2,4] x")
    assert bounds(other, ranges={"x": (0, 5)})["y"].high > 1e19
    image = _model("y = Neg (x)", "float[1,3,4,4] x")
    onnx.helper.set_model_props(image, {"Image.NominalPixelRange": "NominalRange_0_255"})
    assert bounds(image)["y"].low == -255.0
    assert bounds(image)["y"].assumes


def test_numbers_that_overflow_within_an_operator() -> None:
    """A sum of squares or a product with a weight may overflow although the result would fit."""
    for body in ("y = ReduceL2 (x, w)", "y = GlobalAveragePool (x)", "y = ReduceMean (x, w)"):
        model = _model(body, "float[1,2,40] x", "int64[1] w = {2}")
        assert bounds(model, ranges={"x": (1e37, 3e38)})["y"].how == "unknown"


def test_an_operator_without_a_bound_hides_no_overflow() -> None:
    """Tanh bounds whatever comes in, but for infinity minus infinity, which operators without a rule may lead to."""
    found = bounds(_model("a = Det (x) b = Add (a, a) y = Tanh (b)", "float[2,2] x"), ranges={"x": (-1, 1)})["y"]
    assert found.may_be_nan
    found = bounds(_model("a = CumSum (x, z) y = Tanh (a)", "float[N] x", "int64 z = {0}"), ranges={"x": (-1, 1)})["y"]
    assert found.assumes == ("symbolic dimensions are between 1 and 65536",)


def test_types_behind_operators_without_a_schema() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        g (float[2,4] x) => (float[2,4] y) { a = com.microsoft.FastGelu (x) b = Relu (a) y = Neg (b) }"""
    found = bounds(onnx.parser.parse_model(text), ranges={"x": (-1, 1)})
    assert [found[name].how for name in "aby"] == ["proven"] * 3


def test_products_of_dynamically_quantized_operands() -> None:
    body = (
        """q, s, z = DynamicQuantizeLinear (x) i = MatMulInteger (q, w, z, wz) f = Cast <to = 1> (i) y = Mul (f, s)"""
    )
    model = _model(body, "float[2,2] x", "int8[2,2] w = {100, -20, 50, 3}, int8 wz = {-1}")
    found = bounds(model, ranges={"x": (-510, 0)})
    check_tight((found["s"].low, found["s"].high), (0, 2))
    assert found["f"].magnitude == 255 * (101 + 51)  # the differences to both zero points
    assert found["y"].how == "proven"
    assert bounds(model, ranges={"x": (0, 1e-3)})["s"].high >= 1  # what ONNX Runtime takes if all of x is 0


@pytest.mark.parametrize(("dtype", "limit", "below"), [
    (DataType.FLOAT16, 65520.0, 65504.0),
    (DataType.FLOAT, 2.0**128 - 2.0**103, 2.0**128 - 2.0**104),
    (DataType.FLOAT8E5M2, 61440.0, 57344.0),
    (DataType.FLOAT8E4M3FN, math.nextafter(464.0, 465.0), 448.0),
    (DataType.FLOAT8E4M3FNUZ, 248.0, 240.0),
    (DataType.FLOAT4E2M1, 7.0, 6.0),
])  # fmt: skip
def test_the_numbers_that_round_to_infinity(dtype: DataType, limit: float, below: float) -> None:
    """Halfway to the number that would come next; a tie goes to the even one. Float16 may be kept in float."""
    for number, expected in ((limit, math.inf), (math.nextafter(limit, 0), below)):
        kept = float(np.float32(number)) if dtype == DataType.FLOAT16 else 0.0
        low, high = rounded(np.array([-number]), np.array([number]), dtype)
        assert (low[0], high[0]) == (-max(expected, kept), max(expected, kept))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_slope_may_be_rounded_to_the_type_first(dtype: str) -> None:
    found = bounds(_model("y = LeakyRelu (x)", f"{dtype}[2] x"), ranges={"x": (-5, -1)})["y"]
    slope = float(onnx_ir.tensor([0.01], DataType[dtype.upper()]).numpy()[0])
    check_tight((found.low, found.high), (-5 * max(slope, 0.01), -min(slope, 0.01)))


def test_a_slope_that_is_infinite_in_the_type() -> None:
    found = bounds(_model("y = LeakyRelu <alpha = 1e30> (x)", "float16[2] x"), ranges={"x": (0, 1)})["y"]
    assert found.may_be_nan  # infinity times 0


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = STFT (x, n, , n)", "float x"),
        ("y = LSTM <hidden_size = 4> (x, s, s)", "float[1,1,4] x, float s"),
        ("y = ReduceSum (x, nan)", "float[2,4] x"),
        ("y = Reshape (x, nan)", "float[2,4] x"),
        ("s = Mul (x, x) v = ReduceMean (s, nan) r = Sqrt (v) y = Div (x, r)", "float[2,4] x"),
    ],
)
def test_operands_of_no_use_are_no_error(body: str, inputs: str) -> None:
    model = _model(body, inputs, "int64 n = {4}", opset=18)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([np.nan], np.float32), "nan"))
    assert bounds(model)["y"].low <= bounds(model)["y"].high


def test_operands_that_become_integers_may_lose_their_fraction() -> None:
    """0.5 is 0 for an Add of integers: no integer lies between 0.5 and 0.5, but the sum is one."""
    model = _model("a = Add (n, w) y = Cast <to = 1> (a)", "int32[2] n", "float w = {0.5}")
    assert bounds(model, ranges={"n": (0, 0)})["y"].low <= 0 <= bounds(model, ranges={"n": (0, 0)})["y"].high
