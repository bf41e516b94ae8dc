"""Sensitive operators, by name; and nodes that follow their neighbours, stay in float, or fit as bounds show."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.parser
import pytest
from onnx_ir import DataType

from castsmith import cast, convert
from castsmith.ir.io.loading import from_proto
from castsmith.ir.io.protos import to_proto
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.schemas import op_formals
from castsmith.passes.precision.evidence import Known
from castsmith.passes.precision.operators import SENSITIVE, SENSITIVE_CONTRIB
from castsmith.passes.precision.run import ConvertPrecision, PrecisionResult
from castsmith.targets.target import Target
from tests.sampling import check_all

_WEIGHTS = "float[4,4] w = {" + ", ".join(["0.5"] * 16) + "}"
_NORM = "p = Pow (a, two) m = ReduceMean <axes = [1]> (p) e = Add (m, eps) s = Sqrt (e) r = Reciprocal (s)"


def parsed(text: str, constants: str = "", opset: int = 13) -> onnx.ModelProto:
    """The nodes between a MatMul, that gives `a`, and the output `y`."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[4,4] x) => (float[4,4] y)'
    return onnx.parser.parse_model(f"{head} <{_WEIGHTS}{constants}> {{ a = MatMul (x, w) {text} }}")


def kept(
    model: onnx.ModelProto, to: str = "float16", target: Target | None = None, keep: str | None = None, **bounds: float
) -> dict[str, str]:
    """The nodes that stay in float, by result, with the reason; bounds: proven magnitudes of values."""
    proven = {name: Known(-most, most, "proven") for name, most in bounds.items()}
    result = ConvertPrecision(to, keep=keep or (), target=target, bound=proven.get)(from_proto(model))
    assert isinstance(result, PrecisionResult)
    onnx.checker.check_model(to_proto(result.model), full_check=True)
    precisions = result.precisions.values()
    return {node.result: node.reason for node in precisions if node.dtype == DataType.FLOAT}


def casts(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Cast" for node in model.graph.node)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Softplus", "LpNormalization"])
def test_a_node_computed_in_float_inside_follows_its_neighbours(operator: str) -> None:
    assert kept(parsed(f"s = {operator} (a) y = MatMul (s, w)")) == {}
    found = kept(parsed(f"c = CumSum (x, k) s = {operator} (c) q = CumSum (s, k) y = Add (q, a)", ", int64 k = {0}"))
    assert {"c", "s", "q"} <= set(found)
    assert found["s"].startswith(f"{operator} stays in a wider type by default")


def test_what_reads_a_value_that_may_overflow_stays_with_it() -> None:
    constants = ", float two = {2}, float eps = {1e-5}"
    model = parsed(f"{_NORM} n = Mul (a, r) y = MatMul (n, w)", constants)
    found = kept(model)
    assert set(found) == {"p", "m", "e", "s", "r"}
    assert found["p"].startswith("Pow stays in a wider type by default")
    assert found["m"] == "it reads p, which may exceed float16"
    assert casts(to_proto(convert(model, to="float16").model)) == 4


def test_a_square_is_sensitive_however_it_is_written() -> None:
    model = parsed("p = Mul (a, a) m = ReduceMean <axes = [1]> (p) s = Sqrt (m) n = Div (a, s) y = MatMul (n, w)")
    assert set(kept(model)) == {"p", "m", "s"}
    assert kept(model, p=60000.0) == {}
    assert kept(model, p=2.0**-8) == {}
    assert kept(model, p=2.0**-9)["p"] == "its squares may exceed float16"  # most of them would vanish
    assert kept(parsed("p = Mul (a, a) y = Add (p, a)")) == {}


def test_arithmetic_that_keeps_mask_values() -> None:
    numbers = ", float low = {-1e9}, float one = {1}, bool c = {1}"
    binary = [f"{operator} (b, one)" for operator in ("Add", "Sub", "Mul", "Div", "Min", "Max")]
    unary = ["Neg (b)", "Cast <to = 1> (b)", "CastLike (b, one)", "Transpose (b)", "Relu (b)", "Abs (b)"]
    for nodes in (*binary, *unary, "Where (c, b, one)"):
        model = parsed(f"b = Where (c, a, low) d = {nodes} e = Less (d, a) y = Cast <to = 1> (e)", numbers, opset=15)
        reason = None if nodes in ("Relu (b)", "Abs (b)") else "d holds mask values, with which Less compares"
        assert kept(model).get("e") == reason, nodes


