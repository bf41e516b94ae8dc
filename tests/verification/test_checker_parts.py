"""The functions of the checker alone: types, numbers that are known as polynomials, cells, and what it refuses."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx import TensorProto

import castsmith
from castsmith.verification import checker
from castsmith.verification.checker import CODED, FLOAT4, NUMBERS, NUMPY, SCALE, Cells, Conversion, Poly
from tests.certificates import certificate_between, sealed
from tests.sampling import check_all
from tests.verification.pairs import HEAD

# Types.


def test_a_type_holds_another_as_castsmith_says() -> None:
    """But the checker does not say it of types of codes."""
    for a, b in itertools.product(NUMBERS, repeat=2):
        exact = a == b or castsmith.is_exact(onnx_ir.DataType(a), onnx_ir.DataType(b))
        held = checker.embeds(a, b)
        assert held == exact or (exact and b in CODED), (a, b)
    text = TensorProto.STRING
    assert checker.embeds(text, text)
    assert not any(checker.embeds(*pair) for dtype in NUMBERS for pair in ((text, dtype), (dtype, text)))


def test_the_common_type_is_that_to_which_castsmith_promotes() -> None:
    for a, b in itertools.combinations(sorted(NUMBERS), 2):
        if FLOAT4 not in (a, b):
            expected = castsmith.promote_types(onnx_ir.DataType(a), onnx_ir.DataType(b), promote_unsafe=True)
            assert checker.common_type([a, b]) == checker.common_type([b, a, b]) == expected
    assert checker.common_type([TensorProto.STRING, TensorProto.FLOAT]) is None


def test_all_values_of_a_type_are_each_once() -> None:
    counts = {dtype: checker.values_of(dtype) for dtype in NUMBERS}
    sizes = {dtype: onnx_ir.DataType(dtype).bitwidth if dtype != TensorProto.BOOL else 1 for dtype in NUMBERS}
    for dtype, values in counts.items():
        assert (values is not None) == (sizes[dtype] <= 16)
        if values is not None:
            assert values.dtype == NUMPY[dtype]
            assert len({value.tobytes() for value in values}) == len(values) == 2 ** sizes[dtype]


_F = np.float32
_NAN = np.array([0x7FC00000, 0x7FC00001, 0xFFC00000], np.uint32).view(_F)
_AGREE = [
    (np.array([0.0, -0.0, 1, np.inf], _F), np.array([0.0, 0.0, 1, -np.inf], _F), [True, False, True, False]),
    (_NAN, _NAN[::-1].copy(), [True, True, True]),
    (_NAN[:2], np.array([0, np.inf], _F), [False, False]),
    (np.array([1, 2], NUMPY[FLOAT4]), np.array([1, 3], NUMPY[FLOAT4]), [True, False]),
    (np.array([1, -2], NUMPY[TensorProto.INT4]), np.array([1, 2], NUMPY[TensorProto.INT4]), [True, False]),
    (np.array([1, 2], np.uint8), np.array([1, 3], np.uint8), [True, False]),
    (np.array([True, True]), np.array([True, False]), [True, False]),
]


def test_elements_agree_if_they_have_the_same_bits_or_are_nan() -> None:
    for a, b, expected in _AGREE:
        assert checker.agree(a, b).tolist() == expected == checker.agree(b, a).tolist()


# Polynomials.

_N, _M = checker.atom("<dim n"), checker.atom("<dim m")
_K, _U = checker.atom("<k"), checker.atom("u")  # k is not negative, of u nothing is known


def _number(dim: checker.Dim, sizes: dict[Poly, int]) -> int:
    terms = [(factor, [sizes[checker.atom(name)] for name in atoms]) for atoms, factor in checker.terms_of(dim)]
    return sum(int(np.prod([factor, *numbers])) for factor, numbers in terms)


def test_polynomials_are_the_numbers_that_they_stand_for() -> None:
    values = [0, 1, -3, _N, _M, _U, _N + 2, _N - _M, 3 * _N * _M - _U, _N * _N + 5]
    sizes = {_N: 7, _M: 4, _U: -9}
    for a, b in itertools.product(values, repeat=2):
        x, y = _number(a, sizes), _number(b, sizes)
        assert [_number(dim, sizes) for dim in (a + b, a - b, a * b)] == [x + y, x - y, x * y]
        assert (a + b, a * b) == (b + a, b * a)
    zero = _N - _N
    assert (zero, type(zero), _N - _N + 3) == (0, int, 3)
    assert repr(2 * _N * _M - 1) == "-1+2*<dim m*<dim n"
    assert checker.product([]) == 1
    assert checker.product([2, _N, 3]) == 6 * _N


def test_quotients_are_exact_or_unknown() -> None:
    rows: list[tuple[checker.Dim, checker.Dim, checker.Dim | None]] = [
        *((_N * _M, _M, _N), (6 * _N, 2, 3 * _N), (6 * _N + 4 * _M, 2, 3 * _N + 2 * _M), (_N * _N, _N, _N)),
        *((_N, _N, 1), (_N + _M, _N + _M, 1), (4 * _N, -2, -2 * _N), (6 * _N * _M, 3 * _N, 2 * _M), (12, 4, 3)),
        *((6 * _N + 3, 2, None), (_N, 0, None), (0, 0, None), (_N, _M, None), (_N, _N * _M, None), (_N, _N * _N, None)),
        *((_N * _M + _M, _N + 1, None), (6, _N, None), (5, 2, None), (_N + 2, _N, None)),
    ]
    for a, b, expected in rows:
        assert checker.quotient(a, b) == expected, (a, b)


def test_what_is_at_most_what_else() -> None:
    """Dimensions are at least 1, other numbers of which the name begins with < at least 0."""
    at_most: list[tuple[checker.Dim, checker.Dim]] = [
        *((0, _N), (1, _N), (_N, _N), (_N, 2 * _N), (1, _N * _M), (2, _N + _M), (0, _K), (1, _K + _N), (0, _K * _N)),
        *((3, 3), (2, 3), (-5, 0), (_N, _N + _K), (_N - 1, _N), (_U, _U), (_U, _U + 1), (3, 2 * _N + _M), (0, _N - 1)),
    ]
    unknown: list[tuple[checker.Dim, checker.Dim]] = [
        *((2, _N), (2 * _N, _N), (3, _N + _M), (1, _K), (1, _K * _N), (2, _K + _N), (0, _U), (-5, _U), (0, _U * _N)),
        *((4, 3), (_N, _M), (_N, _N - 1), (_N + 1, _N), (0, _N + _U), (_N, _N * _M), (_N, 5), (0, -1 * _K), (_U, _N)),
    ]
    assert [row for row in at_most if not checker.at_most(*row)] == []
    assert [row for row in unknown if checker.at_most(*row)] == []


def test_shapes_are_broadcast_as_numpy_does() -> None:
    for shapes in [(), ((),), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1,), (1,)), ((5, 1, 4), (3, 1), ()), ((1, 2), (1,))]:
        assert checker.broadcast(shapes) == np.broadcast_shapes(*shapes)
    rows: list[tuple[list[checker.Shape], checker.Shape]] = [
        *(([(_N,), (1,)], (_N,)), ([(_N,), (5,)], (5,)), ([(_N,), (_N,)], (_N,)), ([(_N, 1), (4,)], (_N, 4))),
        *(([(_N, _M), ()], (_N, _M)), ([(_M,), (_N, _M)], (_N, _M)), ([(_N,), (_M,), (5,)], (5,))),
    ]
    for shapes, expected in rows:
        assert checker.broadcast(shapes) == checker.broadcast(shapes[::-1]) == expected
    (both,) = checker.broadcast([(_N,), (_M,)])
    assert both not in (_N, _M, 1)
    assert (both,) == checker.broadcast([(_M,), (_N,)]) == checker.broadcast([(both,), (_M,)])
    assert checker.broadcast([(both,), (_K,)]) == checker.broadcast([(_N,), (_M,), (_K,)])


def test_what_operators_give_for_numbers_that_are_not_known() -> None:
    rows: list[tuple[str, checker.Dim, checker.Dim, checker.Dim | bool]] = [
        *(("Add", _N, 2, _N + 2), ("Sub", 2, _N, 2 - _N), ("Mul", _N, _M, _N * _M), ("Div", 6 * _N, 3, 2 * _N)),
        *(("Max", _U, _U, _U), ("Min", _U, _U, _U), ("Equal", _U, _U, True), ("Equal", _N, 0, False)),
        *(("Equal", _N, _N + 1, False), ("Less", 0, _N, True), ("Less", _N, _N, False), ("Less", _N, 1 - _K, False)),
        *(("GreaterOrEqual", _N, 1, True), ("GreaterOrEqual", 0, _N, False), ("GreaterOrEqual", _N, _N, True)),
        *(
            ("Greater", _N, 0, True),
            ("Greater", _N, _N, False),
            ("Greater", 0, _N, False),
            ("LessOrEqual", 1, _N, True),
        ),
        *(("LessOrEqual", _N, 0, False), ("LessOrEqual", _N, _N, True), ("Less", _N, _N + 1, True)),
    ]
    for op, a, b, expected in rows:
        result = checker.symbolic(op, checker.INT64, [a, b])
        assert result == expected, (op, a, b, result)
        assert type(result) is type(expected) or isinstance(result, Poly)
    exchanged = {"Less": "Greater", "Greater": "Less", "LessOrEqual": "GreaterOrEqual", "GreaterOrEqual": "LessOrEqual"}
    for op, a, b, expected in rows:
        if op in exchanged:
            assert checker.symbolic(exchanged[op], checker.INT32, [b, a]) == expected
    unknown: list[tuple[str, checker.Dim, checker.Dim]] = [
        *(("Max", _N, _M), ("Min", _N, 2), ("Div", _N, 2), ("Mod", _N, 2), ("Equal", _N, 1), ("Less", 1, _N)),
        *(("Greater", _N, 1), ("LessOrEqual", _M, _N), ("GreaterOrEqual", _N, 2), ("Pow", _N, _N), ("Equal", _U, 0)),
    ]
    for op, a, b in unknown:
        assert isinstance(checker.symbolic(op, checker.INT64, [a, b]), Poly), (op, a, b)
    # a size is not negative, if its operands are not; other types wrap
    naturals = [("Div", _N, 2), ("Mod", _K, 2), ("Max", _N, 2), ("Min", _K, _M)]
    assert all(checker.at_most(0, checker.symbolic(op, checker.INT64, [a, b])) for op, a, b in naturals)
    others = [("Div", _U, 2), ("Mod", _N, -2), ("Max", _U, _N), ("Pow", _N, 2), ("Min", _N, _K), ("Div", _N, _K)]
    assert not any(checker.at_most(0, checker.symbolic(op, checker.INT64, [a, b])) for op, a, b in others)
    assert not checker.at_most(0, checker.symbolic("Div", TensorProto.INT8, [_N, 2]))
    assert checker.at_most(0, checker.symbolic("Min", checker.INT64, [_N, _K, _M]))
    assert not checker.at_most(0, checker.symbolic("Min", checker.INT64, [_N, _U, _M]))
    assert isinstance(checker.symbolic("Less", TensorProto.INT8, [_N, _N + 1]), Poly)
    assert isinstance(checker.symbolic("Equal", TensorProto.INT8, [_N, 0]), Poly)
    assert isinstance(checker.symbolic("Add", TensorProto.FLOAT, [_N, 0]), Poly)
    assert checker.symbolic("Neg", checker.INT64, [_N]) != checker.symbolic("Abs", checker.INT64, [_N])


# Cells.


def _cells(low: list[float], high: list[float] | None = None, dtype: Any = _F) -> Cells:
    ends = [np.array(side, dtype) for side in (low, low if high is None else high)]
    return Cells(ends[0], ends[0] if high is None else ends[1], np.ones(len(low), bool))


def test_integers_are_in_the_order_of_the_floats() -> None:
    ordered = np.array([-np.inf, -2, -1, -1e-45, -0.0, 0.0, 1e-45, 1, 2, np.inf], _F)
    for dtype in (_F, np.float64, np.float16):
        places = checker.order(np.array(ordered if dtype != np.float16 else ordered[[0, 1, 4, 5, 8, 9]], dtype))
        assert (np.diff(places.astype(object)) > 0).all()
    integers = np.array([-3, 2], np.int8)
    assert checker.order(integers) is integers


def test_the_hull_is_from_the_least_to_the_greatest() -> None:
    a, b, c = (np.array(row, _F) for row in ([1, 0.0, 5], [2, -0.0, 5], [-3, 0.0, 5]))
    defined = np.array([True, False, True])
    whole = checker.hull([a, b, c], defined)
    assert whole is not None
    assert [*map(str, whole.low.tolist()), *whole.high.tolist()] == ["-3.0", "-0.0", "5.0", 2, 0, 5]
    assert whole.defined is defined
    same = checker.hull([a, a.copy()], defined)
    assert same is not None
    assert same.low is same.high
    assert checker.hull([_NAN, np.array([np.nan, 1, np.nan], _F)], defined) is None
    assert checker.hull([_NAN, _NAN], defined) is not None


_PARTED = _cells([1, -2, -1, 0.0, -np.inf], [2, -1, 1, 1, -1])
_WHOLE, _SHIFT = np.array([0x10001] * 2, np.uint32), np.array([0x1FFFF, 0x2FFFF], np.uint32)


def _term(op: str, dtype: int, **attrs: Any) -> Any:
    return SimpleNamespace(op=op, dtype=dtype, attrs=attrs)


_MONOTONE: list[tuple[str, list[Cells], list[bool] | bool]] = [
    *((op, [_PARTED, _cells([3] * 5)], [True, True, True, True, False]) for op in ("Add", "Sub", "Mul")),
    ("Div", [_cells([1, 1, 1, 1]), _cells([1, -2, 0, -1], [2, -1, 1, 1])], [True, True, False, False]),
    ("Div", [_cells([-1, 1]), _cells([1, -1], [2, 0.0])], [True, False]),
    ("Div", [_cells([-1, np.inf], [1, np.inf]), _cells([1, 1])], [True, False]),
    ("Abs", [_PARTED], [True, True, False, True, True]),
    ("BitCast", [_PARTED], [True, True, False, True, True]),
    *((op, [_PARTED], True) for op in ("Neg", "Floor", "Ceil", "Round", "Sqrt", "Log", "Clip", "IsNaN")),
    *((op, [_PARTED, _PARTED], True) for op in ("Max", "Min", *checker.COMPARISONS[1:])),
    *((op, [_PARTED], False) for op in ("Equal", "Mod", "Sign", "IsInf", "Where", "BitwiseAnd", "BitShift", "Not")),
]
_MONOTONE_INTEGERS: list[tuple[str, list[Cells], list[bool] | bool]] = [
    *((op, [_cells([1], [2], np.uint32)] * 2, False) for op in ("Add", "Sub", "Mul", "Div", "Abs", "Neg", "Mod")),
    *((op, [_cells([1], [2], np.uint32)] * 2, True) for op in ("Max", "Min", "Less")),
    ("BitwiseAnd", [Cells(_WHOLE, _SHIFT, np.ones(2, bool)), _cells([0xFFFF] * 2, None, np.uint32)], [True, False]),
    ("BitwiseAnd", [Cells(_WHOLE, _SHIFT, np.ones(2, bool)), _cells([0xFFFF0000] * 2, None, np.uint32)], [True, False]),
    ("BitwiseAnd", [Cells(_WHOLE, _SHIFT, np.ones(2, bool)), _cells([0xFF] * 2, None, np.uint32)], [False, False]),
    ("BitwiseAnd", [_cells([0x10001], [0x1FFFF], np.uint32), _cells([0], [0xFFFF], np.uint32)], [False]),
    ("BitwiseOr", [_cells([0x10001], [0x1FFFF], np.uint32), _cells([0], None, np.uint32)], False),
]


def test_where_an_operator_is_monotone() -> None:
    def compare(op: str, cells: list[Cells], expected: list[bool] | bool, dtype: int) -> None:
        args = [_term("input", dtype)] * len(cells)
        assert checker.monotone(_term(op, dtype), args, cells).tolist() == expected

    check_all(compare, [(*row, TensorProto.FLOAT) for row in _MONOTONE])
    check_all(compare, [(*row, TensorProto.UINT32) for row in _MONOTONE_INTEGERS])
    shifted = [_cells([1, 1], [2, 2], np.uint32), _cells([3, 3], [3, 4], np.uint32)]
    for direction, expected in ((b"RIGHT", [True, False]), (b"LEFT", False)):
        x, args = _term("BitShift", TensorProto.UINT32, direction=direction), [_term("input", TensorProto.UINT32)] * 2
        assert checker.monotone(x, args, shifted).tolist() == expected


def test_where_a_cast_is_monotone() -> None:
    """Of uint8, where all that a cell holds is an integer of it, as its ends are; below 8 bits, near one integer."""
    cells = _cells([0.5, 0, 254.5, 255, 255, 256, -0.5, -1, -0.0], [1.5, 1, 255.5, 256, 255.9, 300, 0.5, 1, 0.0])
    rows = [
        (TensorProto.UINT8, TensorProto.FLOAT, [True] * 6 + [True, False, True]),
        (TensorProto.INT8, TensorProto.FLOAT, [True] * 6 + [True, True, True]),
        (TensorProto.UINT4, TensorProto.FLOAT, [False, False, True, True, True, True, False, False, True]),
        *((TensorProto.FLOAT16, source, True) for source in (TensorProto.FLOAT, TensorProto.INT32)),
        *((TensorProto.BOOL, source, False) for source in (TensorProto.FLOAT, TensorProto.INT32)),
        *((TensorProto.INT64, TensorProto.INT32, True), (TensorProto.INT16, TensorProto.INT32, False)),
        *((TensorProto.UINT32, TensorProto.INT32, False), (TensorProto.INT64, TensorProto.UINT32, True)),
    ]
    for to, source, expected in rows:
        assert checker.steady(to, source, cells).tolist() == expected, (to, source)
    # both ends are undefined, and between them are integers of the type
    both = _cells([-2, -1, 254, 100, 255, -0.5, -0.5], [300, 255, 256, 255.5, 256, 256, 255.5])
    assert checker.steady(TensorProto.UINT8, TensorProto.FLOAT, both).tolist() == [
        False,
        False,
        True,
        True,
        True,
        False,
        True,
    ]


def test_where_runtimes_differ() -> None:
    a, b = np.array([0.0, 1, np.nan, 0], _F), np.array([-0.0, 1, 1, 0], _F)
    for op in ("Max", "Min", "Clip"):
        assert checker.ambiguous(op, [a, b], (4,)).tolist() == [True, False, True, False]
    assert checker.ambiguous("Relu", [b], (4,)).tolist() == [True, False, False, False]
    assert not checker.ambiguous("Add", [a, b], (4,)).any()
    assert not checker.ambiguous("Max", [np.array([0, 1])] * 2, (2,)).any()
    widths = np.array([7, 8, 9], np.uint8)
    assert checker.ambiguous("BitShift", [np.ones(3, np.uint8), widths], (3,)).tolist() == [False, True, True]
    assert not checker.ambiguous("BitShift", [np.ones(3, np.uint16), widths.astype(np.uint16)], (3,)).any()


# Order of nodes, and names.


def test_nodes_are_put_after_what_they_use() -> None:
    node = onnx.helper.make_node
    body = onnx.helper.make_graph([node("Neg", ["c"], ["t"]), node("Add", ["t", "i"], ["u"])], "b", [], [])
    body.input.add().name = "i"
    body.initializer.add().name = "w"
    for name in ("u", "v", "w"):
        body.output.add().name = name
    outer = node("Loop", ["n", "k"], ["y"], body=body)
    assert checker.names_in(outer) == {"n", "k", "c", "v"}
    nodes = [outer, node("Neg", ["x"], ["c"]), node("Abs", ["c"], ["v"])]
    assert [each.output[0] for each in checker.in_order(nodes)] == ["c", "v", "y"]
    with pytest.raises(checker.RefusedError, match=r"^the nodes form a cycle$"):
        checker.in_order([node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["a"])])


# Certificates.

_REPORT = checker.Report


def test_the_lines_of_a_report() -> None:
    assert checker.lines(_REPORT(1, [], ["x"])) == [
        "certified for all inputs: 1 step",
        "  x has become uint8: the codes of its type",
    ]
    assert checker.lines(_REPORT(0, [], [])) == ["certified for all inputs: 0 steps"]
    left = [("fold", ["a", "b"], ["p", "q", "r", "s"]), ("cut", [], ["t"])]
    assert checker.lines(_REPORT(5, left, ["x"])) == [
        "certified in part: 3 of 5 steps; not certified:",
        "  fold: a, b: p, q, r",
        "  cut: no rule: t",
    ]


_STEPS: list[tuple[str, list[str], Any]] = [(f"step {n}", [f"rule {n}", "b", "a", "b"], None) for n in range(4)]


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ("AAAAA", []),
        ("AABBB", [1]),
        ("ABABB", [2]),  # the first two are right together
        ("ABCDA", []),  # and all
        ("ABCCC", [0, 1]),
        ("ABBAC", [3]),
        ("ABCDE", [0, 1, 2, 3]),
    ],
)
def test_steps_are_certified_alone_or_together(models: str, expected: list[int]) -> None:
    def differing(before: str, after: str) -> list[str]:
        return [] if before == after else [f"{before} is not {after}"]

    reader = cast("checker.Checker", SimpleNamespace(differing=differing))
    left = checker.uncertified(reader, cast("Any", models), _STEPS)
    texts = [f"{models[place]} is not {models[place + 1]}" for place in expected]
    rows = [(f"step {place}", ["a", "b", f"rule {place}"]) for place in expected]
    assert left == [(*row, [text]) for row, text in zip(rows, texts, strict=True)]


_SMALL = HEAD + "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { z = Neg (x) y = Add (z, w) }"


def _model(text: str = _SMALL) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def _refused(
    match: str, change: Callable[[onnx.ModelProto, dict[str, Any]], None], text: str = _SMALL
) -> tuple[str, Callable[[onnx.ModelProto, dict[str, Any]], None], str]:
    return match, change, text


def _swapped(model: onnx.ModelProto, _: dict[str, Any]) -> None:
    model.graph.node[0].op_type = "Abs"


def _undone(_: onnx.ModelProto, certificate: dict[str, Any]) -> None:
    certificate["steps"][0]["edit"]["drop"] = ["node none"]


def _unsealed(_: onnx.ModelProto, certificate: dict[str, Any]) -> None:
    certificate["sha256"] = "0"


def _of_another_format(_: onnx.ModelProto, certificate: dict[str, Any]) -> None:
    certificate["format"] = "castsmith-certificate-0"


def _no_text(_: onnx.ModelProto, certificate: dict[str, Any]) -> None:
    certificate["steps"][0]["edit"]["put"]["node z"] = 3


def _other_elements(_: onnx.ModelProto, certificate: dict[str, Any]) -> None:
    certificate["constants"]["abc"] = checker.text_of(onnx.numpy_helper.from_array(np.ones(2)))


def _no_tensor(_: onnx.ModelProto, certificate: dict[str, Any]) -> None:
    certificate["constants"]["abc"] = checker.text_of(onnx.helper.make_node("Neg", ["x"], ["y"]))[:-2]


def _short(model: onnx.ModelProto, _: dict[str, Any]) -> None:
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data or b"1"
    model.graph.initializer[0].ClearField("float_data")
    model.graph.initializer[0].raw_data = b"123"


def _sparse(model: onnx.ModelProto, _: dict[str, Any]) -> None:
    model.graph.sparse_initializer.add().values.name = "s"


def _elsewhere(model: onnx.ModelProto, _: dict[str, Any]) -> None:
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL


def _twice(model: onnx.ModelProto, _: dict[str, Any]) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


_REFUSED = [
    _refused("^the steps do not lead to the output model: node z differ$", _swapped),
    _refused("^the step forged drops node none, which is not there$", _undone),
    *(
        _refused("^this is no certificate of the format castsmith-certificate-1, or it was changed$", change)
        for change in (_unsealed, _of_another_format, _no_text)
    ),
    _refused("^the constant abc has other elements$", _other_elements),
    _refused("^a text of the certificate is no TensorProto: ", _no_tensor),
    _refused("^the tensor w cannot be read: ", _short),
    _refused("^sparse initializers are not supported$", _sparse),
    _refused("^the elements of w are in another file, which was not read$", _elsewhere),
    _refused("^constant w is in the model twice$", _twice),
]


def test_the_hash_of_a_certificate_is_of_all_that_it_says_and_only_of_that() -> None:
    certificate = certificate_between(_model(), _model(_SMALL.replace("Neg", "Abs")))
    content = {key: certificate[key] for key in sorted(certificate, reverse=True) if key != "sha256"}
    assert checker.sealed(content) == checker.sealed({**certificate, "sha256": "0"}) == certificate["sha256"]
    others: list[dict[str, Any]] = [{**content, key: "other"} for key in content]
    others += [{name: value for name, value in content.items() if name != key} for key in content]
    assert len({checker.sealed(other) for other in (content, *others)}) == 1 + len(others)


def test_an_edit_says_what_was_dropped_and_what_is_other() -> None:
    before, after = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"}
    assert checker.edit_between(before, after) == {"drop": ["c"], "put": {"b": "4", "d": "5"}}


def test_sparse_constants_of_bodies_are_refused() -> None:
    """The checker knows nothing of them, and they may hide a value of around the body."""
    model = _model(_IF.replace("THEN", "float[2] b").replace("BODY", "b = Abs (x)"))
    nested = model.graph.node[0].attribute[0].g.node.add(op_type="If", output=["u"])
    nested.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g.name = "n"
    for body in (nested.attribute[0].g, model.graph.node[0].attribute[1].g):
        body.sparse_initializer.add().values.name = "x"
        with pytest.raises(checker.RefusedError, match=r"^sparse initializers are not supported$"):
            checker.state_of(model, {})
        body.ClearField("sparse_initializer")
    assert checker.state_of(model, {})


def test_what_a_certificate_is_refused_for() -> None:
    def refuse(match: str, change: Callable[[onnx.ModelProto, dict[str, Any]], None], text: str) -> None:
        before, after = _model(text), _model(text)
        certificate = certificate_between(before, after)
        change(after, certificate)
        if change is not _unsealed:
            certificate = sealed(certificate)
        with pytest.raises(checker.RefusedError, match=match):
            checker.check(before, after, certificate)

    check_all(refuse, _REFUSED)


def test_constants_on_the_way_are_known_and_of_their_type() -> None:
    before, after = _model(), _model(_SMALL.replace("Neg", "Abs"))
    stated = checker.state_of(before, {})["constant w"]
    for text, match in (
        ("1 abc", "^neither model nor the certificate has the constant abc$"),
        (stated.replace("1 ", "11 ", 1), "^the constant w is not of its type$"),
    ):
        certificate = certificate_between(before, after)
        for put in (stated, text):
            step = {"pass": "forged", "rewrites": [], "edit": {"drop": [], "put": {"constant w": put}}}
            certificate["steps"].insert(0, step)
        with pytest.raises(checker.RefusedError, match=match):
            checker.check(before, after, sealed(certificate))


def test_files_are_checked_as_the_module_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is run as a script too, and says in one line why it refuses what is in a file."""
    before, after, other = (_model(text) for text in (_SMALL, _SMALL.replace("z", "b"), _SMALL.replace("Neg", "Abs")))
    for name, model in (("a", before), ("b", after), ("c", other)):
        onnx.save(model, tmp_path / f"{name}.onnx")
    for name, model in (("b", after), ("c", other)):
        (tmp_path / f"{name}.json").write_text(json.dumps(certificate_between(before, model)))
    for name, text in (("words", "no JSON"), ("deep", "[" * 100_000), ("list", "[]"), ("broken", "{}")):
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    (tmp_path / "folder").mkdir()
    rows = [
        (("a.onnx", "b.onnx", "b.json"), 0, "certified for all inputs: 1 step\n"),
        (("a.onnx", "c.onnx", "c.json"), 3, "certified in part: 0 of 1 steps; not certified:\n  forged: no rule: y\n"),
        (
            ("a.onnx", "c.onnx", "b.json"),
            1,
            "refused: the steps do not lead to the output model: node b, node ",
        ),
        (("b.onnx", "b.onnx", "b.json"), 1, "refused: the step forged drops node z, which is not there\n"),
        (("a.onnx", "b.onnx", "words.json"), 1, "refused: {}/words.json is no JSON: Expecting value"),
        (("a.onnx", "b.onnx", "deep.json"), 1, "refused: {}/deep.json is no JSON: "),
        (("a.onnx", "b.onnx", "list.json"), 1, "refused: this is no certificate\n"),
        (("a.onnx", "b.onnx", "folder"), 1, "refused: {}/folder is not an ordinary file\n"),
        (("folder", "b.onnx", "b.json"), 1, "refused: {}/folder is not an ordinary file\n"),
        (("a.onnx", "folder", "b.json"), 1, "refused: {}/folder is not an ordinary file\n"),
        (("broken.onnx", "b.onnx", "b.json"), 1, "refused: {}/broken.onnx cannot be read as a model: "),
        (("a.onnx", "none.onnx", "b.json"), 1, "refused: {}/none.onnx cannot be read as a model: "),
        (("a.onnx", "b.onnx", "none.json"), 1, "refused: [Errno 2] No such file or directory: "),
        (("a.onnx", "b.onnx"), 2, "usage: python checker.py BEFORE AFTER CERTIFICATE\n"),
    ]
    for files, code, said in rows:
        assert checker.main([str(tmp_path / file) for file in files]) == code
        assert capsys.readouterr().out.startswith(said.replace("{}", str(tmp_path))), files


