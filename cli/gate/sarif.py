"""Findings as SARIF 2.1.0, in the form in which code hosts show them beside the file and follow them over commits."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from castsmith import __version__
from castsmith.cli.catalogue import code_named
from castsmith.cli.gate.baseline import fingerprint
from castsmith.cli.gate.judging import Checked
from castsmith.cli.streams import STREAM
from castsmith.cli.text.terminal import one_line
from castsmith.ir.records import Diagnostic, Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_ROOT = "%SRCROOT%"


def sarif_text(checked: Sequence[Checked], target: str | None) -> str:
    """Return one SARIF run with its rules and the results of each file, as ASCII."""
    findings = [(model.file, record) for model in checked for record in model.findings]
    levels = {record.code: record.severity for _, record in reversed(findings)}
    codes = list(dict.fromkeys(record.code for _, record in findings))
    driver: dict[str, Any] = {"name": "castsmith", "version": __version__, "semanticVersion": __version__}
    driver["rules"] = [_rule(code, levels[code]) for code in codes]
    failures = [model for model in checked if model.failure is not None]
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"castsmith/{Path(target).stem if target else 'any-runtime'}/"},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": not failures, "toolExecutionNotifications": list(map(_notification, failures))}
        ],
        "results": list(_results(findings, codes)),
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def place_in_repository(file: str) -> str:
    """Return the path of the file relative to the root of the repository, or to the working directory without one."""
    path = Path(os.path.abspath(file))
    root = next((folder for folder in path.parents if (folder / ".git").exists()), Path.cwd())
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _artifact(file: str) -> dict[str, str]:
    if file == STREAM:
        return {"uri": "stdin", "uriBaseId": _ROOT}
    place = place_in_repository(file)
    if Path(place).is_absolute():
        return {"uri": Path(place).as_uri()}
    return {"uri": quote(place), "uriBaseId": _ROOT}


def _notification(checked: Checked) -> dict[str, Any]:
    text = "" if checked.failure is None else checked.failure.message
    locations = [{"physicalLocation": {"artifactLocation": _artifact(checked.file)}}]
    return {"level": "error", "message": {"text": one_line(text)}, "locations": locations}


def _rule(code: str, level: Severity) -> dict[str, Any]:
    page = code_named(code)
    rule: dict[str, Any] = {"id": code, "name": "".join(map(str.capitalize, code.split("-")))}
    rule["defaultConfiguration"] = {"level": _LEVEL[level]}
    if page is None:
        return rule
    text = f"{page.what} {page.why}"
    rule |= {
        "shortDescription": {"text": page.what},
        "fullDescription": {"text": text},
        "help": {
            "text": f"{page.why} {page.advice}",
            "markdown": f"{page.why}\n\n```\n{page.example}\n```\n\n{page.advice}",
        },
        "properties": {"tags": ["onnx", "types"], "precision": "very-high"},
    }
    return rule | _help_uri(code)


def _help_uri(code: str) -> dict[str, str]:
    """Return the address of the code's page, if the installed package names the address of its documentation."""
    try:
        urls = metadata("castsmith").get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    for label, _, url in (entry.partition(", ") for entry in urls):
        if label.lower() == "documentation":
            return {"helpUri": f"{url.rstrip('/')}/codes/{code}.html"}
    return {}


def _results(findings: Sequence[tuple[str, Diagnostic]], codes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the results. Equal findings of one file are told apart by their number, as GitHub does."""
    occurrences = Counter[tuple[str, str]]()
    for file, record in findings:
        mark = fingerprint(record)
        occurrences[file, mark] += 1
        number = f"{mark}:{occurrences[file, mark]}"
        site = record.site
        name = "/".join(filter(None, (site.graph, site.name)))
        logical = {"fullyQualifiedName": name, "name": site.name or site.graph, "kind": site.op or "graph"}
        # GitHub shows no result without a line.
        physical = {"artifactLocation": _artifact(file), "region": {"startLine": 1}}
        text = f"{site}: {record.message}{f' ({record.help})' if record.help else ''}"
        yield {
            "ruleId": record.code,
            "ruleIndex": codes.index(record.code),
            "level": _LEVEL[record.severity],
            "message": {"text": one_line(text)},
            "locations": [{"physicalLocation": physical, "logicalLocations": [logical]}],
            "partialFingerprints": {"primaryLocationLineHash": number, "castsmith/v1": number},
        }
