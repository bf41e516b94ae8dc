"""Mistakes planted in the rules: the checker of certificates certifies no result of a golden case that they make wrong.

    python -m tests.soak.unsound 50 [SEED]

Plants one-line mistakes in functions that golden cases call, each in a process of its own, until so many of them made
the result of a case compute other values, as `verify` finds. Prints each, and whether all such results were left
uncertified. The exit code is 1 if one was certified.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import multiprocessing
import random
import signal
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

import castsmith
from castsmith.verification import checker
from tests.certificates import is_certified
from tests.graphs.golden import Case
from tests.passes.test_golden import CASES

ROOT = Path(__file__).parents[2]
FOLDERS = ("passes/fold", "passes/place", "passes/promote", "passes/shapes", "passes/simplify", "lowering/float8")
_SECONDS = 120
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}


@dataclass
class Golden:
    """A golden case, read once: the functions that it calls, the model before, and what the pass makes of it."""

    case: Case
    expected: bytes
    calls: set[str]
    before: onnx.ModelProto
    checker: checker.Checker
    first: checker.Model

    def certified(self, after: onnx.ModelProto) -> bool:
        return is_certified(self.checker, self.before, self.first, after)

    def differs(self, after: onnx.ModelProto) -> bool:
        """True if verify finds a difference, and none in the right result: some cases mean nothing before the pass."""
        right = onnx.ModelProto.FromString(self.expected)
        return self._outcome(after) == "different" != self._outcome(right)

    def _outcome(self, after: onnx.ModelProto) -> str:
        try:
            return castsmith.verify(self.before, after, accept="all").outcome
        except castsmith.CastsmithError:
            return "no run"


def result_of(case: Case) -> bytes:
    model = case.model()
    case.run(model)
    return onnx_ir.to_proto(model).SerializeToString(deterministic=True)


def traced(case: Case) -> tuple[bytes, set[str]]:
    """Return the result of a case, and the names of the functions that it calls."""
    calls = set[str]()

    def note(frame: types.FrameType, _event: str, _argument: object) -> None:
        calls.add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        return result_of(case), calls
    finally:
        sys.setprofile(None)


def goldens() -> Iterator[Golden]:
    for case in CASES:
        if "fold_as" in case.spec:  # as a runtime computes, which is not what the standard says
            continue
        before, pool = onnx_ir.to_proto(case.model()), dict[str, checker.Array]()
        try:
            texts = checker.state_of(before, pool)
            reader = checker.checker_of(before, pool)
            first = reader.read(texts, is_first=True)
        except checker.MALFORMED:
            continue
        yield Golden(case, *traced(case), before, reader, first)


def codes(space: dict[str, Any]) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the functions and methods of a module, with their qualified names."""
    for value in list(space.values()):
        inner = [value, *vars(value).values()] if isinstance(value, type) else [value]
        for one in inner:
            function: Any = getattr(one, "fget", None) or getattr(one, "__func__", None) or one
            function = getattr(function, "__wrapped__", function)
            if isinstance(function, types.FunctionType) and function.__module__ == space["__name__"]:
                yield function.__qualname__, function


def mistakes(tree: ast.Module, called: set[str]) -> Iterator[tuple[Any, str, Any]]:
    """Yield nodes of the functions that are called, a field of each, and a wrong value for it."""
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.FunctionDef) or not any(name.endswith(scope.name) for name in called):
            continue
        for node in (node for statement in scope.body for node in ast.walk(statement)):
            if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
                yield node, "ops", [_SWAPS[type(node.ops[0])](), *node.ops[1:]]
            elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in _SWAPS:
                yield node, "op", _SWAPS[type(node.op)]()
            elif isinstance(node, ast.If | ast.IfExp):
                yield node, "test", ast.UnaryOp(ast.Not(), node.test)
            elif isinstance(node, ast.Constant) and isinstance(node.value, int):
                yield node, "value", (not node.value) if isinstance(node.value, bool) else int(node.value) + 1


def plant(name: str, tree: ast.Module) -> set[str]:
    """Give the functions of a module the code that they have in the source; return the names of those that change."""
    module = importlib.import_module(name)
    mutant = types.ModuleType(name)
    mutant.__file__ = module.__file__
    exec(compile(ast.fix_missing_locations(tree), str(module.__file__), "exec"), mutant.__dict__)
    new, changed = dict(codes(mutant.__dict__)), set[str]()
    for qualified, function in codes(module.__dict__):
        other = new.get(qualified)
        if other is not None and other.__code__ != function.__code__:
            function.__code__ = other.__code__
            changed.add(qualified)
    return changed


def results_with(name: str, tree: ast.Module, cases: list[Golden], pipe: Connection) -> None:
    """Send the results of the cases that are others with the mistake."""
    signal.alarm(_SECONDS)
    try:
        planted = plant(name, tree)
    except Exception:  # the mistake ends the import
        planted = set[str]()
    for index, golden in enumerate(cases):
        if not planted & golden.calls:
            continue
        try:
            result = result_of(golden.case)
        except Exception:  # or the pass
            continue
        if result != golden.expected:
            pipe.send((index, result))
    pipe.send(None)


def changed_results(name: str, tree: ast.Module, cases: list[Golden]) -> list[tuple[Golden, onnx.ModelProto]]:
    here, there = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=results_with, args=(name, tree, cases, there))
    process.start()
    there.close()
    changed = list[tuple[Golden, onnx.ModelProto]]()
    try:
        while (message := here.recv()) is not None:
            changed.append((cases[message[0]], onnx.ModelProto.FromString(message[1])))
    except EOFError:  # it took too long
        pass
    process.join()
    return changed


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.soak.unsound", description="See the module.")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    arguments = parser.parse_args(words)
    draw, cases = random.Random(arguments.seed), list(goldens())
    called = set[str]().union(*(golden.calls for golden in cases))
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    places = [(path, *mistake) for path, tree in trees.items() for mistake in mistakes(tree, called)]
    draw.shuffle(places)
    unsound = missed = planted = 0
    for path, node, place, value in places:
        if unsound >= arguments.count:
            break
        right, line = getattr(node, place), ast.unparse(node).partition("\n")[0]
        setattr(node, place, value)
        name = ".".join(("castsmith", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
        changed = changed_results(name, trees[path], cases)
        change = f"{path.name}:{node.lineno}: {line} -> {ast.unparse(node).partition(chr(10))[0]}"
        setattr(node, place, right)
        planted += 1
        certified, left = list[tuple[Golden, onnx.ModelProto]](), list[tuple[Golden, onnx.ModelProto]]()
        for golden, after in changed:
            (certified if golden.certified(after) else left).append((golden, after))
        wrong = next((golden.case.path.name for golden, after in certified if golden.differs(after)), "")
        caught = next((golden.case.path.name for golden, after in left if golden.differs(after)), "")
        if wrong or caught:
            unsound, missed = unsound + 1, missed + bool(wrong)
            print(f"{planted}: {'CERTIFIED ' + wrong if wrong else 'caught, ' + caught}: {change}", flush=True)
    print(f"{planted} mistakes planted, {unsound} make a golden case wrong, {missed} of them certified")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
