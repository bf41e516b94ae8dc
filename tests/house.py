"""The folders of the source."""

from __future__ import annotations

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
