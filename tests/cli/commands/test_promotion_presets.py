"""`--promotion PRESET`: the rules of a library, with what is given beside it."""

from __future__ import annotations

import pytest

from castsmith.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "code", "answer"),
    [
        (["i64", "f16", "--promotion", "numpy"], 0, "double"),
        (["i64", "f16", "--promotion", "torch"], 0, "float16"),
        (["i64", "f16", "--promotion", "openvino", "--promote-unsafe"], 0, "float16"),
        (["i64", "f16"], 1, ""),
        (["i64", "f16", "--promotion", "rust"], 2, ""),
    ],
)
def test_presets(arguments: list[str], code: int, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["promote", *arguments]) == code
    assert capsys.readouterr().out.strip() == answer
