"""Cast as in a named runtime, against that runtime: every code of narrow types, the boundaries of wide ones."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx.reference.ops.op_cast import cast_to

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.errors import CastError
from castsmith.numerics.runtimes.dispatch import RUNTIMES, cast_as
from castsmith.numerics.status import Definedness, cast_status
from castsmith.numerics.types import parse_type
from tests.numerics import oracle
from tests.numerics.runtimes.onnxruntime_node import run_node
from tests.numerics.samples import samples
from tests.numerics.settings import settings_of
from tests.sampling import check_all, sampled
from tests.versions import ONNXRUNTIME

LACKING = {"float4e2m1", "float6e2m3", "float6e3m2"}
PAIRS = [(a, b) for a in oracle.TYPES for b in oracle.TYPES if a != b]
IN_ORT = [pair for pair in PAIRS if not LACKING & set(pair)]
VERSION = ONNXRUNTIME == (1, 32)
same_version = pytest.mark.skipif(not VERSION, reason="describes ONNX Runtime 1.32")


def given(source: str, target: str) -> np.ndarray:
    """Codes whose cast is reproducible."""
    codes = list(oracle.all_codes(source)) if source in oracle.NARROW_TYPES else samples(source, target)
    array = oracle.array_of(source, codes)
    if source in oracle.FLOATS and target in oracle.INTS and oracle.INTS[target].bits >= 8:
        return array[cast_status(array, target) != Definedness.UNDEFINED]
    return array


def same(got: np.ndarray, want: np.ndarray, target: str) -> np.ndarray:
    """Bit for bit, and any NaN like any other."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    equal = got.view(oracle.unsigned(target)) == want.view(oracle.unsigned(target))
    if target in oracle.FLOATS and oracle.FLOATS[target].nan is not None:
        with np.errstate(all="ignore"):
            equal |= np.isnan(cast(got, "float")) & np.isnan(cast(want, "float"))
    return equal


def attributes(target: str, settings: oracle.Settings) -> dict[str, Any]:
    float8 = target.startswith("float8")
    found: dict[str, Any] = {"saturate": int(settings.saturate)} if float8 else {}
    return found | ({"round_mode": settings.round_mode} if target == "float8e8m0" else {})


@same_version
def test_onnxruntime() -> None:
    check_all(require_cast_of_onnxruntime, sampled("casts of ONNX Runtime", IN_ORT, 40, cover=enumerate))


def require_cast_of_onnxruntime(source: str, target: str) -> None:
    array = given(source, target)
    for settings in settings_of(target):
        opset = 25 if settings.opset == 28 or "int2" in source + target or "e8m0" in source else 23
        want = run_node("Cast", [array], target, opset, to=parse_type(target).value, **attributes(target, settings))
        got = cast_as(
            array, target, "onnxruntime", saturate=settings.saturate, round_mode=settings.round_mode, opset=opset
        )
        differs = np.flatnonzero(~same(got, want, target))
        assert not differs.size, (array[differs[0]], got[differs[0]], want[differs[0]], settings, differs.size)


def test_reference() -> None:
    check_all(require_cast_of_reference, sampled("casts of the reference evaluator", PAIRS, 60, cover=enumerate))


