"""Bounds by operator and structure: what is proven, how tight, and what is said where nothing is known."""

from __future__ import annotations

import math
import operator
from itertools import product

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith import bounds
from castsmith.verification.bounds import exceeding
from tests.analysis.bounds.rules.grids import check_tight
from tests.sampling import check_all

LAYERS = {
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


def model_of(body: str, inputs: str = "float[2,4] x", constants: str = "", opset: int = 23) -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => (float y) <{constants}> {{ {body} }}'
    model = onnx.parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", LAYERS)
def test_single_layers_are_tight(name: str) -> None:
    inputs, constants, body, true = LAYERS[name]
    found = bounds(model_of(body, inputs, constants), ranges={"x": (-1, 1)})["y"]
    assert found.how == "proven"
    assert true <= found.magnitude
    assert found.magnitude <= 2 * true


def test_attention_is_a_convex_combination() -> None:
    text = "t = Transpose <perm = [1, 0]> (x) s = MatMul (x, t) p = Softmax (s) v = Identity (z) y = MatMul (p, v)"
    model = model_of(text, "float[8,4] x, float[8,3] z")
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
        model = model_of(body, "float[2,4] x, bool z", constants)
    else:
        model = model_of(body, constants=constants)
    found = bounds(model, ranges={"x": (-1, 2)})["y"]
    assert (found.how, found.low, found.high) == ("proven", low, high)


def test_computed_pads_of_32_axes_are_followed() -> None:
    """They are 64 numbers, two for each axis; the last axis grows from 1 to 3."""
    ones, pads = ",".join(["1"] * 32), ",".join(["0"] * 63 + ["2"])
    body = "t = Max (s, z) r = Pad (x, t) d = Shape (r) f = Cast <to = 1> (d) y = ReduceMax <keepdims = 0> (f)"
    model = model_of(body, f"float[{ones}] x, int64[64] z", f"int64[64] s = {{{pads}}}")
    found = bounds(model, ranges={"z": (0, 0)})["y"]
    assert (found.how, found.low, found.high) == ("proven", 3.0, 3.0)


_TESTS = {"Less": operator.lt, "LessOrEqual": operator.le, "Greater": operator.gt, "GreaterOrEqual": operator.ge}


def require_what_a_test_leaves(test: str, x_first: bool, then: bool, limits: tuple[float, ...]) -> None:
    """All elements of x from -1 to 2 that the test lets through are within the bounds, and the ends are no wider."""
    operands, chosen = ("x, w" if x_first else "w, x"), ("x, zero" if then else "zero, x")
    inputs = "float[2,4] x, bool d"
    constants = f"float zero = {{0}}, float one = {{{limits[0]}}}, float other = {{{limits[-1]}}}"
    body = f"w = Where (d, one, other) c = {test} ({operands}) y = Where (c, {chosen})"
    found = bounds(model_of(body, inputs, constants), ranges={"x": (-1, 2)})["y"]
    compare = _TESTS[test]
    left = {0.0} | {
        x
        for x in np.arange(-1, 2.25, 0.25).tolist()
        for limit in limits
        if compare(*((x, limit) if x_first else (limit, x))) == then
    }
    assert (found.how, found.low <= min(left), found.high >= max(left)) == ("proven", True, True), (found, left)
    if limits == (0.5,):
        closed = {*left, 0.5} if max(left) in (0.25, 0.5) or min(left) in (0.5, 0.75) else left
        assert (found.low, found.high) == (min(closed), max(closed)), (found, left)


def test_what_a_test_leaves_of_a_value() -> None:
    limits = [(0.5,), (0.5, math.inf), (0.5, -math.inf), (0.5, math.nan), (-0.5, 0.5)]
    check_all(require_what_a_test_leaves, product(_TESTS, (True, False), (True, False), limits))


def test_softplus_of_what_a_test_leaves() -> None:
    """Softplus alone may overflow inside of itself; PyTorch writes it with a Where, behind which it does not."""
    body = "c = Greater (x, w) s = Softplus (x) y = Where (c, %s)"
    one, other = (
        bounds(model_of(body % operands, constants="float w = {20}"), ranges={"x": (-1, 300)})["y"]
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
    found = bounds(model_of(_DECAYS % (attributes, slice_), constants=constants), ranges={"x": (-100, 100)})["y"]
    assert found.how == "proven"
    assert (found.high < 1e-3) == none_is_positive


@pytest.mark.parametrize(("sums", "follows"), [("t", True), ("s", False)])
def test_what_is_left_of_decays_that_are_rounded(sums: str, follows: bool) -> None:
    """Both operands are to be rounded, and by one Cast."""
    body = f"""a = Abs (x) d = Neg (a) s = CumSum (d, axis) t = Cast <to = 10> (s) e = Slice (t, last, end, axis)
        f = Cast <to = 1> (e) r = Cast <to = 1> ({sums}) y = Sub (f, r)"""
    constants = "int64[1] axis = {1}, int64[1] last = {-1}, int64[1] end = {9}"
    found = bounds(model_of(body, constants=constants), ranges={"x": (-100, 100)})["y"]
    assert found.how == "proven"
    assert (found.high < 1) == follows


def test_loops_widen() -> None:
    body = """n = Constant <value = int64 {1000}> () t = Constant <value = bool {1}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[2,4] s) => (bool co, float[2,4] so)
        { co = Identity (c) k = Constant <value = float {1}> () u = Add (s, k) so = %s }>"""
    growing = bounds(model_of(body % "Identity (u)"), ranges={"x": (-1, 1)})["y"]
    assert growing.how == "unknown"
    assert growing.low >= -1
    limited = bounds(model_of(body % "Tanh (u)"), ranges={"x": (-1, 1)})["y"]
    assert limited.how == "proven"
    assert limited.magnitude < 1.01


@pytest.mark.parametrize("body", ["y = Sqrt (x)", "y = Log (x)", "y = Div (x, x)", "y = Mod <fmod = 1> (x, x)"])
def test_what_may_be_nan_is_not_proven(body: str) -> None:
    found = bounds(model_of(body), ranges={"x": (-1, 1)})["y"]
    assert found.how == "unknown"
    assert found.may_be_nan


def test_overflow_of_the_own_type_is_not_proven() -> None:
    assert bounds(model_of("y = Mul (x, x)"), ranges={"x": (-1e30, 1e30)})["y"].how == "unknown"
    assert bounds(model_of("y = Exp (x)"), ranges={"x": (0, 100)})["y"].how == "unknown"


def test_measured_where_nothing_is_proven() -> None:
    arrays = [{"x": np.array([[1, 2, 3, 4], [0, 0, 0, 0.5]], np.float32)}]
    found = bounds(model_of("y = Mul (x, x)"), inputs=arrays)
    assert (found["y"].how, found["y"].low, found["y"].high) == ("measured", 0.0, 16.0)
    found = bounds(model_of("y = Mul (x, x)"), ranges={"x": (-8, 8)}, inputs=arrays)
    assert (found["y"].how, found["y"].measured, found["y"].margin) == ("proven", (0.0, 16.0), 4.0)


def test_a_run_that_refutes_an_assumption_counts_more_than_the_proof() -> None:
    """Without a range, nothing overflows by assumption; of what overflows on an input, only that is said."""
    model = model_of("s = Mul (x, x) d = Sub (s, s) y = Relu (d) z = Neg (x)")
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
    model = model_of(body, constants="float w = {1e6}, float z = {1e-12}")
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
    assert not exceeding(bounds(model_of("y = Tanh (x)")), "float16")[1:]


def test_the_inputs_that_would_settle_most() -> None:
    model = model_of("a = Mul (x, x) b = Neg (a) y = Add (b, z)", "float[2,4] x, float[2,4] z")
    assert bounds(model).settling == [("x", 4), ("z", 2)]


def test_functions_and_weights_in_other_forms() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2,4] x) => (float[2,2] y) <float16[4,2] w = {15360, 16384, 15360, 16384, 15360, 16384, 15360, 16384}>
        { c = Cast <to = 1> (w) y = f.product (x, c) }
        <domain: "f", opset_import: ["" : 21]> product (a, b) => (r) { r = MatMul (a, b) }"""
    found = bounds(onnx.parser.parse_model(text), ranges={"x": (0, 1)})["y"]
    check_tight((found.low, found.high), (0, 8))  # columns of 1 and 2, four terms each


def test_more_dimensions_than_an_array_has() -> None:
    """An input with so many is refused; the model may still make a value with them."""
    many = ", ".join(map(str, range(69)))
    found = bounds(model_of("u = Unsqueeze (x, a) y = Relu (u)", "float[1] x", f"int64[69] a = {{{many}}}"))
    assert (found["y"].low, found["u"].depends_on) == (0, ("x",))


@pytest.mark.parametrize("ranges", [{"z": (0, 1)}, {"x": (1, 0)}, {"x": (0, math.inf)}, {"x": (math.nan, 1)}])
def test_bad_ranges(ranges: dict[str, tuple[float, float]]) -> None:
    with pytest.raises(castsmith.OptionError, match="range"):
        bounds(model_of("y = Neg (x)"), ranges=ranges)


def test_the_model_is_not_changed() -> None:
    model = model_of("y = Neg (x)")
    before = model.SerializeToString()
    bounds(model)
    assert model.SerializeToString() == before


def test_the_ends_of_a_range_are_those_of_the_type() -> None:
    found = bounds(model_of("y = Neg (x)"), ranges={"x": (0.1, 2.7)})
    assert found["y"].low <= -float(np.float32(2.7))
    assert found["x"].low <= float(np.float32(0.1))


def test_numbers_that_overflow_within_an_operator() -> None:
    """A sum of squares or a product with a weight may overflow although the result would fit."""
    for body in ("y = ReduceL2 (x, w)", "y = GlobalAveragePool (x)", "y = ReduceMean (x, w)"):
        model = model_of(body, "float[1,2,40] x", "int64[1] w = {2}")
        assert bounds(model, ranges={"x": (1e37, 3e38)})["y"].how == "unknown"


def test_an_operator_without_a_bound_hides_no_overflow() -> None:
    """Tanh bounds whatever comes in, but for infinity minus infinity, which operators without a rule may lead to."""
    found = bounds(model_of("a = Det (x) b = Add (a, a) y = Tanh (b)", "float[2,2] x"), ranges={"x": (-1, 1)})["y"]
    assert found.may_be_nan
    found = bounds(model_of("a = CumSum (x, z) y = Tanh (a)", "float[N] x", "int64 z = {0}"), ranges={"x": (-1, 1)})[
        "y"
    ]
    assert found.assumes == ("symbolic dimensions are between 1 and 65536",)


def test_types_behind_operators_without_a_schema() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        g (float[2,4] x) => (float[2,4] y) { a = com.microsoft.FastGelu (x) b = Relu (a) y = Neg (b) }"""
    found = bounds(onnx.parser.parse_model(text), ranges={"x": (-1, 1)})
    assert [found[name].how for name in "aby"] == ["proven"] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_slope_may_be_rounded_to_the_type_first(dtype: str) -> None:
    found = bounds(model_of("y = LeakyRelu (x)", f"{dtype}[2] x"), ranges={"x": (-5, -1)})["y"]
    slope = float(onnx_ir.tensor([0.01], DataType[dtype.upper()]).numpy()[0])
    check_tight((found.low, found.high), (-5 * max(slope, 0.01), -min(slope, 0.01)))


def test_a_slope_that_is_infinite_in_the_type() -> None:
    found = bounds(model_of("y = LeakyRelu <alpha = 1e30> (x)", "float16[2] x"), ranges={"x": (0, 1)})["y"]
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
    model = model_of(body, inputs, "int64 n = {4}", opset=18)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([np.nan], np.float32), "nan"))
    assert bounds(model)["y"].low <= bounds(model)["y"].high


def test_operands_that_become_integers_may_lose_their_fraction() -> None:
    """0.5 is 0 for an Add of integers: no integer lies between 0.5 and 0.5, but the sum is one."""
    model = model_of("a = Add (n, w) y = Cast <to = 1> (a)", "int32[2] n", "float w = {0.5}")
    assert bounds(model, ranges={"n": (0, 0)})["y"].low <= 0 <= bounds(model, ranges={"n": (0, 0)})["y"].high
