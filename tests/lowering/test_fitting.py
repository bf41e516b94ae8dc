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
from castsmith.analysis.bounds.step import NO_OVERFLOW
from castsmith.ir.walks import all_nodes, all_values
from castsmith.lowering.fitting import Proof
from castsmith.verification.bounds import Bound
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


BOUNDS = {
    "f": Bound(1, 2, "proven", least_magnitude=1),
    "z": Bound(0, 2, "proven"),
    "b": Bound(1, 1e5, "proven", least_magnitude=1),
    "i": Bound(0, np.inf, "unknown"),
    "o": Bound(1, 2, "proven", assumes=(NO_OVERFLOW,), least_magnitude=1),
    "s": Bound(0, 2.0**-15, "proven"),
    "n": Bound(0, 2.0**-14, "proven"),
    "0": Bound(0, 0, "proven"),
}
"""A bound that is finite, with zero, beyond float16, infinite, taken for finite, subnormal, least normal, and zero."""
INSIDE, LOST = "it may overflow inside, computed in float16", "its operands may be infinite or NaN in float16"
BRANCHES = "If (c) <then_branch = t () => (u) { u = Neg (x) }, else_branch = e () => (v) { v = Abs (x) }>"
REPEATED = "Loop (, c, x) <body = l (int64 i, bool k, float[2] s) => (bool d, float[2] r) { d = Not (k) r = Neg (s) }>"


def proof_of(body: str, said: str) -> Proof:
    """said: the values whose bounds are not f before and after, each with both; - for none, = for another name."""
    model = onnx_ir.from_onnx_text(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[2] x, bool c) => (float[2] y) {{ {body} }}'
    )
    values = [*all_values(model)]
    states = dict.fromkeys((value.name or "" for value in values), "ff") | dict(
        word.split(":") for word in said.split()
    )
    before = {f"{name} before": BOUNDS[state[0]] for name, state in states.items() if state[0] in BOUNDS}
    before |= {name: BOUNDS[state[2]] for name, state in states.items() if state[0] == "="}
    after = {name: BOUNDS[state[1]] for name, state in states.items()}
    names = {value: f"{value.name} before" for value in values if states[value.name or ""][0] in BOUNDS}
    return Proof(model, onnx_ir.DataType.FLOAT16, before, after, names)


LOSSES: list[tuple[str, str, str, dict[str, str]]] = [
    # the nodes, the bounds before and after, the operators to keep behind others, and what is kept, with the reason
    ("y = Exp (x)", "", "", {}),
    ("y = Exp (x)", "y:fi", "", {"y": INSIDE}),
    ("y = Exp (x)", "y:fo", "", {"y": INSIDE}),
    ("y = Exp (x)", "y:ii", "", {}),
    ("y = Exp (x)", "y:bi", "", {}),  # may be far from its bound
    ("y = Exp (x)", "x:fi y:bi", "", {"y": LOST}),
    ("y = Exp (x)", "x:fi y:fi", "", {"y": LOST}),
    ("y = MatMul (x, x)", "y:fi", "", {}),  # which runtimes add up in float
    ("a = Exp (x) b = Neg (a) y = Exp (b)", "a:fi y:fi", "", {"a": INSIDE, "y": INSIDE}),  # b is sound in any case
    ("a = Exp (x) y = Exp (a)", "a:fi y:fi", "", {"a": INSIDE}),
    ("a = Exp (x) y = Exp (a)", "a:fi y:fi", "Exp", {"a": INSIDE, "y": LOST}),
    ("a = Exp (x) y = Exp (a)", "a:fi", "Exp", {"a": INSIDE}),
    ("y = Add (x, x)", "x:fz y:fi", "", {"y": INSIDE}),
    ("y = Exp (x)", "x:fz y:fi", "", {"y": "x may become 0 in float16"}),
    ("y = Exp (x)", "x:oz y:fi", "", {"y": INSIDE}),  # nothing is proven before
    ("a = Neg (x) b = Abs (a) y = Exp (b)", "a:fz b:fz y:fi", "", dict.fromkeys("aby", "b may become 0 in float16")),
    ("a = Neg (x) b = Abs (a) y = Exp (b)", "b:fz y:fi", "", dict.fromkeys("by", "b may become 0 in float16")),
    (f"a = {BRANCHES} y = Exp (a)", "a:fz u:fz y:fi", "", dict.fromkeys("auy", "a may become 0 in float16")),
    (f"a = {REPEATED} y = Exp (a)", "a:fz s:fz r:fz y:fi", "", dict.fromkeys("ary", "a may become 0 in float16")),
    # The bound of a Cast that was put in is that of its name, or of what it casts.
    ("k = Cast <to = 1> (x) y = Exp (k)", "k:-z y:fi", "", dict.fromkeys("ky", "k may become 0 in float16")),
    ("k = Cast <to = 1> (x) y = Exp (k)", "k:-z x:zz y:fi", "", {"y": INSIDE}),
    ("k = Cast <to = 1> (x) y = Exp (k)", "k:=zf x:zz y:fi", "", dict.fromkeys("ky", "k may become 0 in float16")),
    ("k = Cast <to = 1> (x) y = Exp (k)", "k:zz y:fi", "", {"y": INSIDE}),
    ("k = Neg (x) y = Exp (k)", "k:-z y:fi", "", {"y": INSIDE}),
]


def _check_losses(body: str, said: str, behind: str, expected: dict[str, str]) -> None:
    proof = proof_of(body, said)
    losses = proof.losses([*all_nodes(proof.model)], behind.split())
    assert {node.outputs[0].name: why for node, why in losses.items()} == expected
    assert proof.losses([]) == {}


def test_what_is_lost_by_the_bounds_before_and_after() -> None:
    check_all(_check_losses, LOSSES)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ff", True),
        ("zz", True),
        ("fz", False),
        ("fi", False),
        ("fo", False),
        ("zs", False),
        ("zn", True),
        ("z0", True),
    ],
)
def test_what_fits_is_finite_and_no_subnormal_number(said: str, expected: bool) -> None:
    proof = proof_of("y = Exp (x)", f"y:{said}")
    assert proof.fits(proof.model.graph.outputs[0]) is expected


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
