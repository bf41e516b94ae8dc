"""What is said to fit float16 does: random models in stated ranges, executed before and after the conversion."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

import castsmith
from tests.sampling import check_all, sampled

Array = NDArray[Any]

_UNARY = (
    "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Identity", "Softplus", "Erf",
    "Softmax", "LpNormalization", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceLogSumExp",
)  # fmt: skip
_BINARY = ("Add", "Sub", "Mul", "Mul", "Div", "Div", "Pow", "Max", "Min", "MatMul")
_HOLDERS = (
    "{y} = {call}",
    "{y} = If (c) <then_branch = t{y} () => (float[4,4] r{y}) {{ r{y} = {call} }},"
    " else_branch = e{y} () => (float[4,4] s{y}) {{ s{y} = Identity ({a}) }}>",
    "{y} = Loop (one, yes, {a}) <body = b{y} (int64 i{y}, bool c{y}, float[4,4] t{y}) => (bool d{y}, float[4,4] r{y})"
    " {{ d{y} = Identity (c{y}) r{y} = {inside} }}>",
    "{y} = Scan ({a}) <num_scan_inputs = 1, body = b{y} (float[4] t{y}) => (float[4] r{y}) {{ r{y} = {row} }}>",
    "{y} = loc.F{y} ({a}, {b})",
)
_ENDS = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.1, 0.5, 1.0, 2.0, 30.0, 300.0, 6e4, 1e5, 1e8)


def drawn(seed: int) -> tuple[onnx.ModelProto, dict[str, tuple[float, float]]]:
    """A model each of whose values is an output, and the ranges of its inputs."""
    draw, body, functions = random.Random(seed), list[str](), list[str]()
    values, ranges = ["x", "z"], dict[str, tuple[float, float]]()
    for name in values:
        low, high = sorted(draw.choices(_ENDS, k=2))
        ranges[name] = draw.choice(((low, high), (low, high), (-high, -low), (-high, high), (0.0, high)))
    for number in range(draw.randint(1, 5)):
        y, a, b = f"v{number}", draw.choice(values), draw.choice(values)
        operator, holder = draw.choice((*_UNARY, *_BINARY)), draw.choice((_HOLDERS[0], *_HOLDERS))
        row = operator in ("Neg", "Abs", "Exp", "Log", "Reciprocal", "Sqrt", "Mul", "Add", "Sub", "Div", "Pow")
        if "Scan" in holder and not row:
            holder = _HOLDERS[0]
        call = "{0} ({1})" if operator in _UNARY else "{0} ({1}, {2})"
        inside, of_row = call.format(operator, f"t{y}", b), call.format(operator, f"t{y}", f"t{y}")
        body.append(holder.format(y=y, a=a, b=b, call=call.format(operator, a, b), inside=inside, row=of_row))
        if "loc." in holder:
            inner = call.format(operator, "p", "q")
            functions.append(f'<domain: "loc", opset_import: ["": 17]> F{y} (p, q) => (r) {{ r = {inner} }}')
        values.append(y)
    outputs = ", ".join(f"float[n{name},m{name}] {name}" for name in values[2:])
    text = f"""<ir_version: 8, opset_import: ["": 17, "loc": 1]>
        g (float[4,4] x, float[4,4] z, bool c) => ({outputs})
        <int64 one = {{1}}, bool yes = {{1}}> {{ {" ".join(body)} }}
        {" ".join(functions)}"""
    return onnx.parser.parse_model(text), ranges


def fed(seed: int, ranges: dict[str, tuple[float, float]]) -> dict[str, Array]:
    """Inputs that have the ends of the ranges, and numbers of all magnitudes in between."""
    rng, feeds = np.random.default_rng(seed), dict[str, Array]()
    for name, (low, high) in ranges.items():
        least, most = (
            (min(abs(low), abs(high)), max(abs(low), abs(high))) if low * high > 0 else (1e-12, max(-low, high))
        )
        sizes = np.exp(rng.uniform(np.log(least), np.log(most), 16)).clip(least, most)
        signs = -1 if high <= 0 else 1 if low >= 0 else rng.choice((-1, 1), 16)
        numbers = np.array([low, high, *(signs * sizes)[2:]], np.float64)
        inside = numbers.astype(np.float32).clip(np.float32(low), np.float32(high))
        feeds[name] = inside.reshape(4, 4) if seed % 3 else np.full((4, 4), inside[seed % 16])
    return {**feeds, "c": np.array(True)}


def run(proto: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    evaluator = ReferenceEvaluator(proto)
    with np.errstate(all="ignore"):
        results: Any = evaluator.run(None, feeds)
    return dict(zip((output.name for output in proto.graph.output), results, strict=True))


def unsure(bound: castsmith.Bound) -> bool:
    """True if the value may be infinite or NaN in the model itself, as far as is proven."""
    return bound.how != "proven" or bool(bound.assumes) or bound.may_be_nan or bool(np.isinf(bound.magnitude))


_POLES = (
    ("a = Relu (x) d = Neg (a) y = Div (a, d)", (1e-9, 1e-4)),
    ("a = Mul (x, x) y = Log (a)", (1e-5, 1)),
    ("a = Mul (x, x) y = Reciprocal (a)", (1e-5, 1)),
    ("a = Mul (x, x) b = Sqrt (a) y = Div (x, b)", (1e-5, 1)),
    ("a = Mul (x, x) s = ReduceSum <keepdims = 1> (a) y = Div (a, s)", (1e-5, 1e-2)),
    ("a = Mul (x, x) y = Pow (a, minus)", (1e-5, 1)),
    ("a = Mul (x, tiny) y = LpNormalization <axis = 0> (a)", (1e-5, 1)),
    ("a = Mul (x, x) b = Add (a, eps) y = Log (b)", (1e-5, 1)),
    ("a = Sub (x, one) b = Abs (a) y = Div (one, b)", (1.0001, 1.001)),
    ("a = Tanh (x) y = Div (one, a)", (1e-5, 1)),
    ("a = Sigmoid (x) b = Sub (one, a) y = Log (b)", (1, 12)),
    ("y = Mul (x, milli)", (1, 1e6)),
)


@pytest.mark.parametrize("keep_io_types", [True, False])
@pytest.mark.parametrize(("body", "ends"), _POLES)
def test_what_may_become_zero_or_infinite_stays_in_float(
    body: str, ends: tuple[float, float], keep_io_types: bool
) -> None:
    """An input in float16, as asked for, may be the cause: then a warning says so."""
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]> g (float[8] x) => (float[8] y)
        <float minus = {{-1}}, float tiny = {{1e-4}}, float milli = {{0.001}}, float one = {{1}}, float eps = {{1e-9}}>
        {{ {body} }}""")
    result = castsmith.convert(proto, to="float16", ranges={"x": ends}, keep_io_types=keep_io_types)
    converted = onnx_ir.to_proto(result.model)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(converted.graph.input[0].type.tensor_type.elem_type)
    feeds = {"x": np.geomspace(*ends, 8).astype(np.float32)}
    assert np.isfinite(run(proto, feeds)["y"]).all()
    with np.errstate(over="ignore"):
        finite = np.isfinite(run(converted, {"x": feeds["x"].astype(dtype)})["y"]).all()
    told = [finding.code for finding in result.diagnostics]
    assert told == [] if keep_io_types else set(told) <= {"may-not-fit"}
    assert finite or told


