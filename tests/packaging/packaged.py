"""The source distribution and the wheel in dist/, looked at and used as a user would.

    python -m tests.packaging.packaged [--venv DIR]     # make package

The source distribution has every file that git tracks. The wheel installs in an empty environment, the command tells
its version, the types of a user's program are all known, and the worked example of a package that extends Castsmith
installs beside it and is there by name.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.examples.installed import ROOT, must, run
from tests.house import FOLDERS

LINKS = {f"castsmith/{name}" for name in FOLDERS}
"""Files that only the type checkers need in a checkout; setuptools follows no links."""
STRICT = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": True}
ACME = ROOT / "examples" / "acme"


def only(pattern: str) -> Path:
    """The one file in dist/ of that form."""
    found = list((ROOT / "dist").glob(pattern))
    if len(found) != 1:
        sys.exit(f"dist/ has {len(found)} files {pattern}: run make package, which begins with an empty one.")
    return found[0]


def missing_from_source() -> set[str]:
    """Return the files in git that the source distribution lacks; empty without git."""
    listed = run("git", "ls-files")
    with tarfile.open(only("*.tar.gz")) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    return set(listed.stdout.splitlines()) - packed - LINKS if listed.returncode == 0 else set()


def missing_from_wheel() -> set[str]:
    """Data and code of the package that the wheel lacks; notes for developers stay in the source."""
    with zipfile.ZipFile(only("*.whl")) as archive:
        packed = set(archive.namelist())
    folders = {name: ROOT / name for name in FOLDERS}
    own = {f"castsmith/{path.name}" for path in (ROOT / "castsmith").iterdir() if path.is_file()}
    for name, folder in folders.items():
        files = (
            path
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".md" and "__pycache__" not in path.parts
        )
        own |= {f"castsmith/{name}/{path.relative_to(folder).as_posix()}" for path in files}
    return own - packed


def used(venv: Path) -> None:
    """Install the wheel in an empty environment, and use it."""
    must(sys.executable, "-m", "venv", "--clear", venv)
    python = venv / "bin" / "python"
    must(python, "-m", "pip", "install", "--quiet", only("*.whl"), ACME)
    must(python, "-m", "pip", "check")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told = run(venv / "bin" / "castsmith", "--version", folder=folder)
        if told.stdout != f"castsmith {only('*.whl').name.split('-')[1]}\n":
            sys.exit(f"castsmith --version: {told.stdout}{told.stderr}")
        extended = run(python, ACME / "use.py", folder=folder)
        if extended.stdout != (ACME / "use.out").read_text():
            sys.exit(f"{ACME / 'use.py'}: {extended.stdout}{extended.stderr}")
        typed(python, folder)


def typed(python: Path, folder: Path) -> None:
    """A user's program runs, and pyright in its strict mode finds nothing in it."""
    program = folder / "consumer.py"
    program.write_text((Path(__file__).with_name("consumer.py")).read_text())
    (folder / "pyrightconfig.json").write_text(json.dumps(STRICT))
    for command in ((python, program), (sys.executable, "-m", "pyright", "--pythonpath", python, "-p", folder)):
        done = run(*command, folder=folder)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv" / "installed")
    for what, missing in (("source distribution", missing_from_source()), ("wheel", missing_from_wheel())):
        if missing:
            sys.exit(f"the {what} lacks {', '.join(sorted(missing))}: see MANIFEST.in and pyproject.toml.")
    used(parser.parse_args().venv.resolve())
    print(f"{only('*.tar.gz').name} and {only('*.whl').name}: complete, installed, typed, extended")


if __name__ == "__main__":
    main()
