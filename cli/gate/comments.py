"""Findings as GitHub shows them: annotations, which a workflow prints, and a comment in Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from castsmith.cli.gate.grouping import Group, counts_text, groups_by_severity
from castsmith.cli.gate.judging import Checked
from castsmith.cli.gate.sarif import place_in_repository
from castsmith.cli.streams import shown
from castsmith.cli.text.terminal import one_line
from castsmith.ir.records import Diagnostic

LARGEST = 65_536
"""Characters of a comment on GitHub."""

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_MOST = 50
"""Findings that are listed of one cause."""


def workflow_commands(checked: Sequence[Checked]) -> Iterator[str]:
    """Yield a workflow command for each group, and for each file that was not checked; GitHub shows ten of a step."""
    for group in groups_by_severity(checked):
        first = group.first
        text = f"{first.site}: {_sentence(first)}{''.join(f'; {further}' for further in group.more())}"
        yield _annotation(_COMMANDS[first.severity.value], group.file, first.code, text)
    for model in checked:
        if model.failure is not None:
            yield _annotation("error", model.file, "not checked", model.failure.message)


def _annotation(command: str, file: str, title: str, text: str) -> str:
    path = place_in_repository(file)
    return f"::{command} file={_property(path)},line=1,title={_property(title)}::{_data(one_line(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown_text(checked: Sequence[Checked], target: str | None) -> str:
    """Return a comment with a table of the causes and what follows from each, folded; at most `LARGEST` characters."""
    goal = f" for {_code(target)}" if target else ""
    head = [f"**castsmith check**{goal}: {counts_text(checked)}"]
    head += [f"- {_code(model.failure.message)}" for model in checked if model.failure is not None]
    groups = groups_by_severity(checked)
    rows = [_row(group) for group in groups]
    if rows:
        head += ["", "| severity | code | model and place | finding | fix |", "|---|---|---|---|---|"]
    blocks = ["\n".join(head), *rows]
    details = [_details(group) for group in groups if group.alike or group.following]
    left_out = "\n\nThe rest is omitted: a comment holds at most 65,536 characters.\n"
    text, room = "", LARGEST - len(left_out)
    for index, block in enumerate(blocks):
        if len(text) + len(block) + 1 > room:
            return (text or block[:room]) + left_out
        text += ("\n" if index else "") + block
    for block in details:
        if len(text) + len(block) + 2 > room:
            return text + left_out
        text += f"\n\n{block}"
    return text + "\n"


def _row(group: Group) -> str:
    first = group.first
    more = "".join(f"<br>{html.escape(text)}" for text in group.more())
    cells = (
        first.severity.value,
        _code(first.code),
        f"{_code(shown(group.file))}<br>{_code(str(first.site))}",
        _code(first.message) + more,
        _code(first.help) if first.help else "",
    )
    return f"| {' | '.join(cells)} |"


def _details(group: Group) -> str:
    every = [*group.alike, *group.following]
    lines = [f"- {_code(f'{finding.site}: {finding.code} {finding.message}')}" for finding in every[:_MOST]]
    if len(every) > _MOST:
        lines.append(f"- and {len(every) - _MOST} more")
    summary = html.escape(one_line(f"{shown(group.file)}: {group.first.code}"))
    title = f"<summary><code>{summary}</code>: {html.escape('; '.join(group.more()))}</summary>"
    return "\n".join(["<details>", title, "", *lines, "", "</details>"])


def _code(text: str) -> str:
    """Return the text as code, in which Markdown, HTML and names of people mean nothing; also within a table."""
    line = one_line(text).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line.strip() else ""


def _sentence(finding: Diagnostic) -> str:
    return finding.message + (f" ({finding.help})" if finding.help else "")
