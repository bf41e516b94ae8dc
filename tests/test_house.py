"""What is packaged, what is public, and what starting imports."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from pathlib import Path

import onnx
import pytest

import castsmith
from castsmith.cli.commands.reference import known_values
from castsmith.cli.main import main
from castsmith.lowering.registry import PASSES, needs_target, pass_class, summary
from castsmith.numerics.cast.settings import NEWEST_OPSET
from castsmith.numerics.types import ELEMENT_TYPES
from docs.reference import PAGES
from tests.house import FOLDERS

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


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
    found = {"castsmith", "optimum.commands.register"}
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join(("castsmith", *init.parent.relative_to(ROOT).parts)))
    assert found == set(SETTINGS["packages"])


def test_every_data_file_is_packaged() -> None:
    data = SETTINGS["package-data"]
    patterns = [f"{folder}/{pattern}" for folder in FOLDERS for pattern in data.get(f"castsmith.{folder}", ())]
    packaged = {path for pattern in patterns for path in ROOT.glob(pattern) if path.suffix == ".json"}
    assert packaged == {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix == ".json"}
    assert packaged


def test_the_type_checkers_links_lead_home() -> None:
    for folder in FOLDERS:
        link = ROOT / "castsmith" / folder
        if link.is_symlink():
            assert link.resolve() == ROOT / folder
        else:  # Git on Windows writes the text of a link: an editable install finds the package without it
            assert link.read_text(encoding="utf-8") == f"../{folder}"


def test_importing_the_library_changes_nothing_else() -> None:
    """No hook, no stand-in: what the process imports afterwards is what it would be without castsmith."""
    script = (
        "import sys\nhooks = [*sys.meta_path], [*sys.path_hooks]\nimport castsmith\nimport sympy, onnx, onnx_ir\n"
        "assert hooks == ([*sys.meta_path], [*sys.path_hooks])\n"
        "assert {type(sys.modules[name]) for name in ('sympy', 'onnx.parser', 'onnx_ir.tape')} == {type(sys)}\n"
        "from castsmith import optimize, passes, lowering\nassert castsmith.optimize is optimize\n"
        "assert all(getattr(module, name) for module in (castsmith, passes, lowering) for name in module.__all__)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


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
