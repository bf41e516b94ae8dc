"""What commands print on a terminal: lines wrapped to its width and coloured, a progress bar, a table.

It needs rich, so `castsmith.cli.text.screen` imports it where output is a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from castsmith.cli.text.terminal import Line, one_line

_NARROWEST = 20
"""Columns that text has beside its indentation on the narrowest terminal: about one name of a value."""

_UNBROKEN = re.compile(r"\[[^\[\]]*\]| = ")
"""Text within which a line is not broken: a shape such as [batch, 1], and an attribute such as axis = 1."""

_BLANK = "\ue000"
"""Stands for a blank at which a line is not broken; Unicode keeps it for private use."""


def print_coloured(lines: Iterable[Line]) -> None:
    """Print the lines, coloured and wrapped to the width of the terminal."""
    console = Console(highlight=False, markup=False, emoji=False, force_terminal=True)
    for line in lines:
        for piece in wrapped(line, console):
            console.print(piece, soft_wrap=True)


def wrapped(line: Line, console: Console) -> list[Text]:
    """Return the line in pieces as wide as the console, all but the first indented; those beyond `most` are elided."""
    text = Text.assemble(*((one_line(part), style) for style, part in line.parts))
    width = max(console.width, line.hang + _NARROWEST)
    if len(text) <= width:
        return [text]
    text.plain = _UNBROKEN.sub(lambda match: match[0].replace(" ", _BLANK), text.plain)
    longest = max(map(len, text.plain.split()))
    hang = min(line.hang, max(width - longest, 0)) if longest <= width else line.hang  # rather than a broken word
    first = text.wrap(console, width, overflow="fold")[0]
    tail = text[len(first) :]
    tail = tail[len(tail) - len(tail.plain.lstrip()) :]
    pieces = [first, *(Text(" " * hang) + piece for piece in tail.wrap(console, width - hang, overflow="fold"))]
    if line.most and len(pieces) > line.most:
        pieces = pieces[: line.most]
        pieces[-1].truncate(width - len(" ..."))
        pieces[-1].append(" ...", "dim")
    for piece in pieces:
        piece.plain = piece.plain.replace(_BLANK, " ")
        piece.rstrip()
    return pieces


@contextmanager
def progress_bar(steps: int | None) -> Generator[Callable[[str], None]]:
    """Yield a function to call with the name of the current step; it moves a bar on stderr."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("reading", total=steps, completed=-1)

        def announce(name: str) -> None:
            shown.update(task, description=escape(one_line(name)), advance=1)

        yield announce


def print_coloured_table(head: Sequence[str], rows: Iterable[Sequence[str]], styles: Mapping[str, str]) -> None:
    """Print the table, with the second cell of each row in its style."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(head):
        table.add_column(name, overflow="fold", no_wrap=index > 0)
    for row in rows:
        table.add_row(
            *(
                Text(one_line(cell), style=styles.get(row[1], "") if index == 1 else "")
                for index, cell in enumerate(row)
            )
        )
    Console(highlight=False).print(table)
