"""Results as HTML for notebooks: `_repr_html_` of Result, ModelDiff, Verdict and Bounds.

The HTML is self-contained: a sentence, then tables that open with a click and scroll within the cell, and a list.
Names in models are untrusted, so every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_MOST_ROWS = 200
"""Largest number of table rows shown; the number of the others is given below the table."""

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The titles of the columns, and the rows."""


def notebook_html(summary: str, tables: Mapping[str, Table], lines: Iterable[str] = ()) -> str:
    """Return the summary in bold, each table that has rows, folded below its title, and the lines as a list."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    shown = "".join(folded(f"{title} ({len(rows)})", (head, rows)) for title, (head, rows) in tables.items() if rows)
    return f"<p><b>{escape(summary)}</b></p>{shown}{f'<ul>{items}</ul>' if items else ''}"


def folded(title: str, table: Table) -> str:
    """Return the table below its title, shown when that is opened; what is wider than the cell scrolls in it."""
    scrolled = f'<div style="max-width: 100%; overflow-x: auto">{_table(*table)}</div>'
    return f"<details><summary>{escape(title)}</summary>{scrolled}</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns that are empty in every row."""
    used = [index for index in range(len(head)) if any(row[index] for row in rows)]
    titles = "".join(f"<th>{escape(head[index])}</th>" for index in used)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(row[index])}</td>' for index in used)}</tr>" for row in rows[:_MOST_ROWS]
    )
    more = len(rows) - _MOST_ROWS
    return f"<table><tr>{titles}</tr>{body}</table>{f'<p>and {more} more</p>' if more > 0 else ''}"


def _cell(text: str) -> str:
    return escape(text).replace("\n", "<br>")
