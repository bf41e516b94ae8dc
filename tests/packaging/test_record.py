"""The pages show what was recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.record import PAGES, RECORD, names_in, page_of, tables_of

ROOT = Path(__file__).parents[2]
RUNS: dict[str, dict[str, Any]] = json.loads(RECORD.read_text())


def test_the_pages_are_made_from_the_record() -> None:
    texts = [page.read_text() for page in PAGES]
    assert [page_of(text, RUNS) for text in texts] == texts, (
        "the tables stand in benchmarks/record.json; python -m benchmarks.record page writes them"
    )
    assert {name for text in texts for name in names_in(text)} == {*RUNS}
    others = [page for page in (ROOT / "docs").rglob("*.md") if page not in PAGES and names_in(page.read_text())]
    assert others == [], "benchmarks/record.py writes the pages in PAGES only"


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