_BODY = "y = If (c) <then_branch = t () => (float[2] a) { a = Neg (x) }, else_branch = e () => (THEN) { BODY }>"
_IF = HEAD + "g (float[2] x, bool c) => (float[2] y) { " + _BODY + " }"
_LOOP = (
    HEAD + "g (float[2] x, int64 n) => (float[2] y) { t = Constant <value = bool {1}> () y = Loop (n, t, x)"
    " <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w) <float[2] v = {1, 2}> { k2 = Identity (k)"
    " w = Add (v, v) }> }"
)
_REFUSED_MODELS = [
    ("^u is used, and nothing makes it$", _SMALL.replace("Add (z, w)", "Add (z, u)")),
    ("^z is made twice, or used before it is made$", _SMALL.replace("z = Neg (x)", "z = Neg (x) a, z = Split (x)")),
    ("^v is made twice$", _LOOP),
    (
        "^the branches that make y have other results than it$",
        _IF.replace("THEN", "float[2] p, float[2] q").replace("BODY", "p = Abs (x) q = Abs (x)"),
    ),
    *(
        (
            "^the branches that make y have other results than it$",
            _IF.replace(*branch).replace("THEN", "float[2] p, float[2] q").replace("BODY", "p = Abs (x) q = Abs (x)"),
        )
        for branch in (
            ("(float[2] a) { a = Neg (x) }", "(float[2] a, float[2] d) { a = Neg (x) d = Abs (x) }"),
            ("(float[2] a) { a = Neg (x) }", "() { }"),
        )
    ),
]


