"""Findings as GitHub shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from castsmith.cli.gate.comments import LARGEST
from tests.cli.gate.samples import LOSSY, hostile
from tests.cli.helpers import Command, write_model


def test_annotations_are_escaped(castsmith: Command, folder: Path) -> None:
    hostile(folder)
    ended = castsmith("check", "models/lossy.onnx", "a,b:c%.onnx", "models/followed.onnx", "--format", "github")
    assert ended.code == 1
    first, second, third = ended.out.splitlines()
    head = "::error file=a%2Cb%3Ac%25.onnx,line=1,title=mixed-operand-types::lossy: %250A::error ::|"
    assert first.startswith(head)
    assert second.startswith("::error file=models/followed.onnx,line=1,title=mixed-operand-types::")
    assert "; 4 findings follow from it: " in second
    assert third.startswith("::notice file=models/lossy.onnx,line=1,title=lossy-cast-chain::")


def cells(row: str) -> Iterator[str]:
    yield from re.split(r"(?<!\\)\|", row)[1:-1]


@pytest.mark.usefixtures("untried")
def test_a_comment_is_bounded_and_names_mean_nothing_in_it(castsmith: Command, folder: Path) -> None:
    hostile(folder)
    text = castsmith("check", "a,b:c%.onnx", "models", "--format", "markdown").out
    assert text.startswith("**castsmith check**: 6 errors, 1 note in 3 of 4 models\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [len(list(cells(row))) for row in rows] == [5] * 5
    for line in text.splitlines():  # outside code nothing of the name is left
        assert "someone" not in re.sub(r"(`+).*?(?<!`)\1(?!`)|<code>.*?</code>", "", line)
    assert text.count("<details>") == text.count("</details>") == 1
    many = folder / "many"
    many.mkdir()
    long = "x" * 2000
    mixed = LOSSY.replace("Cast <to = 1> (a)", f"Add (a, {long})")
    mixed = mixed.replace("[N] x)", f"[N] {long})").replace("(x)", f"({long})")
    for number in range(40):
        write_model(many / f"{number}.onnx", mixed)
    text = castsmith("check", "many", "--format", "markdown").out
    assert 40_000 < len(text) <= LARGEST
    assert text.endswith("The rest is omitted: a comment holds at most 65,536 characters.\n")
