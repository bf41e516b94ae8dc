"""Texts and forms of verdicts: summaries, interfaces that differ, types that are accepted, sizes of dimensions."""

# ruff: noqa: E501
from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.errors import VerificationError
from castsmith.ir.records import Site
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import parse_type
from castsmith.verification.compare import (
    Count,
    Difference,
    Recoding,
    Tolerance,
    _recoding,  # pyright: ignore[reportPrivateUsage]
    compare,
    difference,
    element_text,
    interfaces,
    on_common_ground,
)
from castsmith.verification.evaluate.conversions import Tensor
from castsmith.verification.inputs.drawn import default_sizes, sized
from castsmith.verification.run import require_no_difference
from castsmith.verification.verdict import Mismatch, Verdict
from tests.sampling import check_all

_HEAD = '<ir_version: 10, opset_import: ["" : 21]> '
_BASE = "g (float[2] x, int64[N] n) => (float[2] y, int64[N] m) { y = Neg (x) m = Abs (n) }"


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(_HEAD + text))


@pytest.mark.parametrize(
    ("old", "new", "differences", "outputs"),
    [
        ("g (", "h (", [], {}),
        ("x", "z", ["the inputs differ in names: x, n and z, n"], {}),
        ("float[2] x, int64[N] n", "int64[N] n, float[2] x", ["the inputs differ in order: x, n and n, x"], {}),
        ("m", "o", ["the outputs differ in names: y, m and y, o"], {}),
        ("float[2] y, int64[N] m", "int64[N] m, float[2] y", ["the outputs differ in order: y, m and m, y"], {}),
        ("float[2] y, int64[N] m)", ")", ["the outputs differ in names: y, m and none"], {}),
        ("float[2] x", "float16[2] x", ["the input x is float[2] and float16[2]"], {}),
        ("float[2] x", "float[3] x", ["the input x is float[2] and float[3]"], {}),
        ("float[2] x", "float[K] x", ["the input x is float[2] and float[K]"], {}),
        ("int64[N] n", "int64[K] n", [], {}),
        ("int64[N] n", "int64[1,N] n", ["the input n is int64[N] and int64[1, N]"], {}),
        ("float[2] x", "float x", ["the input x is float[2] and float[]"], {}),
        ("float[2] y", "float16[2] y", [], {"y": "the output y is float[2] and float16[2]"}),
        ("float[2] y", "float[K] y", [], {"y": "the output y is float[2] and float[K]"}),
        ("int64[N] m", "int64[4] m", [], {}),
        ("int64[N] m", "int64[1,N] m", [], {"m": "the output m is int64[N] and int64[1, N]"}),
        ("int64[N] m", "int64 m", [], {"m": "the output m is int64[N] and int64[]"}),
    ],
)
def test_interfaces(old: str, new: str, differences: list[str], outputs: dict[str, str]) -> None:
    found = interfaces(parsed(_BASE), parsed(_BASE.replace(old, new, 1) if old != "x" else _BASE.replace("x", "z")))
    assert (list(found.differences), dict(found.outputs), dict(found.recoded)) == (differences, outputs, {})


def test_a_default_of_one_model_alone() -> None:
    one, other = parsed(_BASE), parsed(_BASE)
    other.graph.inputs[0].const_value = onnx_ir.tensor(np.zeros(2, np.float32))
    text = "the input x has a default in only one model"
    assert interfaces(one, other).differences == (text,)
    assert interfaces(other, one).differences == (text,)
    assert interfaces(other, other).differences == ()


def test_an_undeclared_type_or_shape() -> None:
    one, other = parsed(_BASE), parsed(_BASE)
    other.graph.inputs[0].type = None
    assert interfaces(one, other).differences == ("the input x is float[2] and ?",)
    other = parsed(_BASE)
    other.graph.outputs[0].type = None
    assert interfaces(one, other) == interfaces(one, one)
    other = parsed(_BASE)
    other.graph.outputs[0].shape = None
    assert dict(interfaces(one, other).outputs) == {"y": "the output y is float[2] and float"}
    assert interfaces(other, one) == interfaces(one, one)
    other.graph.inputs[0].shape = None
    assert interfaces(one, other).differences == ("the input x is float[2] and float",)
    assert interfaces(other, one).differences == ("the input x is float and float[2]",)


