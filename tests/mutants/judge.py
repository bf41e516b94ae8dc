"""The judgement of mutants: the tests that reach one run, the quickest first, until one fails.

Most mutants are put into a process in which all modules are imported and all tests collected, by giving the functions
of the module other code; each in a fork of it. A mutant that acts on import (a table, a default, a class) is judged in
a fork of a process that has imported only what Castsmith depends on.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

import pytest

from tests.mutants.operators import Mutant
from tests.mutants.reached import ROOT, Finder, Record, sources

OTHERS = 10.0
"""Seconds of the processor for tests that do not reach the mutant as it was recorded, but its module."""

FEW = 40
"""Tests that are collected first for a mutant that acts on import."""

MEMORY = 12 << 30
BROKEN = 99
"""Exit code of a fork in which the judgement itself failed."""

UNFIT = 98
"""Exit code of a fork in which a mutant needs the module imported again."""

LIBRARIES = (
    "numpy",
    "ml_dtypes",
    "onnx.reference",
    "onnx_ir.passes.common",
    "onnxscript",
    "onnxruntime",
    "hypothesis",
    "networkx",
)


@dataclass(frozen=True)
class Task:
    """A mutant, and the tests that judge it, in their order."""

    mutant: Mutant
    early: bool
    reaching: int
    tests: tuple[str, ...]
    seconds: float


def tasks(record: Record, mutants: Iterable[Mutant]) -> list[Task]:
    """Return for each mutant the tests that reach its statement, and some others that reach its module."""
    known = list(record.tests())
    modules = [(test, seconds, reached, {module for module, _ in reached}) for test, seconds, reached in known]
    made: list[Task] = []
    for mutant in mutants:
        key = (mutant.module, mutant.statement)
        early = key in record.early or not any(key in reached for _, _, reached in known)
        folder = "/".join(("tests", *mutant.module.split(".")[1:-1], ""))
        ordered = sorted(
            (key not in reached, mutant.module not in names, not test.startswith(folder), seconds, test)
            for test, seconds, reached, names in modules
        )
        chosen, spent, reaching = list[str](), 0.0, 0
        left = OTHERS
        for other, elsewhere, _, seconds, test in ordered:
            left -= seconds if other else 0
            if other and (left < 0 or (elsewhere and key not in record.early)):
                continue
            chosen.append(test)
            spent += seconds
            reaching += not other
        made.append(Task(mutant, early, reaching, tuple(chosen), spent))
    return made


class Chosen:
    """Keep the chosen tests of those collected, in their order."""

    def __init__(self, tests: Iterable[str]) -> None:
        self.ranks = {test: rank for rank, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self.ranks]
        items[:] = sorted(kept, key=lambda item: self.ranks[item.nodeid])


def arguments(files: Iterable[str]) -> list[str]:
    folder = os.environ["CASTSMITH_MUTANTS_TEMP"]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/{os.getpid()}"]
    return [*options, "--hypothesis-seed=0", *sorted(set(files))]


def limited(seconds: float) -> None:
    """Bound the processor time and the memory of this process."""
    most = int(20 + 5 * seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(3600)


def forks(jobs: int, todo: Iterable[Task], run: Callable[[Task], int]) -> Iterator[tuple[Task, int]]:
    """Run each task in a fork, so many at once; yield it with the exit code, or minus the signal that ended it."""
    running: dict[int, Task] = {}
    waiting = iter(todo)
    while True:
        while len(running) < jobs and (task := next(waiting, None)) is not None:
            process = os.fork()
            if not process:
                code = BROKEN
                try:
                    os.setpgid(0, 0)
                    code = run(task)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            running[process] = task
        if not running:
            return
        process, status = os.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        folder = f"{os.environ['CASTSMITH_MUTANTS_TEMP']}/{process}"
        shutil.rmtree(folder, ignore_errors=True)
        yield running.pop(process), os.waitstatus_to_exitcode(status)


def silenced() -> None:
    """Let this process write to the log of the run alone."""
    log = os.open(f"{os.environ['CASTSMITH_MUTANTS_TEMP']}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)


# Mutants that act on import.


def judge_imported(task: Task) -> int:
    """Return 0 if the tests pass with the mutant in place from the start."""
    silenced()
    limited(task.seconds)
    mutant = task.mutant

    def compiled(_module: str, source: bytes, path: str) -> CodeType:
        return compile(mutant.applied(source), path, "exec")

    sys.meta_path.insert(0, Finder({mutant.module}, compiled))
    return int(pytest.main(arguments(test.partition("::")[0] for test in task.tests), plugins=[Chosen(task.tests)]))


def imported(jobs: int, todo: list[Task]) -> Iterator[tuple[Task, bool]]:
    """Judge with few tests, and those that survive with the others."""
    left: list[Task] = []
    for task in todo:
        if not task.tests:
            yield task, False
    few = {Task(task.mutant, True, task.reaching, task.tests[:FEW], 20): task for task in todo if task.tests}
    for task, code in forks(jobs, few, judge_imported):
        if fails(code):
            yield few[task], True
        else:
            left.append(few[task])
    rest = {Task(task.mutant, True, task.reaching, task.tests[FEW:], task.seconds): task for task in left}
    for task, code in forks(jobs, [task for task in rest if task.tests], judge_imported):
        yield rest[task], fails(code)
    for task, whole in rest.items():
        if not task.tests:
            yield whole, False


def fails(code: int) -> bool:
    if code == BROKEN:
        raise SystemExit(f"the judgement failed: see {os.environ['CASTSMITH_MUTANTS_TEMP']}/log")
    return code not in (0, int(pytest.ExitCode.NO_TESTS_COLLECTED))


# Mutants of the code of functions.


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes(each)


class Patcher:
    """Gives the functions of a process other code."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        for each in gc.get_objects():
            # isinstance asks a weak proxy for its class, which fails when what it stands for is gone
            if type(each) is FunctionType and str(each.__module__).startswith("castsmith."):
                key = (each.__module__, each.__code__.co_qualname, each.__code__.co_firstlineno)
                self.functions.setdefault(key, []).append(each)

    def apply(self, mutant: Mutant) -> bool:
        """Put the mutant in place; False if it needs the module imported again."""
        source = sources(mutant.module.split(".")[1])[mutant.module].read_bytes()
        old = list(codes(compile(source, mutant.module, "exec")))
        new = list(codes(compile(mutant.applied(source), mutant.module, "exec")))
        if old[0] == new[0]:  # a control, in which nothing is to be put in place
            return True
        if [each.co_qualname for each in old] != [each.co_qualname for each in new]:
            return False
        placed = False
        for before, after in [pair for pair in zip(old[1:], new[1:], strict=True) if pair[0] != pair[1]]:
            for function in self.functions.get((mutant.module, before.co_qualname, before.co_firstlineno), []):
                if before.co_freevars != after.co_freevars:
                    return False
                function.__code__ = after
                placed = True
        return placed


