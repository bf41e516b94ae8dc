"""The folders of the source, and the syntax tree of each of its files."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

FOLDERS = (
    "analysis",
    "cli",
    "conformance",
    "integrations",
    "ir",
    "lowering",
    "numerics",
    "passes",
    "targets",
    "verification",
)


@cache
def texts() -> dict[str, str]:
    """Return the text of each file, by its path."""
    files = sorted(path for folder in ("castsmith", *FOLDERS) for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


@cache
def tree(name: str) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(texts()[name])


def trees(*words: str) -> dict[str, ast.Module]:
    """Return the syntax tree of each file that has one of the words, by its path; of each file if no word is given."""
    return {name: tree(name) for name, text in texts().items() if not words or any(map(text.__contains__, words))}
