"""Findings as SARIF 2.1.0, which code hosts and editors show beside the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import castsmith
from castsmith.cli.codes import page_of
from castsmith.ir.records import Diagnostic, Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif_text(found: Sequence[tuple[str, Sequence[Diagnostic]]]) -> str:
    """Return one run with its rules and the results of each file, as ASCII."""
    codes = list(dict.fromkeys(record.code for _, records in found for record in records))
    driver = {"name": "castsmith", "version": castsmith.__version__, "rules": [_rule(code) for code in codes]}
    results = [_result(file, record, codes) for file, records in found for record in records]
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, object]:
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
