"""Diagnostics and findings as lines: `FILE: place: CODE message (help)`."""

from __future__ import annotations

from castsmith.cli.text.terminal import one_line
from castsmith.ir.records import Diagnostic


def finding_line(file: str, record: Diagnostic) -> str:
    """One line, whatever the names in it hold."""
    way_out = f" ({record.help})" if record.help else ""
    place = str(record.site)
    return one_line(f"{file}: {place + ': ' if place else ''}{record.code} {record.message}{way_out}")
