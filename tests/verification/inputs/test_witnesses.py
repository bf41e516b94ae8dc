"""Inputs that tell casts apart: found for every two chains that differ, and fed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import critical_values, every_value
from castsmith.numerics.types import NUMERIC_TYPES, Kind, element_type, type_name
from castsmith.verification.checker import Conversion, Term, Terms
from castsmith.verification.inputs.witnesses import (
    _compared,  # pyright: ignore[reportPrivateUsage]
    _domain,  # pyright: ignore[reportPrivateUsage]
    _elements,  # pyright: ignore[reportPrivateUsage]
    _grid,  # pyright: ignore[reportPrivateUsage]
    _ordered,  # pyright: ignore[reportPrivateUsage]
    _parts,  # pyright: ignore[reportPrivateUsage]
    _texts,  # pyright: ignore[reportPrivateUsage]
    _turns,  # pyright: ignore[reportPrivateUsage]
    differing,
    neighbours,
    witnesses,
)
from castsmith.verification.prove.functions import source_of_type
from tests.sampling import check_all, sampled, shortened

TYPES = (*NUMERIC_TYPES, DataType.STRING)
"""Those that Cast converts."""

Chain = tuple[DataType, ...]
Settings = tuple[bool, str]
SETTINGS: tuple[Settings, ...] = ((True, "up"), (False, "up"), (True, "down"), (True, "nearest"))


TERMS = Terms(0)


def function(source: DataType, chain: Chain, settings: Settings) -> Term:
    """Return casts in a row, none of them left out, as a function of one element."""
    term, (saturate, mode) = source_of_type(TERMS, int(source)), settings
    for to in chain:
        how = {"to": int(to), "saturate": int(saturate), "round_mode": mode.encode()}
        attrs = {"how": Conversion(int(to), saturate)} if mode == "up" else how
        term = TERMS.term("Cast", [term], attrs, (int(to), ()))
    return term


def elements(source: DataType) -> Any:
    """Every element of a type of at most 16 bits; of another, random ones and those that are critical for any type."""
    row, rng = element_type(source), np.random.default_rng(0)
    if row.kind is Kind.BOOLEAN:
        return np.array([False, True])
    if row.kind is Kind.STRING:
        numbers = np.concatenate([np.arange(-300, 300) / 8, 2.0 ** np.arange(-30, 60), 2.0 ** np.arange(60) + 1])
        return np.concatenate([cast(numbers, source), np.array(["nan", "inf", "1e3", "65519", "16777217"], object)])
    if row.bits <= 16:
        return every_value(source)
    codes = rng.integers(0, 1 << row.bits, 1 << 12, dtype=f"u{row.bits // 8}")
    small = codes >> rng.integers(0, row.bits, len(codes), dtype=codes.dtype)
    near = rng.choice([-1, 1], 1 << 12) * np.exp2(rng.uniform(-30, 30, 1 << 12))
    random = [codes.view(source.numpy()), small.view(source.numpy())]
    random += [near.astype(source.numpy())] if row.kind is Kind.FLOATING else []
    return np.concatenate([*random, *(critical_values(source, to) for to in NUMERIC_TYPES)])


def telling(source: DataType, ours: Chain, theirs: Chain, settings: Settings) -> None:
    """Where any element tells two chains apart, one of the witnesses does."""
    pair = function(source, ours, settings), function(source, theirs, settings)
    expected = differing(TERMS, *pair, elements(source))
    fed = witnesses(TERMS, *pair, source)
    assert expected is not None
    assert fed is not None
    assert bool(len(fed)) >= bool(expected.any())
    told = differing(TERMS, *pair, fed)
    assert told is not None
    assert told.all()


_TRIPLES = [
    (source, (first, last), (last,), settings)
    for settings in SETTINGS
    for source, first, last in itertools.product(TYPES, repeat=3)
]


def test_every_cast_that_another_one_precedes() -> None:
    check_all(telling, sampled("casts in a row, and the last of them alone", _TRIPLES, 40))


def test_longer_chains() -> None:
    rng, cases = np.random.default_rng(0), list[Any]()
    for _ in range(shortened("chains of casts", 2000, 20)):
        chain = tuple(TYPES[at] for at in rng.integers(0, len(TYPES), rng.integers(4, 7)))
        settings = SETTINGS[rng.integers(0, len(SETTINGS))]
        without = rng.integers(1, len(chain) - 1)
        pair = chain[1:], chain[1:without] + chain[without + 1 :]
        cases.append((chain[0], *(pair if rng.integers(0, 2) else pair[::-1]), settings))
    check_all(telling, cases)


def model(source: str, to: str, body: str, shape: str = "6", more: str = "", opset: int = 25) -> onnx.ModelProto:
    shape = shape and f"[{shape}]"
    head = f'<ir_version: 13, opset_import: ["" : {opset}, "f" : 1]>'
    return onnx.parser.parse_model(f"{head} g ({source}{shape} x) => ({to}{shape} y) {{ {body} }} {more}")


_CASTS = [
    # the cast that is left out of a chain, by ordinary numbers
    ("int32", "float16", "int64"), ("int32", "bfloat16", "float8e4m3fn"), ("int64", "bfloat16", "float16"),
    ("int64", "float", "bfloat16"), ("uint64", "double", "float"), ("uint32", "float", "bfloat16"),
    ("float", "bfloat16", "int8"), ("double", "bfloat16", "int8"), ("float16", "bfloat16", "float8e8m0"),
    ("double", "float", "float16"), ("string", "float", "int64"), ("string", "bfloat16", "int8"),
]  # fmt: skip


def number(name: str) -> int:
    return int(DataType[name.upper()])


@pytest.mark.parametrize("shape", ["6", "", "1", "N", "2, 70"])
def test_chains_that_differ_are_not_called_equal(shape: str) -> None:
    def check(source: str, first: str, last: str) -> None:
        through = f"c = Cast <to = {number(first)}> (x) y = Cast <to = {number(last)}> (c)"
        direct = model(source, last, f"y = Cast <to = {number(last)}> (x)", shape)
        assert castsmith.verify(model(source, last, through, shape), direct).different

    check_all(check, sampled(f"chains that differ {shape}", _CASTS, 4))


_ROUNDED = "h = Cast <to = 16> ({}) {} = Cast <to = 1> (h)"
_PLACES = {
    "moved": ("t = Transpose (x) u = Cast <to = 1> (t) {}", "y = Cast <to = 3> ({})", "int8", "2, 3"),
    "halved": ("k = Constant <value_float = 0.5> () u = Mul (x, k) {}", "y = Cast <to = 3> ({})", "int8", "6"),
    "clipped": ("u = Relu (x) {}", "z = Constant <value_float = 6.0> () m = Min ({}, z) y = Cast <to = 3> (m)", "int8",
                "6"),
    "compared": ("u = Identity (x) {}", "z = Constant <value_float = 41.2> () y = Greater ({}, z)", "bool", "6"),
    "cut": ("""s = Constant <value_ints = [3]> () e = Constant <value_ints = [4]> () u = Slice (x, s, e) {}""",
            "w = Cast <to = 3> ({}) v = Expand (w, n) y = Identity (v)", "int8", "6"),
    "called": ("u = f.h (x) {}", "y = Cast <to = 3> ({})", "int8", "6"),
    "beside others": ("u = Neg (x) {}", "w = Cast <to = 6> ({}) a = Cast <to = 6> (x) y = Add (a, w)", "int32", "6"),
}  # fmt: skip


@pytest.mark.parametrize("name", _PLACES)
def test_a_rounding_within_a_model_is_found(name: str) -> None:
    before, after, to, shape = _PLACES[name]
    more = '<domain: "f", opset_import: ["" : 25]> h (p) => (q) { q = Abs (p) }'
    before = before.replace("{}", "n = Shape (x) {}") if "Expand" in after else before
    pair = [
        model(
            "float", to, f"{before.format(rounded)} {after.format(value)}".replace("[2, 3] y", "[3, 2] y"), shape, more
        )
        for rounded, value in ((_ROUNDED.format("u", "r"), "r"), ("", "u"))
    ]
    for each in pair:
        del each.graph.output[0].type.tensor_type.shape.dim[:]
        each.graph.output[0].type.tensor_type.ClearField("shape")
    assert castsmith.verify(*pair).different


def test_a_difference_that_no_input_reaches_is_not_equality() -> None:
    """Of a sum of products a few elements are fed, and none of them is within 2**-9 of an integer."""
    body = "k = Constant <value = float[2, 1] {{0.9, 0.3}}> () m = MatMul (x, k) {} y = Cast <to = 3> ({})"
    pair = [
        onnx.parser.parse_model(
            '<ir_version: 13, opset_import: ["" : 25]> g (float[1, 2] x) => (int8[1, 1] y) {' + body.format(*each) + "}"
        )
        for each in ((_ROUNDED.format("m", "r"), "r"), ("", "m"))
    ]
    given = [{"x": np.array([[a, b]], np.float32)} for a, b in ((1, 1), (2, 3))]
    verdict = castsmith.verify(*pair, inputs=given)
    assert verdict.inconclusive
    assert verdict.unsure[0].startswith("no input gave g: y (Cast) an element for which the models differ, such as ")


def test_types_that_have_no_numbers() -> None:
    for dtype in (DataType.COMPLEX64, DataType.COMPLEX128):
        source = source_of_type(TERMS, int(dtype))
        negated = TERMS.term("Neg", [source], {"@": 13}, (int(dtype), ()))
        assert witnesses(TERMS, source, negated, dtype) is None, type_name(dtype)


def test_a_cast_to_the_type_of_a_value_whose_type_is_unknown() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "custom" : 1]> g (float[2] x) => (y) {{
        s = {} (x)
        y = CastLike (x, s)
    }}"""
    ours, theirs = (onnx.parser.parse_model(text.format(name)) for name in ("custom.A", "custom.B"))
    assert castsmith.verify(ours, theirs).inconclusive


