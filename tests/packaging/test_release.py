"""The release workflow is YAML, pins its actions, and grants each job what it needs alone; the notes of a version."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.packaging.changelog import ROOT, main, notes, versions

TEXT = (ROOT / ".github/workflows/release.yml").read_text()
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["jobs"]


def test_every_action_is_pinned_to_a_commit_with_its_version() -> None:
    used = re.findall(r"uses: (.*)", TEXT)
    assert len(used) >= 6
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


def test_only_the_job_that_publishes_does_so_and_it_runs_no_code_of_the_repository() -> None:
    assert yaml.safe_load(TEXT)["permissions"] == {}
    assert {name: sorted(job["permissions"]) for name, job in JOBS.items()} == {
        "build": ["attestations", "contents", "id-token"],
        "publish": ["id-token"],
        "announce": ["contents"],
    }
    assert JOBS["build"]["permissions"]["contents"] == "read"
    assert [step for step in JOBS["publish"]["steps"] if "run" in step] == []
    assert "secrets." not in TEXT
    assert re.findall(r"run: .*\$\{\{", TEXT) == []


def test_the_notes_of_a_version() -> None:
    changelog = "# C\n\n## Unreleased\n\n- new\n\n## 0.2.0 - 2026-12-01\n\n- a\n- b\n\n## 0.1.0\n\n## 0.0.1\n- z\n"
    assert notes("0.2.0", changelog) == "- a\n- b"
    assert notes("0.0.1", changelog) == "- z"
    assert notes("0.1.0", changelog) is notes("0.2", "## 0.2.0\n- a\n") is notes("1.0.0", changelog) is None


def test_a_tag_of_another_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(versions()) == 1
    assert main("99.0.0") == 1
    assert "the tag is 99.0.0" in capsys.readouterr().err
