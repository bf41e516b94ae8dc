"""Packages as pip leaves them, without pip: a folder of metadata beside the modules, on the path."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

EntryPoints = Mapping[str, Mapping[str, str]]
"""By group, and within it by name."""


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, package: str, entry_points: EntryPoints, version: str = "1.0"
) -> None:
    """Put a package of that name, whose modules may be written into `folder`, on the path of this process."""
    metadata = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in entry_points.items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(folder))


def install_project(monkeypatch: pytest.MonkeyPatch, folder: Path, project: Path) -> None:
    """The same for the project in a folder, as its pyproject.toml says."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    monkeypatch.syspath_prepend(str(project))
    install(monkeypatch, folder, settings["name"], settings["entry-points"], settings["version"])
