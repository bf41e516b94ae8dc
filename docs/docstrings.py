"""Docstrings as Markdown: the lines `name: what it is` become a list."""

from __future__ import annotations

import inspect
import re

_ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): +(.*)")


def as_markdown(text: str) -> str:
    """The docstring with each described name as an item, its further lines with it, and the rest as paragraphs."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(text).splitlines():
        item = _ITEM.match(line)
        if item is not None:
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            lines += [*([] if inside else [""]), f"- {names}: {item[2]}"]
        elif inside and not line.startswith(" ") and line:
            lines += ["", line]
        else:
            lines.append(f"  {line.strip()}" if inside else line)
        inside = item is not None or (inside and line.startswith(" "))
    return "\n".join(lines)
