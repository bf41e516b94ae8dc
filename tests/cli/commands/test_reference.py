"""`passes` lists the passes."""

from __future__ import annotations

import json

from castsmith.lowering.registry import PASSES
from tests.cli.helpers import Command


def test_passes(castsmith: Command) -> None:
    text = castsmith("passes").out
    data = json.loads(castsmith("passes", "--json").out)["passes"]
    assert [entry["name"] for entry in data] == list(PASSES)
    for entry in data:
        assert entry["summary"]
        assert entry["summary"] in text
        assert all(option in text for option in entry["options"])