def test_what_a_model_is_refused_for() -> None:
    def refuse(match: str, text: str) -> None:
        model = _model(text)
        with pytest.raises(checker.RefusedError, match=match):
            checker.check(model, model, certificate_between(model, model))

    check_all(refuse, _REFUSED_MODELS)


def test_graphs_are_no_arguments_of_functions() -> None:
    text = HEAD.replace("]>", ', "l" : 1]>') + (
        "g (float[2] x) => (float[2] y) { y = l.F <body = b () => (float[2] a) { a = Neg (x) }> (x) }"
        ' <domain: "l", opset_import: ["" : 23]> F <body> (a) => (b) { b = Op <body: graph = @body> (a) }'
    )
    lists = _model()
    attribute = lists.graph.node[0].attribute.add(name="bodies", type=onnx.AttributeProto.GRAPHS)
    attribute.graphs.add().name = "b"
    reasons = [
        (_model(text), "^graphs as arguments of functions are not supported$"),
        (lists, "^lists of graphs, as in the attribute bodies, are not supported$"),
    ]
    for model, match in reasons:
        with pytest.raises(checker.RefusedError, match=match):
            checker.check(model, model, certificate_between(model, model))


_NOTED = HEAD.replace("]>", ', "l" : 1]>') + (
    "g (float[2] x, bool c) => (float[2] y) { z = l.F (x) y = If (c) <then_branch = t () => (float[2] a)"
    " { a = Neg (z) }, else_branch = e () => (float[2] b) { b = Abs (z) }> }"
    ' <domain: "l", opset_import: ["" : 23]> F (p) => (q) { q = Exp (p) }'
)


