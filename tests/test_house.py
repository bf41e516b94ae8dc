"""The house keeps its own rules: what is packaged, what is public, what starting costs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from pathlib import Path

import castsmith
from castsmith.lowering.registry import PASSES, needs_target, pass_class, summary

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = ("cli", "ir", "lowering", "numerics", "passes")


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
