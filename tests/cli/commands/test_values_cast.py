"""castsmith cast: values in, the result with its code and standing out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.helpers import Command, is_one_sentence


def cast(castsmith: Command, value: str, source: str, to: str, *options: str) -> dict[str, Any]:
    ended = castsmith("cast", value, "--from", source, "--to", to, "--json", *options)
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert data["schema"] == 1
    return data["casts"][0]


@pytest.mark.parametrize(
    ("value", "source", "to", "result", "code", "standing"),
    [
        ("0.1", "f32", "f8e4m3fn", "0.1015625", "0x1d", "DEFINED"),
        ("464", "f32", "f8e4m3fn", "448.0", "0x7e", "DEFINED"),
        ("1e3", "i64", "u8", "232", "0xe8", "DEFINED"),
        ("-1", "i8", "u16", "65535", "0xffff", "DEFINED"),
        ("18446744073709551615", "u64", "i64", "-1", "0xffffffffffffffff", "DEFINED"),
        ("-9223372036854775808", "i64", "f32", "-9.223372e+18", "0xdf000000", "DEFINED"),
        ("300.5", "f32", "i8", "127", "0x7f", "UNDEFINED"),
        ("nan", "f32", "i8", "0", "0x00", "UNDEFINED"),
        ("-inf", "f32", "f16", "-inf", "0xfc00", "DEFINED"),
        ("-1e5", "f32", "f16", "-inf", "0xfc00", "DEFINED"),
        ("-.5", "f64", "bf16", "-0.5", "0xbf00", "DEFINED"),
        ("0xf", "i4", "f32", "-1.0", "0xbf800000", "DEFINED"),
        ("0x7fc00001", "f32", "f16", "nan", "0x7e00", "DEFINED"),
        ("0x80", "f8e4m3fnuz", "bf16", "nan", "0xffc0", "DEFINED"),
        ("true", "bool", "f32", "1.0", "0x3f800000", "DEFINED"),
        ("0x1", "u2", "bool", "True", "0x1", "DEFINED"),
        ("2", "f8e8m0", "f32", "2.0", "0x40000000", "DEFINED"),
        ("1.5", "string", "f32", "1.5", "0x3fc00000", "DEFINED"),
        ("abc", "string", "f32", "nan", "0x7fc00000", "UNDEFINED"),
        ("1.5", "f32", "string", "'1.5'", "", "DISPUTED"),
    ],
)
def test_one_value(castsmith: Command, value: str, source: str, to: str, result: str, code: str, standing: str) -> None:
    found = cast(castsmith, value, source, to)
    assert (found["result"], found["result_code"], found["standing"]) == (result, code, standing)
    assert bool(found["reason"]) == (standing != "DEFINED")


@pytest.mark.parametrize(
    ("values", "source"),
    [
        ("1", "int64"), ("+1 -2 007", "int64"), ("1.0", "double"), ("1e3", "double"), ("nan", "double"),
        ("1 1.5", "double"), ("1.5 1", "double"), (f"{2**63 - 1}", "int64"),
    ],
)  # fmt: skip
def test_numbers_without_a_type_have_that_of_python(castsmith: Command, values: str, source: str) -> None:
    ended = castsmith("cast", *values.split(), "--to", "i8", "--json")
    assert (ended.code, json.loads(ended.out)["from"]) == (0, source)


def test_decimal_text_is_rounded_once(castsmith: Command) -> None:
    # Between two float8 values, a hair above the tie: through float it would be the tie, and round down.
    text = "1.0625000000000000000000000000000001"
    assert cast(castsmith, text, "f8e4m3fn", "f32")["value"] == "1.125"
    assert cast(castsmith, "1.0625", "f8e4m3fn", "f32")["value"] == "1.0"


def test_settings_reach_the_cast(castsmith: Command) -> None:
    assert cast(castsmith, "1000", "f32", "f8e4m3fn", "--no-saturate")["result"] == "nan"
    assert cast(castsmith, "3", "f32", "f8e8m0")["result"] == "4.0"
    assert cast(castsmith, "3", "f32", "f8e8m0", "--round-mode", "down")["result"] == "2.0"
    assert cast(castsmith, "inf", "f32", "f8e5m2fnuz", "--opset", "19")["standing"] == "DISPUTED"


def test_text_shows_every_value_and_the_reason(castsmith: Command) -> None:
    ended = castsmith("cast", "1", "-2.5", "1e9", "--from", "f32", "--to", "i8")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert len(lines) == 4
    assert lines[0].split() == ["value", "as", "float", "code", "as", "int8", "code", "status"]
    assert lines[2].split() == ["-2.5", "-2.5", "0xc0200000", "-2", "0xfe", "DEFINED"]
    assert lines[3].endswith("UNDEFINED: the number is out of range for int8, which holds -128 to 127")


@pytest.mark.parametrize(
    ("value", "source", "to", "text"),
    [
        ("abc", "f32", "i8", "'abc' is not a number."),
        ("300", "i8", "f32", "300 is out of range for int8, which holds -128 to 127."),
        ("1e999999999", "i8", "f32", "1e999999999 is out of range for int8, which holds -128 to 127."),
        ("1e-999999999", "i8", "f32", "1e-999999999 is not an integer"),
        ("1.5", "i8", "f32", "1.5 is not an integer, so int8 does not hold it."),
        ("nan", "i8", "f32", "nan is not an integer, so int8 does not hold it."),
        ("0x10", "i4", "f32", "0x10 is not a code of int4, which has 4 bits."),
        ("2", "bool", "f32", "'2' is not a bool: write 0, 1, true or false."),
        ("0", "f8e8m0", "f32", "0 has no fixed value in float8e8m0: float8e8m0 has no zero."),
        ("nan", "f4e2m1", "f32", "nan has no fixed value in float4e2m1"),
        ("1", "c64", "f32", "Cast does not support complex64."),
        ("1", "f33", "f32", "'f33' is not an element type of ONNX; did you mean 'f32'?"),
    ],
)
def test_what_is_no_value_is_refused(castsmith: Command, value: str, source: str, to: str, text: str) -> None:
    ended = castsmith("cast", value, "--from", source, "--to", to)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"castsmith: {text}")
    assert is_one_sentence(ended.err)


@pytest.mark.parametrize("option", [("--opset", "13"), ("--opset", "99"), ("--round-mode", "odd")], ids=" ".join)
def test_settings_that_cast_does_not_have(castsmith: Command, option: tuple[str, str]) -> None:
    ended = castsmith("cast", "1", "--from", "f32", "--to", "f8e4m3fn", *option)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