def test_a_node_that_the_conversion_removes_loses_nothing() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[8] x) => (float[8] y)
        { a = Sigmoid (x) b = Cast <to = 1> (a) y = Mul (b, b) }""")
    result = castsmith.convert(proto, to="float16", ranges={"x": (-1, 1)}, keep_io_types=False)
    assert [node.op_type for node in result.model.graph] == ["Sigmoid", "Mul"]
    assert {dtype for dtype, _ in result.precisions.values()} == {onnx_ir.DataType.FLOAT16}


@pytest.mark.parametrize("layers", [0, 1, 3, 4, 8])
def test_what_follows_a_loss_stays_converted_however_many_losses_there_are(layers: int) -> None:
    """Each Softplus may overflow inside, once the one before it does not; the Softmax reads a product of any size."""
    body = "".join(f" m{i} = Mul (s{i}, most) s{i + 1} = Softplus (m{i})" for i in range(layers))
    proto = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]> g (float[4,8] x) => (float[4,8] y)
        <float most = {{0.9}}> {{ a = MatMul (x, w) s0 = Abs (a) {body} p = MatMul (s{layers}, v) q = Softmax (p)
        y = MatMul (q, w) }}""")
    weights = {"w": np.eye(8, dtype=np.float32), "v": 3000 * np.eye(8, dtype=np.float32)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    result = castsmith.convert(proto, to="float16", ranges={"x": (-60, 60)})
    kept = {name for name, (dtype, _) in result.precisions.items() if dtype == onnx_ir.DataType.FLOAT}
    assert (
        {f"s{i + 1}" for i in range(layers)} <= kept <= {f"{letter}{i}" for letter in "ms" for i in range(layers + 1)}
    )


def test_a_loss_is_behind_another_through_a_value_of_which_nothing_is_known() -> None:
    """The mask is minus infinity, so that no bound of the masked values is proven before either."""
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[4,8] x, bool[8] m) => (float[4,8] y) <float low = {-inf}, float tenth = {0.1}> {
        a = MatMul (x, w) s = Softplus (a) n = Mul (s, tenth) c = Where (m, n, low) e = Exp (c)
        y = MatMul (e, w) }""")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(8, dtype=np.float32), "w"))
    result = castsmith.convert(proto, to="float16", ranges={"x": (-60, 60)})
    kept = {name for name, (dtype, _) in result.precisions.items() if dtype == onnx_ir.DataType.FLOAT}
    assert kept == {"s"}


def _check(seed: int) -> None:
    proto, ranges = drawn(seed)
    try:
        onnx.checker.check_model(proto, full_check=True)
        before = run(proto, feeds := fed(seed, ranges))
    except Exception:  # shapes that do not fit, whatever that raises
        return
    result = castsmith.convert(proto, to="float16", ranges=ranges)
    after = run(onnx_ir.to_proto(result.model), feeds)
    proven = castsmith.bounds(proto, ranges=ranges)
    within = all(
        bound.how == "proven" and not bound.assumes and max(-bound.low, bound.high) < 6e4 for bound in proven.values()
    )
    warned = {finding.site.node for finding in result.diagnostics if finding.code == "may-not-fit"}
    for name, old in before.items():
        assert np.isfinite(after[name]).all() or name in warned or unsure(proven[name]), name
        new, (_, why) = after[name], result.precisions.get(name, ("", ""))
        if "proven to fit" in why:
            assert np.isfinite(new).all(), f"{name}: {why}: {old} -> {new}"
            assert not proven[name].least_magnitude or (new != 0).all(), f"{name}: {why}: {old} -> {new}"
        if within:
            assert name not in warned, name
            assert np.isfinite(new).all() or not np.isfinite(old).all(), f"{name}: {old} -> {new}"


def test_what_is_proven_to_fit_is_finite_as_it_runs() -> None:
    check_all(_check, sampled("models that fit", range(3000), 24))
