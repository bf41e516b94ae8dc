"""Shared fixtures of the tests of the command line."""

from __future__ import annotations

import pytest

from tests.cli.helpers import Command


@pytest.fixture
def castsmith(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
