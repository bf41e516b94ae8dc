"""The examples and the pages as users run them: the wheel installed in an environment of its own.

    python -m tests.examples.installed [--venv DIR]     # make examples

Builds the wheel, installs it with the packages of the `examples` extra, and then, from empty directories: runs every
example and compares what it prints with its .out; runs the blocks of every page; has pyright check the examples in
strict mode against the installed package; and tries the pre-commit hook on a right and on a wrong model.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
STRICT = {
    "typeCheckingMode": "strict",
    # Libraries without types leave these; what is ours is checked in full.
    **dict.fromkeys(
        ("reportMissingTypeStubs", "reportUnknownMemberType", "reportUnknownVariableType", "reportUnknownArgumentType"),
        False,
    ),
}
MODELS = """
import onnx
for name, kind in (("right", "float"), ("wrong", "int64")):
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[4] x, {kind}[4] n) => (float[4] y) {{ y = Add (x, n) }}'
    onnx.save(onnx.parser.parse_model(text), f"{name}.onnx")
"""


def run(*command: str | Path, folder: Path = ROOT, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command that finds only what is installed, never the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def must(*command: str | Path) -> None:
    done = run(*command)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def install(venv: Path) -> Path:
    """The folder with the commands of an environment that has the wheel and what the examples need."""
    must(sys.executable, "-m", "venv", venv)
    with tempfile.TemporaryDirectory() as built:
        must(venv / "bin" / "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", built, ROOT)
        (wheel,) = Path(built).glob("*.whl")
        must(venv / "bin" / "pip", "install", "--quiet", f"castsmith[examples] @ file://{wheel}", "pyright>=1.1.400")
        must(venv / "bin" / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel)
    return venv / "bin"


def examples(commands: Path) -> Iterator[tuple[str, str]]:
    for example in sorted((ROOT / "examples").glob("*.py")):
        with tempfile.TemporaryDirectory() as empty:
            shutil.copy(example, empty)
            done = run(commands / "python", example.name, folder=Path(empty))
        shown = example.with_suffix(".out").read_text()
        yield example.name, "" if done.stdout == shown else f"the page shows\n{shown}\nbut\n{done.stdout}{done.stderr}"


def pages(commands: Path) -> Iterator[tuple[str, str]]:
    runner = ROOT / "tests" / "examples" / "pages.py"
    generated = (ROOT / "docs" / "numerics.md",)
    for page in (ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - set(generated))):
        done = run(commands / "python", runner, page, path=commands)
        yield str(page.relative_to(ROOT)), done.stderr if done.returncode else ""


def types(commands: Path) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as empty:
        for example in (ROOT / "examples").glob("*.py"):
            shutil.copy(example, empty)
        (Path(empty) / "pyrightconfig.json").write_text(json.dumps(STRICT))
        done = run(commands / "pyright", "--pythonpath", commands / "python", folder=Path(empty))
    yield "pyright --strict", done.stdout + done.stderr if done.returncode else ""


def pre_commit(commands: Path) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty)
        run("git", "init", "--quiet", folder=folder)
        run(commands / "python", "-c", MODELS, folder=folder)
        for name, code in (("right", 0), ("wrong", 1)):
            hook = (commands / "pre-commit", "try-repo", ROOT, "castsmith-check", "--files", f"{name}.onnx")
            done = run(*hook, folder=folder, path=commands)
            said = "bound to different types" in done.stdout or "mixed-operand-types" in done.stdout
            yield (
                f"pre-commit: {name}",
                "" if (done.returncode, said) == (code, bool(code)) else done.stdout + done.stderr,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv" / "examples", help="where to install")
    commands = install(parser.parse_args().venv.absolute())
    failed = 0
    for check in (examples, types, pages, pre_commit):
        for name, wrong in check(commands):
            print(f"{'FAILED' if wrong else 'ok'}  {name}\n{wrong}".rstrip(), flush=True)
            failed += bool(wrong)
    print(f"{failed} failed" if failed else "all as shown")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
