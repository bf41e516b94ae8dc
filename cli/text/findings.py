"""Diagnostics and findings as lines, `FILE: place: CODE message (help)`."""

from __future__ import annotations

from dataclasses import replace

from castsmith.cli.wording import with_command_options
from castsmith.ir.records import Diagnostic
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES


def as_command(found: Diagnostic) -> Diagnostic:
    """Return the finding with Python options in the syntax of the command line."""
    message = with_command_options(found.message) if found.code == MIXED_OPERAND_TYPES.code else found.message
    return replace(found, message=message, help=with_command_options(found.help))


def finding_line(file: str, record: Diagnostic) -> str:
    """Return one line, with any control characters in names escaped."""
    way_out = f" ({record.help})" if record.help else ""
    place = str(record.site)
    return f"{file}: {place + ': ' if place else ''}{record.code} {record.message}{way_out}"
