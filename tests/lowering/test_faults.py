"""Where a float16 model goes wrong: each kind of fault, what it is called, and what harms nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest

from castsmith.ir.io.loading import from_proto
from castsmith.lowering.faults import (
    Fault,
    _gravity,  # pyright: ignore[reportPrivateUsage]
    _is_wrong,  # pyright: ignore[reportPrivateUsage]
    _lost,  # pyright: ignore[reportPrivateUsage]
    computes_in_half,
    faults,
    half_faults,
    reference_of,
    sum_inside,
)
from castsmith.targets.target import Target
from tests.sampling import check_all

NORMAL = 2.0**-14
"""The least normal number of float16."""
INF, NAN = np.inf, np.nan


def model_of(body: str, outputs: str = "y", more: str = "") -> onnx_ir.Model:
    ports = ", ".join(f"float16[N, M] {name}" for name in outputs.split())
    text = (
        f'<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float16[2,4] x, float16[2,4] z, int64 n, bool c)'
        f" => ({ports}) {{ {body} }} {more}"
    )
    return from_proto(onnx.parser.parse_model(text))


def found(body: str, x: Any, z: Any = 1.0, target: Target | None = None, **options: str) -> list[Fault]:
    model = model_of(body, **options)
    inputs = {
        "x": np.broadcast_to(np.array(x, np.float16), (2, 4)).copy(),
        "z": np.broadcast_to(np.array(z, np.float16), (2, 4)).copy(),
        "n": np.array(3),
        "c": np.array(True),
    }
    return faults(reference_of(model, inputs, target=target), model)


ROWS: list[tuple[str, Any, Any, str]] = [
    # nodes, x, z, and `result: kind of value magnitude` of each fault
    ("a = Mul (x, z) b = Sqrt (a) y = Neg (b)", 1000, 1000, "a: overflow of a 1e+06; b: operand of a 1e+06"),
    ("a = Mul (x, z) b = Sqrt (a) y = Neg (b)", 250, 250, ""),
    ("a = Mul (x, z) b = Tanh (a) y = Neg (b)", 1000, 1000, ""),  # Tanh of infinity is 1 as well
    ("a = Mul (x, z) b = Neg (x) y = Neg (b)", 1000, 1000, ""),  # no output depends on it
    ("a = Mul (x, z) b = Sqrt (a) y = Div (x, b)", 1e-3, 1e-6, "a: vanish of a 1.01e-09; b: operand of a 1.01e-09"),
    ("a = Mul (x, z) y = Add (a, x)", 1e-3, 1e-6, ""),
    # Nodes in float lose nothing themselves.
    ("a = Mul (x, z) c1 = Cast <to = 1> (a) d = Sqrt (c1) y = Cast <to = 10> (d)", 1000, 1000,
     "a: overflow of a 1e+06"),
    ("a = Mul (x, z) c1 = Cast <to = 1> (a) d = Cast <to = 10> (c1) y = Sqrt (d)", 1000, 1000,
     "a: overflow of a 1e+06; d: overflow of d 1e+06; y: operand of d 1e+06"),
    ("a = Cast <to = 1> (x) b = Mul (a, a) d = Sqrt (b) y = Cast <to = 10> (d)", 1000, 1, ""),
    ("a = ReduceL2 <axes = [1], keepdims = 1> (x) y = Neg (a)", 200, 1, "a: inside of a 1.6e+05"),
    ("a = ReduceL2 <axes = [1], keepdims = 1> (x) y = Neg (a)", 100, 1, ""),
    ("a = Mul (x, z) b = Mul (a, z) c1 = Sqrt (a) d = Sqrt (b) y = Add (c1, d)", 300, 300,
     "a: overflow of a 9e+04; b: overflow of b 2.7e+07; c1: operand of a 9e+04; d: operand of b 2.7e+07"),
    ("a = Mul (x, z) b = Identity (a) d = Sqrt (b) y = Neg (d)", 1000, 1000,
     "a: overflow of a 1e+06; b: overflow of b 1e+06; d: operand of b 1e+06"),
    ("a = If (c) <then_branch = t () => (float16[N, M] p) { q = Mul (x, z) p = Sqrt (q) }, else_branch = e () =>"
     " (float16[N, M] r) { r = Neg (x) }> y = Neg (a)", 1000, 1000, "q: overflow of q 1e+06; p: operand of q 1e+06"),
    ("a = own.f (x, z) y = Neg (a)", 1000, 1000, "s: overflow of s 1e+06; r: operand of s 1e+06"),
    ('y = Loop (n, "", z) <body = b (int64 i, bool k, float16[N, M] v) => (bool g, float16[N, M] w) { g = Identity (k)'
     " p = Mul (v, x) q = Mul (p, x) r = Div (q, x) w = Div (r, x) }>", 1000, 1,
     "q: overflow of q 1e+06; r: operand of q 1e+06"),
]  # fmt: skip
FUNCTION = '<domain: "own", opset_import: ["": 17]> f (p, q) => (r) { s = Mul (p, q) r = Sqrt (s) }'


def described(fault: Fault) -> str:
    return f"{fault.name}: {fault.kind} of {fault.value} {fault.magnitude:.3g}"


def require_faults(body: str, x: Any, z: Any, expected: str) -> None:
    assert "; ".join(map(described, found(body, x, z, more=FUNCTION))) == expected


def test_what_goes_wrong_and_what_harms_nothing() -> None:
    check_all(require_faults, ROWS)


def test_a_call_that_has_the_name_of_a_cast_may_leave_out_its_first_operand() -> None:
    function = '<domain: "own", opset_import: ["": 17]> CastLike (p, q) => (r) { s = Mul (q, q) r = Sqrt (s) }'
    faulty = found('a = own.CastLike ("", x) y = Neg (a)', 1000, more=function)
    assert [fault.name for fault in faulty] == ["s", "r"]


def test_a_fault_says_where_and_why() -> None:
    model = model_of("a = Mul (x, z) b = Sqrt (a) y = Neg (b)")
    first, second, _ = model.graph
    first.name, second.name = "/enc/layer.0/Mul", "root"
    second.metadata_props["namespace"] = "enc/norm"
    feeds = {"x": np.full((2, 4), 1000, np.float16), "z": np.full((2, 4), 1000, np.float16)}
    feeds |= {"n": np.array(1), "c": np.array(True)}
    product, root = half_faults(model, feeds)
    assert (product.place, product.reason) == ("/enc/layer.0/Mul (Mul)", "a reaches 1e+06 (measured), beyond float16")
    assert (root.place, root.reason) == (
        "enc.norm root (Sqrt)",
        "it reads a, which reaches 1e+06 (measured), beyond float16",
    )
    assert [fault.node for fault in (product, root)] == [first, second]
    (small, _) = found("a = Mul (x, z) b = Sqrt (a) y = Div (x, b)", 1e-3, 1e-6)
    assert (small.place, small.reason) == (
        "a (Mul)",
        "a has elements below 1.01e-09 (measured), where float16 loses bits",
    )
    assert half_faults(from_proto(onnx.parser.parse_model(WIDE)), None) == []


WIDE = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Exp (x) }'


def test_a_sum_inside_counts_by_what_the_target_says() -> None:
    body = "a = ReduceL2 <axes = [1], keepdims = 1> (x) y = Neg (a)"
    reason = "a fits float16, but the sum inside reaches 160000 (measured)"
    for target, expected in (
        (None, reason),
        (Target("t", sums={"*": "float16"}), reason),
        (Target("t", sums={"*": "float"}), None),
        (Target("t"), f"{reason}; whether t adds up in float16 is unknown"),
    ):
        assert [fault.reason for fault in found(body, 200, target=target)] == ([] if expected is None else [expected])


def test_faults_of_a_small_part_count_if_there_are_no_others() -> None:
    """One of eight squares vanishes, so that a quotient is infinite; beside a product that overflows it is not told."""
    x = np.ones((2, 4))
    x[0, 0] = 1e-4
    body = "a = Mul (x, x) b = Sqrt (a) {} = Div (x, b) "
    small = found(body.format("y"), x, 1000)
    assert [(fault.name, fault.slight) for fault in small] == [("a", True), ("b", True)]
    large = found(body.format("d") + "e = Mul (z, z) f = Sqrt (e) y = Add (d, f)", x, 1000)
    assert [(fault.name, fault.slight) for fault in large] == [("e", False), ("f", False)]


def test_the_first_inputs_on_which_a_node_does_harm_are_told_of() -> None:
    model = model_of("a = Mul (x, z) b = Sqrt (a) y = Neg (b)")
    fixed = {"z": np.full((2, 4), 1000, np.float16), "n": np.array(1), "c": np.array(True)}
    sets = [{**fixed, "x": np.full((2, 4), size, np.float16)} for size in (1, 500, 900, 100)]
    first, _ = faults(reference_of(model, sets), model)
    assert described(first) == "a: overflow of a 5e+05"


@pytest.mark.parametrize(("nodes", "told"), [(14, False), (15, True)])
@pytest.mark.parametrize("between", ["", "m = Identity (v0) "])
def test_what_is_wrong_through_many_nodes_is_told_though_no_output_shows_it(
    nodes: int, told: bool, between: str
) -> None:
    """It may be in a loop: after 16 nodes, with the one that overflows; movements do not count."""
    chain = "".join(f"v{place + 1} = Neg ({'m' if between and not place else f'v{place}'}) " for place in range(nodes))
    faulty = found(f"v0 = Mul (x, z) {between}{chain}y = Neg (x)", 1000, 1000)
    assert [fault.name for fault in faulty][:1] == ["v0"] * told


SUMS: list[tuple[str, Any, Any, float]] = [
    # node, what it reads, what it gives, the largest sum on the way
    ("ReduceMean (x)", [[1, 2], [3, 6]], [[3]], 12),
    ("ReduceMean (x)", [[1, 2]], [[3], [4], [5]], 5),  # a result of other inputs, which have more rows
    ("ReduceSum (x)", [[1, 2], [3, 6]], [[12]], 12),
    ("ReduceL1 (x)", [[1, -2], [3, 6]], [[12]], 12),
    ("ReduceSumSquare (x)", [[1, 2], [3, 6]], [[50]], 50),
    ("ReduceL2 (x)", [[3, 4]], [[5]], 25),
    ("LpNormalization (x)", [[3, 4], [6, 8]], [[0.6, 0.8], [0.6, 0.8]], 100),
    ("LpNormalization <axis = 0> (x)", [[3, 4], [6, 8]], [[0, 1], [1, 0]], 80),
    ("LayerNormalization (x, w)", [[3, 4], [6, 8]], [[0, 1], [1, 0]], 100),
    ("LayerNormalization <axis = 0> (x, w)", [[3, 4], [6, 8]], [[0, 1], [1, 0]], 125),
    ("LayerNormalization <axis = -2> (x, w)", [[3, 4], [6, 8]], [[0, 1], [1, 0]], 125),
    ("RMSNormalization (x, w)", [[3, 4], [6, 8]], [[0, 1], [1, 0]], 100),
    ("InstanceNormalization (x, w, w)", [[3, 4], [6, 8]], [[0, 1], [1, 0]], 125),
]


def require_sum(text: str, operand: Any, result: Any, expected: float) -> None:
    body = f"y = {text}"
    model = from_proto(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 23]> g (float16[2,2] x, float16[2] w) => (float16[N,M] y) {{ {body} }}'
        )
    )
    assert sum_inside(next(iter(model.graph)), np.array(operand, np.float64), np.array(result, np.float64)) == expected


def test_the_largest_sum_inside() -> None:
    check_all(require_sum, SUMS)


LOST: list[tuple[float, float, bool]] = [
    # what float16 gives, what is right, beside 1: is the element lost?
    (1, 1, False),
    (1.125, 1, False),
    (1.126, 1, True),
    (0.875, 1, False),
    (INF, 1, True),
    (NAN, 1, True),
    (INF, INF, False),
    (NAN, INF, False),
    (1, INF, False),  # nothing is to be lost where the reference is infinite
    (1, NAN, False),
    (0, 0, False),
    (2.0**-25, 0, False),
    (2.0**-24, 0, True),
    (0, NORMAL, True),
    (NORMAL * 0.875, NORMAL, False),
    (NORMAL * 0.86, NORMAL, True),
    (NORMAL / 2 * (1 - 2.0**-6), NORMAL / 2, False),  # below the normal numbers a rounding is expected to be near
    (NORMAL / 2 * (1 - 2.0**-5), NORMAL / 2, True),
]


def require_lost(actual: float, expected: float, is_lost: bool) -> None:
    beside = np.array([1.0, expected])
    assert _lost(np.array([1.0, actual]), beside, beside).tolist() == [False, is_lost]


def test_when_an_element_is_lost() -> None:
    check_all(require_lost, LOST)
    numbers = np.array([1.0, 2.0])
    assert _lost(np.array([1.0, 2.1]), numbers, numbers, 2.0**-6).tolist() == [False, True]
    # What is lost in the tensor that it is compared with does not count again.
    assert _lost(np.array([1.0, 3.0]), numbers, np.array([1.0, 3.0])).tolist() == [False, False]
    assert _lost(np.array([1.0, 5.5]), numbers, np.array([1.0, 3.0])).tolist() == [False, True]


WRONG: list[tuple[list[float], list[float], float, bool]] = [
    ([1, 2], [1, 2], 0.01, False),
    ([1, 2 + 2.0**-4], [1, 2], 2.0**-5, False),
    ([1, 2 + 2.0**-3], [1, 2], 2.0**-5, True),
    ([1.021, 2], [1, 2], 0.01, True),
    ([1.021, 2], [1, 2], 0.02, False),
    ([INF, 2], [1, 2], 0.01, True),
    ([NAN, 2], [1, 2], 0.01, True),
    ([5, 2], [INF, 2], 0.01, False),
    ([5, 2], [NAN, 2], 0.01, False),
    ([NAN, 2], [INF, 2], 0.01, False),
    ([0, 0], [0, 0], 0.01, False),
    ([1e-9, 0], [0, 0], 0.01, True),
]


def require_wrong(actual: list[float], expected: list[float], share: float, is_wrong: bool) -> None:
    assert _is_wrong(np.array(actual), np.array(expected), share) == is_wrong


def test_when_a_tensor_is_wrong() -> None:
    check_all(require_wrong, WRONG)


@pytest.mark.parametrize(
    ("body", "half"),
    [
        ("y = Neg (x)", True),
        ("y = Identity (x)", False),  # it only moves elements
        ("a = Cast <to = 1> (x) y = Cast <to = 10> (a)", False),
        ("k = Constant <value_float = 1.0> () y = Neg (x)", True),
        ("a = Cast <to = 1> (x) b = Neg (a) d = Cast <to = 10> (b) y = Neg (d)", False),  # as many in float
        ("a = Cast <to = 1> (x) b = Neg (a) d = Cast <to = 10> (b) e = Neg (d) y = Neg (e)", True),
        ("a = Cast <to = 11> (x) b = Neg (a) d = Cast <to = 10> (b) y = Neg (d)", False),
        ("a = Cast <to = 16> (x) b = Neg (a) d = Cast <to = 10> (b) y = Neg (d)", False),
        ("a = Cast <to = 7> (x) b = Neg (a) d = Cast <to = 10> (b) y = Neg (d)", True),
        ("y = own.f (x, z)", True),
    ],
)
def test_which_models_compute_in_float16(body: str, half: bool) -> None:
    assert computes_in_half(model_of(body, more=FUNCTION)) == half


def test_the_worst_fault_of_a_node_is_the_first_of_the_greatest_that_overflow() -> None:
    """By how much elements are below the normal numbers says nothing of the harm."""
    node = onnx_ir.node("Neg", [])

    def worst(*faults: tuple[float, bool]) -> int:
        made = [Fault(node, "y", "y (Neg)", "y", "vanish", magnitude, slight) for magnitude, slight in faults]
        return made.index(max(made, key=_gravity))

    assert worst((1e-9, False), (1e-6, False)) == worst((1e-6, False), (1e-9, False)) == 0
    assert worst((70000, False), (90000, False)) == worst((1e-6, False), (65520, False)) == 1
    assert worst((90000, True), (1e-6, False)) == worst((70000, True), (90000, True)) == 1
