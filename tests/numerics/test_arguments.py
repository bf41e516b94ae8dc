"""Arguments of the public functions: element types by every name, and errors of the right kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx_ir import DataType

import castsmith
from castsmith.numerics import arguments, errors
from castsmith.numerics.cast.convert import bit_cast
from castsmith.numerics.types import ELEMENT_TYPES, parse_type

X = np.array([0.0, 1.5, -3.0], np.float32)


def names_of(dtype: DataType) -> list[Any]:
    """Every form in which a caller may name the type."""
    stored: np.dtype[Any] = dtype.numpy()
    number = int(dtype)
    texts = [dtype.name, dtype.name.lower(), dtype.short_name(), str(number)]
    return [dtype, number, np.int32(number), getattr(TensorProto, dtype.name), stored, stored.type, *texts]


@pytest.mark.parametrize("dtype", ELEMENT_TYPES, ids=lambda dtype: dtype.name)
def test_a_type_is_named_in_every_way_that_its_users_have(dtype: DataType) -> None:
    assert {parse_type(name) for name in names_of(dtype)} == {dtype}
    assert parse_type(dtype.numpy().newbyteorder(">")) is dtype


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[("boolean", DataType.BOOL), (bool, DataType.BOOL), (str, DataType.STRING), (np.dtype("U5"), DataType.STRING)],
        *[("f8e4m3", DataType.FLOAT8E4M3FN), ("f8m4e3", DataType.FLOAT8E4M3FN), ("f8m5e3", DataType.FLOAT8E5M2)],
        *[("FP16", DataType.FLOAT16), ("FP32", DataType.FLOAT), ("float8_e4m3fn", DataType.FLOAT8E4M3FN)],
        *[("float4_e2m1fn", DataType.FLOAT4E2M1), (np.longlong, DataType.INT64), (ml_dtypes.int4, DataType.INT4)],
    ],
)
def test_names_of_other_documents(name: Any, dtype: DataType) -> None:
    assert parse_type(name) is dtype


@pytest.mark.parametrize("dtype", [DataType.INT32, DataType.BOOL, DataType.FLOAT8E4M3FN], ids=lambda dtype: dtype.name)
def test_every_function_takes_every_name(dtype: DataType) -> None:
    expected = castsmith.cast(X, dtype).tobytes()
    for name in names_of(dtype):
        assert castsmith.cast(input=X, to=name).tobytes() == expected
        assert castsmith.cast_status(input=X, to=name).shape == X.shape
        assert castsmith.promote_types(name, name) is dtype
        assert castsmith.promote_types("u64", "i8", promote_unsafe=True, u64_integer_promotion_target=name) is dtype
        assert castsmith.common_type([(name, 1)]) is dtype
        assert castsmith.is_exact(name, name)
        assert castsmith.chain_collapses(name, name, name)
        assert castsmith.PromotionRules(u64_integer_promotion_target=name).u64_integer_promotion_target is dtype
        assert bit_cast(np.zeros(1, dtype.numpy()), name).dtype == dtype.numpy()


UNKNOWN_TYPES: list[Any] = [
    *[np.floating, np.number, np.void, np.datetime64, np.longdouble, np.dtype("f4,f4")],
    *[0, 29, -1, 10**30, "0", "²", "9" * 5000, "", " float", "float\0", float, int, complex, list],
]


@pytest.mark.parametrize("name", UNKNOWN_TYPES, ids=lambda name: repr(name)[:20])
def test_an_unknown_type_is_a_value_error(name: Any) -> None:
    for function in (lambda: castsmith.cast(X, name), lambda: castsmith.promote_types("f32", name)):
        with pytest.raises(castsmith.ElementTypeError) as raised:
            function()
        assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("name", [None, True, 1.0, b"float", [], {}, np.array([1, 2])], ids=repr)
def test_what_names_no_type_is_a_type_error(name: Any) -> None:
    with pytest.raises(castsmith.ArgumentTypeError) as raised:
        castsmith.cast(X, name)
    assert isinstance(raised.value, TypeError)


def trunc(*others: Any, **settings: Any) -> Any:
    return castsmith.trunc(X, 1.0, 0.0, 8, 4, *others, **settings)


BAD_VALUES: list[Callable[[], Any]] = [
    lambda: trunc("NEAREST"),
    lambda: trunc(rounding_mode="NEAREST"),
    lambda: trunc(version=3),
    lambda: trunc(version=2),
    lambda: trunc(2.0, version=1),
    lambda: trunc(signed=2),
    lambda: castsmith.trunc(X, 1.0, 0.0, 0, 4),
    lambda: castsmith.trunc(X, np.ones(7), 0.0, 8, 4),
    lambda: castsmith.cast(X, 1, round_mode="sideways"),
    lambda: castsmith.cast(X, 1, opset=0),
    lambda: castsmith.cast(X, 1, opset=99),
    lambda: castsmith.cast(X, 1, saturate=2),  # pyright: ignore[reportArgumentType]
    lambda: castsmith.cast(X, "float4e2m1", opset=1),
    lambda: castsmith.cast(X, "complex64"),
    lambda: castsmith.promote_types("i64", "f32"),
    lambda: castsmith.promote_types("i64", "f32", lhs_rank=-1),
    lambda: castsmith.common_type([]),
    lambda: castsmith.PromotionRules.preset("fortran"),
    lambda: castsmith.load_target("abacus"),
    lambda: castsmith.optimize("none.onnx", target="abacus"),
]


@pytest.mark.parametrize("call", BAD_VALUES)
def test_a_bad_value_is_a_value_error(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"\w") as raised:
        call()
    assert isinstance(raised.value, castsmith.CastsmithError)


WRONG: Any = 1.5
BAD_TYPES: list[Callable[[], Any]] = [
    lambda: trunc(rounding_mode=WRONG),
    lambda: trunc("ROUND", rounding_mode="ROUND"),
    lambda: trunc(1.0, 2.0, "ROUND"),
    lambda: trunc(version=WRONG),
    lambda: trunc(signed=WRONG),
    lambda: castsmith.trunc(["a"], 1.0, 0.0, 8, 4),
    lambda: castsmith.trunc(X, 1.0, 0.0, "8", 4),
    lambda: castsmith.trunc([[1.0], [2.0, 3.0]], 1.0, 0.0, 8, 4),
    lambda: castsmith.trunc(X, 1.0, 0.0, [8, [8, 8]], 4),
    lambda: castsmith.cast([[1.0], [2.0, 3.0]], 1),
    lambda: castsmith.cast_status([[1.0], [2.0, 3.0]], 1),
    lambda: castsmith.cast(X, 1, round_mode=WRONG),
    lambda: castsmith.cast(X, 1, opset=WRONG),
    lambda: castsmith.cast(X, 1, saturate=WRONG),
    lambda: castsmith.cast_status(X, 1, saturate=WRONG),
    lambda: castsmith.promote_types("i64", "f32", lhs_rank=WRONG),
    lambda: castsmith.promote_types("i64", "f32", promote_unsafe=WRONG),
    lambda: castsmith.PromotionRules.preset(WRONG),
    lambda: castsmith.PromotionRules(library=WRONG),
    lambda: castsmith.load_target(WRONG),
]


@pytest.mark.parametrize("call", BAD_TYPES)
def test_an_argument_of_the_wrong_type_is_a_type_error(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert isinstance(raised.value, castsmith.CastsmithError)


def test_errors_about_values_are_value_errors() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]
    kinds += [castsmith.OptionError, castsmith.TargetError]
    of_type = [kind for kind in kinds if issubclass(kind, TypeError)]
    assert of_type == [castsmith.ArgumentTypeError]
    others = [kind for kind in kinds if not issubclass(kind, ValueError | TypeError)]
    assert others == [castsmith.CastsmithError, errors.InternalError]


Check = Callable[[], Any]
NAN, INF = float("nan"), float("inf")
WHOLE = "n must be an integer, not a value of type "
FINITE = "; expected two finite numbers, the lower first."
ODD = errors.OptionError

TAKEN: list[tuple[Check, Any]] = [
    *((lambda v=v: arguments.flag("n", v, ODD), bool(v)) for v in (True, False, 1, 0, np.True_, np.int8(0))),
    *((lambda v=v: arguments.whole_number("n", v), int(v)) for v in (0, -3, np.int8(5), 2**70)),
    (lambda: arguments.text("n", ""), ""),
    (lambda: arguments.texts("n", "ab"), {"ab"}),
    (lambda: arguments.texts("n", ["a", "b", "a"]), {"a", "b"}),
    (lambda: arguments.texts("n", ()), frozenset()),
    *((lambda v=v: arguments.number("n", v), float(v)) for v in (0, 1.5, np.float32(2), True)),
    (lambda: arguments.number("n", 5e-324, above=True), 5e-324),
    (lambda: arguments.count("n", 0), 0),
    (lambda: arguments.count("n", 2, 2), 2),
    (lambda: arguments.mapping("n", None), {}),
    (lambda: arguments.mapping("n", {"a": 1}), {"a": 1}),
    (lambda: arguments.function("n", None), None),
    (lambda: arguments.function("n", print), None),
    (lambda: arguments.described(None), "None"),
    (lambda: arguments.described(1.5), "a value of type float"),
    (lambda: arguments.range_of("n", (-1, 2.5)), (-1.0, 2.5)),
    (lambda: arguments.range_of("n", [0, 0]), (0.0, 0.0)),
    (lambda: arguments.range_of("n", np.array([1.0, 2.0])), (1.0, 2.0)),
]


@pytest.mark.parametrize(("check", "expected"), TAKEN)
def test_each_check_returns_what_is_right(check: Check, expected: Any) -> None:
    result = check()
    assert result == expected
    assert type(result) is type(expected) or isinstance(expected, set)


OTHERWISE: list[tuple[Check, str]] = [
    (lambda: arguments.flag("n", 2, ODD), "n must be True or False, not 2."),
    (lambda: arguments.flag("n", -1, ODD), "n must be True or False, not -1."),
    (lambda: arguments.flag("n", 1.0, ODD), "n must be True or False, not a value of type float."),
    *((lambda v=v: arguments.whole_number("n", v), f"{WHOLE}{type(v).__name__}.") for v in (True, 1.0, "1", np.True_)),
    (lambda: arguments.text("n", None), "n must be a str, not None."),
    (lambda: arguments.texts("n", 3), "n must be a str, not a value of type int."),
    (lambda: arguments.texts("n", ["a", 3]), "n must be a str, not a value of type int."),
    (lambda: arguments.number("n", "1"), "n must be a number of at least 0, not a value of type str."),
    (lambda: arguments.number("n", 1j, above=True), "n must be a number above 0, not a value of type complex."),
    *((lambda v=v: arguments.number("n", v), f"n must be a number of at least 0, not {v}.") for v in (-0.5, NAN, INF)),
    *((lambda v=v: arguments.number("n", v, above=True), f"n must be a number above 0, not {v}.") for v in (0, -1)),
    (lambda: arguments.count("n", -1), "n must be an integer of at least 0, not -1."),
    (lambda: arguments.count("n", 1, 2), "n must be an integer of at least 2, not 1."),
    (lambda: arguments.mapping("n", [1]), "n must map names, not be a value of type list."),
    (lambda: arguments.function("n", 1), "n must be a function, not a value of type int."),
    (lambda: arguments.as_array("n", [[1], [1, 2]]), "n must be an array, not nested sequences of different lengths."),
    *((lambda v=v: arguments.range_of("n", v), f"invalid range {v!r} for n; expected two numbers.")
      for v in (3, [1], [1, 2, 3], ["a", 2], None)),
    *((lambda v=v: arguments.range_of("n", v), f"invalid range {v[0]:g}:{v[1]:g} for n{FINITE}")
      for v in ((2, 1), (NAN, 1), (0, INF), (-INF, 0), (0, NAN))),
]  # fmt: skip


@pytest.mark.parametrize(("check", "told"), OTHERWISE)
def test_each_check_says_what_is_wrong(check: Check, told: str) -> None:
    with pytest.raises(errors.CastsmithError) as raised:
        check()
    assert str(raised.value) == told
    assert isinstance(raised.value, TypeError if " of type " in told or "None" in told else (ValueError, TypeError))
