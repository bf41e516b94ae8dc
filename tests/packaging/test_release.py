"""The workflows are YAML, pin their actions, and grant each job what it needs alone; the notes of a version."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import pytest
import yaml

from tests.packaging.changelog import ROOT, main, notes, versions

WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
TEXT = WORKFLOWS["release"]
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["jobs"]


@pytest.mark.parametrize(("workflow", "least"), [("release", 6), ("ci", 4), ("nightly", 4)])
def test_every_action_is_pinned_to_a_commit_with_its_version(workflow: str, least: int) -> None:
    used = re.findall(r"uses: (.*)", WORKFLOWS[workflow])
    assert len(used) >= least
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


@pytest.mark.parametrize("workflow", ["ci", "nightly"])
def test_what_runs_the_code_of_a_pull_request_may_only_read(workflow: str) -> None:
    data = yaml.safe_load(WORKFLOWS[workflow])
    assert data["permissions"] == {"contents": "read"}
    assert not [job for job in data["jobs"].values() if "permissions" in job]
    assert "secrets." not in WORKFLOWS[workflow]


def test_the_nightly_runs_soaks_that_exist() -> None:
    soaks = yaml.safe_load(WORKFLOWS["nightly"])["jobs"]["soak"]["strategy"]["matrix"]["soak"]
    for name in (soak.split()[0] for soak in soaks):
        assert find_spec(name) is not None, name


def test_the_notes_of_a_version() -> None:
    changelog = "# C\n\n## Unreleased\n\n- new\n\n## 0.2.0 - 2026-12-01\n\n- a\n- b\n\n## 0.1.0\n\n## 0.0.1\n- z\n"
    assert notes("0.2.0", changelog) == "- a\n- b"
    assert notes("0.0.1", changelog) == "- z"
    assert notes("0.1.0", changelog) is notes("0.2", "## 0.2.0\n- a\n") is notes("1.0.0", changelog) is None


def test_a_tag_of_another_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(versions()) == 1
    assert main("99.0.0") == 1
    assert "the tag is 99.0.0" in capsys.readouterr().err
