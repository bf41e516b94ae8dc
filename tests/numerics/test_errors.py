"""Texts of errors, and files of settings that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from castsmith.numerics.errors import CastsmithError, InternalError, PromotionError, did_you_mean, present, require
from castsmith.numerics.json_files import read_json


def test_a_condition_that_does_not_hold_is_an_internal_error() -> None:
    require(True, "nothing")
    with pytest.raises(InternalError, match="the plan has no root"):
        require(False, "the plan has no root")
    assert present(0, "the root") == 0
    with pytest.raises(InternalError, match="the root is missing"):
        present(None, "the root")
    assert not issubclass(InternalError, CastsmithError)


def test_the_most_similar_name_or_the_way_out() -> None:
    known = ["onnxruntime-cpu", "tensorrt-10"]
    assert did_you_mean("onnxruntime-cqu", known, "see the list") == "did you mean 'onnxruntime-cpu'?"
    assert did_you_mean("zzz", known, "see the list") == "see the list."


def test_json_is_read_or_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "rules.json"
    file.write_text('{"a": [1, "é"]}', encoding="utf-8")
    assert read_json(file, PromotionError) == {"a": [1, "é"]}
    wrong = {
        b"[" * 100_000: "its JSON is nested too deeply",
        b'"\xff"': "not text in UTF-8",
        b"{": "is not JSON: ",
        b"1" * 5000: "cannot be read: Exceeds the limit",
        b" " * ((1 << 24) + 1): "it is larger than 16 MiB",
    }
    for content, said in wrong.items():
        file.write_bytes(content)
        with pytest.raises(PromotionError, match=said):
            read_json(file, PromotionError)
    file.write_bytes(b" " * ((1 << 24) - 1) + b"7")
    assert read_json(file, PromotionError) == 7
    for path, said in ((tmp_path, "not an ordinary file"), (tmp_path / "none.json", "No such file")):
        with pytest.raises(PromotionError, match=said):
            read_json(path, PromotionError)
    with pytest.raises(PromotionError, match="invalid file name"):
        read_json(tmp_path / "\ud800", PromotionError)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PromotionError, match="not an ordinary file"):
        read_json(tmp_path / "pipe", PromotionError)
