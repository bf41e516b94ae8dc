"""What commands print on a terminal: lines wrapped to its width and coloured, a progress bar, a table.

It needs rich, so `castsmith.cli.text.screen` imports it where output is a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from castsmith.cli.text.terminal import Line, one_line, wrap


def print_coloured(lines: Iterable[Line]) -> None:
    """Print the lines, coloured and wrapped to the width of the terminal."""
    console = Console(highlight=False, markup=False, emoji=False, force_terminal=True)
    for line in lines:
        shown = replace(line, parts=tuple((style, one_line(part)) for style, part in line.parts))
        for piece in wrap(shown, console.width):
            text = Text(no_wrap=True, overflow="ignore")
            for style, part in piece:
                text.append(part, style=style)
            console.print(text, soft_wrap=True)


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