@pytest.mark.parametrize(
    ("one", "other", "through"),
    [("float", "float16", "narrower"), ("float16", "float", "wider"), ("float8e4m3fn", "uint8", "code")],
)
@pytest.mark.parametrize("accept", ["x", "all", "other"])
def test_types_that_are_accepted(one: str, other: str, through: str, accept: str) -> None:
    models = [parsed(f"g ({each}[2] x) => (float[2] y) {{ y = Cast <to = 1> (x) }}") for each in (one, other)]
    found = interfaces(models[0], models[1], (accept,))
    if accept == "other":
        assert found.differences == (f"the input x is {one}[2] and {other}[2]",)
        return
    assert found.differences == ()
    assert found.recoded["x"].through == through
    assert interfaces(models[0], models[0], (accept,)).recoded == {}
    for shape, port in (("3", "input"), ("2, 1", "input"), ("3", "output")):
        own, other_type = (
            f"g ({each[0]} x) => ({each[1]} y) {{ y = Cast <to = 1> (x) }}"
            for each in (
                (f"{one}[2]", f"{one}[2]"),
                (f"{other}[{shape if port == 'input' else 2}]", f"{other}[{shape if port == 'output' else 2}]"),
            )
        )
        found = interfaces(parsed(own), parsed(other_type), ("all",))
        name = "x" if port == "input" else "y"
        text = f"the {port} {name} is {one}[2] and {other}[{shape}]"
        assert (found.differences, dict(found.outputs)) == (((text,), {}) if port == "input" else ((), {"y": text}))
        assert set(found.recoded) == {"x", "y"} - {name}


_THROUGH: list[tuple[str, str, str | None]] = [
    ("float8e4m3fn", "uint8", "code"), ("float16", "uint16", "code"), ("float", "uint32", "code"),
    ("double", "uint64", "code"), ("float4e2m1", "uint8", "code"), ("int4", "uint8", "code"), ("int2", "uint8", "code"),
    ("uint4", "uint8", "wider"), ("int4", "int8", "wider"), ("int16", "int32", "wider"), ("bool", "float", "wider"),
    ("uint8", "int16", "wider"), ("uint8", "float16", "wider"), ("float", "bool", "narrower"),
    ("int32", "int16", "narrower"), ("float", "int8", "narrower"), ("uint8", "uint4", "narrower"),
    ("int8", "uint8", None), ("uint8", "int8", None), ("int64", "float", None), ("float", "int32", None),
    ("float16", "bfloat16", None), ("float8e4m3fn", "uint16", None), ("float", "string", None),
    ("float8e4m3fn", "float8e8m0", None), ("float8e4m3fn", "bool", "narrower"), ("int4", "bool", "narrower"),
    ("bool", "uint8", "wider"), ("int4", "uint16", None), ("float4e2m1", "uint4", None), ("int2", "int4", "wider"),
    ("string", "string", None), ("complex64", "float", None), ("float", "int64", None),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "through"), _THROUGH)
def test_how_a_type_holds_the_values_of_another(one: str, other: str, through: str | None) -> None:
    types = parse_type(one), parse_type(other)
    found = _recoding(*types)
    assert found == (None if through is None else Recoding(*types, through))


def test_types_that_are_not_known_hold_nothing() -> None:
    for pair in ((None, DataType.FLOAT), (DataType.FLOAT, None), (DataType.UNDEFINED, DataType.FLOAT), (None, None)):
        assert _recoding(*pair) is None
        assert _recoding(*pair[::-1]) is None


def test_the_text_of_an_element() -> None:
    rows = [
        (np.array([1.5], np.float32), "1.5 (0x3fc00000)"), (np.array([-0.0], np.float16), "-0.0 (0x8000)"),
        (np.array([np.nan]), "nan (0x7ff8000000000000)"), (np.array([3], np.int8), "3"), (np.array([True]), "True"),
        (np.array(["a"], object), "'a'"), (np.array([1 + 2j]), "(1+2j)"),
        (cast(np.array([2.5]), DataType.FLOAT8E4M3FN), "2.5 (0x42)"),
    ]  # fmt: skip
    assert [element_text(array, (0,)) for array, _ in rows] == [text for _, text in rows]