_ORDERED: list[tuple[DataType, list[float]]] = [
    (DataType.INT32, [-(2**31), -1, 0, 1, 2**31 - 1]),
    (DataType.UINT64, [0, 1, 2**63, 2**64 - 1]),
    (DataType.FLOAT, [-math.inf, -1.5, -(2.0**-149), -0.0, 0.0, 2.0**-149, 1.5, math.inf]),
    (DataType.DOUBLE, [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf]),
]


@pytest.mark.parametrize(("dtype", "numbers"), _ORDERED, ids=str)
def test_the_order_of_the_elements_of_a_type(dtype: DataType, numbers: list[float]) -> None:
    array = np.array(numbers, dtype.numpy())
    places = _ordered(array)
    assert [int(b) > int(a) for a, b in itertools.pairwise(places)] == [True] * (len(numbers) - 1)
    assert _elements(places, dtype).tobytes() == array.tobytes()
    grid = _grid(dtype)
    assert (grid[0], grid[-1]) == (array[0], array[-1])
    assert (np.diff(_ordered(grid).astype(object)) > 0).all()
    whole = [*range(-64 if numbers[0] < 0 else 0, 65)]
    assert {*np.array(whole, dtype.numpy()).tolist()} <= {*grid.tolist()}
    assert 1024 <= len(grid) <= 1024 + len(whole)
    steps = np.diff(np.array([int(place) for place in _ordered(grid)], object))
    assert max(steps) <= (int(places[-1]) - int(places[0])) // 1023 + 1