def test_notes_for_readers_and_empty_names_are_no_part_of_a_model() -> None:
    """Of a node, an attribute, a body, a node in it, a function, and a node in that."""

    def places(model: onnx.ModelProto) -> list[Any]:
        attribute, function = model.graph.node[1].attribute[0], model.functions[0]
        return [*model.graph.node, attribute, attribute.g, attribute.g.node[0], function, function.node[0]]

    plain = checker.state_of(_model(_NOTED), {})
    notes = ("doc_string", "metadata_props", "value_info", "name", "domain", "overload")
    for place, note in itertools.product(range(len(places(_model(_NOTED)))), notes):
        for has_field in (True, False):  # the parser writes some empty names
            model = _model(_NOTED)
            proto = places(model)[place]
            if note in ("metadata_props", "value_info") and hasattr(proto, note):
                getattr(proto, note).add()
            elif note == "doc_string" or not getattr(proto, note, "named"):
                setattr(proto, note, "text" if note == "doc_string" else "")
                if not has_field:
                    proto.ClearField(note)
            assert checker.state_of(model, {}) == plain, (proto, note)
    renamed = _model(_NOTED)
    places(renamed)[4].op_type = "Ceil"
    assert checker.state_of(renamed, {}) != plain


def test_attributes_are_compared_by_their_values() -> None:
    """Tensors also if they are written in other fields, or have a name."""
    tensors = [onnx.helper.make_tensor(name, 1, [2], [0.5, 3], raw=False) for name in ("", "t")]
    tensors.append(onnx.numpy_helper.from_array(np.array([0.5, 3], _F)))
    assert len({checker.attribute(onnx.helper.make_attribute("a", tensor)) for tensor in tensors}) == 1
    others = [np.array([0.5, 2], _F), np.array([[0.5, 3]], _F), np.array([0.5, 3]), np.array([0.5, 3], np.float16)]
    values = [tensors[0], *map(onnx.numpy_helper.from_array, others), 1, 2, [1], [1, 2], "1", "2", 1.0, 2.0, [1.0]]
    assert len({checker.attribute(onnx.helper.make_attribute("a", value)) for value in values}) == len(values)


