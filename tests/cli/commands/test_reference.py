"""`passes` lists the passes."""

from __future__ import annotations

import argparse
import json
from importlib.metadata import EntryPoint

import pytest

from castsmith.cli.commands import reference
from castsmith.cli.parser import Parser
from castsmith.lowering.registry import PASSES
from castsmith.numerics.extensions import Extension
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


def own_operator(group: str) -> list[Extension]:
    return [Extension(EntryPoint("own.Op", "own:lower", group), "package")]


def test_the_lines_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators that packages lower are those of one pass, and a pass of a package says when it runs."""
    facts = {"plain": (False, []), "lower-custom": (True, ["one", "two"])}
    monkeypatch.setattr(reference, "needs_target", lambda name: facts[name][0])  # pyright: ignore
    monkeypatch.setattr(reference, "option_names", lambda name: facts[name][1])  # pyright: ignore
    monkeypatch.setattr(reference, "summary", lambda name: f"do {name}")  # pyright: ignore
    monkeypatch.setattr(reference, "extensions", own_operator)
    custom = ["    do lower-custom", "    options: one, two", "    lowers own.Op (package)"]
    for name, is_added, lines in (
        ("plain", False, ["plain", "    do plain"]),
        ("plain", True, ["plain (--passes only)", "    do plain"]),
        ("lower-custom", False, ["lower-custom (with --target)", *custom]),
        ("lower-custom", True, ["lower-custom (with --target) (--passes only)", *custom]),
    ):
        assert [line.plain for line in reference._lines(name, is_added=is_added)] == lines  # pyright: ignore


def test_what_a_shell_completes() -> None:
    """Values that can be listed, and files for other values; nothing after an option without a value."""
    parser = Parser(prog="tool")
    inner = parser.add_subparsers().add_parser("inner")
    for each in (parser, inner):
        each.add_argument("--target", metavar="T")
        each.add_argument("--fixed", metavar="T", choices=["own"])
        each.add_argument("--report", metavar="FILE")
        each.add_argument("--quiet", action="store_true")
    reference._list_values(parser, {"T": ["iree", "tract"]}, "files")  # pyright: ignore
    for each in (parser, inner):
        actions: dict[str, argparse.Action] = {action.dest: action for action in each._actions}  # pyright: ignore
        completed = {name: (action.choices, getattr(action, "complete", None)) for name, action in actions.items()}
        wanted = {"target": (["iree", "tract"], None), "fixed": (["own"], None), "report": (None, "files")}
        wanted |= dict.fromkeys(("help", "help_all", "quiet"), (None, None))
        assert wanted.items() <= completed.items()
