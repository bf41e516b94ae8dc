"""Numbers known as sums of products of symbols: each operation, its bounds, and what cannot be decided."""

from __future__ import annotations

from fractions import Fraction

from onnx_ir import DataType

from castsmith.analysis.shapes.arithmetic import (
    _SCALARS,  # pyright: ignore[reportPrivateUsage]
    _converter,  # pyright: ignore[reportPrivateUsage]
    _divided,  # pyright: ignore[reportPrivateUsage]
    picked,
)
from castsmith.analysis.shapes.elements import Derived, holds
from castsmith.numerics.symbols import (
    UNKNOWN,
    Element,
    Poly,
    compared,
    high_of,
    low_of,
    name_of,
    product,
    quotient,
    symbol,
)

N, M, K = symbol("N", 0, 100), symbol("M"), symbol("K", -5, 5)
POSITIVE = symbol("P", 3, 7)
ANY = symbol("A", None, None)
NAMES = {"N": N, "M": M, "K": K, "P": POSITIVE, "A": ANY, "unknown": UNKNOWN, "half": Fraction(1, 2)}


def made(text: str) -> Element:
    return eval(text, {"__builtins__": {}}, NAMES)


def wanted(expected: int | str | None) -> Element:
    return UNKNOWN if expected is None else made(expected) if isinstance(expected, str) else expected


ARITHMETIC: list[tuple[str, str]] = [
    ("N + 0", "N"),
    ("N + N", "2*N"),
    ("3 + N", "N + 3"),
    ("N - N", "0"),
    ("N - 3", "N + -3"),
    ("3 - N", "-1*N + 3"),
    ("N - (N - 4)", "4"),
    ("-N", "-1*N"),
    ("N * 0", "0"),
    ("0 * N", "0"),
    ("(N + 1) * (N - 1)", "N*N + -1"),
    ("2 * N * M - M * N", "N*M"),
    ("N + half", "UNKNOWN"),
    ("half + N", "UNKNOWN"),
    ("N * half", "UNKNOWN"),
    ("N - half", "UNKNOWN"),
    ("N + unknown", "UNKNOWN"),
    ("unknown - N", "UNKNOWN"),
    ("N * unknown", "UNKNOWN"),
    ("-unknown", "UNKNOWN"),
    ("N * N * N * N * N * N * N * N", "N*N*N*N*N*N*N*N"),
    ("N * N * N * N * N * N * N * N * N", "UNKNOWN"),
]


def test_arithmetic() -> None:
    for text, expected in ARITHMETIC:
        found = made(text)
        assert repr(found) in (expected, expected.replace("N*M", "M*N")), (text, expected)


def test_equal_sums_are_equal_keys() -> None:
    assert made("N + M") == made("M + N")
    assert hash(made("N + M")) == hash(made("M + N"))
    assert made("N * M + 1") != made("N * M")
    assert made("N") != symbol("N", 0, 100)
    assert repr(symbol()) == "?"


def test_a_sum_of_at_most_twelve_terms() -> None:
    twelve = sum((symbol(str(index)) for index in range(12)), start=symbol("0") * 0)
    assert isinstance(twelve, Poly)
    assert len(twelve.terms) == 12
    assert twelve + symbol("more") is UNKNOWN


BOUNDS: list[tuple[str, int | None, int | None]] = [
    ("N", 0, 100),
    ("M", 0, None),
    ("-M", None, 0),
    ("2 * N + 3", 3, 203),
    ("3 - 2 * N", -197, 3),
    ("N * P", 0, 700),
    ("-N * P", -700, 0),
    ("N * K", None, None),  # K may be negative
    ("2 * K", -10, 10),
    ("M - N", -100, None),
    ("N + A", None, None),
    ("P * P - 9", 0, 40),
    ("7", 7, 7),
    ("unknown", None, None),
    ("half", None, None),
]


def test_bounds() -> None:
    for text, low, high in BOUNDS:
        assert (low_of(made(text)), high_of(made(text))) == (low, high), (text, low, high)


