"""Diagnostics and findings as lines, `FILE: place: CODE message (help)`."""

from __future__ import annotations

from dataclasses import replace

from castsmith.cli.wording import with_command_options
from castsmith.ir.records import Diagnostic
from castsmith.lowering.check.types import MIXED_OPERAND_TYPES


def as_command(finding: Diagnostic) -> Diagnostic:
    """Return the finding with Python options in the syntax of the command line."""
    message = with_command_options(finding.message) if finding.code == MIXED_OPERAND_TYPES.code else finding.message
    return replace(finding, message=message, help=with_command_options(finding.help))


def finding_line(file: str, record: Diagnostic) -> str:
    """Return one line, with any control characters in names escaped."""
    way_out = f" ({record.help})" if record.help else ""
    place = str(record.site)
    return f"{file}: {place + ': ' if place else ''}{record.code} {record.message}{way_out}"
