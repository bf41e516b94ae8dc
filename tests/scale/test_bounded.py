"""Small files that ask for much end in bounded time and memory: with the work done, or in one plain sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale.hostile import files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")

HOSTILE = dict(files())
SHARES = 8
"""Processes that run the files: one imports all that a command needs, and is then forked for each."""


@pytest.mark.parametrize("share", range(SHARES))
def test_commands_end_in_bounds(share: int, tmp_path: Path) -> None:
    for name in sorted(HOSTILE)[share::SHARES]:
        (tmp_path / name).write_bytes(HOSTILE[name])
    command = [sys.executable, "-m", "tests.scale.bounded", "optimize,lower,check,diff", *map(str, tmp_path.iterdir())]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 4 * len(list(tmp_path.iterdir()))
    for ended in map(json.loads, lines):
        assert ended["code"] in (0, 1, 2), ended
        assert not any(word in ended["said"] for word in ("internal error", "Traceback", "not enough memory")), ended
        if ended["code"] == 2:
            assert ended["said"].startswith("castsmith: "), ended
            assert ended["said"].count("\n") == 1, ended
