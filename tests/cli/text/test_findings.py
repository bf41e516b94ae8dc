"""A finding as a line, and the options that it names."""

from __future__ import annotations

import pytest

from castsmith.cli.models import tell_flaws
from castsmith.cli.text.alike import more_text
from castsmith.cli.text.findings import as_command, finding_line
from castsmith.ir.records import Diagnostic, Flaw, Severity, Site


def test_a_finding_with_and_without_a_place_and_a_way_out() -> None:
    for site, place in ((Site("g", "n", "Cast"), "g: n (Cast): "), (Site("g"), "g: "), (Site(""), "")):
        for way_out, text in (("mend it", " (mend it)"), ("", "")):
            record = Diagnostic("code", Severity.NOTE, site, "is odd", way_out)
            assert finding_line("a.onnx", record) == f"a.onnx: {place}code is odd{text}"


def test_the_options_that_a_finding_names() -> None:
    """The message of mixed types names those of promotion; names of others in backquotes are the model's own."""
    for code, message in (("mixed-operand-types", "needs --promote-unsafe"), ("other", "needs `promote_unsafe`")):
        record = as_command(Diagnostic(code, Severity.NOTE, Site(""), "needs `promote_unsafe`", "pass `max_error`"))
        assert (record.message, record.help) == (message, "pass --max-error")


def test_flaws_are_told_once_each_with_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    flaws = [Flaw(Site("g", "n", "Cast"), "it is odd"), Flaw(Site("g"), "it has no name")]
    tell_flaws("a.onnx", flaws * 2)
    assert capsys.readouterr().err == (
        "castsmith: a.onnx: g: n (Cast): it is odd.\ncastsmith: a.onnx: it has no name.\n"
    )
    tell_flaws("a.onnx", flaws, quiet=True)
    assert capsys.readouterr().err == ""


def test_the_names_of_places_that_are_not_shown() -> None:
    """A node is named by itself, its result, or its operator; places that are no node are counted only."""
    sites = [
        Site("g", "n", "Cast", "y"),
        None,
        Site("g", "", "Cast", "y"),
        Site("g", "", "Relu"),
        Site("g", "m", "Neg"),
    ]
    for count, text in (
        (1, "1 more: n"), (2, "2 more: n and 1 other"), (3, "3 more: n, y and 1 other"),
        (4, "4 more: n, y, Relu and 1 other"), (5, "5 more: n, y, Relu and 2 others"),
    ):  # fmt: skip
        assert more_text(sites[:count]) == text
