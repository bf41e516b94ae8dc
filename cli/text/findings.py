"""Diagnostics and findings as lines, `FILE: place: CODE message (help)`, and as SARIF 2.1.0.

Code hosts and editors show SARIF beside the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from castsmith import __version__
from castsmith.cli.exit_codes import with_command_options
from castsmith.cli.text.terminal import one_line
from castsmith.ir.records import Diagnostic, Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def as_command(found: Diagnostic) -> Diagnostic:
    """Return the finding with Python options in the syntax of the command line."""
    message = with_command_options(found.message) if found.code == "mixed-operand-types" else found.message
    return replace(found, message=message, help=with_command_options(found.help))


def finding_line(file: str, record: Diagnostic) -> str:
    """Return one line, with any control characters in names escaped."""
    way_out = f" ({record.help})" if record.help else ""
    place = str(record.site)
    return one_line(f"{file}: {place + ': ' if place else ''}{record.code} {record.message}{way_out}")


def sarif_text(found: Sequence[tuple[str, Sequence[Diagnostic]]]) -> str:
    """Return one SARIF run with its rules and the results of each file, as ASCII."""
    codes = list(dict.fromkeys(record.code for _, records in found for record in records))
    driver = {"name": "castsmith", "version": __version__, "rules": [_rule(code) for code in codes]}
    results = [_result(file, record, codes) for file, records in found for record in records]
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, object]:
    from castsmith.cli.codes import page_of

    page = page_of(code)
    if page is None:
        return {"id": code}
    text = f"{page.what} {page.why}"
    return {
        "id": code,
        "shortDescription": {"text": page.what},
        "fullDescription": {"text": text},
        "help": {"text": page.advice},
    }


def _result(file: str, record: Diagnostic, codes: list[str]) -> dict[str, object]:
    site = record.site
    name = "/".join(filter(None, (site.graph, site.node)))
    logical = {"fullyQualifiedName": name, "name": site.node or site.graph, "kind": site.op or "graph"}
    physical = {"artifactLocation": {"uri": quote(Path(file).as_posix())}}
    text = f"{site}: {record.message}{f' ({record.help})' if record.help else ''}"
    return {
        "ruleId": record.code,
        "ruleIndex": codes.index(record.code),
        "level": _LEVEL[record.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": physical, "logicalLocations": [logical]}],
    }
