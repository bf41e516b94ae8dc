"""Google-style docstrings as Markdown, for the pages that docs/reference.py makes itself."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
_ITEM = re.compile(r"    (\*{0,2}[A-Za-z_]\w*): +(.*)")


def as_markdown(text: str) -> str:
    """Return the docstring with a bold heading and a list for each section; other paragraphs are unchanged."""
    lines: list[str] = []
    inside = False
    for line in inspect.cleandoc(text).splitlines():
        if section := _SECTION.match(line):
            inside = True
            lines += [f"**{section[1]}**", ""]
        elif inside and (item := _ITEM.match(line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif inside and line.startswith("    "):
            lines.append(f"  {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    return "\n".join(lines)
