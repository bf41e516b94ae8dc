"""The chart of the page on speed, from the record of benchmarks. `python -m docs.chart` writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from math import log10
from pathlib import Path
from typing import Any

from benchmarks.record import RECORD

CHART = Path(__file__).parent / "pictures/speed.svg"
TITLES = {
    "20000 nodes, 5000 casts": "A graph of 20,000 nodes",
    "400 MB float weight, cast to float16": "A weight of 400 MB to float16",
    "400 MB float weight, cast to float8e4m3fn": "A weight of 400 MB to float8e4m3fn",
}
WIDTH, LEFT, ROW, SHORTEST, LONGEST = 760, 220, 24, 0.3, 150.0
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2733; } text.head { font-weight: 600; }
  text.end { text-anchor: end; }
  rect { fill: #9aa7b8; } rect.own { fill: #2f6f4f; } rect.card { fill: #f6f7f9; }
"""


def chart() -> str:
    """Return the chart as SVG: the wall seconds of each tool, on a logarithmic scale."""
    record: dict[str, Any] = json.loads(RECORD.read_text())
    tables = [table for name in ("peers-graph", "peers-weights") for table in record[name]["tables"]]
    rows = [row for table in tables for row in (table["heading"], *table["rows"])]
    height = ROW * len(rows) + 60
    label = (
        "Wall time of each tool for three tasks, in seconds, on a logarithmic scale. The tables below have the numbers."
    )
    parts = (part for place, row in enumerate(rows) for part in _row(row, 30 + ROW * place))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
    card = f'<rect class="card" width="{WIDTH}" height="{height}" rx="10"/>'
    note = f'<text x="{LEFT}" y="{height - 16}">seconds, logarithmic: shorter is better</text>'
    return "\n".join((head, f"<style>{STYLE}</style>", card, *parts, note, "</svg>", ""))


def _row(row: str | list[str], y: int) -> Iterator[str]:
    if isinstance(row, str):
        yield f'<text class="head" x="24" y="{y}">{TITLES[row]}</text>'
        return
    tool, seconds, result = row[0], float(row[3]), row[-1].partition(",")[0]
    length = (log10(seconds / SHORTEST) / log10(LONGEST / SHORTEST)) * (WIDTH - LEFT - 190)
    remark = "" if result == "right" else f", {result}"
    yield f'<text class="end" x="{LEFT - 10}" y="{y}">{escape(tool)}</text>'
    kind = "own" if tool == "castsmith" else "other"
    yield f'<rect class="{kind}" x="{LEFT}" y="{y - 12}" width="{length:.0f}" height="15"/>'
    yield f'<text x="{LEFT + length + 8:.0f}" y="{y}">{seconds:.1f} s{escape(remark)}</text>'


if __name__ == "__main__":
    CHART.write_text(chart())
