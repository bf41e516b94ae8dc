"""Cast between text and numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.status import Definedness, cast_status
from tests.numerics import oracle
from tests.sampling import shortened

NO_NUMBERS = [
    *("", " ", "Hello World!", "true", "1 ", " 1", "1\n", "1_0", "1,5", "0x10", "nan0", "+NaN", "infinity"),
    *("1e", "e5", "1e5.0", ".", "+", "--1", "\u0661", "\uff11"),
]


TEXTS = shortened("decimal texts for each type", 100, 20)


def encode(text: str, target: str) -> int:
    """The oracle's code of a decimal number."""
    number = oracle.Number(text.startswith("-"), "number", abs(Fraction(text)))
    return oracle.encode(number, target, oracle.Settings(), keep_payload=False)


def codes(array: np.ndarray) -> list[int]:
    return array.view(f"u{array.itemsize}").reshape(-1).tolist()


@pytest.mark.parametrize("target", oracle.FLOATS)
@settings(deadline=None, max_examples=TEXTS)
@given(
    st.from_regex(
        r"\A[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,9})([eE][+-]?[0-9]{1,3})?\Z", alphabet="+-.eE0123456789"
    )
)
def test_decimal_text_is_rounded_once(target: str, text: str) -> None:
    assert codes(cast([text], target)) == [encode(text, target)]


@pytest.mark.parametrize("target", oracle.FLOATS)
def test_text_just_beside_a_tie(target: str) -> None:
    row = oracle.FLOATS[target]
    tie = 1 + Fraction(1, 2 ** (row.mantissa + 1))
    digits = f"{tie.numerator * 10**60 // tie.denominator:061d}"
    plain = f"{digits[0]}.{digits[1:]}"
    texts = [plain, plain + "1", f"-{plain}0000001", f"{plain}e0", f"0.{digits}9e1", f"{plain}{'0' * 4000}1"]
    assert codes(cast(texts, target)) == [encode(text, target) for text in texts]
    longer = "0" * 5000 + plain + "0" * 5000
    assert codes(cast([longer, longer + "1"], target)) == codes(cast(texts[:2], target))


@pytest.mark.parametrize("target", oracle.FLOATS)
def test_text_far_out_of_range(target: str) -> None:
    top = cast(["1e300", "-1e300"], target)
    far = ["1e99999999999999999999", "-1e99999999999999999999", "1" * 5000]
    assert codes(cast(far, target))[:2] == codes(cast(["inf", "-inf"], target)) or target in ("float8e8m0", "double")
    if target not in ("double",):
        assert codes(cast(far, target)) == [*codes(top), codes(top)[0]]
    tiny = codes(cast(["1e-99999999999999999999", "0e999999999999", "-0.0e-9999999"], target))
    assert tiny == codes(cast([0.0, 0.0, -0.0], target))


@pytest.mark.parametrize("target", oracle.TYPES)
def test_reserved_literals(target: str) -> None:
    texts = ["INF", "+inf", "-Inf", "NaN", "nan"]
    numbers = [np.inf, np.inf, -np.inf, np.nan, np.nan]
    assert codes(cast(texts, target)) == codes(cast(numbers, target))


@pytest.mark.parametrize("target", oracle.TYPES)
def test_text_that_is_no_number_gives_nan_or_zero(target: str) -> None:
    expected = np.nan if target in oracle.FLOATS else 0.0
    assert codes(cast(NO_NUMBERS, target)) == codes(cast([expected] * len(NO_NUMBERS), target))
    assert set(cast_status(NO_NUMBERS, target).tolist()) == {Definedness.UNDEFINED}


@pytest.mark.parametrize("target", [name for name in oracle.INTS if name != "bool"])
def test_integers_in_text(target: str) -> None:
    row = oracle.INTS[target]
    numbers = [row.low - 1, row.low, 0, 1, row.high, row.high + 1, 10**30, -(10**5000)]
    texts = ["1" + "0" * 30 if n == 10**30 else "-1" + "0" * 5000 if n < -(10**40) else str(n) for n in numbers]
    held = [min(max(n, row.low), row.high) % 2**row.bits for n in numbers]
    assert codes(cast(texts, target)) == held
    inside = [row.low <= n <= row.high for n in numbers]
    assert (cast_status(texts, target) == Definedness.DEFINED).tolist() == inside


def test_fractional_text_to_integer_truncates_and_is_undefined() -> None:
    texts = ["100.5", "-2.718", "1e2", "99.99999999999999999999999", "1e-400", "5."]
    assert cast(texts, "int32").tolist() == [100, -2, 100, 99, 0, 5]
    assert set(cast_status(texts, "int32").tolist()) == {Definedness.UNDEFINED}


def test_text_to_bool_is_disputed() -> None:
    assert cast(["0", "-0.0", "1", "0.1", "NaN", "yes", "1e-999"], "bool").tolist() == [0, 0, 1, 1, 1, 0, 1]
    assert cast_status(["0", "1", "yes"], "bool").tolist() == [1, 1, 2]


@pytest.mark.parametrize("kind", ["U", "S", "O", "T"])
def test_every_kind_of_string_array(kind: str) -> None:
    array = np.array([["1.5", "-2"], ["inf", "x"]], np.dtypes.StringDType() if kind == "T" else kind)
    assert cast(array.T, "float16").tolist()[0][:1] == [1.5]
    assert cast(array, "float16").shape == (2, 2)
    assert cast(array, "string").dtype == object
    assert not cast_status(array, "string").any()


def test_bytes_are_utf8() -> None:
    assert cast(np.array([b"1.25", "2"], object), "float").tolist() == [1.25, 2]
    assert np.isnan(cast(np.array([b"\xff"], object), "float"))[0]


def test_numbers_print_as_the_shortest_plain_decimal() -> None:
    numbers = np.array([314.15926, 1, -0.0, 1e-5, 1e20, np.nan, np.inf, -np.inf], np.float32)
    printed = ["314.15927", "1", "-0", "0.00001", "100000000000000000000", "NaN", "INF", "-INF"]
    assert cast(numbers, "string").tolist() == printed
    assert cast(np.float16(0.1), "string").tolist() == "0.1"
    assert cast(314.15926, "string").tolist() == "314.15926"
    assert cast([True, False], "string").tolist() == ["1", "0"]
    assert cast([-5, 2**62], "string").tolist() == ["-5", "4611686018427387904"]
    assert set(cast_status(numbers, "string").tolist()) == {Definedness.DISPUTED}


@pytest.mark.parametrize("source", oracle.NARROW_TYPES)
def test_what_is_printed_reads_back(source: str) -> None:
    array = oracle.array_of(source, list(oracle.all_codes(source))[::7])
    back = cast(cast(array, "string"), source, saturate=source == "float8e8m0", round_mode="nearest")
    same = np.array(codes(back)) == np.array(codes(array))
    nan = np.array([number.kind == "nan" for number in oracle.all_numbers(source)][::7])
    assert (same | nan).all()
