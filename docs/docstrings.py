"""Google-style docstrings as Markdown, for the pages that docs/reference.py makes itself."""

from __future__ import annotations

import inspect
import re

import castsmith
import castsmith.lowering
import castsmith.passes

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
_ITEM = re.compile(r"    (\*{0,2}[A-Za-z_]\w*): +(.*)")
_REFERENCE = re.compile(r"^(?P<space> +)(?P<name>\w+): As in (?P<other>\w+)(?P<more>[.;].*)$", re.MULTILINE)


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


def resolved(text: str, name: str) -> str:
    """Return a docstring in which descriptions `As in OTHER` are those that the public class OTHER has.

    References to classes that are not public stay.

    Raises:
        ValueError: OTHER does not describe the name itself.
    """

    def replaced(found: re.Match[str]) -> str:
        modules = (castsmith, castsmith.passes, castsmith.lowering)
        other = next((getattr(module, found["other"]) for module in modules if hasattr(module, found["other"])), None)
        if other is None:
            return found[0]
        described = descriptions(other.__doc__ or "").get(found["name"], "As in nothing.")
        if described.startswith("As in "):
            raise ValueError(f"{name}: {found['other']} does not describe {found['name']}")
        more = f" {found['more'][2].upper()}{found['more'][3:]}" if len(found["more"]) > 2 else ""
        return f"{found['space']}{found['name']}: {described}{more}"

    return _REFERENCE.sub(replaced, text)


def descriptions(text: str) -> dict[str, str]:
    """Return what a docstring says of each attribute or argument, on one line."""
    found: dict[str, str] = {}
    inside = ""
    for line in inspect.cleandoc(text).splitlines():
        if item := _ITEM.match(line):
            inside = item[1]
            found[inside] = item[2]
        elif inside and line.startswith("     "):
            found[inside] += f" {line.strip()}"
        else:
            inside = ""
    return found


def without(text: str, section: str) -> str:
    """Return a docstring without one of its sections."""
    cleaned = inspect.cleandoc(text)
    return re.sub(rf"\n+{section}:\n(?:(?: .*)?(?:\n|\Z))*?(?=\n?\S|\Z)", "\n", cleaned).strip()
