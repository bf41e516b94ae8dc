"""The house keeps its own rules: how large its rooms are, what is packaged, what is public, what starting costs."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest

import castsmith
from castsmith.cli.completion.words import known_values
from castsmith.cli.main import main
from castsmith.lowering.registry import PASSES, needs_target, pass_class, summary
from castsmith.numerics.cast import NEWEST_OPSET
from castsmith.numerics.types import ELEMENT_TYPES
from docs.reference import PAGES
from tests import house
from tests.house import FOLDERS

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES = sorted(path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("__init__.py"))

MOST_MODULES = 12
"""In one folder, without its `__init__`."""

MOST_LINES, MOST_LINES_OF_A_FUNCTION = 600, 60
"""Of a module, and of a function without its signature and docstring; most have 100 to 400, and less than 40."""

LEAST_LINES = 60
"""Of a module that one other imports: a smaller one belongs into that other, unless it has a subject of its own."""

SMALL = {
    "cli/batch/dask.py": "the one module that needs Dask",
    "cli/entry.py": "the start of the process, which imports as little as can be",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_folder_holds_more_modules_than_one_can_survey() -> None:
    counts = house.folders(ROOT, (*FOLDERS, "tests"))
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


@pytest.mark.every_case
def test_no_module_and_no_function_is_too_long_to_read() -> None:
    for path in house.modules(ROOT, (*FOLDERS, "tests")):
        assert house.sizes(path).lines <= MOST_LINES, name_of(path)
        for lines, name in house.sizes(path).functions:
            assert lines <= MOST_LINES_OF_A_FUNCTION, f"{name_of(path)}: {name} has {lines} lines"


def test_a_small_module_serves_more_than_one_other() -> None:
    for path, other in house.sole_importers(ROOT).items():
        lines = house.sizes(path).lines
        assert lines >= LEAST_LINES or name_of(path) in SMALL, f"{name_of(path)}: {lines} lines, for {other} alone"


def test_the_figures_of_the_house_are_printed() -> None:
    figures = house.figures(ROOT)
    assert f"files: {len(house.modules(ROOT))}, " in figures
    assert "longest function: " in figures


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_door_says_what_is_inside_and_how_it_is_called(package: Path) -> None:
    """A line for what the package is, and a name in backquotes for how to call it or where to look.

    A door that offers more than five names says what each of its modules is for.
    """
    door = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    text = ast.get_docstring(door) or ""
    assert text.splitlines()[0].endswith(".")
    named = [name for name in exported(door) if f"`{name}" in text]
    inside = [path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir()]
    assert named or any(f"`{name}" in text or f"    {name}" in text for name in inside), text
    if len(exported(door)) > 5:
        homes = {home.rpartition(".")[2] for home in offered(door) if home not in _FOREIGN}
        assert [home for home in homes if not re.search(rf"\b{home}\b", text)] == []


def offered(door: ast.Module) -> dict[str, tuple[str, ...]]:
    """The names that the door imports on first use, by module."""
    for node in ast.walk(door):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "door":
            found: dict[str, tuple[str, ...]] = ast.literal_eval(node.args[1])
            return found
    return {}


_FOREIGN = ("castsmith.ir.rewriting", "castsmith.ir.rewrite_pass", "castsmith.ir.targets")
"""Modules below, of which a door offers names too."""


def exported(door: ast.Module) -> list[str]:
    """The names in `__all__`."""
    for node in door.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_door_offers_the_same_names_to_type_checkers_and_at_run_time(package: Path) -> None:
    door = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    checked = {alias.name for node in ast.walk(door) if isinstance(node, ast.ImportFrom) for alias in node.names}
    given = {name for names in offered(door).values() for name in names}
    assert checked - {"annotations", "TYPE_CHECKING", "Literal", "door"} == given
    assert given <= set(exported(door))


def test_the_slow_tests_exist() -> None:
    """`tests/slow.txt` names them for `make test`, which draws from them."""
    names = [line.split(" ", 1)[1] for line in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()]
    assert len(names) > 50
    for name in names:
        path, _, test = name.partition("::")
        assert f"def {test.rpartition('::')[2]}(" in (ROOT / path).read_text(encoding="utf-8"), f"correct {name} there"


def test_an_element_type_is_one_row() -> None:
    """The newest types are named in their rows alone: everything else follows from the rows."""
    newest = [dtype.name for dtype, row in ELEMENT_TYPES.items() if row.since.cast == NEWEST_OPSET]
    assert newest
    files = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    named = {name_of(path) for path in files if any(f".{name}" in path.read_text(encoding="utf-8") for name in newest)}
    assert named == {"numerics/types.py"}


def test_a_pass_is_one_entry_of_the_register(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One more entry: the command, the reference, the completion and `optimize` have the pass."""
    monkeypatch.setitem(PASSES, "drop-doubles", PASSES["fold-shapes"])
    assert main(["passes"]) == 0
    assert "drop-doubles" in capsys.readouterr().out
    assert "## drop-doubles" in "\n".join(PAGES["reference/passes.md"]())
    assert "drop-doubles" in str(known_values())
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    assert castsmith.optimize(onnx.parser.parse_model(text), passes=["drop-doubles{max_growth=1}"]).rewrites == []


def test_every_folder_with_code_is_packaged() -> None:
    found = {"castsmith"}
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join(("castsmith", *init.parent.relative_to(ROOT).parts)))
    assert found == set(SETTINGS["packages"])


def test_every_data_file_is_packaged() -> None:
    patterns = SETTINGS["package-data"]["castsmith.ir"]
    packaged = {path for pattern in patterns for path in (ROOT / "ir").glob(pattern)}
    assert packaged == {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix == ".json"}
    assert packaged


def test_the_type_checkers_links_lead_home() -> None:
    for folder in FOLDERS:
        link = ROOT / "castsmith" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder


def test_public_names_are_what_is_exported() -> None:
    homes = {name for names in castsmith._HOMES.values() for name in names}  # pyright: ignore[reportPrivateUsage]
    assert sorted(castsmith.__all__) == castsmith.__all__
    assert set(castsmith.__all__) == homes
    for name in castsmith.__all__:
        assert getattr(castsmith, name) is not None


def test_every_pass_says_what_it_does() -> None:
    for name in PASSES:
        assert summary(name).endswith(".")


def test_a_pass_needs_a_target_if_it_has_a_required_field_for_one() -> None:
    for name in PASSES:
        fields = dataclasses.fields(pass_class(name))  # pyright: ignore[reportArgumentType]
        required = [field.name for field in fields if field.default is dataclasses.MISSING]
        assert needs_target(name) == ("target" in required)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom castsmith.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print({'numpy', 'onnx', 'onnx_ir', 'rich', 'networkx'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.strip() == "set()"