def require_cast_of_reference(source: str, target: str) -> None:
    array = given(source, target)
    for settings in settings_of(target):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                to: Any = parse_type(target).value
                want = cast_to(array, to, settings.saturate, settings.round_mode)
            except TypeError:
                with pytest.raises(CastError, match=f"fails to cast {source} to {target}"):
                    cast_as(array, target, "reference", saturate=settings.saturate)
                continue
        got = cast_as(array, target, "reference", saturate=settings.saturate, round_mode=settings.round_mode)
        assert same(got, want, target).all()


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("source", ["float", "float16", "float8e5m2", "double"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int64", "uint32"])
def test_what_varies_with_the_lane_is_refused(source: str, target: str, runtime: str) -> None:
    array = cast(np.array([[1.0, np.nan], [np.inf, 2.0]]), source)
    with pytest.raises(CastError, match=rf"gives for nan at \[0, 1\] in {target} is not reproducible"):
        cast_as(array, target, runtime)
    assert cast_as(array[:, :0], target, runtime).shape == (2, 0)
    assert cast_as(array[:1, :1], target, runtime).tolist() == [[1]]


TEXTS = ["1", "-1", "100.5", "1e5", "INF", "-inf", "NaN", "300", "3000000000", "0.1", "1e-50", "2.0009765626", "-0"]


@same_version
@pytest.mark.parametrize("target", [name for name in oracle.TYPES if name not in LACKING])
def test_onnxruntime_reads_text(target: str) -> None:
    for text in [*TEXTS, "1e400", "1e-320", "99999999999999999999", "-18446744073709551615", "+5", " 5", "5x"]:
        array = np.array([text], object)
        try:
            want = run_node("Cast", [array], target, 25, to=parse_type(target).value)
        except Exception:
            with pytest.raises(CastError, match="onnxruntime"):
                cast_as(array, target, "onnxruntime")
            continue
        if text in (" 5", "5x") and (target in oracle.FLOATS or "nt2" in target or "nt4" in target):
            with pytest.raises(CastError, match="is unknown"):
                cast_as(array, target, "onnxruntime")
            continue
        assert same(cast_as(array, target, "onnxruntime"), want, target).all(), text


@same_version
@pytest.mark.parametrize("source", [name for name in oracle.TYPES if name not in LACKING])
def test_onnxruntime_prints(source: str) -> None:
    codes = list(oracle.all_codes(source))[::7] if source in oracle.NARROW_TYPES else samples(source, "int8")[::3]
    array = oracle.array_of(source, codes)
    want = run_node("Cast", [array], "string", 25, to=parse_type("string").value)
    assert cast_as(array, "string", "onnxruntime").tolist() == want.tolist()


def test_reference_prints_and_reads_as_numpy() -> None:
    array = np.array([0.1, 1e-5, 1e20, np.nan, -np.inf], np.float32)
    assert cast_as(array, "string", "reference").tolist() == ["0.1", "1e-05", "1e+20", "nan", "-inf"]
    assert cast_as(["1.5", "1e3"], "float", "reference").tolist() == [1.5, 1000.0]
    with pytest.raises(CastError, match="fails to cast string to int32"):
        cast_as(["1.5"], "int32", "reference")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_cast_to_the_same_type_keeps_the_bits(runtime: str) -> None:
    """Also of what no other cast gives, and of types that the runtime lacks; the result is a new array."""
    for name, codes in (
        ("float8e5m2", [0x7C, 0xFD]), ("float8e8m0", [0, 255]), ("float4e2m1", [8, 15]), ("float16", [0x7E01, 0xFC00]),
        ("float", [0x7FC0_0001, 0x8000_0000]), ("int4", [8, 7]), ("bool", [0, 1]),
    ):  # fmt: skip
        array = oracle.array_of(name, codes)
        result = cast_as(array, name, runtime)
        assert (result.dtype, result.tobytes(), result is array) == (array.dtype, array.tobytes(), False)
    texts = np.array(["a", "1.50"], object)
    assert cast_as(texts, "string", runtime).tolist() == ["a", "1.50"]
    swapped = cast_as(np.array([1.5], ">f4"), "float", runtime)
    assert (swapped.dtype, swapped.tolist()) == (np.dtype(np.float32).newbyteorder("="), [1.5])


def test_text_in_bytes_is_utf_8() -> None:
    for texts in (np.array([b"1.5", "-2"], object), np.array([b"1.5", b"-2"]), np.array(["1.5", "-2"])):
        assert cast_as(texts, "float", "onnxruntime").tolist() == [1.5, -2.0]


def test_the_reference_rounds_to_powers_of_two_as_onnx_does() -> None:
    """Up, down and nearest, saturating and not, at the largest power of two and at infinity and NaN: bits of float."""
    top, above, inf, nan = 0x7F00_0000, 0x7F00_0001, 0x7F80_0000, 0x7FC0_0000
    array = np.array([top, above, inf, nan, 0x3FC0_0000, 0x3F80_0000], np.uint32).view(np.float32)
    for mode, saturate, codes in (
        ("up", True, [254, 254, 255, 255, 128, 127]), ("up", False, [254, 255, 255, 255, 128, 127]),
        ("down", True, [254, 254, 255, 255, 127, 127]), ("down", False, [254, 254, 255, 255, 127, 127]),
        ("nearest", True, [254, 254, 255, 255, 128, 127]), ("nearest", False, [254, 254, 255, 255, 128, 127]),
    ):  # fmt: skip
        got = cast_as(array, "float8e8m0", "reference", saturate=saturate, round_mode=mode)
        assert got.view(np.uint8).tolist() == codes, (mode, saturate)


def test_what_is_unknown_is_refused_by_name() -> None:
    with pytest.raises(CastError, match="unknown runtime 'tvm'; expected onnxruntime, reference"):
        cast_as(1.0, "float", "tvm")
    with pytest.raises(CastError, match="no Cast for float4e2m1"):
        cast_as(1.0, "float4e2m1", "onnxruntime")


DEPARTURES: list[tuple[str, str, dict[str, Any], list[float], list[int]]] = [
    (
        "float",
        "float8e4m3fn",
        {"saturate": False},
        [464, 479, 480, 495, -485, 496],
        [0x7E, 0x7F, 0x7E, 0x7E, 0xFE, 0x7F],
    ),
    ("float", "float8e4m3fn", {}, [479, 480, 495, 496], [0x7E] * 4),
    ("float", "float8e5m2", {"saturate": False}, [61439, 61440, -65535, 65536], [0x7B, 0x7F, 0xFF, 0x7C]),
    ("float", "float8e5m2", {}, [61439, 61440, 65535, 65536], [0x7B] * 4),
    ("float", "float8e5m2", {"saturate": False}, [485], [0x60]),
    ("float", "float8e5m2fnuz", {"saturate": False}, [62000], [0x80]),
    ("float", "float8e8m0", {}, [-2, 2, 0.5, 3, -0.0], [0, 128, 126, 129, 0]),
    ("float", "float8e8m0", {"round_mode": "down"}, [3], [128]),
    ("float", "float8e8m0", {"saturate": False}, [-2], [255]),
    ("float", "int8", {}, [2.5, -2.5], [2, 254]),
    ("int64", "int4", {}, [3000000001], [1]),
    ("float8e4m3fn", "int16", {}, [2, -3], [2, 65533]),
    ("double", "int64", {}, [2**53 - 1], [2**53 - 1]),
    ("double", "float16", {}, [1 + 2**-11 + 2**-40], [0x3C00]),  # two roundings
    ("double", "bfloat16", {}, [1 + 2**-8 + 2**-40], [0x3F80]),
    ("double", "float8e5m2", {}, [1 + 2**-3 + 2**-40], [0x3C]),
    ("float", "int4", {}, [2.5, -2.5, 0.4999, 17, -9, 3e9, -3e9], [3, 13, 0, 1, 7, 0, 0]),
    ("double", "int4", {}, [0.49999999999, 2147483647, 2147483648, -2147483648, 2147483647.5], [0, 15, 0, 0, 0]),
    ("float", "uint2", {}, [1.5, -1, 7], [2, 3, 3]),
    ("float8e4m3fn", "bool", {}, [0.0, -0.0, 1], [0, 1, 1]),
    ("float16", "bool", {}, [0.0, -0.0, 1], [0, 0, 1]),
]


@pytest.mark.parametrize(("source", "target", "settings", "numbers", "codes"), DEPARTURES)
def test_where_onnxruntime_departs(
    source: str, target: str, settings: dict[str, Any], numbers: list[float], codes: list[int]
) -> None:
    """Measured with ONNX Runtime 1.32."""
    array = np.array(numbers).astype(parse_type(source).numpy())
    got = cast_as(array, target, "onnxruntime", **settings)
    assert got.view(oracle.unsigned(target)).tolist() == codes
