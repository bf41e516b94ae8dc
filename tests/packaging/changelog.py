"""The notes of a version out of CHANGELOG.md, for the release workflow: `python -m tests.packaging.changelog 0.2.0`.

Fails where pyproject.toml or castsmith.__version__ is another version, or the changelog has no section for it. Needs
the standard library alone.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def versions() -> set[str]:
    """The versions that the project states."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    stated = re.search(r'^__version__ = "(.+)"$', (ROOT / "castsmith/__init__.py").read_text(encoding="utf-8"), re.M)
    return {settings["project"]["version"], stated[1] if stated else ""}


def notes(version: str, changelog: str) -> str | None:
    """The section of a version, without its heading; None if there is no such section, or it is empty."""
    found = re.search(rf"^## {re.escape(version)}(?: .*)?\n(?P<text>(?:(?!## ).*\n?)*)", changelog, re.M)
    return found["text"].strip() or None if found else None


def main(version: str) -> int:
    text = notes(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if versions() != {version}:
        print(f"the tag is {version}, and the project states {', '.join(sorted(versions()))}", file=sys.stderr)
    elif text is None:
        print(f"CHANGELOG.md has no section {version}", file=sys.stderr)
    else:
        print(text)
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