# Elements.


def test_conversions_of_elements_are_those_of_arrays() -> None:
    """A number that is not known stays itself between sizes, and no other type holds it."""
    sizes, half = Conversion(checker.INT32), Conversion(TensorProto.FLOAT16)
    assert checker.cast_element(checker.INT64, sizes, _N) is _N
    assert checker.cast_element(checker.INT64, sizes, 2**32 + 3) == 3
    assert checker.cast_element(checker.INT64, half, 3) == 3.0
    rows: list[tuple[int, Conversion, Any]] = [
        *((checker.INT64, half, _N), (TensorProto.INT8, sizes, _N), (checker.INT64, Conversion(TensorProto.INT8), _N)),
        *((TensorProto.FLOAT, sizes, 3e9), (TensorProto.FLOAT, Conversion(checker.FLOAT8[0]), 1.0)),
    ]
    atoms = [checker.cast_element(*row) for row in rows]
    assert all(isinstance(atom, Poly) and atom != _N and not checker.at_most(0, atom) for atom in atoms)
    assert len({*map(repr, atoms)}) == len(rows)


def test_integers_wrap_to_their_type() -> None:
    for dtype, (signed, bits) in checker.INTEGERS.items():
        numbers = [0, 1, -1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 2**bits, 2**bits + 3, -(2**bits) - 2]
        least = -(2 ** (bits - 1)) if signed else 0
        expected = [(number - least) % 2**bits + least for number in numbers]
        array = checker.typed(np.array(numbers, object).reshape(2, 4), dtype)
        assert (array.dtype, array.shape) == (NUMPY[dtype], (2, 4))
        assert [*map(int, array.ravel())] == expected
        assert checker.span(dtype) == (least, least + 2**bits)
    assert checker.typed(np.array([0.1], object), TensorProto.FLOAT).tolist() == [float(_F(0.1))]


