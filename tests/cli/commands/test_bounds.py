"""castsmith bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from tests.cli.helpers import Command, is_one_sentence
from tests.cli.page.test_data import data_of

_TEXT = """<ir_version: 10, opset_import: ["" : 20]> g (float[2,4] x, float[4] mask) => (float[2,4] y)
    <float w = {100000}> { a = Mul (x, w) b = Tanh (a) c = Add (a, mask) y = Mul (b, c) }"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(_TEXT), path)
    return str(path)


def test_the_table(castsmith: Command, model: str) -> None:
    ended = castsmith("bounds", model, "--range", "x=-1:1")
    assert (ended.code, ended.err) == (0, "")
    assert "7 values: 4 proven, 0 measured, 3 unknown" in ended.out
    assert "declare --range mask=LOW:HIGH: 3 unknown values depend on it" in ended.out


def test_to_a_type(castsmith: Command, model: str) -> None:
    ended = castsmith("bounds", model, "--range", "x=-1:1", "--range", "mask=0:1", "--to", "float16")
    assert (ended.code, ended.err) == (1, "")
    assert "can exceed float16, caused by 1 of them:" in ended.out
    ended = castsmith("bounds", model, "--range", "x=-1:1", "--range", "mask=0:1", "--to", "bfloat16")
    assert (ended.code, ended.err) == (0, "")
    assert "every value fits bfloat16" in ended.out


def test_json_and_measured(castsmith: Command, model: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"a/x": np.ones((2, 4), np.float32), "a/mask": np.zeros(4, np.float32)}
    np.savez(tmp_path / "i.npz", **arrays)
    ended = castsmith("bounds", model, "--inputs", str(tmp_path / "i.npz"), "--json", "--to", "float16")
    data = json.loads(ended.out)
    assert (ended.code, data["counts"]) == (1, {"proven": 2, "measured": 5, "unknown": 0})
    values = {each["name"]: each for each in data["values"]}
    assert values["a"]["measured"] == [100000.0, 100000.0]
    assert [(each["name"], each["kind"]) for each in data["exceeding"]] == [
        ("w", "overflow"), ("a", "overflow"), ("c", "overflow"), ("y", "overflow")
    ]  # fmt: skip


def test_what_was_infinite_or_nan_in_its_own_type(castsmith: Command, tmp_path: Path) -> None:
    """The case of a model that gives NaN: both are measured, and the first node that gives each is named."""
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[2] x) => (float[2] y)
        { s = Mul (x, x) d = Sub (s, s) y = Relu (d) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    np.savez(tmp_path / "i.npz", allow_pickle=False, x=np.array([1, 1e20], np.float32))
    words = ("bounds", str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "i.npz"))
    ended = castsmith(*words, "--to", "float16")
    assert (ended.code, ended.err) == (1, "")
    assert "1 value infinite on the given inputs:" in ended.out
    assert "s [1, inf] (measured): s (Mul) is infinite in float already" in ended.out
    assert "2 values NaN on the given inputs, caused by 1 of them:" in ended.out
    assert "d (Sub) is NaN in float already" in ended.out
    data = json.loads(castsmith(*words, "--to", "float16", "--json").out)
    assert [(each["name"], each["kind"]) for each in data["exceeding"]] == [
        ("x", "overflow"), ("s", "infinite"), ("d", "nan"), ("y", "nan")
    ]  # fmt: skip
    assert castsmith(*words, "--report", str(tmp_path / "b.html")).code == 0


def test_the_page(castsmith: Command, model: str, tmp_path: Path) -> None:
    page = tmp_path / "b.html"
    assert castsmith("bounds", model, "--report", str(page)).code == 0
    data = data_of(page.read_text("utf-8"))
    assert dict(data["figures"])["values"] == "7"
    assert data["map"]


@pytest.mark.parametrize(
    "words",
    [
        ("--range", "x"), ("--range", "x=1"), ("--range", "x=2:1"), ("--range", "no=0:1"), ("--range", "x=a:b"),
        ("--to", "int8"), ("--to", "float99"), ("--inputs", "no.npz"), ("--report", "no/such/folder.html"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_bad_words(castsmith: Command, model: str, words: tuple[str, ...]) -> None:
    ended = castsmith("bounds", model, *words)
    assert (ended.code, ended.out) == (2, "")
    assert is_one_sentence(ended.err)


@pytest.mark.parametrize(
    "words",
    [
        "bounds m.onnx --inputs in.npz --report",
        "optimize m.onnx --inputs in.npz --verify -o",
        "optimize m.onnx -o out.onnx --inputs in.npz --verify --report",
        "convert m.onnx --to float16 --inputs in.npz -o",
    ],
)
def test_no_file_that_is_read_is_overwritten(
    castsmith: Command, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Not the model, its weights, or the arrays to run on, under any name."""
    monkeypatch.chdir(tmp_path)
    arrays = {"x": np.ones((2, 4), np.float32), "mask": np.ones(4, np.float32)}
    np.savez("in.npz", allow_pickle=False, **arrays)
    proto = onnx.load(model)
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones((), np.float32), "w"))
    onnx.save(proto, "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "link.npz").symlink_to("in.npz")
    (tmp_path / "link.bin").symlink_to("w.bin")
    read = ["in.npz", "link.npz", "w.bin", "link.bin", *(["m.onnx"] if words.startswith("bounds") else [])]
    before = {name: Path(name).read_bytes() for name in read}
    for name in read:
        ended = castsmith(*words.split(), name)
        assert ended.code == 2
        assert is_one_sentence(ended.err)
        assert {each: Path(each).read_bytes() for each in read} == before
