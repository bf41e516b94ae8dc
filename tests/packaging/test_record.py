"""The pages show what was recorded."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record
from benchmarks.record import APART, PAGES, RECORD, names_in, page_of, tables_of
from docs.chart import CHART, chart

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


def test_every_run_names_its_command_date_machine_and_versions() -> None:
    for name, run in RUNS.items():
        assert re.match(r"python (-m )?benchmarks", run["command"]), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"]), name
        assert re.match(r"\d+ cores of an? ", run["machine"]), name
        if name not in APART:
            words = ["python -m", f"benchmarks.{record.RUNS[name].module}", *record.RUNS[name].options]
            assert run["command"] == " ".join(words), name
            assert re.search(r"Python 3\.\d+\.\d+$", run["machine"]), name
            assert {"numpy", "onnx", "onnx-ir", "ml-dtypes"} <= {*run["versions"]}, name


def test_a_run_of_all_records_what_is_recorded() -> None:
    assert {*record.RUNS, *APART} == {*RUNS}


def test_a_run_of_all_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(module: str, options: Sequence[str], place: Sequence[str]) -> dict[str, Any]:
        if module == "linear":
            raise subprocess.CalledProcessError(3, module)
        return {"command": module, "options": [*options, *place]}

    monkeypatch.setattr(record, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(record, "PAGES", ())
    monkeypatch.setattr(record, "_run", run)
    monkeypatch.setitem(record.RUNS, "absent", record.Run("codec", (), 1, ("no_such_module",)))  # type: ignore[arg-type]
    done: dict[str, dict[str, Any]] = {}
    failed = record.run_all(done, ["linear", "absent", "weights-cp"], "there")
    assert failed == [
        "linear: failed with exit code 3",
        "absent: left out, since no_such_module is not installed",
    ]
    assert done == {"weights-cp": {"command": "weights", "options": ["--kind", "folded", "--folder", "there"]}}
    assert json.loads((tmp_path / "record.json").read_text()) == done


@pytest.mark.parametrize("page", ["docs/speed.md", "benchmarks/README.md"])
def test_every_table_of_speed_is_recorded_or_says_that_it_is_not(page: str) -> None:
    """A table by hand follows `<!-- by hand: WHAT -->`."""
    text = re.sub(r"<!-- recorded: .*?<!-- end -->", "", (ROOT / page).read_text(), flags=re.DOTALL)
    for table in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE):
        before = text[: table.start()].rstrip().rpartition("\n")[2]
        assert re.fullmatch(r"<!-- by hand: .+ -->", before), table[0].partition("\n")[0]


def test_the_chart_shows_the_record() -> None:
    """`python -m docs.chart` draws it again."""
    assert CHART.read_text() == chart()


def test_the_readme_has_the_figures_of_the_record() -> None:
    (table,) = RUNS["exactness"]["tables"]
    text = " ".join((ROOT / "README.md").read_text().split())
    figures = {row[0]: row[1:] for row in table["rows"]}
    repaired, folded, _, shortened, _ = figures.pop("castsmith")
    assert f"all {repaired.partition(' ')[0]} models" in text
    assert f"all {folded.partition(' ')[0]} constant casts" in text
    assert f"{shortened.partition(' ')[0]} chains" in text
    assert {row[0] for row in figures.values()} == {f"0 of {repaired.partition(' ')[0]}"}
    wrong = [int(row[2]) for row in figures.values()]
    assert f"got {min(wrong)} to {max(wrong)} of them wrong" in text


UNPAIRED = {
    "architectures": "writes models",
    "exports": "writes models",
    "graphs": "writes models",
    "growing": "writes models",
    "half_models": "writes models",
    "in_other_tools": "counts and errors, no times",
    "large_values": "writes models",
    "exactness": "counts, the same in every run",
    "record": "runs the others",
    "pairing": "the helper itself",
}


def test_every_benchmark_of_time_compares_in_turns() -> None:
    """The ratios of one run, with their spread, by `benchmarks.pairing`."""
    for path in (ROOT / "benchmarks").glob("*.py"):
        text = path.read_text()
        assert ("from benchmarks.pairing import" in text) is not (path.stem in UNPAIRED), path.stem
        assert "spread(" in text or path.stem in {*UNPAIRED, "codec"}, path.stem  # codec has quartiles
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} >= {*UNPAIRED}


def test_tables_are_read_as_they_are_printed() -> None:
    printed = "### Title\n\n| a | b |\n|---|---|\n| 1 | x y |\n\ntext\n| c |\n|---|\n| 2 |"
    first, second = tables_of(printed)
    assert first == {"heading": "Title", "columns": ["a", "b"], "rows": [["1", "x y"]]}
    assert second == {"heading": "", "columns": ["c"], "rows": [["2"]]}