def test_an_element_and_those_beside_it() -> None:
    one, least = np.float32(1), np.float32(2.0**-149)
    near = {float(np.nextafter(one, to)) for to in (0, 2)} | {1.0}
    assert {*neighbours(np.array([1], np.float32)).tolist()} == near
    assert {*neighbours(np.array([least])).tolist()} == {float(least), 0.0, 2 * float(least)}
    assert {*neighbours(np.array([np.nan, 0], np.float32)).tolist()} == {0.0, float(least)}
    assert sorted(neighbours(np.array([-128, 127, 3], np.int8)).tolist()) == [-128, -127, 2, 3, 4, 126, 127]
    texts = np.array(["a"], object)
    assert neighbours(texts) is texts


def test_witnesses_are_spread_out_and_the_small_ones_come_first() -> None:
    ours, theirs = (function(DataType.FLOAT, chain, (True, "up")) for chain in ((DataType.INT8,), (DataType.INT16,)))
    back = [TERMS.term("Cast", [term], {"how": Conversion(7)}, (7, ())) for term in (ours, theirs)]
    fed = witnesses(TERMS, back[0], back[1], DataType.FLOAT)
    assert fed is not None
    assert len(fed) == 0  # where int8 is defined they are the same
    rounded = function(DataType.FLOAT, (DataType.FLOAT16, DataType.FLOAT), (True, "up"))
    fed = witnesses(TERMS, source_of_type(TERMS, 1), rounded, DataType.FLOAT)
    assert fed is not None
    assert len(fed) == 6
    assert (np.diff(np.abs(fed.astype(np.float64))) >= 0).all()
    assert {bool(number < 0) for number in fed} == {True, False}
    assert {1e-6 < abs(float(number)) < 65504 for number in fed} == {True, False}


