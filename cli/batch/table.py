"""The table at the end of a run over many models, failures first, and the line that sums it up."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED
from castsmith.cli.outcome import Outcome
from castsmith.cli.text.terminal import change_text, columns, counted, print_line, print_text, size_text

_WRITTEN = {DONE: "written", REFUSED: "refused", INCONCLUSIVE: "inconclusive"}
_COMPARED = {DONE: "equal", REFUSED: "different", INCONCLUSIVE: "inconclusive"}
_STYLES = {"failed": "red", "refused": "red", "different": "red", "inconclusive": "yellow"}
_ORDER = ("failed", "refused", "different", "inconclusive")


def print_table(command: str, counts: Mapping[str, int], everything: Sequence[Outcome]) -> None:
    """Print a row for each model and the summary."""
    head, models = table_of(command, everything)
    rows = [row for row, _ in models]
    if sys.stdout.isatty():
        from castsmith.cli.text.coloured import print_coloured_table

        print_coloured_table(head, rows, _STYLES)
    else:
        print_text("\n".join(line.removeprefix("  ") for line in columns([head, *rows])))
    print_line(summary_line(command, counts, everything))


def table_of(
    command: str, everything: Sequence[Outcome]
) -> tuple[tuple[str, ...], list[tuple[tuple[str, ...], Outcome]]]:
    """Return the heads of the columns, and a row for each model with its outcome, failures first."""
    head = ("model", "result", "compared") if command == "verify" else ("model", "result", *_FIGURES)
    rows = [(_row(command, done), done) for done in everything]
    return head, sorted(rows, key=lambda row: _rank(row[0]))


def summary_line(command: str, counts: Mapping[str, int], everything: Sequence[Outcome]) -> str:
    """Return the counts of all models, those that are 0 left out."""
    words = Counter(_word(command, done) for done in everything)
    if command == "verify":
        outcomes = ", ".join(f"{words[word]} {word}" for word in (*_COMPARED.values(), "failed") if words[word])
    else:
        unsure = f" ({counts['inconclusive']} inconclusive)" if counts["inconclusive"] else ""
        unchanged = f", {counts['unchanged']} unchanged" if counts["unchanged"] else ""
        word = _DRY if words[_DRY] else "written"
        outcomes = f"{counts['written']} {word}{unsure}{unchanged}, {counts['failed']} failed"
    return f"{counted(counts['models'], 'model')}: {outcomes}"


_FIGURES = ("rewrites", "skipped", "casts", "size")


_DRY = "would be written"


def _row(command: str, done: Outcome) -> tuple[str, ...]:
    """Return the row of one model: its file, how it ended, and figures."""
    word, report = _word(command, done), done.report
    if command == "verify":
        return done.task.source, word, _compared(report)
    if report is None or word not in ("written", _DRY, "inconclusive"):
        return done.task.source, word, *[""] * len(_FIGURES)
    return done.task.source, word, *_figures(report["summary"])


def _word(command: str, done: Outcome) -> str:
    """Return how the model ended; of a dry run the report names no output."""
    if done.unchanged:
        return "unchanged"
    if command != "verify" and done.exit_code == DONE and done.report is not None and done.report["output"] is None:
        return _DRY
    return (_COMPARED if command == "verify" else _WRITTEN).get(done.exit_code, "failed")


def _compared(report: Mapping[str, Any] | None) -> str:
    return "" if report is None else f"{report['compared']} of {report['elements']} elements"


def _figures(summary: Mapping[str, Any]) -> Iterator[str]:
    before, after = summary["before"], summary["after"]
    yield str(sum(rule["count"] for rule in summary["rewrites"]))
    yield str(summary["refusals"])
    yield change_text(str(before["casts"]), str(after["casts"]))
    sizes = [size_text(side["file_bytes"] or 0) for side in (before, after) if side["file_bytes"] is not None]
    yield change_text(sizes[0], sizes[-1])


def _rank(row: Sequence[str]) -> int:
    return _ORDER.index(row[1]) if row[1] in _ORDER else len(_ORDER)