_RESULTS: list[tuple[str, bool, bool]] = [
    # an operator, whether it makes numbers beyond float16 that others read, and whether it changes if its results fit
    ("Exp (a)", True, True),
    ("Pow (a, two)", True, True),
    ("Sinh (a)", True, True),
    ("Cosh (a)", True, True),
    ("ReduceSumSquare (a)", True, True),
    ("ReduceSum (many)", True, True),
    ("ReduceProd (a)", True, True),
    ("CumProd (a, zero)", True, True),
    ("Reciprocal (a)", False, True),
    ("ReduceL1 (a)", True, True),
    ("ReduceL2 (a)", True, True),
    ("ReduceLogSum (a)", False, True),
    ("LpPool <kernel_shape = [1]> (row)", True, True),
    ("GlobalLpPool (row)", True, True),
    ("CumSum (a, zero)", True, False),
    ("Log (a)", False, False),
    ("Tan (a)", False, False),
    ("Acos (a)", False, False),
    ("Atanh (a)", False, False),
    ("Det (a)", False, False),
]


def _check_results(operator: str, grows: bool, fits: bool) -> None:
    constants = ", float two = {2}, float one = {1}, int64 zero = {0}, int64[2] times = {9, 9}"
    nodes = f"many = Tile (a, times) row = Unsqueeze (a, zero) s = {operator} t = Add (s, one)"
    nodes += " u = ReduceMax <keepdims = 0> (t) y = Mul (u, a)"
    proto, target = parsed(nodes, constants, opset=26), Target("with any kernel")
    reason = kept(proto, target=target)
    assert reason["s"].startswith(f"{operator.split()[0]} stays in a wider type by default")
    assert (reason.get("t") == "it reads s, which may exceed float16") == grows
    assert ("s" not in kept(proto, target=target, s=1.0)) == fits


def test_results_that_may_be_large_and_those_that_fit() -> None:
    check_all(_check_results, _RESULTS)


def test_what_reads_a_node_that_is_kept_as_requested() -> None:
    for nodes, to, bounds, reads in (
        ("s = Mul (a, a)", "float16", {}, True),
        ("s = Mul (a, x)", "float16", {}, False),
        ("s = ReduceSum (a)", "float16", {}, False),  # of few numbers
        ("s = CumSum (a, zero)", "float16", {}, True),
        ("s = CumSum (a, zero)", "float16", {"s": 0.5}, False),  # which fits
        ("s = CumSum (a, zero)", "bfloat16", {}, False),  # which has the range of float
    ):
        constants = ", float one = {1}, int64 zero = {0}"
        proto = parsed(f"{nodes} t = Add (s, one) u = Add (t, a) y = MatMul (u, a)", constants, opset=15)
        found = kept(proto, to, None, f"op:{nodes.split()[2]}", **bounds)
        assert "s" in found
        assert ("which may exceed" in found.get("t", "")) == reads, (nodes, to)


@pytest.mark.parametrize(("most", "fits"), [(65519.0, True), (65520.0, False), (2.0**-8, True), (2.0**-9, False)])
def test_bounds_decide_if_squares_fit(most: float, fits: bool) -> None:
    model = parsed(f"{_NORM} y = Mul (a, r)", ", float two = {2}, float eps = {1e-5}")
    assert ("p" not in kept(model, p=most, r=300.0)) == fits


@pytest.mark.parametrize(
    ("power", "scale", "kept_nodes"), [(3, 0.5, set()), (3, 1e-4, {"p", "q"}), (2, 0.5, {"p", "q"})]
)
def test_an_overflow_that_a_tanh_absorbs_keeps_nothing(power: int, scale: float, kept_nodes: set[str]) -> None:
    text = "p = Pow (a, n) q = Mul (p, k) t = Add (a, q) h = Tanh (t) y = Mul (h, a)"
    found = set(kept(parsed(text, f", float n = {{{power}}}, float k = {{{scale}}}")))
    assert found >= kept_nodes
    assert bool(found) == bool(kept_nodes)


@pytest.mark.parametrize(
    ("operator", "bound", "stays"),
    [
        ("Max", "{1e9, 1, 1, 1}", False),  # infinity is as good a bound
        ("Min", "{-1e9, 1e9, 1, 1}", False),
        ("Max", "{1e9, 1e-9, 1, 1}", True),  # one of them would be 0
        ("Add", "{1e9, 1, 1, 1}", True),
    ],
)
def test_a_bound_beyond_all_numbers_is_one_in_float16_too(operator: str, bound: str, stays: bool) -> None:
    assert ("y" in kept(parsed(f"y = {operator} (a, m)", f", float[4] m = {bound}"))) == stays


