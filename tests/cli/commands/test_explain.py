"""castsmith explain: a page for every code, the same pages in docs/codes.md; and check's SARIF."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from castsmith.cli.codes.catalogue import all_pages, page_of
from castsmith.cli.codes.page import SAFETY, Page, parts
from tests.cli.codes_in_source import ROOT, codes_in_source
from tests.cli.helpers import CLEAN, MIXED, Command, is_one_sentence, write_model

GIVEN_ELSEWHERE = {
    "lowering/interface.py": ("widen-interface", "narrow-interface"),
    "lowering/check/types.py": ("value-type-mismatch", "output-type-mismatch"),
    "passes/promote/declared.py": ("widen-joined-output", "keep-output-type"),
    "passes/core/rewriting.py": (),
    "cli/gate/judging.py": (),
    "lowering/net.py": (),
    "lowering/quantized/use.py": (),
}
"""Files that pass a code on in a variable, and the codes that they give."""


@pytest.mark.every_case
def test_every_code_of_the_source_has_a_page() -> None:
    found = codes_in_source()
    lacking = [
        f"{file}: {code}"
        for code, file in found.items()
        if not (file in GIVEN_ELSEWHERE if code.startswith("(unread)") else _has_page(code))
    ]
    assert lacking == []
    assert len(found) > 60


def _has_page(code: str) -> bool:
    """Return True if a page is about the code, in which `[A-Za-z]+` stands for a name."""
    return any(re.fullmatch(code.replace("[A-Za-z]+", r"(\*|[A-Za-z]+)"), page.code) for page in all_pages())


@pytest.mark.parametrize("code", [code for codes in GIVEN_ELSEWHERE.values() for code in codes])
def test_every_code_given_elsewhere_has_a_page(code: str) -> None:
    assert page_of(code) is not None
    where = next(path for path, codes in GIVEN_ELSEWHERE.items() if code in codes)
    assert f'"{code}"' in (ROOT / where).read_text()


def test_every_page_is_whole() -> None:
    assert [page.code for page in all_pages() if not _is_whole(page)] == []


def _is_whole(page: Page) -> bool:
    texts = [text for _, text in parts(page)]
    return (
        page.kind in ("finding", "rewrite", "refusal")
        and len(texts) == 4
        and all(re.search(r"[.)]$", text) and "  " not in text for text in texts)
        and set(page.safety) <= set(SAFETY)
        and bool(page.silence) >= (page.kind == "finding")
        and bool(page.passes) == (page.kind != "finding")
        and page.example.strip() != ""
        and page_of(page.code) == page
        and re.fullmatch(r"\d+\.\d+\.\d+", page.since) is not None
    )


def test_codes_are_distinct() -> None:
    assert len({page.code for page in all_pages()}) == len(all_pages())
    assert page_of("lower-Cast") == page_of("lower-*") != page_of("lower-trunc")
    assert page_of("nothing") is page_of("no-such") is None


def test_the_document_is_up_to_date() -> None:
    """If not: the command that the page names, with `> docs/codes.md`."""
    page = (ROOT / "docs" / "codes.md").read_text()
    command = re.search(r"`python (-m [\w.]+)`", page)
    assert command is not None
    made = subprocess.run([sys.executable, *command[1].split()], capture_output=True, text=True, check=True, cwd=ROOT)
    assert page == made.stdout


def test_the_command(castsmith: Command) -> None:
    ended = castsmith("explain", "fold-undefined", "lower-Cast")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("fold-undefined\n\nA refusal, since version ")
    assert "How to fix it: " in ended.out
    assert "How safe it is: Bit-exact" in ended.out
    listed = castsmith("explain").out.splitlines()
    assert len(listed) == len(all_pages())
    pages = json.loads(castsmith("explain", "--json").out)["pages"]
    assert set(pages[0]) == {field.name for field in dataclasses.fields(Page)}
    composed = castsmith("explain", "promote-operands + resolve-promotion")
    assert composed.out == castsmith("explain", "promote-operands", "resolve-promotion").out
    wrong = castsmith("explain", "nothing")
    assert (wrong.code, wrong.out) == (2, "")
    assert is_one_sentence(wrong.err)


def test_sarif(castsmith: Command, tmp_path: Path) -> None:
    ended = castsmith("check", write_model(tmp_path / "a b.onnx", MIXED), "--format", "sarif")
    assert (ended.code, ended.err) == (1, "")
    data = json.loads(ended.out)
    (run,) = data["runs"]
    (result,) = run["results"]
    assert (data["version"], result["ruleId"], result["level"]) == ("2.1.0", "mixed-operand-types", "error")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["help"]["text"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b.onnx")
    assert result["locations"][0]["logicalLocations"][0]["kind"] == "Add"
    clean = castsmith("check", write_model(tmp_path / "c.onnx", CLEAN), "--format", "sarif")
    assert clean.code == 0
    assert json.loads(clean.out)["runs"][0]["results"] == []
