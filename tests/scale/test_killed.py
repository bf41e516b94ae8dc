"""A few of the kills that `python -m tests.scale.killed 200` does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.scale.killed import kill_savers


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and file locks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_save_leaves_a_whole_model(tmp_path: Path) -> None:
    kill_savers(20, tmp_path, seed=1)
