"""The pages of reference that docs/reference.py makes hold everything that there is."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib import import_module

import onnx.parser
import pytest

import castsmith
import castsmith.lowering
import castsmith.passes
from castsmith.lowering.registry import PASSES, option_names
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.passes.core.options import Options
from castsmith.targets.target import target_names
from docs import reference
from docs.docstrings import as_markdown, resolved
from docs.notebooks import run_cell
from tests.cli.helpers import parsers


def text(page: str) -> str:
    return "\n".join(reference.PAGES[f"reference/{page}.md"]())


def of_objects() -> str:
    """The pages of the public names."""
    made = reference.pages().items()
    return "\n".join(line for path, page in made if path.startswith("reference/python/") for line in page())


def test_every_public_name_has_a_page() -> None:
    paths = [line.removeprefix("::: ") for line in of_objects().splitlines() if line.startswith("::: ")]
    assert all(hasattr(import_module(path.rpartition(".")[0]), path.rpartition(".")[2]) for path in paths)
    assert all(path.startswith("castsmith.") for path in paths)
    entries = {path.rpartition(".")[2] for path in paths}
    names = {name for module in (castsmith, castsmith.passes, castsmith.lowering) for name in module.__all__}
    assert entries == names
    assert {*re.findall(r"\| \[(\w+)\]\(python/\1\.md\)", text("python"))} == names


def test_every_command_has_its_help() -> None:
    page = text("commands")
    shown = [line.removeprefix("## castsmith ") for line in page.splitlines() if line.startswith("## castsmith ")]
    assert {"dev", *parsers()} <= {*shown}
    assert "--promote-unsafe" in page


def test_every_option_of_optimize_has_a_row() -> None:
    names = [
        line.split(" | ")[0].removeprefix("| ").strip("`")
        for line in text("commands").partition("## Options in Python")[2].splitlines()
        if line.startswith("| ")
    ]
    assert names[1:] == [each.name for each in dataclasses.fields(Options)]
    assert "| `storage` | `'packed'` or `'byte'` | `'packed'` |" in text("commands")
    assert "`--no-provenance`" in text("commands")


def test_every_pass_has_its_options() -> None:
    sections = {part.partition("\n")[0]: part for part in text("passes").split("\n## ")[1:]}
    assert set(sections) == set(PASSES)
    for name, section in sections.items():
        assert all(f"| `{option}` |" in section for option in option_names(name))


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


def test_references_are_resolved_and_sections_left_out() -> None:
    assert "As in " not in text("passes")
    section = text("passes").partition("## insert-promote-types")[2].partition("\n## ")[0]
    assert "| `promote_unsafe` | `bool` | `False` | Allow promotions" in section
    assert "**Attributes**" not in section
    assert "**Raises**" in section
    assert resolved("    target: As in Elsewhere.", "x") == "    target: As in Elsewhere."
    with pytest.raises(ValueError, match="x: FoldConstants does not describe speed"):
        resolved("    speed: As in FoldConstants.", "x")


def test_every_class_and_function_links_its_source() -> None:
    for address, line in re.findall(r"/blob/main/(\S+?)#L(\d+)\)", of_objects() + text("passes")):
        source = (reference.ROOT / address).read_text().splitlines()[int(line) - 1]
        assert source.startswith(("def ", "class ", "@")), (address, line)
    assert of_objects().count("[Source of ") > 50


def described(docstring: str, *sections: str) -> list[str]:
    """Return the names described in these sections of a Google-style docstring."""
    names: list[str] = []
    inside = False
    for line in inspect.cleandoc(docstring).splitlines():
        if line.endswith(":") and line[:-1].isalpha():
            inside = line[:-1] in sections
        elif inside and (item := re.match(r"    \*{0,2}(\w+): ", line)):
            names.append(item[1])
        elif line and not line.startswith(" "):
            inside = False
    return names


PUBLIC = {
    name: getattr(module, name)
    for module in (castsmith, castsmith.passes, castsmith.lowering)
    for name in module.__all__
}


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if inspect.isfunction(thing)])
def test_every_parameter_of_a_public_function_is_described(name: str) -> None:
    parameters, text = list(inspect.signature(PUBLIC[name]).parameters), PUBLIC[name].__doc__ or ""
    options = {"optimize": "castsmith.Options", "convert": "castsmith.ConvertOptions"}.get(name)
    if options is None:
        assert described(text, "Args") == parameters
    else:  # the attributes of the options are among the arguments
        assert f"Each option of `{options}` is an argument of that name." in text
        assert sorted(described(text, "Args")) == sorted(parameters)


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC.items() if dataclasses.is_dataclass(thing)])
def test_every_field_of_a_public_class_is_described(name: str) -> None:
    fields = {each.name for each in dataclasses.fields(PUBLIC[name]) if not each.name.startswith("_")}
    assert fields <= {*described(PUBLIC[name].__doc__ or "", "Attributes")}


def test_the_notebook_runs_and_shows_a_table_for_each_result() -> None:
    page = "\n".join(reference.PAGES["howto/notebook.md"]())
    assert page.count("<table>") == 5  # two of Result, and of ModelDiff, Verdict and Bounds
    assert page.count("```python") == 7
    assert "```text\nMul needs operands of one type" in page
    with pytest.raises(ZeroDivisionError):
        list(run_cell("1 / 0", {}, "a cell"))


def test_results_have_a_short_repr() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    model = onnx.parser.parse_model(text)
    results = (
        castsmith.optimize(model),
        castsmith.convert(model, to="float16"),
        castsmith.diff(model, model),
        castsmith.verify(model, model, engine="reference", sets=1),
        castsmith.bounds(model, ranges={"x": (0, 1)}),
    )
    for result in results:
        shown = repr(result)
        assert shown.startswith(f"<{type(result).__name__}: ")
        assert len(shown) < 200
        assert "<b>" in result._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_records_print_as_a_sentence() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (int64[n] x, float[n] z) => (float[n] y) { y = Add (x, z) }'
    mixed = onnx.parser.parse_model(text)
    (finding,) = castsmith.check(mixed, promotion="torch")
    assert str(finding) == (
        "g: y (Add): mixed-operand-types Add needs operands of one type, but has x (int64) and z (float)"
        f" ({finding.help})"
    )
    first = castsmith.optimize(mixed, promotion="torch").rewrites[0]
    assert str(first) == f"g: y (Add): promote-operands {first.reason}"
    chain = "g (float[n] x) => (float[n] y) { a = Cast <to = 10> (x) y = Cast <to = 1> (a) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {chain}')
    (skipped,) = castsmith.optimize(model).refusals
    assert str(skipped) == f"{skipped.site}: {skipped.rule} {skipped.reason} (example value: {skipped.witness})"
    with pytest.raises(
        castsmith.PromotionError, match=r"^g: y \(Add\): operands x \(int64, an input\) and z \(float, an"
    ):
        castsmith.verify(mixed, mixed)