def _terms() -> checker.Terms:
    return checker.Terms(2**22)


def test_bits_are_those_of_numpy() -> None:
    """Below 8 bits they are in the low bits of a byte."""
    terms = _terms()
    for dtype in checker.STORED:
        if dtype == SCALE:
            continue
        x = terms.term("input", (), {}, (dtype, (2,)), key=dtype)
        coded = terms.bits(x, TensorProto.UINT8)
        assert coded is not None
        if coded.op == "Table":
            values, (array, defined) = checker.values_of(dtype), terms.tables[coded]
            assert values is not None
            bits = onnx_ir.DataType(dtype).bitwidth
            expected = values.view(np.uint8) if dtype in CODED else values.astype(np.int64) & (1 << bits) - 1
            assert array.tolist() == expected.tolist()
            assert defined.all()
        back = terms.decoded(coded, dtype)
        assert back is x


def test_codes_are_those_of_values_if_their_other_bits_are_0() -> None:
    codes = np.arange(256, dtype=np.uint8)
    for dtype in checker.STORED:
        terms, element = _terms(), onnx_ir.DataType(dtype)
        x = terms.term("input", (), {}, (TensorProto.UINT8, (2,)), key="x")
        decoded = terms.decoded(x, dtype)
        assert decoded is not None
        assert (decoded.dtype, decoded.shape) == (dtype, (2,))
        array, defined = terms.tables[decoded]
        assert defined.tolist() == [code < 2**element.bitwidth for code in range(256)]
        fitting = codes[defined]
        if dtype in CODED:
            assert array[defined].tobytes() == fitting.view(element.numpy()).tobytes()
        else:
            assert array[defined].tolist() == fitting.astype(element.numpy()).astype(int).tolist()