class Judge:
    """A plugin: in place of the tests, judges mutants in forks of the process that has collected them."""

    def __init__(self, jobs: int, todo: list[Task], answers: int) -> None:
        self.jobs, self.todo, self.answers = jobs, todo, answers

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        patcher = Patcher()
        gc.collect()
        gc.freeze()

        def run(task: Task) -> int:
            limited(task.seconds)
            if not patcher.apply(task.mutant):
                return UNFIT
            chosen = [items[test] for test in task.tests if test in items]
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
            return 0

        positions = {task: number for number, task in enumerate(self.todo)}
        for task, code in forks(self.jobs, self.todo, run):
            verdict = "unfit" if code == UNFIT else "killed" if fails(code) else "survived"
            os.write(self.answers, f"{json.dumps((positions[task], verdict))}\n".encode())
        return True


def collected(jobs: int, files: Iterable[str], todo: list[Task]) -> Iterator[tuple[Task, bool]]:
    """Judge in forks of one process that has collected all tests."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        code = BROKEN
        try:
            silenced()
            code = int(pytest.main(arguments(files), plugins=[Judge(jobs, todo, writer)]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    unfit: list[Task] = []
    with os.fdopen(reader) as answers:
        for line in answers:
            number, verdict = json.loads(line)
            if verdict == "unfit":
                unfit.append(todo[number])
            else:
                yield todo[number], verdict == "killed"
    if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) not in (0, int(pytest.ExitCode.NO_TESTS_COLLECTED)):
        fails(BROKEN)
    yield from imported(jobs, unfit)


def judged(record: Record, mutants: list[Mutant], jobs: int) -> Iterator[tuple[Task, bool]]:
    """Yield each mutant with the tests that judged it, and True if one of them failed."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CASTSMITH_MUTANTS_TEMP"] = folder
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        for name in LIBRARIES:
            importlib.import_module(name)
        todo = tasks(record, mutants)
        yield from ((task, False) for task in todo if not task.tests)
        todo = [task for task in todo if task.tests]
        if later := [task for task in todo if not task.early]:
            files = [path.relative_to(ROOT).as_posix() for path in record.test_files()]
            yield from collected(jobs, files, later)
        yield from imported(jobs, [task for task in todo if task.early])
