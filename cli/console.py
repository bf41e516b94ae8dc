"""The terminal: its width and colours where there is one, plain text and no wrapping where there is none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
def progress() -> Generator[Callable[[str], None]]:
    """A function to call with the name of what runs now, shown on stderr as long as that is a terminal."""
    if not sys.stderr.isatty():
        yield _say_nothing
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda name: status.update(name)


def _say_nothing(name: str) -> None:
    del name
