"""Findings on a terminal: one block for each cause, and the line that sums them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from castsmith.cli.gate.grouping import Group, counts_text, groups_of
from castsmith.cli.gate.judging import Checked
from castsmith.cli.streams import shown
from castsmith.cli.text.terminal import Line
from castsmith.ir.records import Diagnostic, Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold cyan"}


def grouped_lines(checked: Sequence[Checked], *, everything: bool) -> Iterator[Line]:
    """Yield the lines of the groups, and the summary. everything: list also what is alike or follows."""
    file = None
    hidden = False
    for group in groups_of(checked):
        if group.file != file:
            file = group.file
            yield Line((("bold", shown(file)),), 2)
        yield from _group_lines(group, everything=everything)
        hidden |= bool(group.alike or group.following) and not everything
    hint = " (--all lists each)" if hidden else ""
    anything = any(model.findings or model.failure for model in checked)
    yield Line((("bold" if anything else "green", counts_text(checked)), ("dim", hint)), 2)


def _group_lines(group: Group, *, everything: bool) -> Iterator[Line]:
    first = group.first
    style = _STYLES[first.severity]
    yield Line(((style, f"  {first.severity.value}"), ("bold", f" {first.code}"), ("", f" {first.message}")), 4)
    yield Line((("dim", f"    at {first.site}"),), 7)
    if first.help:
        yield Line((("green", f"    {first.help}"),), 4)
    for heading, findings in zip(group.more(), filter(None, (group.alike, group.following)), strict=True):
        yield Line((("dim", f"    {heading}"),), 6)
        if everything:
            yield from map(_short, findings)


def _short(finding: Diagnostic) -> Line:
    return Line((("", f"      {finding.site}: {finding.message}"),), 8)
