"""The pages of reference that docs/reference.py makes hold everything that there is."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import castsmith
import castsmith.lowering
import castsmith.passes
from castsmith.cli.main import _COMMANDS  # pyright: ignore[reportPrivateUsage]
from castsmith.ir.options import Options
from castsmith.ir.targets import target_names
from castsmith.lowering.registry import PASSES, option_names
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from docs import reference
from docs.docstrings import as_markdown


def text(page: str) -> str:
    return "\n".join(reference.PAGES[f"reference/{page}.md"]())


def test_every_public_name_has_an_entry() -> None:
    paths = [line.removeprefix("::: ") for line in text("python").splitlines() if line.startswith("::: ")]
    assert all(hasattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in paths)
    assert all(path.startswith("castsmith.") for path in paths)
    entries = {path.rpartition(".")[2] for path in paths}
    names = {name for module in (castsmith, castsmith.passes, castsmith.lowering) for name in module.__all__}
    assert entries == names


def test_every_command_has_its_help() -> None:
    page = text("commands")
    shown = [line.removeprefix("## castsmith ") for line in page.splitlines() if line.startswith("## castsmith ")]
    assert tuple(shown) == _COMMANDS
    assert "--promote-unsafe" in page


def test_every_option_of_optimize_has_a_row() -> None:
    names = [line.split(" | ")[0].removeprefix("| ") for line in text("options").splitlines() if line.startswith("| ")]
    assert names[1:] == [each.name for each in dataclasses.fields(Options)]
    assert "| storage | `'packed'` or `'byte'` | `'packed'` |" in text("options")
    assert "`--no-provenance`" in text("options")


def test_every_pass_has_its_options() -> None:
    sections = {part.partition("\n")[0]: part for part in text("passes").split("\n## ")[1:]}
    assert set(sections) == set(PASSES)
    for name, section in sections.items():
        assert all(f"| {option} |" in section for option in option_names(name))


def test_every_target_and_type_is_there() -> None:
    assert all(f"\n## {name}\n" in text("targets") for name in target_names())
    assert all(f"\n| {type_name(dtype)} |" in text("types") for dtype in ELEMENT_TYPES)


def test_the_sections_of_a_docstring_become_lists() -> None:
    docstring = """Summary.

    Args:
        first: One thing,
            on two lines.
        second: Another.

    Raises:
        ValueError: An invalid value.

    More.
    """
    assert as_markdown(docstring).splitlines() == [
        *("Summary.", "", "**Args**", "", "- `first`: One thing,", "  on two lines.", "- `second`: Another.", ""),
        *("**Raises**", "", "- `ValueError`: An invalid value.", "", "More."),
    ]
