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
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each file, by its path."""
    files = sorted(path for folder in ("castsmith", *FOLDERS) for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}
