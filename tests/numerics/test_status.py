"""Status of elements in the standard: the schema's sentences, and every narrow float against exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.errors import ElementTypeError
from castsmith.numerics.status import Definedness, Finding, cast_status, judge_cast, status_reason
from castsmith.numerics.types import parse_type
from tests.numerics import oracle
from tests.numerics.samples import samples
from tests.sampling import check_all, sampled

FINE, DISPUTED, UNDEFINED = Definedness.DEFINED, Definedness.DISPUTED, Definedness.UNDEFINED
NAN, INF = np.nan, np.inf


def integer_standing(x: oracle.Number, row: oracle.Int) -> Definedness:
    """'fixed point: undefined if OOR'; below 8 bits also whether truncation and rounding agree."""
    if x.kind != "number":
        return UNDEFINED
    whole, rest = divmod(x.size.numerator, x.size.denominator)
    if not row.low <= (-whole if x.negative else whole) <= row.high:
        return UNDEFINED
    return DISPUTED if row.bits < 8 and 2 * rest >= x.size.denominator else FINE


def standings(source: str, target: str) -> tuple[np.ndarray, tuple[oracle.Number, ...]]:
    if source in oracle.NARROW_TYPES:
        return cast_status(oracle.array_of(source, list(oracle.all_codes(source))), target), oracle.all_numbers(source)
    codes = samples(source, target)
    return cast_status(oracle.array_of(source, codes), target), tuple(oracle.decode(source, code) for code in codes)


FLOATS_TO_INTEGERS = [(source, target) for source in oracle.FLOATS for target in oracle.INTS if target != "bool"]


@pytest.mark.parametrize(
    ("source", "target"), sampled("standing of floats as integers", FLOATS_TO_INTEGERS, 20, cover=enumerate)
)
def test_every_float_to_integer(source: str, target: str) -> None:
    status, numbers = standings(source, target)
    assert status.tolist() == [integer_standing(x, oracle.INTS[target]) for x in numbers]


FIXED = [
    (source, target)
    for source in oracle.TYPES
    for target in oracle.TYPES
    if source == target or not (target == "float8e8m0" or (source in oracle.FLOATS and target in oracle.INTS))
]


def test_pairs_without_corners_are_defined_but_for_nan_where_there_is_none() -> None:
    check_all(require_defined_but_for_nan, [*FIXED, *((source, "bool") for source in oracle.FLOATS)])


def require_defined_but_for_nan(source: str, target: str) -> None:
    codes = [*range(256), *range(0x7C00, 0x7C10), *range(0x7F70, 0x8010), *range(0xFF70, 2**16), 0x7FC00000]
    limit = len(oracle.all_codes(source)) if source in oracle.NARROW_TYPES else 2**32
    codes = [code for code in codes if code < limit]
    lacks_nan = source != target and target in ("float4e2m1", "float6e2m3", "float6e3m2")
    expected = [UNDEFINED if lacks_nan and oracle.decode(source, code).kind == "nan" else FINE for code in codes]
    assert cast_status(oracle.array_of(source, codes), target).tolist() == expected


@pytest.mark.parametrize("target", ["float8e4m3fnuz", "float8e5m2fnuz"])
def test_infinity_to_fnuz_by_opset(target: str) -> None:
    for opset in (19, 20, 21, 23):
        assert cast_status([INF, -INF, NAN, 1e9, 0], target, opset=opset).tolist() == [1, 1, 0, 0, 0]
        assert not cast_status([INF, -INF], target, opset=opset, saturate=False).any()
    assert not cast_status([INF, -INF, NAN], target, opset=24).any()
    assert not cast_status([INF], "float8e4m3fn", opset=19).any()


E8M0 = [1.0, 1.3, 2.0**127, 1.5 * 2.0**127, 1e39, 2.0**-127, 2.0**-128, 0.0, -0.0, -1.0, INF, -INF, NAN]
E8M0_STANDINGS = {
    (True, "up"): [0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 1, 2, 0],
    (True, "down"): [0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 1, 2, 0],
    (True, "nearest"): [0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 1, 2, 0],
    (False, "up"): [0, 0, 0, 1, 1, 0, 1, 1, 2, 2, 1, 2, 0],
    (False, "down"): [0, 0, 0, 1, 1, 0, 1, 1, 2, 2, 1, 2, 0],
    (False, "nearest"): [0, 0, 0, 1, 1, 0, 1, 1, 2, 2, 0, 2, 0],
}


@pytest.mark.parametrize(("saturate", "round_mode"), E8M0_STANDINGS)
def test_corners_of_e8m0(saturate: bool, round_mode: str) -> None:
    status = cast_status(np.array(E8M0), "float8e8m0", saturate=saturate, round_mode=round_mode)
    assert status.tolist() == E8M0_STANDINGS[saturate, round_mode]


def test_a_cast_to_the_same_type_is_defined() -> None:
    """Whatever its elements are: no rule is for it."""
    for name in oracle.NARROW_TYPES:
        array = oracle.array_of(name, list(oracle.all_codes(name)))
        for opset in (23, 28):
            if FIRST_OPSET[parse_type(name)] <= opset:
                assert not cast_status(array, name, opset=opset).any(), name
                assert not cast_status(array, name, opset=opset, saturate=False).any(), name


def test_integers_to_e8m0() -> None:
    assert cast_status(np.array([0, 1, -1, 2**62, -(2**63)]), "float8e8m0").tolist() == [1, 0, 2, 0, 2]
    assert cast_status([False, True], "float8e8m0").tolist() == [1, 0]


def test_text_inherits_the_standing_of_its_number() -> None:
    assert cast_status(["1", "INF", "-INF", "NaN"], "float8e5m2fnuz", opset=21).tolist() == [0, 1, 1, 0]
    assert cast_status(["1", "-1", "0", "x"], "float8e8m0").tolist() == [0, 2, 1, 2]
    assert cast_status(["1", "NaN"], "float4e2m1").tolist() == [0, 2]


TEXTS: dict[str, list[tuple[str, Definedness, str]]] = {
    "string": [("1", FINE, ""), ("x", FINE, "")],
    "bool": [("1", DISPUTED, "the schema has no rule for text to bool"), ("x", UNDEFINED, "the text is not a number")],
    "int8": [
        ("-128", FINE, ""),
        ("+127", FINE, ""),
        ("007", FINE, ""),
        ("128", UNDEFINED, "the number is out of range for int8, which holds -128 to 127"),
        ("+128", UNDEFINED, "the number is out of range for int8, which holds -128 to 127"),
        ("-129", UNDEFINED, "the number is out of range for int8, which holds -128 to 127"),
        ("1e2", UNDEFINED, "the text of a floating-point number has no fixed value in int8"),
        ("1.5", UNDEFINED, "the text of a floating-point number has no fixed value in int8"),
        ("300.5", UNDEFINED, "the text of a floating-point number has no fixed value in int8"),
        ("x", UNDEFINED, "the text is not a number"),
    ],
    "uint64": [
        ("18446744073709551615", FINE, ""),
        (
            "18446744073709551616",
            UNDEFINED,
            "the number is out of range for uint64, which holds 0 to 18446744073709551615",
        ),
        ("1" * 30, UNDEFINED, "the number is out of range for uint64, which holds 0 to 18446744073709551615"),
        ("-1", UNDEFINED, "the number is out of range for uint64, which holds 0 to 18446744073709551615"),
    ],
    "float": [("1e99", FINE, ""), ("x", UNDEFINED, "the text is not a number")],
    "float8e8m0": [("-1", UNDEFINED, "the cast of a negative number to float8e8m0 is unspecified")],
}


def test_each_text_has_its_standing_and_its_reason() -> None:
    for target, cases in TEXTS.items():
        assert cast_status([text for text, _, _ in cases], target).tolist() == [standing for _, standing, _ in cases]
        for text, standing, reason in cases:
            found = status_reason([text], target)
            assert (found.standing, found.reason) == (standing, reason) if found else standing is FINE, (target, text)


def test_the_reason_names_the_first_of_the_worst() -> None:
    finding = status_reason(np.array([[0.5, 3.0], [300.0, NAN]]), "int4")
    assert finding == Finding((1, 0), "300.0", UNDEFINED, "the number is out of range for int4, which holds -8 to 7")
    finding = status_reason([1.0, 0.75], "int4")
    assert finding is not None
    assert (finding.index, finding.value, finding.standing) == ((1,), "0.75", DISPUTED)
    assert "truncation and rounding differ" in finding.reason
    assert status_reason([1.0, 2.0], "int4") is None
    assert status_reason(np.zeros((0, 3)), "int4") is None
    assert status_reason("Hello World!", "float") == Finding(
        (), "'Hello World!'", UNDEFINED, "the text is not a number"
    )
    assert status_reason(np.float32(1), "string") == Finding(
        (), "1.0", DISPUTED, "runtimes print the digits of a number differently"
    )


def test_the_reason_lies_beyond_the_first_chunk_if_it_must() -> None:
    array = np.zeros((3, 100_000), np.float32)
    array[1, 5] = 0.5
    array[2, 99_999] = INF
    array.T[7, 2] = NAN
    finding = status_reason(array, "uint4")
    assert finding is not None
    assert (finding.index, finding.standing) == ((2, 7), UNDEFINED)
    assert finding.reason == "NaN has no value in uint4"
    assert status_reason(array.T, "uint4") == Finding((7, 2), "nan", UNDEFINED, finding.reason)


def test_status_has_the_shape_of_the_array_and_refuses_what_cast_refuses() -> None:
    assert cast_status(np.zeros((2, 0, 3)), "int8").shape == (2, 0, 3)
    assert cast_status(1.0, "int8").shape == ()
    assert cast_status([1.0], "int8").dtype == np.uint8
    with pytest.raises(ElementTypeError, match="needs opset 25 or newer"):
        cast_status([1.0], "int2", opset=24)


def test_spans_cover_what_the_status_does_not_call_defined() -> None:
    array = np.array([[1.0, 300.0, 300.5], [NAN, 0.75, 2.0]])
    spans = judge_cast(array, "int4").spans()
    assert [(span.start, span.stop, span.standing) for span in spans] == [
        (1, 3, UNDEFINED),
        (3, 4, UNDEFINED),
        (4, 5, DISPUTED),
    ]
    assert "NaN" in spans[1].reason
    assert spans[0].reason == "the number is out of range for int4, which holds -8 to 7"
    assert judge_cast([1.0, 2.0], "int4").spans() == []
    assert judge_cast(np.zeros((0,)), "int4").spans() == []
    assert [span.start for span in judge_cast([1.0, 300.0], "float8e4m3fn", saturate=False, opset=21).spans()] == []
    for source in ("float", "float16"):
        numbers = np.array([0.5, -9.0, 7.0, INF, 7.5], parse_type(source).numpy())
        status = cast_status(numbers, "int4")
        spread = np.zeros(len(numbers), np.uint8)
        for span in judge_cast(numbers, "int4").spans():
            spread[span.start : span.stop] = span.standing
        assert spread.tolist() == status.tolist()