def test_a_recoding_makes_arrays_comparable() -> None:
    wide, half = np.array([1, 0.1], np.float32), np.array([1, 0.1], np.float16)
    narrower = Recoding(DataType.FLOAT, DataType.FLOAT16, "narrower")
    assert (narrower.to_b(wide).dtype, narrower.to_b(wide).tolist()) == (np.float16, half.tolist())
    a, b = narrower.pair(wide, half)
    assert (a.dtype, b.dtype, b[1]) == (np.float32, np.float32, np.float32(np.float16(0.1)))
    assert a is wide
    wider = Recoding(DataType.FLOAT16, DataType.FLOAT, "wider")
    a, b = wider.pair(half, wide)
    assert (a.dtype, b is wide) == (np.float32, True)
    codes = Recoding(DataType.FLOAT8E4M3FN, DataType.UINT8, "code")
    numbers = cast(np.array([1.0, -2.0]), DataType.FLOAT8E4M3FN)
    assert codes.to_b(numbers).tolist() == [0x38, 0xC0]
    a, b = codes.pair(numbers, np.array([0x38, 0xC0], np.uint8))
    assert (a.dtype, b.dtype, (a == b).all()) == (numbers.dtype, numbers.dtype, True)
    for one, other in ((half, half), (wide, wide)):
        assert [x is y for x, y in zip(narrower.pair(one, other), (one, other), strict=True)] == [True, True]


def tensor(*numbers: float, undefined: list[bool] | None = None) -> Tensor:
    return Tensor(np.array(numbers, np.float32), None if undefined is None else np.array(undefined))


@pytest.mark.parametrize(
    ("a", "b", "expected", "elements", "numbers"),
    [
        (tensor(1, 2), tensor(1, 2), None, 2, 2),
        (tensor(1, np.nan), tensor(1, np.nan), None, 2, 1),
        ([tensor(1), tensor(2)], [tensor(1), tensor(2)], None, 2, 2),
        ([], [], None, 1, 1),
        (None, None, None, 1, 1),
        ([[]], [[]], None, 1, 1),
        ([tensor(1)], [tensor(1), tensor(1)], ((), "a sequence of 1", "a sequence of 2", 1, 1), 0, 0),
        (tensor(1), None, ((), "float[1]", "nothing", 1, 1), 0, 0),
        (None, [], ((), "nothing", "a sequence of 0", 1, 1), 0, 0),
        ([], None, ((), "a sequence of 0", "nothing", 1, 1), 0, 0),
        ([tensor(1)], tensor(1), ((), "a sequence of 1", "float[1]", 1, 1), 0, 0),
        (tensor(1), [tensor(1)], ((), "float[1]", "a sequence of 1", 1, 1), 0, 0),
        (None, tensor(1), ((), "nothing", "float[1]", 1, 1), 0, 0),
        ([tensor(1), []], [tensor(2), []], ((0, 0), "1.0 (0x3f800000)", "2.0 (0x40000000)", 1, 1), 1, 1),
        ([tensor(1), []], [tensor(1), [None]], ((1,), "a sequence of 0", "a sequence of 1", 1, 1), 1, 1),
        ([tensor(1), tensor(2, 3)], [tensor(1), tensor(2, 4)],
         ((1, 1), "3.0 (0x40400000)", "4.0 (0x40800000)", 1, 2), 3, 3),
        (tensor(1, 2, undefined=[True, False]), tensor(5, 2), None, 2, 1),
    ],
)  # fmt: skip
def test_contents_are_compared(a: Any, b: Any, expected: Any, elements: int, numbers: int) -> None:
    count = Count()
    found = compare(a, b, count, None, nan_bits=False)
    assert found == (None if expected is None else Difference(*expected))
    assert (count.elements, count.numbers) == (elements, numbers)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (np.zeros(2, np.float32), np.zeros(2, np.float32), True),
        (np.zeros(2, np.float32), np.zeros(3, np.float32), None),
        (np.zeros(2, np.float32), np.zeros(2, np.float16), False),
        (np.zeros(2, np.int8), np.zeros(2, np.uint16), False),
        (np.zeros(2, np.int8), np.zeros(2, np.float16), None),
        (np.zeros(2, np.int64), np.zeros(2, np.int8), None),
        (np.zeros(2, np.bool_), np.zeros(2, np.int8), None),
    ],
)
def test_arrays_of_other_types(a: Any, b: Any, same: bool | None) -> None:
    found = on_common_ground(a, b)
    if same is None:
        assert found is None
    else:
        assert found is not None
        assert [each.dtype for each in found] == ([a.dtype, b.dtype] if same else [np.float64, np.float64])


def count(elements: int, left_out: int = 0) -> Count:
    made = Count()
    made.elements, made.left_out = elements, left_out
    return made


