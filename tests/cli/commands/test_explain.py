"""castsmith explain: a page for every code, the same in the documentation; and check's SARIF."""

from __future__ import annotations

import json
import re
from pathlib import Path

from castsmith.cli.catalogue import all_codes, code_data, code_named, parts, passes_with, safety_names
from castsmith.ir.codes import Code, Rule
from docs.reference import pages
from tests.cli.codes_in_source import described_codes, literal_codes
from tests.cli.helpers import CLEAN, MIXED, Command, is_one_sentence, write_model


def test_every_code_of_the_source_is_in_the_catalogue() -> None:
    assert sorted(described_codes()) == sorted(code.code for code in all_codes())


def test_every_record_has_the_code_of_a_description() -> None:
    assert literal_codes() == []


def test_every_page_is_whole() -> None:
    assert [code.code for code in all_codes() if not _is_whole(code)] == []


def _is_whole(code: Code) -> bool:
    texts = [text for _, text in parts(code)]
    by_comparison = code.code == "unrecorded-change"
    return (
        len(texts) == (5 if isinstance(code, Rule) else 4)
        and all(re.search(r"[.)]$", text) and "  " not in text for text in texts)
        and bool(code.silence) >= (code.kind == "finding")
        and (by_comparison or bool(passes_with(code)) >= (code.kind != "finding"))
        and bool(safety_names(code))
        and code.example.strip() != ""
        and code_named(code.code) is code
        and re.fullmatch(r"\d+\.\d+\.\d+", code.since) is not None
    )


def test_a_code_of_one_operator_is_one_of_a_family() -> None:
    assert code_named("lower-Cast") is code_named("lower-*") is not code_named("lower-trunc")
    assert code_named("nothing") is code_named("no-such") is None


def test_every_code_has_a_page() -> None:
    texts = {path: "\n".join(page()) for path, page in pages().items() if path.startswith("codes/")}
    index = texts.pop("codes/index.md")
    assert len(texts) == len(list(all_codes()))
    assert [path for path in texts if f"]({path.removeprefix('codes/')})" not in index] == []
    for code in all_codes():
        page = texts[f"codes/{code.code.replace('*', 'operator')}.md"]
        assert all(text in page for text in (code.what, code.why, code.advice, code.example.strip()))


def test_the_command(castsmith: Command) -> None:
    ended = castsmith("explain", "fold-undefined", "lower-Cast")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("fold-undefined\n\nA skipped change, since version ")
    assert "How to fix it: " in ended.out
    assert "How safe it is: Bit-exact" in ended.out
    listed = castsmith("explain").out.splitlines()
    assert len(listed) == len(list(all_codes()))
    pages = json.loads(castsmith("explain", "--json").out)["pages"]
    assert pages == [json.loads(json.dumps(code_data(code))) for code in all_codes()]
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
