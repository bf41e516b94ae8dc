"""The oldest releases that pyproject.toml allows, as constraints for pip.

python tests/packaging/oldest.py > constraints.txt     # make oldest
"""

from __future__ import annotations

import tomllib
from pathlib import Path


def constraints() -> list[str]:
    """`name>=version; marker` as `name==version; marker`."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    return [requirement.replace(">=", "==", 1) for requirement in project["dependencies"]]


if __name__ == "__main__":
    print("\n".join(constraints()))
