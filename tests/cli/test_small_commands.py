"""castsmith promote, targets and passes."""

from __future__ import annotations

import json

import pytest

from castsmith.ir.targets import target_names
from castsmith.lowering.registry import PASSES
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
    ended = castsmith("promote", *words)
    assert (ended.code, ended.out, ended.err) == (0, f"{common}\n", "")
    assert json.loads(castsmith("promote", "--json", *words).out)["common"] == common


def test_a_refused_promotion_says_which_option_allows_it(castsmith: Command) -> None:
    ended = castsmith("promote", "i64", "f32")
    assert (ended.code, ended.out) == (1, "")
    assert is_one_sentence(ended.err)
    assert "int64 with float" in ended.err
    assert "--promote-unsafe" in ended.err
    data = json.loads(castsmith("promote", "i64", "f32", "--json").out)
    assert data["common"] is None
    assert data["refusal"]["option"] == "promote_unsafe"


@pytest.mark.parametrize("words", [("i7",), ("i8", "--scalar", "1"), ("i8", "--u64-integer-promotion-target", "x")])
def test_promote_refuses_bad_words(castsmith: Command, words: tuple[str, ...]) -> None:
    ended = castsmith("promote", *words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)


def test_targets(castsmith: Command) -> None:
    assert [line.split()[0] for line in castsmith("targets").out.splitlines()] == target_names()
    data = json.loads(castsmith("targets", "--json").out)
    assert [target["name"] for target in data["targets"]] == target_names()


@pytest.mark.parametrize("name", target_names())
def test_targets_show(castsmith: Command, name: str) -> None:
    ended = castsmith("targets", "show", name)
    assert ended.code == 0
    assert ended.out.startswith(f"{name}: ")
    for words in (("show", name, "--json"), ("--json", "show", name)):
        data = json.loads(castsmith("targets", *words).out)["target"]
        assert data["name"] == name
        assert f"newest opset {data['newest_opset']}" in ended.out


def test_an_unknown_target_is_bad_usage(castsmith: Command) -> None:
    ended = castsmith("targets", "show", "abacus")
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)
    assert all(name in ended.err for name in target_names())


def test_passes(castsmith: Command) -> None:
    text = castsmith("passes").out
    data = json.loads(castsmith("passes", "--json").out)["passes"]
    assert [entry["name"] for entry in data] == list(PASSES)
    for entry in data:
        assert entry["summary"]
        assert entry["summary"] in text
        assert all(option in text for option in entry["options"])