def test_codes_are_decoded_to_the_type_of_which_they_are() -> None:
    terms = _terms()
    x = terms.term("input", (), {}, (TensorProto.FLOAT8E5M2, (2,)), key="x")
    codes = terms.term("BitCast", [x], {}, (TensorProto.UINT8, (2,)))
    assert terms.decoded(codes, TensorProto.FLOAT8E5M2) is x
    for other in (
        terms.decoded(codes, checker.FLOAT8[0]),
        terms.decoded(terms.term("Abs", [x], {}, (2, (2,))), x.dtype),
    ):
        assert other is not None
        assert other.op == "Table"


def test_what_a_value_is_in_a_narrower_type() -> None:
    """Also if it was moved, but not if some of its elements are of another value."""
    terms = _terms()
    half, byte, whole, wide = (
        terms.term("input", (), {}, (dtype, (2, 3)), key=dtype)
        for dtype in (TensorProto.FLOAT16, TensorProto.UINT8, checker.INT32, TensorProto.FLOAT)
    )
    to_float, to_double = Conversion(TensorProto.FLOAT), Conversion(TensorProto.DOUBLE)
    for source in (half, byte):
        cast_wide = terms.cast(source, to_float)
        assert terms.narrower(cast_wide) is source
        ends = [terms.constant(np.array([place]), checker.INT64) for place in (0, 1)]
        moved = terms.move("Slice", [cast_wide, *ends], {"@": 13}, (TensorProto.FLOAT, (1, 3)))
        narrow = terms.narrower(moved)
        assert narrow is not None
        assert (narrow.op, narrow.args, narrow.attrs) == ("Slice", (source, *ends), {"@": 13})
        assert (narrow.dtype, narrow.shape) == (source.dtype, (1, 3))
        parts = [terms.move("Split", [cast_wide], {"@": 18}, (TensorProto.FLOAT, (1, 3)), out) for out in (0, 1)]
        assert [part and part.out for part in map(terms.narrower, parts)] == [0, 1]
        joined = terms.move("Concat", [cast_wide, wide], {"@": 13, "axis": 0}, (TensorProto.FLOAT, (4, 3)))
        negated = terms.term("Neg", [cast_wide], {}, (TensorProto.FLOAT, (2, 3)))
        others = [joined, negated, terms.move("Transpose", [negated], {"@": 13}, (TensorProto.FLOAT, (3, 2)))]
        assert [*map(terms.narrower, [*others, source])] == [None] * 4
    assert terms.narrower(terms.cast(whole, to_double)) is whole
    assert terms.narrower(terms.cast(whole, to_float)) is None
    assert terms.narrower(terms.cast(wide, Conversion(TensorProto.FLOAT16))) is None
    doubled = terms.tabled(byte, TensorProto.FLOAT, np.arange(0, 512, 2).astype(_F), np.ones(256, bool))
    assert terms.narrower(doubled) is None


