"""Mistakes planted in functions of modules drawn at random, most of them by cosmic-ray, and those that no test notices.

    python -m tests.soak.reached reached.json                      # which lines does each test reach? Takes ten minutes
    python -m tests.soak.planted reached.json 60 [SEED] [--under lowering/fit ...] [--seconds 30]
    python -m tests.soak.planted reached.json --every verification/prove/proof.py ...  # each that can be planted there
    python -m tests.soak.planted reached.json --kind conditions --every passes/place/cut.py  # each condition left out
    python -m tests.soak.planted reached.json --kind omissions  # an argument, a step or a member of a set left out

Each mistake is planted in a fork of this process: the functions of the module get the code of the changed source, and
the tests that reach the changed line run, those of the module's name first, then the quickest. Prints each mistake that
none of them notices, and the share by package. The exit code is 0: some mistakes change nothing, so a person reads the
list. None is planted outside of functions, nor in processes that tests start.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from cosmic_ray.ast import ast_nodes, get_ast  # pyright: ignore[reportMissingImports]
from cosmic_ray.mutating import mutate_code  # pyright: ignore[reportMissingImports]
from cosmic_ray.plugins import get_operator  # pyright: ignore[reportMissingImports]

from tests.soak.reached import PACKAGES, ROOT, Reached, breadths, caches, import_all, modules, read

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
COMPILED = ("kernels",)
"""Modules whose functions run as another compiler makes them."""
KINDS = ("operators", "conditions", "omissions")
SECONDS_OF_A_TEST = 30
"""Seconds of the processor after which a test is taken not to end."""
SECONDS_OF_WAITING = 180
"""Seconds after which a test that waits for another process is taken not to end."""
NO_END = "no end"


@dataclass(frozen=True)
class Mistake:
    """A mistake in a module: its kind, the module, relative to the root, and the module's source before and after."""

    kind: str
    name: Path
    before: str
    after: str

    def difference(self) -> str:
        lines = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        return "".join(difflib.unified_diff(*lines, str(self.name), str(self.name), n=2))

    def lines(self) -> list[int]:
        """Return the lines that the mistake changes."""
        pairs = zip(self.before.splitlines(), self.after.splitlines(), strict=False)  # no mistake moves what follows
        return [line for line, (before, after) in enumerate(pairs, 1) if before != after]


def without(source: str, node: ast.expr | ast.stmt | ast.keyword, text: str) -> str:
    """Return the source with a text instead of the node; what follows stays on its line."""
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    after, filler = lines[last][node.end_col_offset :], "\n" * (last - first)
    text = f"{text}{filler}" if isinstance(node, ast.stmt) else f"{text[:-1]}{filler}{text[-1]}"  # within its brackets
    lines[first : last + 1] = [lines[first][: node.col_offset] + text.encode() + after]
    return b"".join(lines).decode()


def conditions(source: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield each condition with what leaves it out: an operand of `and` or `or`, and an `if`, always or never so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BoolOp):
            yield from ((operand, f"({isinstance(node.op, ast.And)})") for operand in node.values)
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp) else getattr(node, "ifs", [])
        for test in tests:
            if not isinstance(test, ast.BoolOp):
                yield from ((test, "(True)"), (test, "(False)"))


