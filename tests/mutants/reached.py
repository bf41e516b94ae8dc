"""The record of which test reaches which statement of a package, and how long it takes.

A set of numbers is filled by probes: the modules of the package are compiled with one in front of each statement.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.mutants.operators import statements

ROOT = Path(__file__).parents[2]
REACHED: set[tuple[str, int]] = set()
"""The statements reached since this was last emptied: module, number."""

UNFIT = "chromium"
"""In the names of tests that judge no mutant: the browser reserves more memory than a mutant may take."""

PROBE = "_castsmith_reached"
Compiled = Callable[[str, bytes, str], CodeType]


def sources(package: str) -> dict[str, Path]:
    """Return the modules of a package of the source, by their names."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(("castsmith", *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


class Loader(SourceFileLoader):
    """Load a module from its source, compiled by a function; nothing is cached."""

    def __init__(self, name: str, path: str, compiled: Compiled) -> None:
        super().__init__(name, path)
        self.compiled = compiled

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.compiled(fullname, Path(path).read_bytes(), path)


class Finder:
    """Find the modules of which the source is to be compiled by a function."""

    def __init__(self, modules: set[str], compiled: Compiled) -> None:
        self.modules, self.compiled = modules, compiled

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.origin is not None:
                spec.loader = Loader(name, spec.origin, self.compiled)
                return spec
        return None


def with_probes(module: str, source: bytes, path: str) -> CodeType:
    """Compile a module with a probe in front of each statement."""
    tree = ast.parse(source)
    numbers = {node: number for number, node in enumerate(statements(tree))}
    for node in list(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, list(_probed(value, module, numbers)))
    return compile(ast.fix_missing_locations(tree), path, "exec")


def _probed(body: list[ast.stmt], module: str, numbers: dict[ast.stmt, int]) -> Iterator[ast.stmt]:
    for node in body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            key = ast.Tuple([ast.Constant(module), ast.Constant(numbers[node])], ast.Load())
            yield ast.copy_location(ast.Expr(ast.Call(ast.Name(PROBE, ast.Load()), [key], [])), node)
        yield node


class Recorder:
    """Record what each test reaches, its seconds of the processor, and those of the collection of each file."""

    def __init__(self) -> None:
        self.tests: dict[str, tuple[float, list[tuple[str, int]]]] = {}
        self.early: set[tuple[str, int]] = set()
        self.collected: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        started = time.process_time()
        yield
        self.collected[collector.nodeid] = time.process_time() - started

    def pytest_collection_finish(self) -> None:
        self.early |= REACHED

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        REACHED.clear()
        started = time.process_time()
        yield
        self.tests[item.nodeid] = (time.process_time() - started, sorted(REACHED))


def digest(paths: Iterator[Path] | list[Path]) -> str:
    made = hashlib.sha256()
    for path in paths:
        made.update(path.read_bytes())
    return made.hexdigest()


def read_by(path: Path) -> list[Path]:
    """Return a test file and the data files beside and below it, which it may read."""
    data = (each for each in path.parent.rglob("*") if each.is_file() and each.suffix not in (".py", ".pyc"))
    return [path, *sorted(data)]


class Record:
    """The known facts about the tests of a package; kept in a file, and recorded again for test files that changed."""

    def __init__(self, package: str) -> None:
        self.package, self.file = package, ROOT / "out" / "mutants" / f"{package}.json"
        self.source = digest(list(sources(package).values()))
        self.known: dict[str, Any] = {}
        self.early: set[tuple[str, int]] = set()
        if self.file.exists():
            data = json.loads(self.file.read_text())
            if data["source"] == self.source:
                self.known, self.early = data["known"], {(module, number) for module, number in data["early"]}

    def test_files(self) -> list[Path]:
        return sorted((ROOT / "tests" / self.package).rglob("test_*.py"))

    def outdated(self) -> list[str]:
        """Return the test files whose tests are not known as they are now."""
        names = {path.relative_to(ROOT).as_posix(): digest(read_by(path)) for path in self.test_files()}
        self.known = {name: each for name, each in self.known.items() if names.get(name) == each["digest"]}
        return [name for name in names if name not in self.known]

    def add(self, files: list[str], recorder: Recorder) -> None:
        """Take in what a run of these files recorded, and write it."""
        self.early |= recorder.early
        for name in files:
            tests = {test: made for test, made in recorder.tests.items() if test.partition("::")[0] == name}
            found = {
                "digest": digest(read_by(ROOT / name)),
                "collected": recorder.collected.get(name, 0.0),
                "tests": tests,
            }
            self.known[name] = found
        self.file.parent.mkdir(parents=True, exist_ok=True)
        data = {"source": self.source, "known": self.known, "early": sorted(self.early)}
        self.file.write_text(json.dumps(data))

    def tests(self) -> Iterator[tuple[str, float, set[tuple[str, int]]]]:
        """Yield each test with its seconds, its part of the collection among them, and what it reaches."""
        for each in self.known.values():
            share = each["collected"] / max(len(each["tests"]), 1)
            for test, (seconds, reached) in each["tests"].items():
                if UNFIT in test:
                    continue
                yield test, seconds + share, {(module, number) for module, number in reached}


def record(package: str) -> Record:
    """Return the record of a package; runs the test files that changed since the last one."""
    made = Record(package)
    if files := made.outdated():
        setattr(builtins, PROBE, REACHED.add)
        sys.meta_path.insert(0, Finder(set(sources(package)), with_probes))
        recorder = Recorder()
        code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files], plugins=[recorder])
        if code:
            raise SystemExit(f"the tests of {package} fail without a mutant")
        made.add(files, recorder)
    return made
