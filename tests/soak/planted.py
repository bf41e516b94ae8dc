"""Mistakes that cosmic-ray plants in functions of modules drawn at random, and those that the tests do not notice.

    python -m tests.soak.planted 60 [SEED] [--package lowering] [--seconds 60]
    python -m tests.soak.planted --every verification/prove/proof.py ...     # each one that can be planted there
    python -m tests.soak.planted --conditions --every passes/place/cut.py    # each condition left out, and no other

Each mistake is planted in a fork of this process, which has imported everything: the functions of the module get the
code of the changed source. The tests of the module's name run first, then those that import it, then those of the
folders around its own, such as the golden cases of all passes, then those of its folder. Prints each mistake that none
of them notices, and the share by package. The exit code is 0: some mistakes change nothing, so a person reads the list.
None is planted outside of functions, nor in processes that tests start.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest
from cosmic_ray.ast import ast_nodes, get_ast  # pyright: ignore[reportMissingImports]
from cosmic_ray.mutating import mutate_code  # pyright: ignore[reportMissingImports]
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
SECONDS_OF_A_TEST = 30
"""Seconds of the processor after which a test is taken not to end."""
NO_END = "no end"


def left_out(source: str) -> list[str]:
    """Return the sources without one condition: of `and` or `or` one operand, or an `if` that is always or never so."""
    text, starts = source.encode(), [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    places: list[tuple[ast.expr, str]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BoolOp):
            places += [(operand, str(isinstance(node.op, ast.And))) for operand in node.values]
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp) else getattr(node, "ifs", [])
        places += [
            (test, constant) for test in tests if not isinstance(test, ast.BoolOp) for constant in ("True", "False")
        ]
    sources: list[str] = []
    for expression, constant in places:
        end_line, end_column = expression.end_lineno or 0, expression.end_col_offset or 0
        start, end = starts[expression.lineno - 1] + expression.col_offset, starts[end_line - 1] + end_column
        lines = "\n" * (end_line - expression.lineno)  # so that later functions stay on their lines
        sources.append((text[:start] + f"({constant}{lines})".encode() + text[end:]).decode())
    return sources


@cache
def mistakes(source: str, conditions: bool) -> list[tuple[str, Callable[[], str]]]:
    """Return the mistakes that can be planted in the source: the kind, and what returns the source with it."""
    if conditions:
        return [("a condition left out", partial(str, after)) for after in left_out(source)]
    nodes = list(ast_nodes(get_ast(source)))
    return [
        (name, partial(planted, source, name, occurrence))
        for name in OPERATORS
        for occurrence in range(sum(len(list(get_operator(name)().mutation_positions(node))) for node in nodes))
    ]


def planted(source: str, operator: str, occurrence: int) -> str:
    return mutate_code(source, get_operator(operator)(), occurrence) or source


def codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Yield the code of each function, by its name and line."""
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield (const.co_qualname, const.co_firstlineno), const
            yield from codes(const)


def changed_functions(module: ModuleType, source: str) -> list[tuple[FunctionType, CodeType]]:
    """Return the functions of the module that differ in the source, each with its code there."""
    file = str(module.__file__)
    try:
        new = dict(codes(compile(source, file, "exec", dont_inherit=True)))
    except SyntaxError:  # cosmic-ray takes the star in a list of parameters for a product
        return []
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    old = [(each, each.__code__) for each in functions if each.__code__.co_filename == file]
    pairs = [(each, new.get((code.co_qualname, code.co_firstlineno), code)) for each, code in old]
    return [
        (each, code) for each, code in pairs if code != each.__code__ and code.co_freevars == each.__code__.co_freevars
    ]