def test_texts_that_tell_casts_apart_come_by_their_length() -> None:
    ours, theirs = (function(DataType.STRING, chain, (True, "up")) for chain in ((DataType.FLOAT,), (DataType.DOUBLE,)))
    theirs = TERMS.term("Cast", [theirs], {"how": Conversion(1)}, (1, ()))
    back = TERMS.term(
        "Cast", [TERMS.term("Cast", [ours], {"how": Conversion(10)}, (10, ()))], {"how": Conversion(1)}, (1, ())
    )
    fed = witnesses(TERMS, theirs, back, DataType.STRING)
    assert fed is not None
    assert len(fed) > 1
    assert [*map(len, fed)] == sorted(map(len, fed))


def test_where_only_the_second_is_undefined() -> None:
    """300 has an int16 and no int8, and NaN has neither."""
    fed = np.array([1, 300, np.nan], np.float32)
    ours = function(DataType.FLOAT, (DataType.INT16,), (True, "up"))
    theirs = function(DataType.FLOAT, (DataType.INT8, DataType.INT16), (True, "up"))
    for pair, expected in (((ours, theirs), [False, True, False]), ((theirs, ours), [False] * 3)):
        masks = _compared(TERMS, *pair, fed, nan_bits=False)
        assert masks is not None
        assert masks[1].tolist() == expected
    assert _compared(TERMS, ours, source_of_type(TERMS, 1), fed, nan_bits=False) is None  # of two types


@pytest.mark.parametrize("nan_bits", [True, False])
def test_the_bits_of_a_nan_count_on_request(nan_bits: bool) -> None:
    source = source_of_type(TERMS, 1)
    negated = TERMS.term("Neg", [source], {"@": 13}, (1, ()))
    found = differing(TERMS, source, negated, np.array([np.nan, 1], np.float32), nan_bits=nan_bits)
    assert found is not None
    assert found.tolist() == [nan_bits, True]


def test_the_elements_that_are_tried() -> None:
    """All of a type of at most 16 bits, and texts of numbers where a function casts them."""
    for dtype, count in ((DataType.FLOAT16, 1 << 16), (DataType.INT8, 1 << 8), (DataType.BOOL, 2)):
        domain = _domain(TERMS, (), dtype)
        assert domain is not None
        assert len(domain) == count
    assert _texts(()).tolist() == ["-0", "-inf", "1e3", "inf", "nan"]
    assert len(_texts([function(DataType.STRING, (DataType.INT8,), (True, "up"))])) > 5


def test_each_part_of_a_function_comes_once() -> None:
    source = source_of_type(TERMS, 1)
    twice = TERMS.term("Add", [source, source, None], {"@": 14}, (1, ()))
    whole = TERMS.term("Mul", [twice, twice], {"@": 14}, (1, ()))
    assert len(list(_parts(whole))) == 3
    assert {*_parts(whole)} == {source, twice, whole}


def test_texts_are_ordered_by_length_and_not_by_number() -> None:
    ours, theirs = (
        function(DataType.STRING, chain, (True, "up"))
        for chain in ((DataType.DOUBLE,), (DataType.FLOAT, DataType.DOUBLE))
    )
    fed = witnesses(TERMS, ours, theirs, DataType.STRING)
    assert fed is not None
    assert [*map(len, fed)] == sorted(map(len, fed))
    sizes = [abs(float(text)) for text in fed]
    assert sizes != sorted(sizes)


def test_the_numbers_at_which_a_comparison_turns() -> None:
    source, three = source_of_type(TERMS, 1), TERMS.constant(np.array(3, np.float32), 1)
    near = {3.0, float(np.nextafter(np.float32(3), 0)), float(np.nextafter(np.float32(3), 4))}
    for args in ([source, three], [three, source]):
        ((operand, numbers, key),) = _turns(TERMS.term("Less", args, {"@": 13}, (9, ())))
        assert (operand, {*numbers.tolist()}, key) == (source, near, three)
    assert list(_turns(TERMS.term("Less", [source, source], {"@": 13}, (9, ())))) == []
    assert list(_turns(TERMS.term("Add", [source, three], {"@": 13}, (1, ())))) == []