def test_the_number_for_given_symbols_and_names() -> None:
    value = made("2 * N * M + N - 3")
    assert isinstance(value, Poly)
    assert value.at(lambda each: {"N": 5, "M": 7}[each.name]) == 72
    assert not value.has_nameless
    with_nameless = value + symbol()
    assert isinstance(with_nameless, Poly)
    assert with_nameless.has_nameless


QUOTIENTS: list[tuple[str, str, str]] = [
    ("6 * N * M", "2 * N", "3*M"),
    ("6 * N", "N", "6"),
    ("6 * N + 4 * M", "2", "3*N + 2*M"),
    ("6 * N + 3", "2", "UNKNOWN"),
    ("N", "M", "UNKNOWN"),
    ("N", "N * N", "UNKNOWN"),
    ("N * N", "N", "N"),
    ("N", "N + 1", "UNKNOWN"),
    ("12", "4", "3"),
    ("13", "4", "UNKNOWN"),
    ("12", "0", "UNKNOWN"),
    ("0", "N", "0"),
    ("unknown", "2", "UNKNOWN"),
    ("2", "unknown", "UNKNOWN"),
    ("half", "2", "UNKNOWN"),
]


def test_quotients() -> None:
    for a, b, expected in QUOTIENTS:
        assert repr(quotient(made(a), made(b))) == expected, (a, b, expected)


COMPARISONS: list[tuple[str, str, int | None]] = [
    ("3", "2", 1),
    ("2", "2", 0),
    ("half", "1", -1),
    ("N + 1", "N", 1),
    ("N", "N", 0),
    ("N", "N + 1", -1),
    ("N", "101", -1),
    ("N", "100", None),
    ("N", "0", None),
    ("N + 1", "0", 1),
    ("-N", "1", -1),
    ("-N", "0", None),
    ("unknown", "1", None),
    ("1", "unknown", None),
    ("N", "half", None),
]


def test_comparisons() -> None:
    for a, b, expected in COMPARISONS:
        assert compared(made(a), made(b)) == wanted(expected), (a, b, expected)


def test_products() -> None:
    assert product([]) == 1
    assert product([N, 2, M]) == made("2 * N * M")
    assert product([N, UNKNOWN]) is UNKNOWN


OPERATORS_ON_SYMBOLS: list[tuple[str, str, int | str | None]] = [
    ("Equal", "N, N", 1),
    ("Equal", "N, N + 1", 0),
    ("Equal", "N, 3", None),
    ("Equal", "unknown, 3", None),
    ("Less", "N, 101", 1),
    ("Less", "N, 100", None),
    ("Less", "N, 0", 0),
    ("Less", "N, 1", None),
    ("Less", "unknown, 1", None),
    ("LessOrEqual", "N, 100", 1),
    ("LessOrEqual", "N, 99", None),
    ("LessOrEqual", "N, 0", None),
    ("LessOrEqual", "N, -1", 0),
    ("LessOrEqual", "2, 2", 1),
    ("Greater", "N, -1", 1),
    ("Greater", "N, 0", None),
    ("Greater", "N, 100", 0),
    ("GreaterOrEqual", "N, 0", 1),
    ("GreaterOrEqual", "N, 1", None),
    ("GreaterOrEqual", "2, 2", 1),
    ("GreaterOrEqual", "N, 101", 0),
    ("And", "1, 1", 1),
    ("And", "1, 0", 0),
    ("And", "unknown, 0", 0),
    ("And", "1, unknown", None),
    ("Or", "0, 0", 0),
    ("Or", "unknown, 1", 1),
    ("Or", "0, unknown", None),
    ("Xor", "1, 1", 0),
    ("Xor", "1, 0", 1),
    ("Xor", "1, unknown", None),
    ("Not", "1", 0),
    ("Not", "0", 1),
    ("Where", "1, N, M", "N"),
    ("Where", "0, N, M", "M"),
    ("Where", "unknown, N, M", None),
    ("Where", "unknown, N, N", "N"),
    ("Abs", "-3", 3),
    ("Abs", "-half", "half"),
    ("Abs", "N", "N"),
    ("Abs", "K", None),
    ("Abs", "A", None),
    ("Abs", "unknown", None),
    ("Sign", "N", None),
    ("Sign", "P", 1),
    ("Sign", "-P", -1),
    ("Mod", "7, 4", 3),
    ("Mod", "-7, 4", 1),
    ("Mod", "7, 0", None),
    ("Mod", "4 * N, 2", 0),
    ("Mod", "N, 2", None),
    ("Mod", "N, 0", None),
    ("Mod", "4 * N, N", None),
    ("Pow", "2, 53", 1 << 53),
    ("Pow", "-2, 53", -(1 << 53)),
    ("Pow", "2, 54", None),
    ("Pow", "3, -1", None),
    ("Pow", "1, 64", 1),
    ("Pow", "1, 65", None),
    ("Pow", "N, 2", None),
    ("Pow", "5, 0", 1),
]