@cache
def _files_of_tests() -> dict[Path, str]:
    return {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def tests_of(path: Path) -> list[str]:
    """Return the files of tests of a module, the nearest first."""
    folder, package = ROOT / "tests" / path.parent, ROOT / "tests" / path.parts[0]
    files = sorted(_files_of_tests(), key=lambda each: not each.is_relative_to(package))
    named = [each for each in files if re.fullmatch(rf"test_{path.stem}(_\w+)?", each.stem) and each.parent == folder]
    pattern = re.compile(rf"from castsmith\.{'.'.join(path.with_suffix('').parts)} import")
    importing = [each for each in files if pattern.search(_files_of_tests()[each])]
    beside = [each for each in files if each.is_relative_to(folder)]
    # Goldens, rows and walks of all passes are in the folders around that of a pass.
    around = [each for each in files if folder.is_relative_to(each.parent) and each.parent != folder]
    return [str(each.relative_to(ROOT)) for each in dict.fromkeys([*named, *importing, *around, *beside])]


def plant(changes: list[tuple[FunctionType, CodeType]]) -> None:
    """Give the functions their changed code, and forget what was computed without it."""
    for function, code in changes:
        function.__code__ = code
    for cached in [each for each in gc.get_objects() if isinstance(each, type(mistakes))]:
        if cached.__module__.startswith("castsmith."):
            cached.cache_clear()


class Limits:
    """Ends a run of pytest after so many seconds of the processor, and the process in a test without end."""

    def __init__(self, seconds: float) -> None:
        self.failed = ""
        self._end = time.process_time() + seconds

    def pytest_runtest_logstart(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_A_TEST)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        yield
        if time.process_time() > self._end:
            item.session.shouldstop = "the time is over"


def failing_test(tests: Sequence[str], changes: list[tuple[FunctionType, CodeType]], seconds: float) -> str:
    """Return the first of the tests that fails with the changes, `no end`, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        plant(changes)
        limits = Limits(seconds)
        pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests], plugins=[limits])
        os.write(writing, limits.failed.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return NO_END if os.WIFSIGNALED(status) else text


@cache
def fails_anyway(test: str, seconds: float) -> bool:
    return bool(failing_test([test], [], seconds))


def noticing_test(tests: Sequence[str], changes: list[tuple[FunctionType, CodeType]], seconds: float) -> str:
    """Return the first test that fails because of the changes, or nothing."""
    ignored = list[str]()
    while True:
        failed = failing_test([*tests, *(f"--deselect={each}" for each in ignored)], changes, seconds)
        if failed in ("", NO_END) or not fails_anyway(failed, seconds):
            return failed
        ignored.append(failed)


def import_tests() -> None:
    """Import every file of tests once, for all forks. What a file computes when it is imported has no mistake, then."""
    nowhere, streams = os.open(os.devnull, os.O_WRONLY), [os.dup(1), os.dup(2)]
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "tests"])
    for stream, saved in enumerate(streams, 1):
        os.dup2(saved, stream)
    gc.unfreeze()


def module_of(name: Path) -> ModuleType:
    return import_module(f"castsmith.{'.'.join(name.with_suffix('').parts)}")


def drawn(arguments: argparse.Namespace) -> Iterator[tuple[Path, str, str]]:
    """Yield modules, each with a kind of mistake and its source with one, without end if they are drawn."""
    found = [path for name in arguments.package or PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    paths = [path for path in found if path.stem not in ("__init__", "worker")]
    for path in paths:
        module_of(path.relative_to(ROOT))
    for path in map(ROOT.joinpath, arguments.every):
        yield from ((path, kind, after()) for kind, after in mistakes(path.read_text(), arguments.conditions))
    draw, sizes = random.Random(arguments.seed), [path.stat().st_size for path in paths]
    while not arguments.every:
        (path,) = draw.choices(paths, sizes)
        if places := mistakes(path.read_text(), arguments.conditions):
            kind, after = draw.choice(places)
            yield path, kind, after()


def difference(before: str, after: str, name: str) -> str:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(lines[0], lines[1], name, name, n=2))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.planted", description="See the module.")
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--package", action="append", choices=PACKAGES)
    parser.add_argument("--every", nargs="+", type=Path, default=[], help="modules, in each of which all are planted")
    parser.add_argument("--conditions", action="store_true", help="leave out conditions, and plant no other mistake")
    parser.add_argument("--tests", nargs="+", default=[], help="tests that run first")
    parser.add_argument("--seconds", type=float, default=60, help="time of the processor for the tests of one mistake")
    arguments = parser.parse_args(words)
    os.chdir(ROOT)
    count, noticed = Counter[str](), Counter[str]()
    import_tests()
    for path, kind, after in drawn(arguments):
        source, name = path.read_text(), path.relative_to(ROOT)
        changes = changed_functions(module_of(name), after)
        if not changes:
            continue
        count[name.parts[0]] += 1
        failed = noticing_test([*arguments.tests, *tests_of(name)], changes, arguments.seconds)
        noticed[name.parts[0]] += bool(failed)
        if not failed:
            print(f"not noticed, {kind}:\n{difference(source, after, str(name))}", flush=True)
        print(f"{noticed.total()} of {count.total()} noticed", file=sys.stderr, flush=True)  # it may be ended any time
        if count.total() == arguments.count and not arguments.every:
            break
    for package in PACKAGES:
        if count[package]:
            print(f"{package}: {noticed[package]} of {count[package]} noticed")
    print(f"{noticed.total()} of {count.total()} noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