def test_an_overflow_that_nothing_reads_is_not_absorbed() -> None:
    text = "p = Pow (a, n) q = Mul (p, k) t = Tanh (a) y = Mul (t, a)"
    assert {"p", "q"} <= set(kept(parsed(text, ", float n = {3}, float k = {0.5}")))


def _doubled(times: int) -> str:
    return "q0 = Mul (p, k) " + " ".join(f"q{n + 1} = Mul (q{n}, two)" for n in range(times - 1))


ABSORBED: list[tuple[str, float, bool]] = [
    # what follows `p = Pow (a, 3)`, the number k, whether the nodes give the same for all p from 65504 on
    ("h = Tanh (p)", 1, True),
    ("q = Transpose (p) h = Tanh (q)", 1, True),
    ("q = Mul (p, k) h = Tanh (q)", 2.0**-11, True),
    ("q = Mul (p, k) h = Tanh (q)", 2.0**-12, False),  # 15.99
    ("q = Mul (k, p) h = Erf (q)", 2.0**-12, True),
    ("q = Mul (k, p) h = Erf (q)", 2.0**-13, False),  # 7.996
    ("q = Mul (p, k) h = Sigmoid (q)", 2.0**-10, True),
    ("q = Mul (p, k) h = Sigmoid (q)", 2.0**-11, False),  # 31.98
    ("q = Mul (p, k) r = Add (q, a) h = Tanh (r)", 0.5, True),
    ("q = Mul (p, k) r = Add (q, x) h = Tanh (r)", 0.5, False),  # x may be as large
    ("q = Mul (p, k) r = Sub (a, q) h = Tanh (r)", 1 / 1600, False),  # 0 where a is 40
    ("q = Mul (p, k) r = Add (a, q) s = Mul (r, minus) h = Tanh (s)", -1 / 1600, False),
    ("q = Mul (p, k) r = Add (q, two) h = Tanh (r)", 0.5, False),  # not followed
    ("q = Mul (p, k) h = Tanh (q)", 0, False),
    ("q = Mul (p, k) h = Tanh (q)", float("inf"), False),  # NaN where p vanishes
    ("q = Mul (p, x) h = Tanh (q)", 1, False),
    ("q = Mul (p, a) h = Tanh (q)", 1, False),
    ("g = Tanh (p) h = Mul (g, p)", 1, False),
    ("g = Tanh (p) f = Relu (p) h = Add (g, f)", 1, False),
    (f"{_doubled(8)} h = Tanh (q7)", 1, True),
    (f"{_doubled(9)} h = Tanh (q8)", 1, False),  # too far to follow
]


def _check_absorbed(text: str, factor: float, absorbed: bool) -> None:
    constants = f", float n = {{3}}, float two = {{2}}, float minus = {{-1}}, float k = {{{factor:.12f}}}"
    model = parsed(f"p = Pow (a, n) {text} y = MatMul (h, a)", constants)
    assert ("p" in kept(model)) is not absorbed


def test_what_follows_a_cube_absorbs_its_overflow_or_not() -> None:
    check_all(_check_absorbed, ABSORBED)


def test_a_tanh_of_another_domain_absorbs_nothing() -> None:
    model = parsed("p = Pow (a, n) q = Mul (p, k) h = own.Tanh (q) y = MatMul (h, a)", ", float n = {3}, float k = {1}")
    model.opset_import.append(onnx.helper.make_opsetid("own", 1))
    assert kept(model)["q"] == "it reads p, which may exceed float16"


def test_the_overflow_of_a_cube_is_absorbed_without_an_error() -> None:
    text = "p = Pow (x, n) q = Mul (p, k) t = Add (x, q) h = Tanh (t) y = Mul (h, a)"
    model = parsed(text, ", float n = {3}, float k = {0.044715}")
    x = np.array([[300.0, -300.0, 41.0, -40.0]] * 4, np.float32)
    result = convert(model, to="float16", inputs={"x": x})
    assert result.error is not None
    assert result.error.worst < 1e-3


def test_a_vanishing_number_below_a_root_becomes_the_least() -> None:
    constants = ", float two = {2}, float eps = {1e-12}"
    model = parsed(f"{_NORM} y = Mul (a, r)", constants)
    assert kept(model, p=100.0, r=4096.0) == {}
    result = ConvertPrecision("float16", bound=lambda _: Known(0, 100, "proven"))(from_proto(model))
    tensor = result.model.graph.initializers["eps"].const_value
    assert tensor is not None
    assert tensor.numpy().tobytes() == cast(np.float32(2.0**-24), "float16").tobytes()
    assert any("the least of float16" in record.reason for record in result.records.rewrites)
    plain = parsed("e = Add (a, eps) y = Log (e)", ", float eps = {1e-12}")
    assert "e" in kept(plain)


