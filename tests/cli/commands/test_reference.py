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
        when = " (with --target)" if entry["needs_target"] else ""
        options = f"    options: {', '.join(entry['options'])}\n" if entry["options"] else ""
        assert f"\n{entry['name']}{when}\n    {entry['summary']}\n{options}" in f"\n{text}"
    assert text.count("\n    ") == len(data) + sum(bool(entry["options"]) for entry in data)
    targets = {entry["name"] for entry in data if entry["needs_target"]}
    assert targets == {
        "lower-custom", "lower-trunc", "lower-quant", "lower-casts", "lower-float8", "widen-floats",
        "lower-operators", "legalize-version",
    }  # fmt: skip