def test_the_sentence_of_a_verdict() -> None:
    verdict = Verdict("onnxruntime", runs=["a", "b"], outputs={"y": count(6, 2), "z": count(4)})
    basis = "8 of 10 elements of outputs compared"
    assert (verdict.elements, verdict.undefined, verdict.compared) == (10, 2, 8)
    assert verdict.summary() == f"match on 2 sets of inputs: {basis}"
    assert (bool(verdict), verdict.equal, verdict.same, verdict.different, verdict.inconclusive) == (
        True, True, True, False, False,
    )  # fmt: skip
    verdict.proven = {"y": "how"}
    assert verdict.summary() == f"match on 2 sets of inputs: {basis}; 1 of 2 outputs proven for all inputs"
    verdict.proven = {"y": "how", "z": "how"}
    assert verdict.summary() == f"equal, proven for all inputs; {basis}, on 2 sets of inputs"
    verdict.unsure = ["the first reason", "another"]
    assert (
        verdict.summary()
        == f"inconclusive: the first reason; {basis}, on 2 sets of inputs; 2 of 2 outputs proven for all inputs"
    )
    assert (bool(verdict), verdict.equal, verdict.different, verdict.inconclusive) == (False, False, False, True)
    verdict.interface = ["the names differ", "more"]
    assert verdict.summary() == "different: the names differ"
    assert (verdict.different, verdict.inconclusive, verdict.outcome) == (True, False, "different")
    assert repr(verdict) == "<Verdict: different: the names differ>"


def test_the_sentence_of_a_verdict_of_one_output_or_set() -> None:
    verdict = Verdict("onnxruntime", runs=["a"], outputs={"y": count(1)}, proven={"y": "how"}, unsure=["why"])
    basis = "1 of 1 elements of outputs compared, on 1 set of inputs"
    assert verdict.summary() == f"inconclusive: why; {basis}; 1 of 1 output proven for all inputs"
    verdict.proven = {}
    assert verdict.summary() == f"inconclusive: why; {basis}"
    verdict.runs, verdict.unsure = ["a", "b"], []
    assert verdict.summary() == "match on 2 sets of inputs: 1 of 1 elements of outputs compared"
    verdict.tolerances = {"y": Tolerance(0.5), "z": Tolerance(0.5)}
    assert verdict.summary().startswith("match within rtol 0.5, atol 0 on 2 sets of inputs: ")
    verdict.tolerances = {"y": Tolerance(0.5), "z": Tolerance(0.25)}
    assert verdict.summary().startswith("match within the tolerances on 2 sets of inputs: ")
    verdict.proven, verdict.runs, verdict.tolerances = {"y": "how"}, [], {}
    assert verdict.summary() == "equal, proven for all inputs by certificate"
    verdict.proven = {}
    assert verdict.summary() == "match on 0 sets of inputs: 1 of 1 elements of outputs compared"


