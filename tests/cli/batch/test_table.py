"""The table at the end of a run over many models, and the line below it."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from castsmith.cli.batch.table import print_table, summary_line, table_of
from castsmith.cli.outcome import Outcome, Task
from tests.sampling import check_all


def report(
    output: str | None, before: int | None, after: int | None, casts: tuple[int, int] = (3, 1)
) -> dict[str, Any]:
    sides = {
        side: {"casts": count, "file_bytes": size}
        for side, count, size in zip(("before", "after"), casts, (before, after), strict=True)
    }
    summary = {**sides, "rewrites": [{"count": 2}, {"count": 5}], "refusals": 4}
    return {"output": output, "summary": summary, "compared": 4, "elements": 6}


def done(name: str, code: int, told: dict[str, Any] | None = None, *, unchanged: bool = False) -> Outcome:
    return Outcome(Task(name, "", {}), code, report=told, unchanged=unchanged)


WRITTEN = [
    done("ok", 0, report("o", 1000, 20)),
    done("dry", 0, report(None, 1000, None, (2, 2))),
    done("kept", 0, report("o", 5, 5), unchanged=True),
    done("maybe", 3, report("o", 5, 5)),
    done("no", 1, report("o", 5, 5)),
    done("bad", 2),
    done("killed", 130),
]


def test_the_rows_of_models_that_are_written() -> None:
    head, rows = table_of("optimize", WRITTEN)
    assert head == ("model", "result", "rewrites", "skipped", "casts", "size")
    assert [row for row, _ in rows] == [  # failures first
        ("bad", "failed", "", "", "", ""),
        ("killed", "failed", "", "", "", ""),
        ("no", "refused", "", "", "", ""),
        ("maybe", "inconclusive", "7", "4", "3 -> 1", "5 B"),
        ("ok", "written", "7", "4", "3 -> 1", "1.0 KB -> 20 B"),
        ("dry", "would be written", "7", "4", "2", "1.0 KB"),
        ("kept", "unchanged", "", "", "", ""),
    ]
    assert [outcome.task.source for _, outcome in rows] == [row[0] for row, _ in rows]
    _, rows = table_of("optimize", [done("untold", 0), done("unsure", 3, report(None, 5, None, (2, 2)))])
    assert [row for row, _ in rows] == [
        ("unsure", "inconclusive", "7", "4", "2", "5 B"),
        ("untold", "written", "", "", "", ""),
    ]


def test_the_rows_of_models_that_are_compared() -> None:
    every = [done("same", 0, report("", 1, 1)), done("other", 1, report("", 1, 1)), done("maybe", 3), done("bad", 2)]
    head, rows = table_of("verify", every)
    assert head == ("model", "result", "compared")
    assert [row for row, _ in rows] == [
        ("bad", "failed", ""), ("other", "different", "4 of 6 elements"), ("maybe", "inconclusive", ""),
        ("same", "equal", "4 of 6 elements"),
    ]  # fmt: skip
    assert summary_line("verify", {"models": 4}, every) == "4 models: 1 equal, 1 different, 1 inconclusive, 1 failed"
    unwritten = [done("a", 0, report(None, 1, None)), done("b", 1, report(None, 1, None))]
    assert [row[:2] for row, _ in table_of("verify", unwritten)[1]] == [("b", "different"), ("a", "equal")]
    assert summary_line("verify", {"models": 1}, every[:1]) == "1 model: 1 equal"


COUNTS = {"models": 3, "written": 2, "inconclusive": 0, "unchanged": 0, "failed": 1}
SUMMARIES = [
    (COUNTS, WRITTEN[:1], "3 models: 2 written, 1 failed"),
    (COUNTS, WRITTEN[:2], "3 models: 2 would be written, 1 failed"),
    ({**COUNTS, "inconclusive": 1}, WRITTEN[:1], "3 models: 2 written (1 inconclusive), 1 failed"),
    ({**COUNTS, "unchanged": 1}, WRITTEN[:1], "3 models: 2 written, 1 unchanged, 1 failed"),
]


def require_summary(counts: dict[str, int], every: list[Outcome], text: str) -> None:
    assert summary_line("optimize", counts, every) == text


def test_the_line_below_the_table() -> None:
    check_all(require_summary, SUMMARIES)


def test_the_table_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("verify", {"models": 2}, [done("same", 0, report("", 1, 1)), done("bad", 2)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["model", "result", "compared"],
        ["bad", "failed"],
        ["same", "equal", "4", "of", "6", "elements"],
        ["2", "models:", "1", "equal,", "1", "failed"],
    ]


def test_the_colours_of_results_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table("optimize", {**COUNTS, "unchanged": 1}, WRITTEN)
    print_table("verify", COUNTS, [done("other", 1)])
    coloured = set(re.findall(r"\x1b\[(3\d)m(\w+)", capsys.readouterr().out))
    assert coloured == {("31", "failed"), ("31", "refused"), ("31", "different"), ("33", "inconclusive")}