def test_operators_on_symbols() -> None:
    for op, operands, expected in OPERATORS_ON_SYMBOLS:
        found = _SCALARS[op](*made(f"({operands},)"))  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        assert found == wanted(expected), (
            op,
            operands,
            expected,
        )


DIVISION_IS_TOWARD_ZERO: list[tuple[str, str, int | str]] = [
    ("7", "2", 3),
    ("-7", "2", -3),
    ("7", "-2", -3),
    ("-7", "-2", 3),
    ("0", "-2", 0),
    ("7", "0", "unknown"),
    ("6 * N", "2", "3 * N"),
    ("K", "2", "unknown"),
    ("A", "2", "unknown"),
    ("N", "M", "unknown"),  # M may be 0
    ("N", "-2", "unknown"),
    ("N", "0", "unknown"),
    ("N", "unknown", "unknown"),
]


def test_division_is_toward_zero() -> None:
    for a, b, expected in DIVISION_IS_TOWARD_ZERO:
        assert _divided(Derived())(made(a), made(b)) == wanted(expected), (
            a,
            b,
            expected,
        )


def test_an_inexact_quotient_is_one_symbol_between_its_bounds() -> None:
    derived = Derived()
    found = _divided(derived)(N, 3)
    assert isinstance(found, Poly)
    assert (found.low, found.high) == (0, 100)
    assert _divided(derived)(N, 3) == found
    assert _divided(derived)(N, 7) != found
    assert _divided(derived)(N, POSITIVE) not in (found, UNKNOWN)
    assert _divided(derived)(N, 1) == N


THE_GREATER_AND_THE_LESSER: list[tuple[str, str, int | str, int | str]] = [
    ("3", "5", 5, 3),
    ("N", "100", 100, "N"),
    ("N", "0", "N", 0),
    ("N", "N + 1", "N + 1", "N"),
    ("N", "unknown", "unknown", "unknown"),
    ("half", "1", 1, "half"),
]


def test_the_greater_and_the_lesser() -> None:
    for a, b, greatest, least in THE_GREATER_AND_THE_LESSER:
        for name, expected in (("Max", greatest), ("Min", least)):
            for operands in ((a, b), (b, a)):
                found = picked(Derived(), name)(*map(made, operands))
                assert found == wanted(expected), (name, operands)


def test_an_undecided_maximum_is_one_symbol_between_its_bounds() -> None:
    derived = Derived()
    for name, a, b, low, high in (
        ("Max", N, POSITIVE, 3, 100),
        ("Min", N, POSITIVE, 0, 7),
        ("Max", N, M, 0, None),
        ("Min", N, M, 0, 100),
        ("Max", N, ANY, 0, None),
        ("Min", N, ANY, None, 100),
        ("Max", K, POSITIVE, 3, 7),
        ("Min", K, POSITIVE, -5, 5),
    ):
        found = picked(derived, name)(a, b)
        assert isinstance(found, Poly)
        assert (found.low, found.high) == (low, high), (name, a, b)
        assert picked(derived, name)(b, a) == found
    assert picked(derived, "Max")(N, POSITIVE) != picked(derived, "Min")(N, POSITIVE)