_ROWS, _OTHER = (np.array([[1, 2], last], np.float32) for last in ([3, 4], [4, 5]))
_DIFFERENCES: list[tuple[Any, Any, Any, dict[str, Any], Any]] = [
    (_ROWS, _ROWS.copy(), None, {}, None),
    (_ROWS, _OTHER.astype(np.float64), None, {}, ((), "float[2, 2]", "double[2, 2]", 4, 4)),
    (_ROWS, _OTHER, None, {}, ((1, 0), "3.0 (0x40400000)", "4.0 (0x40800000)", 2, 4)),
    (_ROWS, _OTHER, [[0, 0], [1, 0]], {}, ((1, 1), "4.0 (0x40800000)", "5.0 (0x40a00000)", 1, 4)),
    (_ROWS, _OTHER, [[0, 0], [1, 1]], {}, None),
    (_ROWS, _OTHER, None, {"tolerance": Tolerance(0.3)}, ((1, 0), "3.0", "4.0", 1, 4)),
    (_ROWS, _OTHER, None, {"tolerance": Tolerance(0, 1)}, None),
    (_ROWS, _ROWS.reshape(4), None, {}, ((), "float[2, 2]", "float[4]", 4, 4)),
    (_ROWS, _ROWS.reshape(4), None, {"tolerance": Tolerance(1, 1)}, ((), "float[2, 2]", "float[4]", 4, 4)),
    (np.array(0.0), np.array(-0.0), None, {}, ((), "0.0 (0x0000000000000000)", "-0.0 (0x8000000000000000)", 1, 1)),
    (np.array(0.0), np.array(-0.0), None, {"tolerance": Tolerance(0, 1e-9)}, None),
    (np.array([np.nan]), np.array([-np.nan]), None, {}, None),
    (np.array([np.nan]), np.array([-np.nan]), None, {"nan_bits": True}, ((0,), "nan (0x7ff8000000000000)", "nan (0xfff8000000000000)", 1, 1)),
    (np.array([np.nan]), np.array([1.0]), None, {}, ((0,), "nan (0x7ff8000000000000)", "1.0 (0x3ff0000000000000)", 1, 1)),
    (np.array([1 + 1j, 2 + 2j]), np.array([1 + 1j, 2 + 3j]), None, {}, ((1,), "(2+2j)", "(2+3j)", 1, 2)),
    (np.array([[1 + 1j], [2 + 2j]], np.complex64), np.array([[2 + 1j], [2 + 2j]], np.complex64), None, {}, ((0, 0), "(1+1j)", "(2+1j)", 1, 2)),
    (np.array([complex(np.nan, 1)]), np.array([complex(1, np.nan)]), None, {}, None),
    (np.array(["a", "b"], object), np.array(["a", "c"], object), None, {}, ((1,), "'b'", "'c'", 1, 2)),
    (np.array(["a", "b"], object), np.array(["a", "c"], object), None, {"tolerance": Tolerance(9, 9)}, ((1,), "b", "c", 1, 2)),
    (np.array([True, False]), np.array([True, True]), None, {"tolerance": Tolerance(9, 9)}, ((1,), "False", "True", 1, 2)),
    (np.zeros(0), np.zeros(0), None, {}, None),
]  # fmt: skip


def test_the_first_difference() -> None:
    def require(a: Any, b: Any, open_in_a: Any, options: dict[str, Any], expected: Any) -> None:
        mask = None if open_in_a is None else np.array(open_in_a, np.bool_)
        assert difference(a, b, mask, **options) == (None if expected is None else Difference(*expected))

    check_all(require, _DIFFERENCES)


def test_how_far_results_are_apart() -> None:
    """Where the first is defined; of another type or shape infinitely, and the largest of all results."""
    one, two = np.array([4, 1], np.float32), np.array([3, 3], np.float32)
    rows: list[tuple[Any, Any, Any, tuple[float, float]]] = [
        (one, one, None, (0.0, 0.0)),
        (one, two, None, (2.0, 2.0)),
        (one, two, np.array([False, True]), (1.0, 0.25)),
        (one, two, np.array([True, True]), (0.0, 0.0)),
        (one, two.astype(np.float64), None, (np.inf, np.inf)),
        (one, two[:1], None, (np.inf, np.inf)),
        (one, two.reshape(1, 2), None, (np.inf, np.inf)),
    ]
    for a, b, mask, expected in rows:
        measured = Count()
        measured.measure(a, b, mask)
        assert (measured.absolute, measured.relative) == expected
    ways: list[tuple[dict[str, Any], float]] = [
        ({}, 0.0),
        ({"measured": True}, 2.0),
        ({"tolerance": Tolerance(5)}, 2.0),
    ]
    for options, apart in ways:
        measured = Count()
        compare([Tensor(one)], [Tensor(two)], measured, None, False, **options)
        assert (measured.absolute, measured.relative) == (apart, apart)
    measured = Count(absolute=1.5, relative=9.0)
    measured.measure(one, two, None)
    assert (measured.absolute, measured.relative) == (2.0, 9.0)


def test_elements_are_counted() -> None:
    """Those that are undefined in both count once; of another shape, those of the first."""
    both = tensor(1, np.nan, 3, undefined=[True, False, False])
    rows: list[tuple[Tensor, Tensor, tuple[int, int, int, int]]] = [
        (tensor(1, 2), tensor(1, 2), (2, 0, 0, 2)),
        (both, tensor(1, 2, 3), (3, 1, 0, 1)),
        (both, both, (3, 1, 0, 1)),
        (both, tensor(1, 2, 3, undefined=[True, True, False]), (3, 1, 1, 1)),
        (tensor(1, 2), tensor(1, undefined=[True]), (2, 0, 0, 2)),
        (Tensor(np.array([1, 2])), tensor(1, 2, undefined=[True, True]), (2, 0, 2, 2)),
        (Tensor(np.array([complex(np.nan, 1), 2])), tensor(1, 2), (2, 0, 0, 1)),
        (Tensor(np.array(["a", "b"], object)), tensor(1, 2), (2, 0, 0, 2)),
    ]
    for a, b, expected in rows:
        counted = Count()
        counted.add(a, b)
        assert (counted.elements, counted.left_out, counted.open_in_b, counted.numbers) == expected


