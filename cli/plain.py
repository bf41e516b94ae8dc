"""Text for people: names in a model are untrusted, so what a terminal would obey is shown escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """`text` with control characters, escape sequences among them, as Python writes them; newlines stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """`text` printable and without line breaks."""
    return printable(" ".join(text.splitlines()) if "\n" in text else text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def size_text(size: float) -> str:
    """Bytes as a person reads them: `812 B`, `4.1 KB`, `2.3 GB`."""
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def columns(rows: Iterable[Sequence[str]], indent: str = "  ") -> list[str]:
    """The rows as lines whose cells are aligned on the left; the last cell is not padded."""
    table = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]
