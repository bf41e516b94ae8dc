"""castsmith dev promote, targets and passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from castsmith.lowering.registry import PASSES
from castsmith.targets.target import ALIASES, target_names
from tests.cli.helpers import CHAIN, Command, is_one_sentence, write_model


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


def test_targets(castsmith: Command) -> None:
    assert [line.split()[0] for line in castsmith("targets").out.splitlines()] == target_names()
    data = json.loads(castsmith("targets", "--json").out)
    assert [target["name"] for target in data["targets"]] == target_names()
    assert {alias: target["name"] for target in data["targets"] for alias in target["aliases"]} == ALIASES
    lines = {line.split()[0]: line for line in castsmith("targets").out.splitlines()}
    assert lines["onnxruntime-webgpu"].endswith(" (also web, webgpu)")
    shown = castsmith("targets", "show", "ort", "--json")
    assert json.loads(shown.out)["target"]["name"] == "onnxruntime-cpu"
    assert shown.err == "castsmith: ort is onnxruntime-cpu.\n"


@pytest.mark.parametrize("name", target_names())
def test_targets_show(castsmith: Command, name: str) -> None:
    ended = castsmith("targets", "show", name)
    assert ended.code == 0
    assert ended.out.startswith(f"{name}: ")
    for words in (("show", name, "--json"), ("--json", "show", name)):
        data = json.loads(castsmith("targets", *words).out)["target"]
        assert data["name"] == name
        assert f"newest opset {data['newest_opset'] or 'unknown'}" in ended.out


def test_an_alias_of_a_target_is_said_once(castsmith: Command, tmp_path: Path) -> None:
    ended = castsmith("targets", "show", "trt")
    assert (ended.code, ended.err) == (0, "castsmith: trt is tensorrt-11.\n")
    assert ended.out.startswith("tensorrt-11: ")
    models = [write_model(tmp_path / f"{name}.onnx", CHAIN) for name in "ab"]
    ended = castsmith("check", *map(str, models), "--target", "ort")
    assert ended.err == "castsmith: ort is onnxruntime-cpu.\ncastsmith: 0 errors in 0 of 2 models.\n"


def test_a_target_file_is_named_as_typed(castsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(Path("a.onnx"), CHAIN)
    Path("npu.json").write_text('{"name": "n", "description": "", "types": ["int8"], "kernels": []}')
    ended = castsmith("check", "a.onnx", "--target", "./npu.json")
    assert "./npu.json has no double, which" in ended.out
    assert "(optimize --target ./npu.json does not help; fit --target ./npu.json" in ended.out
    assert "the facts about ./npu.json do not include its newest opset and newest IR version" in ended.out


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
