"""The folders of the source."""

from __future__ import annotations

FOLDERS = ("cli", "conformance", "ir", "lowering", "numerics", "passes")