def omissions(source: str) -> Iterator[tuple[ast.expr | ast.stmt | ast.keyword, str]]:
    """Yield what can be forgotten, with what leaves it out: a named argument, a step, a member of a set or list.

    And the least for the largest. `strict` of zip and annotations have no effect.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg):
            node.annotation = ast.Constant(None)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="zip")):
                pass
            case ast.Call(func=ast.Name(id="min" | "max" as name) as function, keywords=named):
                yield function, "max" if name == "min" else "min"
                yield from ((argument, "**{}") for argument in named)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Tuple(elts=members)]):
                yield from ((member, "*()") for member in members)
            case ast.Call(keywords=named):
                yield from ((argument, "**{}") for argument in named if argument.arg is not None)
            case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Tuple(elts=members)]):
                yield from ((member, "*()") for member in members)
            case ast.Set(elts=members) | ast.List(elts=members, ctx=ast.Load()):
                yield from ((member, "*()") for member in members)
            case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
                yield node, "yield from ()"
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield node, "pass"
            case _:
                pass


@cache
def mistakes(source: str, kind: str) -> list[tuple[str, Callable[[], str]]]:
    """Return the mistakes that can be planted in the source: the kind, and what returns the source with it."""
    if kind != "operators":
        places = conditions(source) if kind == "conditions" else omissions(source)
        return [(f"one of {kind}", partial(without, source, node, text)) for node, text in places]
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


def functions_by_file() -> dict[str, list[FunctionType]]:
    """Return the functions of each file of the package, which names its files through links."""
    found = defaultdict[str, list[FunctionType]](list)
    for function in gc.get_objects():
        if isinstance(function, FunctionType):
            found[function.__code__.co_filename].append(function)
    return found


def changed_functions(functions: list[FunctionType], file: str, source: str) -> list[tuple[FunctionType, CodeType]]:
    """Return those of a file's functions that differ in the source, each with its code there."""
    try:
        new = dict(codes(compile(source, file, "exec", dont_inherit=True)))
    except SyntaxError:  # cosmic-ray takes the star in a list of parameters for a product
        return []
    old = [(each, each.__code__) for each in functions]
    pairs = [(each, new.get((code.co_qualname, code.co_firstlineno), code)) for each, code in old]
    return [
        (each, code) for each, code in pairs if code != each.__code__ and code.co_freevars == each.__code__.co_freevars
    ]


def starts_of_statements(source: str) -> dict[int, int]:
    """Return the first line of the innermost statement of each line."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    spans = sorted((node.lineno, -(node.end_lineno or 0)) for node in statements)
    return {line: start for start, end in spans for line in range(start, 1 - end)}


def tests_of(mistake: Mistake, reached: Reached, breadth: Counter[int]) -> list[str]:
    """Return the tests that reach the changed lines: those of the module's name, then the quickest and narrowest."""
    by_line, starts = reached.tests.get(str(mistake.name), {}), starts_of_statements(mistake.before)
    tests = set[int]()
    for line in mistake.lines():
        statement = (by_line.get(str(above)) for above in range(line, starts.get(line, line) - 1, -1))
        tests.update(next(filter(None, statement), ()))
    named = f"tests/{mistake.name.parent}/test_{mistake.name.stem}"
    ranks = [
        (not reached.names[test].startswith(named), reached.seconds[test] * breadth[test] ** 0.5) for test in tests
    ]
    return [reached.names[test] for _, test in sorted(zip(ranks, tests, strict=True))]


class Planter:
    """Plants mistakes in forks of a run of pytest that has collected all tests and runs none itself."""

    def __init__(self, arguments: argparse.Namespace, reached: Reached) -> None:
        self._arguments = arguments
        self._reached = reached
        self._items = dict[str, pytest.Item]()
        self._caches = list[Any]()
        self._sound = set[str]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()
        self._config = session.config
        self._caches = caches()
        self._items = {each.nodeid: each for each in session.items}
        functions = functions_by_file()
        gc.freeze()
        report(self._arguments, partial(self.noticing_test, functions, breadths(self._reached)))
        return True

    def noticing_test(
        self, functions: dict[str, list[FunctionType]], breadth: Counter[int], mistake: Mistake
    ) -> str | None:
        """Return the first test that fails because of the mistake, or nothing; None if no function changes."""
        file = str(ROOT / "castsmith" / mistake.name)
        changes = changed_functions(functions[file], file, mistake.after)
        if not changes:
            return None
        first = [name for name in self._items if name.startswith(tuple(self._arguments.tests or ("-",)))]
        tests = [*dict.fromkeys([*first, *tests_of(mistake, self._reached, breadth)])]
        while True:
            failed = self.failing_test([each for each in tests if each in self._items], changes)
            if failed in ("", NO_END, *self._sound) or not self.failing_test([failed], []):
                self._sound.add(failed)
                return failed
            tests.remove(failed)  # it fails without the mistake too

    def failing_test(self, tests: Sequence[str], changes: list[tuple[FunctionType, CodeType]]) -> str:
        """Return the first of the tests that fails with the changes, `no end`, or nothing."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
            try:
                os.write(writing, self._first_failure([self._items[each] for each in tests], changes).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            text = answer.read().decode()
        _, status = os.waitpid(child, 0)
        return NO_END if os.WIFSIGNALED(status) else text

    def _first_failure(self, items: list[pytest.Item], changes: list[tuple[FunctionType, CodeType]]) -> str:
        for function, code in changes:
            function.__code__ = code
        for cached in self._caches:  # forget what was computed without the mistake
            cached.cache_clear()
        failures, end = Failures(), time.process_time() + self._arguments.seconds
        self._config.pluginmanager.register(failures)
        for item, following in zip(items, [*items[1:], None], strict=True):
            signal.setitimer(signal.ITIMER_PROF, SECONDS_OF_A_TEST)
            signal.setitimer(signal.ITIMER_REAL, SECONDS_OF_WAITING)
            try:
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException:  # what ends a run of pytest fails the test
                return item.nodeid
            if failures.name or time.process_time() > end:
                break
        return failures.name


class Failures:
    """Keeps the name of a test that failed."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = report.nodeid