def test_a_table_of_a_table_is_one_of_its_root() -> None:
    """A cell is all floats of one upper half but the first, or that. What depends on the bits of NaN stays apart."""
    terms, cells = _terms(), checker.cells_of(TensorProto.FLOAT)
    assert cells is not None
    x = terms.term("input", (), {}, (TensorProto.UINT8, (2,)), key="x")
    values = (np.arange(256) / 10 - 5).astype(_F)
    values[50:53] = 0, -0.0, np.inf
    with_nan = np.where(np.arange(256) == 7, _NAN[0], values)
    some = np.arange(256) != 9
    step, exact = np.where(cells.low < 3, 5, 6).astype(np.int32), (cells.low == cells.high).astype(np.int32)
    of_nan = np.where(np.isnan(cells.low), np.arange(1 << 17) % 3, 1)
    parts = cells.low > -2
    every = np.ones(1 << 17, bool)
    int4, int32 = TensorProto.INT4, checker.INT32
    multiple = values.view(np.uint32) & 0xFFFF == 0
    rows: list[tuple[Any, Any, int, Any, Any, Any, Any]] = [
        # elements, defined; the type, the table of cells, where that is defined; and what is expected
        (values, some, int32, step, every, np.where(values < 3, 5, 6), some),
        (values, some, int32, step, parts, np.where(values < 3, 5, 6), some & (values > -2)),
        (values, some, int32, exact, every, multiple, some),
        (values, some, int32, of_nan.astype(np.int32), every, np.ones(256), some),
        (with_nan, some, int32, step, every, np.where(with_nan < 3, 5, 6), some),
        (with_nan, some, int32, step, parts, None, None),
        (with_nan, some, int32, of_nan.astype(np.int32), every, None, None),
        (with_nan, some, int4, of_nan.astype(NUMPY[int4]), every, np.ones(256), some & ~np.isnan(with_nan)),
    ]
    for elements, defined, to, array, array_defined, expected, expected_defined in rows:
        root = terms.tabled(x, TensorProto.FLOAT, elements, defined)
        last = terms.tabled(root, to, array, array_defined)
        assert (last.op, last.dtype, last.args) == ("Table", to, (root if expected is None else x,))
        if expected is not None:
            result, result_defined = terms.tables[last]
            assert result_defined.tolist() == expected_defined.tolist()
            assert result[result_defined].astype(int).tolist() == expected[result_defined].astype(int).tolist()
    wide = terms.term("input", (), {}, (TensorProto.FLOAT, (2,)), key="wide")
    assert terms.tabled(wide, int32, step, every).args == (wide,)
    halves = terms.tabled(x, TensorProto.FLOAT16, values.astype(np.float16), some)
    assert terms.tabled(halves, int32, np.zeros(1 << 16, np.int32), np.ones(1 << 16, bool)).args == (halves,)


def test_what_has_become_codes_is_of_a_small_type_before_and_a_byte_after() -> None:
    ports = "({0}[2] a, {1}[2] b, {2}[2] c, {3}[2] d, {4}[2] e) => ({5}[2] y) {{ y = Identity (a) }}"
    old, new = ("int4", "float8e5m2", "int8", "float", "uint4", "int4"), ("uint8",) * 4 + ("int8", "uint8")
    reader = checker.Checker({}, {})
    models = [reader.read(checker.state_of(_model(f"{HEAD}g {ports.format(*kinds)}"), {})) for kinds in (old, new)]
    assert reader.codes(*models) == {"a", "b", "y"}
    assert reader.codes(*models[::-1]) == reader.codes(models[0], models[0]) == set()


def test_a_table_refines_another_of_the_same_value() -> None:
    """It is equal where the other is defined, and there it is defined too."""
    reader = checker.Checker({}, {})
    terms, (here, there) = reader.terms, (np.array(row) for row in ([True, True], [True, False]))
    x, z = (terms.term("input", (), {}, (TensorProto.BOOL, (2,)), key=name) for name in "xz")
    elements = [np.array(row, np.int8).astype(NUMPY[TensorProto.INT4]) for row in ([1, 2], [1, 3], [0, 2])]
    whole, other, wrong = (terms.tabled(x, TensorProto.INT4, array, here) for array in elements)
    part = terms.tabled(x, TensorProto.INT4, elements[0], there)
    negated = terms.term("Neg", [x], {}, (TensorProto.INT4, (2,)))
    rows: list[tuple[Any, Any, bool]] = [
        *((whole, whole, True), (part, whole, True), (part, other, True), (part, part, True)),
        *((whole, other, False), (part, wrong, False), (whole, part, False), (part, None, False), (part, x, False)),
        (part, terms.tabled(z, TensorProto.INT4, elements[0], here), False),
        (part, terms.tabled(x, TensorProto.UINT4, np.array([1, 2], NUMPY[TensorProto.UINT4]), here), False),
        *((x, whole, False), (negated, whole, False), (part, negated, False)),
    ]
    for old, new, expected in rows:
        assert reader._refines(old, new) is expected  # pyright: ignore[reportPrivateUsage]


def test_a_chain_is_what_is_computed_element_by_element() -> None:
    """Operands first, each once, without scalars that are known; another operator, and the root, begin it."""
    terms = _terms()
    x, scalar = (terms.term("input", (), {}, (TensorProto.FLOAT, shape), key=str(shape)) for shape in ((2,), ()))
    number, vector = (terms.constant(np.array(elements, _F), TensorProto.FLOAT) for elements in (3, [3, 4]))

    def made(op: str, *args: Any) -> Any:
        return terms.term(op, args, {}, (TensorProto.FLOAT, (2,)))

    negated, moved = made("Neg", x), made("Tile", x, number)
    twice = made("Add", negated, negated)
    rows = [
        (x, None, [x]),
        (twice, None, [x, negated, twice]),
        (twice, negated, [negated, twice]),
        (twice, twice, [twice]),
        (moved, None, [moved]),
        *((last, None, [x, last]) for last in (made("Sub", x, number), made("Sub", number, x), made("Clip", x, None))),
        *((last, None, [x, other, last]) for other in (vector, scalar) for last in (made("Mul", x, other),)),
    ]
    for last, root, expected in rows:
        chain: list[Any] = []
        checker.gather(last, root, chain)
        assert chain == expected, last.op
