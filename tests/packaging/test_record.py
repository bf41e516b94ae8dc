"""The page on speed shows what was recorded."""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.record import PAGE, RECORD, names_in, page_of, tables_of

RUNS: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())


def test_the_page_is_made_from_the_record() -> None:
    text = PAGE.read_text()
    assert page_of(text, RUNS) == text, (
        "the tables stand in benchmarks/record.json; python -m benchmarks.record page writes them"
    )
    assert sorted(names_in(text)) == sorted(RUNS)


def test_every_run_names_its_command_date_and_machine() -> None:
    for name, run in RUNS.items():
        assert re.match(r"python (-m )?benchmarks", run["command"]), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"]), name
        assert re.match(r"\d+ cores of an? ", run["machine"]), name


def test_tables_are_read_as_they_are_printed() -> None:
    printed = "### Title\n\n| a | b |\n|---|---|\n| 1 | x y |\n\ntext\n| c |\n|---|\n| 2 |"
    first, second = tables_of(printed)
    assert first == {"heading": "Title", "columns": ["a", "b"], "rows": [["1", "x y"]]}
    assert second == {"heading": "", "columns": ["c"], "rows": [["2"]]}
