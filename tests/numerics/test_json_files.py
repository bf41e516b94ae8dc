"""JSON files of users."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.json_files import read_json


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
    with pytest.raises(PromotionError) as caught:  # a ValueError itself
        read_json(tmp_path, PromotionError)
    assert str(caught.value) == f"{tmp_path} cannot be read: it is not an ordinary file."
    with pytest.raises(PromotionError, match="invalid file name"):
        read_json(tmp_path / "\ud800", PromotionError)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PromotionError, match="not an ordinary file"):
        read_json(tmp_path / "pipe", PromotionError)
