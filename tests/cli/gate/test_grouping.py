"""Findings that follow from others."""

from __future__ import annotations

from castsmith.cli.gate.grouping import counts_text, groups_by_severity, groups_of
from castsmith.cli.gate.judging import Checked
from castsmith.ir.records import Diagnostic, Severity, Site
from tests.cli.gate.samples import found
from tests.cli.helpers import Command


def test_findings_name_the_one_from_which_they_follow(castsmith: Command) -> None:
    first, *others = found(castsmith, "models/followed.onnx")
    assert (first["code"], first["follows"]) == ("mixed-operand-types", None)
    assert first["help"] == "optimize --promotion torch promotes them as PyTorch does"
    assert {each["follows"] for each in others} == {0}
    codes = ["mixed-operand-types", "value-type-mismatch", "value-type-mismatch", "output-type-mismatch"]
    assert [each["code"] for each in others] == codes
    # Without the cause the others stand alone.
    assert {e["follows"] for e in found(castsmith, "models/followed.onnx", "--select=value-type-mismatch")} == {None}
    assert castsmith("optimize", "models/followed.onnx", "-o", "fixed.onnx", "--promotion", "torch").code == 0
    assert found(castsmith, "fixed.onnx") == []


def finding(code: str, severity: Severity, way_out: str = "", follows: int | None = None) -> Diagnostic:
    return Diagnostic(code, severity, Site("g"), code, way_out, follows=follows)


NOTE, WARNING, ERROR = (finding(level.value, level) for level in Severity)
CAUSES = [
    finding("a", Severity.NOTE),
    finding("a", Severity.NOTE),
    finding("a", Severity.NOTE, "another fix"),
    finding("a", Severity.ERROR),
    finding("b", Severity.ERROR, follows=1),
    finding("c", Severity.ERROR, follows=3),
    finding("b", Severity.NOTE, follows=3),
    finding("c", Severity.NOTE, follows=3),
]


def test_findings_of_one_code_severity_and_fix_are_a_group_with_what_follows_from_any_of_them() -> None:
    first, second, third = groups_of([Checked("f", CAUSES)])
    assert [group.file for group in (first, second, third)] == ["f"] * 3
    assert (first.first, first.more()) == (CAUSES[3], ["3 findings follow from it: 2 c, 1 b"])
    assert (second.first, second.alike) == (CAUSES[0], [CAUSES[1]])
    assert second.more() == ["1 more like it", "1 finding follows from it: 1 b"]
    assert (third.first, third.more()) == (CAUSES[2], [])


def test_groups_are_by_severity_in_each_file_or_in_all() -> None:
    checked = [Checked("f", [NOTE, WARNING, ERROR]), Checked("g", [ERROR, NOTE])]
    assert [group.first for group in groups_of(checked)] == [ERROR, WARNING, NOTE, ERROR, NOTE]
    assert [group.first for group in groups_by_severity(checked)] == [ERROR, ERROR, WARNING, NOTE, NOTE]
    assert [group.file for group in groups_by_severity(checked)] == ["f", "g", "f", "f", "g"]


def test_findings_are_counted_by_severity_and_files() -> None:
    none, some = Checked("f"), Checked("g", [NOTE, ERROR, ERROR], known=1)
    assert counts_text([none]) == "no findings in 1 model"
    assert counts_text([none, none]) == "no findings in 2 models"
    assert counts_text([some]) == "2 errors, 1 note in 1 model; 1 finding of the baseline not shown"
    assert counts_text([none, some]) == "2 errors, 1 note in 1 of 2 models; 1 finding of the baseline not shown"
    assert counts_text([some, some]) == "4 errors, 2 notes in 2 models; 2 findings of the baseline not shown"
