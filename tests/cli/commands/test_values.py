"""`dev promote` and `dev trunc`: commands on values and types."""

from __future__ import annotations

import json

import pytest

from tests.cli.helpers import Command, is_one_sentence


@pytest.mark.parametrize(
    ("words", "common"),
    [
        (("i32", "i64"), "int64"),
        (("int16", "float32"), "float"),
        (("i64", "f32", "--promote-unsafe"), "float"),
        (("bf16", "f16", "--promote-unsafe"), "float"),
        (("u64", "i8", "--promote-unsafe"), "float"),
        (("u64", "i8", "--promote-unsafe", "--u64-integer-promotion-target", "i64"), "int64"),
        (("f16", "f32", "--pytorch-scalar-promotion", "--scalar", "1", "--promote-unsafe"), "float16"),
        (("f32",), "float"),
    ],
    ids=str,
)
def test_promote(castsmith: Command, words: tuple[str, ...], common: str) -> None:
    ended = castsmith("dev", "promote", *words)
    assert (ended.code, ended.out, ended.err) == (0, f"{common}\n", "")
    assert json.loads(castsmith("dev", "promote", "--json", *words).out)["common"] == common


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (("i64", "f16", "--promotion", "numpy"), 0, "double"),
        (("i64", "f16", "--promotion", "torch"), 0, "float16"),
        (("i64", "f16", "--promotion", "openvino", "--promote-unsafe"), 0, "float16"),
        (("i64", "f16"), 1, ""),
        (("i64", "f16", "--promotion", "rust"), 2, ""),
    ],
    ids=str,
)
def test_presets(castsmith: Command, words: tuple[str, ...], code: int, answer: str) -> None:
    ended = castsmith("dev", "promote", *words)
    assert (ended.code, ended.out.strip()) == (code, answer)


def test_a_refused_promotion_says_which_option_allows_it(castsmith: Command) -> None:
    ended = castsmith("dev", "promote", "i64", "f32")
    assert (ended.code, ended.out) == (1, "")
    assert is_one_sentence(ended.err)
    assert "int64 with float" in ended.err
    assert "--promote-unsafe" in ended.err
    data = json.loads(castsmith("dev", "promote", "i64", "f32", "--json").out)
    assert data["common"] is None
    assert data["refusal"]["option"] == "promote_unsafe"


@pytest.mark.parametrize("words", [("i7",), ("i8", "--scalar", "1"), ("i8", "--u64-integer-promotion-target", "x")])
def test_promote_refuses_bad_words(castsmith: Command, words: tuple[str, ...]) -> None:
    ended = castsmith("dev", "promote", *words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)


@pytest.mark.parametrize(
    ("words", "results"),
    [
        (("255", "127", "9", "--rounding-mode", "ROUND"), ["16.0", "8.0", "1.0"]),
        (("1727", "--zero-point", "-1600", "--rounding-mode", "round"), ["1608.0"]),
        (("255", "8", "9", "--out-scale", "16", "--unsigned", "--rounding-mode", "ROUND"), ["240.0", "0.0", "16.0"]),
        (("-128", "-1e1", "--out-scale", "16", "--narrow"), ["-112.0", "-16.0"]),
        (("7.3", "--scale", ".5", "--out-scale", "3"), ["3.0"]),
        (("nan", "-inf", "--out-scale", "16", "--type", "f64"), ["nan", "-128.0"]),
    ],
    ids=str,
)
def test_trunc(castsmith: Command, words: tuple[str, ...], results: list[str]) -> None:
    command = ("dev", "trunc", *words, "--in-bitwidth", "8", "--out-bitwidth", "4")
    ended = castsmith(*command, "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert [each["result"] for each in data["truncs"]] == results
    assert data["version"] == 1 + ("--out-scale" in words)
    assert [line.split()[-1] for line in castsmith(*command).out.splitlines()[1:]] == results


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x",), "'x' is not a number"),
        (("1", "--rounding-mode", "NEAREST"), "unknown QONNX rounding mode 'NEAREST'"),
        (("1", "--type", "int8"), "--type must be float or double"),
        (("1", "--in-bitwidth", "0"), "must be at least 1"),
        (("1", "--out-bitwidth", "65"), "--out-bitwidth must be at most 64"),
    ],
)
def test_trunc_refuses_in_a_sentence(castsmith: Command, words: tuple[str, ...], said: str) -> None:
    widths = {"--in-bitwidth": "8", "--out-bitwidth": "4"}
    usual = [word for option in widths.items() if option[0] not in words for word in option]
    ended = castsmith("dev", "trunc", *usual, *words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert said in ended.err


def test_the_data_of_trunc(castsmith: Command) -> None:
    words = ["dev", "trunc", "100", "--in-bitwidth", "8", "--out-bitwidth", "4", "--json"]
    version_1 = {
        "version": 1,
        "type": "float",
        "scale": "1.0",
        "zero_point": "0.0",
        "in_bitwidth": 8,
        "out_bitwidth": 4,
    }
    facts = {"schema": 1, **version_1, "out_scale": None, "rounding_mode": "FLOOR", "signed": True, "narrow": False}
    data = json.loads(castsmith(*words).out)
    assert {**data, "truncs": []} == {**facts, "truncs": []}
    assert [(row["text"], row["value"]) for row in data["truncs"]] == [("100", "100.0")]
    more = ["--out-scale", "16", "--unsigned", "--narrow", "--rounding-mode", "ceil", "--type", "double"]
    data = json.loads(castsmith(*words, *more).out)
    changed = {"version": 2, "type": "double", "out_scale": "16.0", "rounding_mode": "CEIL"}
    assert {**data, "truncs": []} == {**facts, **changed, "signed": False, "narrow": True, "truncs": []}