def drawn(arguments: argparse.Namespace) -> Iterator[Mistake]:
    """Yield mistakes in modules, without end if they are drawn."""
    under = tuple(str(ROOT / name) for name in arguments.under or PACKAGES)
    paths = [path for path in modules() if path.stem not in COMPILED and str(path).startswith(under)]
    for path in map(ROOT.joinpath, arguments.every):
        for kind, after in mistakes(path.read_text(), arguments.kind):
            yield Mistake(kind, path.relative_to(ROOT), path.read_text(), after())
    draw, sizes, seen = random.Random(arguments.seed), [path.stat().st_size for path in paths], set[str]()
    while not arguments.every:
        (path,) = draw.choices(paths, sizes)
        if places := mistakes(path.read_text(), arguments.kind):
            kind, after = draw.choice(places)
            mistake = Mistake(kind, path.relative_to(ROOT), path.read_text(), after())
            if mistake.difference() not in seen:
                seen.add(mistake.difference())
                yield mistake


def report(arguments: argparse.Namespace, noticing_test: Callable[[Mistake], str | None]) -> None:
    """Print the mistakes that no test notices, and the share that is noticed."""
    count, noticed = Counter[str](), Counter[str]()
    for mistake in drawn(arguments):
        failed = noticing_test(mistake)
        if failed is None:
            continue
        package = mistake.name.parts[0]
        count[package] += 1
        noticed[package] += bool(failed)
        if not failed:
            print(f"not noticed, {mistake.kind}:\n{mistake.difference()}", flush=True)
        # It may be ended at any time.
        print(f"{noticed.total()} of {count.total()} noticed; {failed}", file=sys.stderr, flush=True)
        if count.total() == arguments.count and not arguments.every:
            break
    for package in PACKAGES:
        if count[package]:
            print(f"{package}: {noticed[package]} of {count[package]} noticed")
    print(f"{noticed.total()} of {count.total()} noticed")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.planted", description="See the module.")
    parser.add_argument("reached", type=Path, help="file that tests.soak.reached wrote")
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--under", nargs="+", help="folders and modules to draw from")
    parser.add_argument("--every", nargs="+", type=Path, default=[], help="modules, in each of which all are planted")
    parser.add_argument("--kind", choices=KINDS, default="operators")
    parser.add_argument("--tests", nargs="+", default=[], help="beginnings of names of tests that run first")
    parser.add_argument("--seconds", type=float, default=60, help="time of the processor for the tests of one mistake")
    arguments = parser.parse_args(words)
    planter = Planter(arguments, read(arguments.reached.absolute()))
    import_all()
    os.chdir(ROOT)
    return pytest.main(["-q", "-s", "-p", "no:cacheprovider", "tests"], plugins=[planter])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
