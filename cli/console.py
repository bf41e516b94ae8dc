"""The terminal: its width and colours where there is one, plain text and no wrapping where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from castsmith.cli.plain import one_line
from castsmith.cli.wrapping import wrap

if TYPE_CHECKING:
    from castsmith.cli.wrapping import Line


def print_lines(lines: Iterator[Line]) -> None:
    """Print the lines; on a terminal coloured and folded to its width."""
    if not sys.stdout.isatty():
        for line in lines:
            print(line.plain)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    for line in lines:
        for piece in wrap(line, console.width):
            text = Text(no_wrap=True, overflow="ignore")
            for style, part in piece:
                text.append(part, style=style)
            console.print(text, soft_wrap=True)


@contextmanager
def progress(steps: int | None = None) -> Generator[Callable[[str], None]]:
    """A function to call with the name of what runs now; a bar on stderr as long as that is a terminal.

    steps: how often it will be called, where that is known.
    """
    if not sys.stderr.isatty():
        yield _say_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("reading", total=steps, completed=-1)

        def announce(name: str) -> None:
            from rich.markup import escape

            shown.update(task, description=escape(one_line(name)), advance=1)

        yield announce


def _say_nothing(name: str) -> None:
    del name
