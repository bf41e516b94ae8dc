"""Mistakes that cosmic-ray plants in modules drawn at random, and those that the tests do not notice.

    python -m tests.soak.planted 60 [SEED] [--package lowering] [--seconds 300]

Works on a copy of the files that git tracks. For each mistake the tests of the module's own name run first, then those
of its folder, then those of its package. Prints each mistake that none of them notices, and the share by package. The
exit code is 0: some mistakes change nothing, so a person reads the list.
"""

from __future__ import annotations

import argparse
import difflib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast_from_path  # pyright: ignore[reportMissingImports]
from cosmic_ray.mutating import use_mutation  # pyright: ignore[reportMissingImports]
from cosmic_ray.plugins import get_operator  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).parents[2]
PACKAGES = ("numerics", "ir", "targets", "analysis", "passes", "verification", "lowering", "conformance", "cli")
OPERATORS = tuple(
    f"core/{name}"
    for name in (
        *("NumberReplacer", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ZeroIterationForLoop"),
        *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
        *("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not"),
        *("ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_FloorDiv"),
        *(
            f"ReplaceComparisonOperator_{pair}"
            for pair in ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Is_IsNot", "IsNot_Is")
        ),
    )
)
"""One of each kind of mistake that people make."""


def copy_of_the_project(folder: Path) -> Path:
    """Return a copy of the files that git tracks."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in names.decode().split("\0"):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def mistakes(module: Path) -> list[tuple[str, int]]:
    """Return the mistakes that can be planted in the module: the operator, and which of its places."""
    nodes = list(ast_nodes(get_ast_from_path(module)))
    return [
        (name, occurrence)
        for name in OPERATORS
        for occurrence in range(sum(len(list(get_operator(name)().mutation_positions(node))) for node in nodes))
    ]


def tests_of(module: Path, tree: Path) -> Iterator[str]:
    """Yield the tests of the module, the nearest first."""
    folder = tree / "tests" / module.parent.relative_to(tree)
    yield from (str(path) for path in sorted(folder.glob(f"test_{module.stem}*.py")))
    for around in (folder, *folder.parents):
        if around == tree / "tests":
            return
        if around.is_dir():
            yield str(around)


def failing_test(tests: Iterable[str], tree: Path, seconds: int) -> str:
    """Return the first of the tests that fails, `no end` if they take too long, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
    try:
        ran = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "no end"
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", ran.stdout, re.MULTILINE)
    return failed[1] if failed else "" if ran.returncode == 0 else "no start"


def _diff(before: str, after: str, name: str) -> str:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(lines[0], lines[1], name, name, n=2))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.planted", description="See the module.")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--seconds", type=int, default=300, help="time of the tests of one mistake")
    arguments = parser.parse_args(words)
    draw, planted, noticed = random.Random(arguments.seed), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_the_project(Path(folder))
        modules = [path for name in arguments.package or PACKAGES for path in sorted((tree / name).rglob("*.py"))]
        sizes = [path.stat().st_size for path in modules]
        while planted.total() < arguments.count:
            (module,) = draw.choices(modules, sizes)
            places = mistakes(module)
            if not places:
                continue
            name, occurrence = draw.choice(places)
            package = module.relative_to(tree).parts[0]
            planted[package] += 1
            with use_mutation(module, get_operator(name)(), occurrence) as (before, after):
                failed = failing_test(tests_of(module, tree), tree, arguments.seconds)
            if not failed:
                print(f"not noticed, {name}:\n{_diff(before, str(after), str(module.relative_to(tree)))}", flush=True)
            elif "::" in failed and failing_test([failed], tree, arguments.seconds):
                sys.exit(f"{failed} fails without a mistake too: mend it first.")
            else:
                noticed[package] += 1
    for package in PACKAGES:
        if planted[package]:
            print(f"{package}: {noticed[package]} of {planted[package]} noticed")
    print(f"{noticed.total()} of {planted.total()} noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
