"""A comparison as lines: changes under the place where they are, what is unchanged only as a count."""

from __future__ import annotations

from collections.abc import Iterator

from castsmith.cli.compare import Comparison
from castsmith.cli.compare_changes import Change
from castsmith.cli.plain import counted, one_line
from castsmith.cli.rewrite_text import CODE_PIECES
from castsmith.cli.wrapping import Line, Part

_HANG = 6


def comparison_lines(a: str, b: str, found: Comparison) -> Iterator[Line]:
    """What differs, and at the end how much; for equal models that alone."""
    if found.changes:
        yield Line((("red", f"--- {one_line(a)}"),))
        yield Line((("green", f"+++ {one_line(b)}"),))
    place = ""
    for change in found.changes:
        if change.place != place:
            place = change.place
            yield Line((("bold", one_line(place)),), 4)
        yield from _change_lines(change)
    yield Line((("", _summary(found)),), 2)


def _change_lines(change: Change) -> Iterator[Line]:
    indent = "  " if change.place else ""
    if change.subject in ("node", "operator"):
        for mark, style, text in (("-", "red", change.before), ("+", "green", change.after)):
            if text:
                code, separator, types = one_line(text).partition("  # ")
                yield Line(((style, f"{indent}{mark} {code}"), ("dim", separator + types)), _HANG, CODE_PIECES)
        return
    parts: list[Part] = [("", f"{indent}{one_line(change.subject)}: ")]
    if not change.before or not change.after:
        parts.append(
            ("red", f"- {one_line(change.before)}") if change.before else ("green", f"+ {one_line(change.after)}")
        )
    elif change.before == change.after:
        parts.append(("", one_line(change.before)))
    else:
        parts += [("red", one_line(change.before)), ("", " -> "), ("green", one_line(change.after))]
    if change.detail:
        parts.append(("", f"; {one_line(change.detail)}"))
    yield Line(tuple(parts), _HANG)


def _summary(found: Comparison) -> str:
    same = counted(found.nodes_same, "node")
    if not found.changes:
        return f"the same: {same} and all that goes with them"
    return (
        f"{counted(len(found.changes), 'difference')}; of the nodes {found.nodes_same} are the same,"
        f" {found.nodes_changed} changed, {found.nodes_added} added, {found.nodes_removed} removed"
    )