def test_a_small_scale_of_a_branch_is_converted_and_any_other_is_not() -> None:
    branch = parsed(
        "b = Relu (a) s = Mul (b, k) t = Transpose (s) y = Add (t, x)", ", float[4] k = {1e-6, 1e-6, 1e-6, 1e-6}"
    )
    assert kept(branch) == {}
    other = parsed("b = Relu (a) s = Mul (b, k) y = MatMul (s, w)", ", float[4] k = {1e-6, 1e-6, 1e-6, 1e-6}")
    assert "s" in kept(other)


def test_bfloat16_has_the_range_of_float() -> None:
    model = parsed(f"{_NORM} y = Mul (a, r)", ", float two = {2}, float eps = {1e-5}", opset=15)
    assert kept(model, to="bfloat16") == {}


def test_a_small_model_is_converted_between_its_inputs_and_outputs() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4,4] x) => (float[4,4] y) { a = Relu (x) y = Tanh (a) }"""
    assert kept(onnx.parser.parse_model(text)) == {}


@pytest.mark.parametrize("inside", [False, True])
def test_convert_proves_that_squares_fit(inside: bool) -> None:
    constants = ", float two = {2}, float eps = {1e-5}"
    model = parsed(f"t = Tanh (a) {_NORM.replace('(a,', '(t,')} y = Mul (t, r)", constants)
    if inside:  # values of functions have no bounds, also where the main graph has values of these names
        names = {value for node in model.graph.node for value in node.input} - {"x"}
        body = [node for node in model.graph.node if node.op_type not in ("MatMul", "Tanh")]
        held = [tensor.name for tensor in model.graph.initializer if tensor.name != "w"]
        function = onnx.helper.make_function("f", "Norm", ["t", *held], ["y"], body, [onnx.helper.make_opsetid("", 13)])
        assert {"t", "p"} <= names
        del model.graph.node[2:]
        model.graph.node.append(onnx.helper.make_node("Norm", ["t", *held], ["y"], domain="f"))
        model.functions.append(function)
        model.opset_import.append(onnx.helper.make_opsetid("f", 1))
    result = convert(model, to="float16")
    onnx.checker.check_model(to_proto(result.model), full_check=True)
    assert (result.precisions["p"][0] == DataType.FLOAT) == inside


STAY = {
    *(
        "Softmax",
        "LogSoftmax",
        "Softplus",
        "Exp",
        "Log",
        "Pow",
        "Sinh",
        "Cosh",
        "Tan",
        "Acos",
        "Asin",
        "Acosh",
        "Atanh",
    ),
    *("Reciprocal", "ReduceSum", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceL1", "ReduceL2", "CumSum"),
    *("CumProd", "ReduceSumSquare", "LpNormalization", "LpPool", "GlobalLpPool", "InstanceNormalization", "LRN"),
    *(
        "GroupNormalization",
        "MeanVarianceNormalization",
        "LayerNormalization",
        "RMSNormalization",
        "Det",
        "DFT",
        "STFT",
    ),
    *("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "MelWeightMatrix", "HannWindow", "HammingWindow"),
    *("BlackmanWindow", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Range"),
    *("Atanh", "DFT", "Multinomial", "AffineGrid", "GridSample", "RoiAlign", "MaxRoiPool", "DeformConv"),
}
CHANGE = {"MatMul", "Conv", "Add", "Mul", "Relu", "Sigmoid", "Tanh", "Erf", "Gemm", "MaxPool", "Transpose", "Where"}


def test_each_is_an_operator_with_a_reason() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(SENSITIVE) - known <= {"RMSNormalization", "CumProd"}  # of later releases of ONNX
    for name, reason in (*SENSITIVE.items(), *SENSITIVE_CONTRIB.items()):
        assert isinstance(name, str)
        assert len(reason.split()) > 4, name


def test_those_that_lose_digits_stay_and_those_of_the_work_change() -> None:
    assert set(SENSITIVE) == STAY
    assert not CHANGE & set(SENSITIVE)


def test_those_of_com_microsoft_would_take_float16() -> None:
    assert set(SENSITIVE_CONTRIB) == {"BiasSoftmax", "Rfft", "Irfft", "Inverse", "GridSample", "CropAndResize"}
    for op_type in SENSITIVE_CONTRIB:
        formals = op_formals(CONTRIB_DOMAIN, op_type, 1)
        assert formals is not None
        assert DataType.FLOAT16 in formals[1][0].allowed, op_type
