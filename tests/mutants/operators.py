"""Small mistakes in Python source: each is one expression or statement replaced by another.

Text in error messages, annotations, decorators and imports are left as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
UNTOUCHED_KEYWORDS = ("strict", "encoding", "slots", "frozen", "stacklevel")
"""Keywords whose loss changes no result: they guard against mistakes elsewhere."""

SYMMETRIC = ("min", "max", "minimum", "maximum", "isinstance", "issubclass", "cast", "errstate")
"""Functions whose first two arguments can be swapped, or cannot be meant to be; `errstate` only silences warnings."""


@dataclass(frozen=True)
class Mutant:
    """A mistake: the bytes from `start` to `end` of the source become `after`."""

    module: str
    line: int
    statement: int
    kind: str
    before: str
    after: str
    start: int
    end: int

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def text(self) -> str:
        """The mistake in one line, without its place."""
        return f"{' '.join(self.before.split())} -> {' '.join(self.after.split())}"


Change = Callable[[], str]
"""Makes the text that takes the place of a node; many more are counted than made."""


@dataclass(frozen=True)
class Place:
    """A place where one mistake of a kind can be made."""

    module: str
    line: int
    statement: int
    kind: str
    node: ast.expr | ast.stmt
    change: Change

    def mutant(self, source: bytes) -> Mutant:
        starts = [0]
        for line in source.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        node = self.node
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        after = self.change() if isinstance(node, ast.stmt) else f"({self.change()})"
        return Mutant(self.module, self.line, self.statement, self.kind, source[start:end].decode(), after, start, end)


def statements(tree: ast.AST) -> list[ast.stmt]:
    """Return all statements of a module; the index of one is its number."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def places(module: str, source: bytes) -> list[Place]:
    """Return every place of a module where a mistake can be made."""
    tree = ast.parse(source)
    numbers = {node: number for number, node in enumerate(statements(tree))}
    found: list[Place] = []
    for statement, node in _visited(tree, None):
        for kind, change in _changes(node):
            place = node.test if isinstance(node, ast.If | ast.While) else node
            found.append(Place(module, place.lineno, numbers[statement], kind, place, change))
    return found


def _visited(node: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[ast.stmt, ast.expr | ast.stmt]]:
    """Yield the expressions and statements in which a mistake can be made, each with the statement that it is in."""
    if isinstance(node, ast.stmt):
        statement = node
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
        return
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in GENERIC:
        return
    if statement is not None and isinstance(node, ast.expr | ast.stmt):
        yield statement, node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and isinstance(node, SIGNED):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _visited(child, statement)


GENERIC = (
    "dict",
    "list",
    "set",
    "frozenset",
    "tuple",
    "type",
    "Callable",
    "Counter",
    "defaultdict",
    "Iterator",
    "Sequence",
)
SIGNED = (ast.AnnAssign, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, Change]]:
    """Yield the kinds of mistakes in a node, and what makes each."""
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    elif isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            yield "comparison", partial(_with, node, "ops", index, COMPARED[type(operator)]())
    elif isinstance(node, ast.BoolOp):
        yield "and, or", partial(_with, node, "op", None, ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for index in range(len(node.values)):
            yield "operand dropped", partial(_without, node, "values", index)
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _is_text(node):
        yield "arithmetic", partial(_with, node, "op", None, COMPUTED[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield "sign or not dropped", partial(ast.unparse, node.operand)
    elif isinstance(node, ast.IfExp):
        yield "condition", partial(_with, node, "test", None, ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        yield "min, max, any, all", partial(str, NAMES[node.id])
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Set | ast.Tuple | ast.List) and len(node.elts) > 1:
        loaded = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if loaded and not any(isinstance(each, ast.Slice) for each in node.elts):
            for index in (0, len(node.elts) - 1):
                yield "element dropped", partial(_without, node, "elts", index)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for generator in node.generators:
            for at in range(len(generator.ifs)):
                yield "filter dropped", partial(_unfiltered, node, generator, at)


def _with(node: ast.expr, field: str, index: int | None, value: ast.AST) -> str:
    """The node with another value in a field, or in one place of a field that is a list."""
    new = copy.copy(node)
    if index is not None:
        values = list(getattr(node, field))
        values[index] = value
        setattr(new, field, values)
    else:
        setattr(new, field, value)
    return ast.unparse(new)


def _without(node: ast.expr, field: str, index: int) -> str:
    """The node without one of the values of a field."""
    new, values = copy.copy(node), list(getattr(node, field))
    del values[index]
    if isinstance(node, ast.BoolOp) and len(values) == 1:
        return ast.unparse(values[0])
    setattr(new, field, values)
    return ast.unparse(new)


def _unfiltered(node: Comprehension, generator: ast.comprehension, at: int) -> str:
    new, other = copy.copy(node), copy.copy(generator)
    other.ifs = generator.ifs[:at] + generator.ifs[at + 1 :]
    new.generators = [other if each is generator else each for each in node.generators]
    return ast.unparse(new)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.JoinedStr | ast.Constant) and isinstance(getattr(each, "value", ""), str)
               for each in (node.left, node.right))  # fmt: skip


def _of_constant(node: ast.Constant) -> Iterator[tuple[str, Change]]:
    if isinstance(node.value, bool):
        yield "constant", partial(str, not node.value)
    elif isinstance(node.value, int):
        yield "constant", partial(str, node.value + 1)
        yield "constant", partial(str, node.value - 1)


def _of_call(node: ast.Call) -> Iterator[tuple[str, Change]]:
    two, name = node.args[:2], ast.unparse(node.func).rpartition(".")[2]
    starred = any(isinstance(each, ast.Starred) for each in two)
    if len({ast.dump(each) for each in two}) > 1 and name not in SYMMETRIC and not starred:
        yield "arguments swapped", partial(_swapped, node)
    for index, keyword in enumerate(node.keywords if name != "errstate" else ()):
        if keyword.arg is not None and keyword.arg not in UNTOUCHED_KEYWORDS:
            yield "keyword dropped", partial(_without, node, "keywords", index)


def _swapped(node: ast.Call) -> str:
    new = copy.copy(node)
    new.args = [node.args[1], node.args[0], *node.args[2:]]
    return ast.unparse(new)


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Continue):
        yield "continue, break", partial(str, "break")
    elif isinstance(node, ast.Break):
        yield "continue, break", partial(str, "continue")
    elif isinstance(node, ast.If | ast.While):
        same = isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.In)
        if not same and not isinstance(node.test, ast.UnaryOp | ast.Constant):
            yield "condition", partial(ast.unparse, ast.UnaryOp(ast.Not(), node.test))
    elif _is_removable(node):
        yield "statement removed", partial(str, "pass")
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call) and node.value.args:
        first = node.value.args[0]
        if not isinstance(first, ast.Starred | ast.GeneratorExp):
            yield "argument returned", partial(_returning, first)


def _is_removable(node: ast.stmt) -> bool:
    """True for a statement whose loss leaves no name undefined."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Delete)


def _returning(value: ast.expr) -> str:
    return f"return {ast.unparse(value)}"


Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