def test_a_notebook_shows_the_outputs_and_the_remarks() -> None:
    verdict = Verdict("onnxruntime", outputs={"y": count(6, 2), "z": count(4)}, proven={"z": "how"})
    verdict.unsure, verdict.not_reached, verdict.runtime, verdict.notes = ["u1"], ["r1"], ["t1"], ["n1"]
    html = verdict._repr_html_()  # pyright: ignore[reportPrivateUsage]
    cells = [part.split("<")[0] for part in html.split("<td>")[1:]]
    assert cells == ["y", "tested", "4", "2", "z", "proven", "4", "0"]
    verdict.interface, verdict.advice = ["i1"], ["a1"]
    html = verdict._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert sorted(("i1", "u1", "a1", "r1", "t1", "n1"), key=html.index) == ["i1", "u1", "a1", "r1", "t1", "n1"]
    assert [html.index(text) for text in ("u1", "r1", "t1", "n1")] == sorted(
        html.index(text) for text in ("u1", "r1", "t1", "n1")
    )


def test_the_sentence_of_a_difference() -> None:
    placed = Difference((1, 2), "1.0", "2.0", 1, 6)
    plain = Difference((), "1.0", "2.0", 1, 1)
    failed = Difference((), "", "does not run: why", 1, 1)
    for value, found, text, raised in (
        ("y", placed, "y[1, 2] is 1.0 and 2.0 on inputs mild 1", "y[1, 2] (g) is 2.0 and was 1.0 on inputs mild 1"),
        ("y", plain, "y is 1.0 and 2.0 on inputs mild 1", "y (g) is 2.0 and was 1.0 on inputs mild 1"),
        (
            "",
            failed,
            "on inputs mild 1 the second model does not run: why",
            "on inputs mild 1 the model does not run: why",
        ),
    ):
        verdict = Verdict("e", mismatch=Mismatch("mild 1", value, Site("g"), (None, None), found))
        assert verdict.summary() == f"different: {text}"
        with pytest.raises(VerificationError) as error:
            require_no_difference(verdict, "writing")
        assert str(error.value) == f"verification failed: after writing, {raised}."
    for same in (Verdict("e"), Verdict("e", unsure=["why"])):
        assert require_no_difference(same, "writing") is same
    with pytest.raises(VerificationError, match=r"^verification failed: after writing, the names differ\.$"):
        require_no_difference(Verdict("e", interface=["the names differ", "more"]), "writing")


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        ("N", 5), ("N + 1", 6), ("N - M", 2), ("M - N", 0), ("N * M", 15), ("N // 2", 2), ("N / 2", None),
        ("-N + 9", 4), ("max(N, M)", 5), ("Min(N, M)", 3), ("floor(N / 2)", 2), ("7", 7), ("N / 0", None),
        ("N +", None), ("f()", None), ("'a'", None), ("a.b", None), ("batch", None), ("K + 1", "K"),
    ],
)  # fmt: skip
def test_sizes_of_symbolic_dimensions(dim: str, expected: Any) -> None:
    with warnings.catch_warnings(action="ignore"):
        found = sized(dim, {"N": 5, "M": 3})
        unknown = sized("?", {})
    assert found == (unknown if expected is None else unknown + 1 if expected == "K" else expected)


def test_default_sizes_of_dimensions() -> None:
    def inputs(*shapes: str) -> list[onnx_ir.Value]:
        names = ", ".join(f"float[{shape}] x{index}" for index, shape in enumerate(shapes))
        return list(parsed(f"g ({names}) => (float y) {{ y = Neg (x0) }}").graph.inputs)

    alone, row = (default_sizes(inputs(shape))["N"] for shape in ("N", "N,2"))
    among = default_sizes(inputs("N,M"))["N"]
    assert len({alone, row, among}) == 3
    assert default_sizes(inputs("N,2,3")) == {"N": among}
    assert default_sizes(inputs("N", "N,M")) == {"N": min(alone, among), "M": among}
    batch = default_sizes(inputs("batch,2"))["batch"]
    assert batch not in (alone, row, among)
    assert default_sizes(inputs("batch")) == {"batch": alone}
