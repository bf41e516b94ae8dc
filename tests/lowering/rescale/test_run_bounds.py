"""The exponents that the values, sums and constants of a model may have, by what was measured and what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.walks import all_nodes
from castsmith.lowering.accuracy import Reference
from castsmith.lowering.faults import Fault, reference_of
from castsmith.lowering.rescale.run import (
    _Evidence,  # pyright: ignore[reportPrivateUsage]
    _times,  # pyright: ignore[reportPrivateUsage]
)
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.verification.evaluate.engines import Engine
from tests.sampling import check_all

Row = tuple[str, float, float, int, bool, bool]
INF = math.inf


def model_of(body: str, constants: Mapping[str, Any], more: str = "") -> onnx_ir.Model:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float16[2, 2] x, int64[2] i) => (float16[N, M] y)'
        f" {{ {body} }} {more}"
    )
    for name, array in constants.items():
        dtype = np.float32 if name == "f" else np.float16
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), name))
    return onnx_ir.from_proto(proto)


def least_that_fits(size: float) -> int:
    """The least exponent with which twice the size is below the numbers that become infinite in float16."""
    return next(e for e in range(-60, 200) if Fraction(size) * 2 / Fraction(2) ** e <= 65520)


def greatest_with_bits(size: float) -> int:
    """The greatest exponent with which the size is 16 times the least normal number, or more."""
    return next(e for e in range(200, -60, -1) if Fraction(size) / Fraction(2) ** e >= Fraction(1, 1 << 10))


def subject(bound: Any) -> str:
    if isinstance(bound.subject, onnx_ir.Value):
        return bound.subject.name or ""
    node, index = bound.subject
    return f"{node.outputs[0].name}[{index}]"


def bounds(model: onnx_ir.Model, reference: Reference, faults: list[Fault], done: str = "") -> list[Row]:
    nodes = {node for node in model.graph if node.outputs[0].name in done.split()}
    found = _Evidence(model, reference, faults, nodes).bounds(infer_element_types(model, PromotionRules()))
    return [(subject(each), each.low, each.high, each.factor, each.inside, each.soft) for each in found]


def of_sizes(body: str, sizes: Mapping[str, float], kind: str = "", done: str = "", **constants: Any) -> list[Row]:
    """The bounds of a model whose values have these magnitudes; kind: what goes wrong at y, with its magnitude."""
    model = model_of(body, constants)
    reference = Reference(model, Engine("reference"), 1)
    reference.runs.append(("one", {}, {((), name): np.array([[size, 0], [0, 0]]) for name, size in sizes.items()}))
    node = next(node for node in model.graph if node.outputs[0].name == "y")
    name, _, size = kind.partition(" ")
    faults = [Fault(node, "y", "y", "y", name, float(size))] if name else []  # pyright: ignore[reportArgumentType]
    return bounds(model, reference, faults, done)


def value(name: str, low: float = -INF, high: float = INF, *, inside: bool = False, soft: bool = False) -> Row:
    return name, low, high, 1, inside, soft


NEG: list[tuple[float, str, list[Row]]] = [
    (1000.0, "", [value("y", -5), value("y", high=19)]),
    (32760.0, "", [value("y", 0), value("y", high=24)]),
    (32761.0, "", [value("y", 0), value("y", high=24)]),  # one that fits needs no exponent
    (65519.0, "", [value("y", 0), value("y", high=25)]),
    (65520.0, "", [value("y", high=25)]),  # beyond float16, and harmless
    (65520.0, "overflow 65520", [value("y", 1), value("y", high=25)]),
    (65521.0, "overflow 65521", [value("y", 2), value("y", high=25)]),
    (1e6, "overflow 1e6", [value("y", 5), value("y", high=29)]),
    (2.0**-10, "", [value("y", -24), value("y", high=0)]),
    (2.0**-11, "", [value("y", -25), value("y", high=0), value("y", high=-1, soft=True)]),
    (2.0**-16, "", [value("y", -30), value("y", high=0), value("y", high=-6, soft=True)]),
    (2.0**-16, f"vanish {2.0**-20}", [value("y", high=-10), value("y", -30), value("y", high=0),
                                      value("y", high=-6, soft=True)]),
    (0.0, "", []),
    (INF, "overflow inf", []),
]  # fmt: skip


def require_of_negative(size: float, kind: str, expected: list[Row]) -> None:
    assert of_sizes("y = Neg (x)", {"x": 1, "y": size}, kind) == expected
    lows = [low for _, low, *_ in expected if low > 0]
    assert lows == [] or lows == [least_that_fits(size)]
    if 0 < size < INF:
        assert max(0, greatest_with_bits(size)) in {high for _, _, high, *_ in expected}


def test_bounds_of_a_value() -> None:
    check_all(require_of_negative, NEG)
    assert of_sizes("y = Neg (x)", {"x": 1, "y": 1e6}, "overflow 1e6", done="y") == []
    # What is not of float16 or float is not scaled.
    assert [row for row in of_sizes("c = Cast <to = 7> (x) y = Cast <to = 10> (c)", {"c": 5.0}) if row[0] == "c"] == []


def test_a_value_beyond_float16_is_bounded_where_another_node_goes_wrong_by_it() -> None:
    model = model_of("a = Abs (x) y = Neg (a)", {})
    reference = Reference(model, Engine("reference"), 1)
    reference.runs.append(("one", {}, {((), "a"): np.array([[1e6, 0], [0, 0]])}))
    node = next(node for node in model.graph if node.outputs[0].name == "y")
    for name, expected in (("a", [value("a", 5), value("a", high=29)]), ("y", [value("a", high=29)])):
        assert bounds(model, reference, [Fault(node, "y", "y", name, "overflow", 1e6)]) == expected


CONSTANTS: list[tuple[Any, list[tuple[float, float]]]] = [
    ([[100, 1], [1, 1]], [(-9, 16)]),
    ([[65504, 1], [1, -1]], [(0, 25)]),
    ([[-0.5, 0], [0, 0]], [(-16, 9)]),
    ([[2.0**-20, 0], [0, 0]], [(-35, 0)]),
    ([[INF, 3], [0, 0]], [(-14, 11)]),
    ([[0, 0], [0, 0]], []),
    ([INF, -INF], []),
    (100, [(-9, INF)]),
    ([100], [(-9, INF)]),
    (0, []),
]


def require_of_constant(array: Any, expected: list[tuple[float, float]]) -> None:
    for done in ("", "y"):
        rows = of_sizes("y = Mul (x, w)", {}, done=done, w=array)
        assert rows == [("y[1]", low, high, 1, False, False) for low, high in expected]


def test_bounds_of_a_constant() -> None:
    """It neither overflows nor, if it has many elements, loses bits; also where the node is set right otherwise."""
    check_all(require_of_constant, CONSTANTS)
    assert [row[0] for row in of_sizes("c = Cast <to = 10> (f) y = Add (x, c)", {}, f=[1, 1])] == ["c[0]"]
    assert of_sizes("c = Constant <value = int64[2] {70000, 1}> () y = Gather (x, c)", {}) == []


SUMS: list[tuple[str, float, list[Row]]] = [
    # An operand of 200 and three zeros, and the largest sum that the node makes of it.
    ("y = ReduceSum <keepdims = 1> (x)", 200, [("y[0]", min(0, least_that_fits(200)), INF, 1, False, False)]),
    ("y = ReduceMean <keepdims = 1> (x)", 50, [("y[0]", min(0, least_that_fits(200)), INF, 1, False, False)]),
    ("y = ReduceL1 <keepdims = 1> (x)", 200, [("y[0]", min(0, least_that_fits(200)), INF, 1, False, False)]),
    ("y = ReduceL2 <keepdims = 1> (x)", 200, [("y[0]", 0, INF, 2, False, False)]),
    ("y = ReduceSumSquare <keepdims = 1> (x)", 40000, [("y[0]", 0, INF, 2, False, False)]),
    ("y = LpNormalization (x)", 1, [("y[0]", 0, INF, 2, False, False)]),
    ("y = LayerNormalization (x, w)", 1, [("y[0]", 0, INF, 2, False, True)]),
    ("y = Softmax (x)", 1, []),
]


def require_of_sum(body: str, result: float, expected: list[Row]) -> None:
    rows = of_sizes(body, {"x": 200.0}, w=[1, 1])
    rows += of_sizes(body, {"y": 200.0}, w=[1, 1])
    rows += of_sizes(body, {"x": INF, "y": INF}, w=[1, 1]) if "Mean" not in body else []
    assert [row for row in rows if row[0] == "y[0]"] == []  # nothing is known of the result, or the operand
    model = model_of(body, {"w": [1, 1]})
    reference = Reference(model, Engine("reference"), 1)
    arrays = {"x": np.array([[200, 0], [0, 0]]), "y": np.full((2, 2) if "Norm" in body else (1, 1), result)}
    reference.runs.append(("one", {}, {((), name): array for name, array in arrays.items()}))
    assert [row for row in bounds(model, reference, []) if row[0] == "y[0]"] == expected


def test_bounds_of_a_sum_inside() -> None:
    check_all(require_of_sum, SUMS)
    model = model_of("c = ReduceSum <keepdims = 1> (i) y = Cast <to = 10> (c)", {})
    reference = Reference(model, Engine("reference"), 1)
    reference.runs.append(("one", {}, {((), "i"): np.array([200, 0]), ((), "c"): np.array([200])}))
    assert bounds(model, reference, []) == []  # integers have no exponent


def require_of_runs(body: str, sizes: list[tuple[float, float]], greatest: float) -> None:
    model = model_of(body, {})
    reference = Reference(model, Engine("reference"), 1)
    for x, y in sizes:
        arrays = {"x": np.array([[x, 0], [0, 0]]), "y": np.full((1, 1), y)}
        reference.runs.append((f"{x}", {}, {((), name): array for name, array in arrays.items()}))
    (low,) = (row[1] for row in bounds(model, reference, []) if row[0] == "y[0]")
    assert low == least_that_fits(greatest)


def test_the_sum_of_any_run_counts() -> None:
    total, squares = "y = ReduceSum <keepdims = 1> (x)", "y = LpNormalization (x)"
    runs = ([(1.0, 1.0), (1e3, 1e3), (1e6, 1e6)], [(1e6, 1e6), (1e3, 1e3), (1.0, 1.0)])
    check_all(require_of_runs, [(total, run, 1e6) for run in runs] + [(squares, run, 1e12) for run in runs])


def test_what_a_loop_hands_on_is_what_was_measured_of_it() -> None:
    body = "z = Loop (, c, x) <body = l (int64 n, bool k, float16[2, 2] s) => (k, s) { }> y = LpNormalization (z)"
    model = model_of(f"c = Constant <value = bool {{1}}> () {body}", {})
    (loop,) = (node for node in model.graph if node.op_type == "Loop")
    state = loop.attributes["body"].as_graph().inputs[2]
    for sizes, greatest in (({"x": 300.0, "z": 1.0, "y": 1.0}, 1.0), ({"x": 300.0, "y": 1.0}, 9e4)):
        reference = Reference(model, Engine("reference"), 1)
        reference.runs.append(("one", {}, {((), name): np.array([[size, 0], [0, 0]]) for name, size in sizes.items()}))
        (low,) = (row[1] for row in bounds(model, reference, []) if row[0] == "y[0]")
        assert low == least_that_fits(greatest)
        assert _Evidence(model, reference, []).rank(state) == 2


def test_bounds_of_a_product_whose_sum_overflows_inside() -> None:
    rows = of_sizes("y = MatMul (x, x)", {"x": 200.0, "y": 1.0}, "inside 80000")
    assert rows == [value("y", 2, inside=True), value("y", -14), value("y", high=10)]
    assert least_that_fits(80000) == 2
    plain = of_sizes("y = Mul (x, x)", {"x": 200.0, "y": 1.0}, "inside 80000")  # no sum has an exponent of its own
    assert plain == [value("y", -14), value("y", high=10)]


@pytest.mark.parametrize(
    ("variance", "low", "high"),
    [([1, 4], 4, 10), ([0, 2.0**-4], 4, 6), ([0, 0], 4, INF), ([2.0**-20, 1], 4, 0)],
)
def test_bounds_of_a_batch_normalization(variance: list[float], low: int, high: float) -> None:
    """The product of the scale and the difference to the mean, before it is divided, and the least variance."""
    body = "b = BatchNormalization (x, s, t, m, v) y = Neg (b)"
    model = model_of(body, {"s": [3, 400], "t": [0, 0], "m": [10, -200], "v": variance})
    for x in ([[20.0, 1], [0, 600]], [[[20.0, 0], [600, 1]]]):
        reference = Reference(model, Engine("reference"), 1)
        reference.runs.append(("one", {}, {((), "x"): np.array(x), ((), "b"): np.ones((2, 2))}))
        rows = [row for row in bounds(model, reference, []) if row[0] in ("b", "b[4]")]
        # The greatest product is 400 * (600 + 200).
        assert rows[-2:] == [("b[4]", -INF, high, 1, False, False), value("b", low, inside=True, soft=True)]
    assert low == least_that_fits(400 * 800)
    free = model_of("b = BatchNormalization (x, s, t, x, v) y = Neg (b)", {"s": [1, 1], "t": [0, 0], "v": variance})
    assert not [row for row in bounds(free, Reference(free, Engine("reference"), 1), []) if row[0] == "b"]


def test_what_a_sum_reads_in_a_function_is_what_is_handed_in() -> None:
    more = '<domain: "own", opset_import: ["": 17]> f (a) => (b) { b = ReduceSumSquare <axes = [-1]> (a) }'
    branch = "c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => (float16[N, M] r)"
    branch += " { r = ReduceSumSquare <axes = [-1]> (x) }, else_branch = e () => (float16[N, M] s) { s = Neg (x) }>"
    for body, function in (("y = own.f (x)", more), (branch, "")):
        model = model_of(body, {}, function)
        reference = reference_of(model, {"x": np.array([[3, 4], [30, 40]], np.float16), "i": np.array([1, 2])})
        evidence = _Evidence(model, reference, [])
        found = evidence.bounds(infer_element_types(model, PromotionRules()))
        (row,) = [each for each in found if not isinstance(each.subject, onnx_ir.Value)]
        assert (row.low, row.factor) == (min(0, least_that_fits(2500)), 2)
        (node,) = [node for node in all_nodes(model) if node.op_type == "ReduceSumSquare"]
        operand = node.inputs[0]
        assert operand is not None
        assert (evidence.rank(operand), evidence.rank(onnx_ir.Value(name="other"))) == (2, None)


TIMES: list[tuple[Any, int, Any, str]] = [
    ([1, -3], 2, [0.25, -0.75], ""),
    ([1, -3], -2, [4, -12], ""),
    ([0, INF, -INF], 5, [0, INF, -INF], ""),
    ([2.0**-14, 1], 10, [2.0**-24, 2.0**-10], ""),
    ([3 * 2.0**-14, 1], 11, [2.0**-23, 2.0**-11], "1 of 2 elements become subnormal, as 0.000183105, which becomes"),
    ([2.0**-14, 2.0**-14, 1], 12, [0, 0, 2.0**-12], "2 of 3 elements become subnormal, as 6.10352e-05, which becomes"),
    (2.0**-14, 12, 2.0**-24, "1 of 1 elements become subnormal"),
    (-(2.0**-14), 12, -(2.0**-24), "1 of 1 elements become subnormal"),
    (0, 12, 0, ""),
    ([1, 2], -16, [INF, INF], "2 of 2 elements exceed float16, as 1, which becomes inf"),
]


def require_times(array: Any, exponent: int, expected: Any, said: str) -> None:
    scaled, witness = _times(np.array(array, np.float16), exponent)
    assert (scaled.dtype, scaled.tolist()) == (np.float16, expected)
    exact = [Fraction(each) / Fraction(2) ** exponent for each in np.atleast_1d(array) if abs(each) < INF]
    kept = [Fraction(float(each)) for each in np.atleast_1d(scaled) if abs(each) < INF]
    assert (witness == "") == (exact == kept)
    assert said in witness


def test_numbers_times_a_power_of_two() -> None:
    """A number that would vanish alone becomes the least; of many elements it is told."""
    check_all(require_times, TIMES)
    assert _times(np.array([1, 2], np.float32), -40)[0].dtype == DataType.FLOAT.numpy()
