"""The terminal: width and colours; plain text without wrapping if output is not a terminal.

All that commands print goes through this module, which escapes control characters: names in models and of files are
untrusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from castsmith.numerics.errors import printable

# Text for people, in which control characters and those that turn the direction of text are escaped.


def one_line(text: str) -> str:
    """Return the text printable and without line breaks."""
    return printable(" ".join(text.splitlines()) if "\n" in text else text)


def print_line(text: str, file: TextIO | None = None) -> None:
    """Print the text as one line, on stdout by default."""
    print(one_line(text), file=file)


def print_text(text: str, file: TextIO | None = None) -> None:
    """Print text of several lines, the last of which need not end; nothing for no text."""
    print(printable(text), end="\n" if text and not text.endswith("\n") else "", file=file)


def print_data(text: str) -> None:
    """Print JSON, a page, a script or a help text on stdout, which escape names by their own rules, or have none."""
    print(text, end="" if text.endswith("\n") else "\n")  # noqa: T201


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def size_text(size: float) -> str:
    """Return bytes for people: `812 B`, `4.1 KB`, `2.3 GB`."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def change_text(before: str, after: str, arrow: str = "->") -> str:
    """Return `before -> after`, or the one text if both are the same."""
    return before if before == after else f"{before} {arrow} {after}"


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return the rows as lines whose cells are aligned on the left; the last cell is not padded."""
    table = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]


# Lines in colours, which `castsmith.cli.text.coloured` wraps to the width of a terminal.

Part = tuple[str, str]
"""A style and some text in it."""


@dataclass(frozen=True)
class Line:
    """Styled parts that make one line; continuation lines are indented by `hang`.

    Attributes:
        most: Largest number of terminal lines; 0 for no limit.
    """

    parts: tuple[Part, ...]
    hang: int = 0
    most: int = 0

    @property
    def plain(self) -> str:
        return "".join(text for _, text in self.parts)


_WIDEST_START = 40


def table_lines(rows: Iterable[Sequence[str]], indent: str = "", *, head: bool = False) -> Iterator[Line]:
    """Yield the rows as lines whose cells are aligned; the last cell continues below its start, if there is room.

    Args:
        rows: The cells of each row.
        indent: Precedes each row.
        head: The first row has the titles.
    """
    lines = columns(table := list(rows), indent)
    starts = len(indent) + sum(
        max(len(one_line(row[index])) for row in table) + 2 for index in range(len(table[0]) - 1)
    )
    hang = starts if starts <= _WIDEST_START else len(indent) + 4
    for index, line in enumerate(lines):
        yield Line((("bold" if head and not index else "", line),), hang)