CASTS: list[tuple[str, str, str, int | str]] = [
    ("5", "INT64", "INT8", 5),
    ("127", "INT64", "INT8", 127),
    ("128", "INT64", "INT8", -128),
    ("-128", "INT64", "INT8", -128),
    ("-129", "INT64", "INT8", 127),
    ("-1", "INT64", "UINT8", 255),
    ("256", "INT64", "UINT8", 0),
    ("half", "FLOAT", "INT8", 0),
    ("half + half + half - 2", "FLOAT", "INT64", 0),
    ("127", "FLOAT", "INT8", 127),
    ("128", "FLOAT", "INT8", "unknown"),  # the standard leaves it open
    ("-128", "FLOAT", "INT8", -128),
    ("-129", "FLOAT", "INT8", "unknown"),
    ("N", "INT64", "INT8", "N"),  # at most 100
    ("N", "INT64", "FLOAT", "N"),
    ("half", "FLOAT", "DOUBLE", "half"),
    ("unknown", "INT64", "INT32", "unknown"),
    ("0", "INT64", "BOOL", 0),
    ("-3", "INT64", "BOOL", 1),
    ("half", "FLOAT", "BOOL", 1),
    ("P", "INT64", "BOOL", 1),
    ("-P", "INT64", "BOOL", 1),
    ("N", "INT64", "BOOL", "unknown"),
    ("unknown", "INT64", "BOOL", "unknown"),
]


def test_casts() -> None:
    for element, source, to, expected in CASTS:
        convert = _converter(DataType[source], DataType[to], Derived())
        assert convert(made(element)) == wanted(expected), (
            element,
            source,
            to,
            expected,
        )


def test_a_cast_of_a_symbol_that_may_wrap_is_a_symbol_of_its_own() -> None:
    derived = Derived()
    found = _converter(DataType.INT64, DataType.INT8, derived)(M)
    assert isinstance(found, Poly)
    assert (found.low, found.high) == (-128, 127)
    assert _converter(DataType.INT64, DataType.INT8, derived)(M) is found
    assert _converter(DataType.INT64, DataType.UINT8, derived)(M) != found


WHAT_A_TYPE_HOLDS: list[tuple[str, str, bool]] = [
    ("127", "INT8", True),
    ("128", "INT8", False),
    ("-128", "INT8", True),
    ("-129", "INT8", False),
    ("N", "INT8", True),
    ("N + 27", "INT8", True),
    ("N + 28", "INT8", False),
    ("N - 128", "INT8", True),
    ("N - 129", "INT8", False),
    ("M", "INT32", False),
    ("M", "INT64", True),
    ("A", "INT64", True),
    ("A", "UINT64", False),
    ("M", "UINT64", True),
    ("K", "UINT64", False),
    ("half", "INT8", False),
    ("half", "FLOAT", True),
    ("2049", "FLOAT16", False),
    ("2048", "FLOAT16", True),
    ("65504", "FLOAT16", True),
    ("65536", "FLOAT16", False),
    ("257", "BFLOAT16", False),
    ("N", "FLOAT16", True),
    ("N + 1948", "FLOAT16", True),
    ("N + 1949", "FLOAT16", False),
    ("-N - 1948", "FLOAT16", True),
    ("-N - 1949", "FLOAT16", False),
    ("M", "DOUBLE", False),
    ("A", "DOUBLE", False),
]


def test_what_a_type_holds() -> None:
    for element, dtype, expected in WHAT_A_TYPE_HOLDS:
        assert holds(made(element), DataType[dtype]) is expected, (element, dtype, expected)


NAMES_OF = [("N", "N"), ("M", "M"), ("2 * N", None), ("N + M", None), ("N * M", None), ("N * N", None), ("3", None)]


def test_a_single_symbol_has_a_name() -> None:
    for element, name in NAMES_OF:
        assert name_of(made(element)) == name, element
    assert [name_of(symbol("")), name_of(UNKNOWN), name_of(Fraction(1, 2))] == [None, None, None]
