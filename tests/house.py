"""The sizes of the house: files, folders, functions and modules that one other imports, here or in another checkout.

python -m tests.house [CHECKOUT]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDERS = ("cli", "conformance", "ir", "lowering", "numerics", "passes")


def modules(root: Path, folders: tuple[str, ...] = FOLDERS) -> list[Path]:
    """Return the modules in the folders, with the `__init__` of each package."""
    return [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]


def folders(root: Path, folders: tuple[str, ...] = FOLDERS) -> Counter[str]:
    """Return the number of modules in each folder, without its `__init__`."""
    paths = (path for path in modules(root, folders) if path.name != "__init__.py")
    return Counter(path.parent.relative_to(root).as_posix() for path in paths)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Return the statements of a tree, those in others too: far fewer nodes than `ast.walk` has."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(tree, name, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from statements(node)


class Sizes(NamedTuple):
    """The size of a module.

    Attributes:
        lines: Its lines.
        functions: The lines of each function, without its signature and docstring, and its name.
        imports: The modules and names that it imports.
    """

    lines: int
    functions: list[tuple[int, str]]
    imports: set[str]


@cache
def sizes(path: Path) -> Sizes:
    """Return the size of a module, which is parsed once."""
    text = path.read_text(encoding="utf-8")
    found = Sizes(len(text.splitlines()), [], set())
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            found.functions.append(((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0, node.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.imports.update((node.module, *(f"{node.module}.{each.name}" for each in node.names)))
    return found


def sole_importers(root: Path) -> dict[Path, str]:
    """Return the modules that one other module, which is not the door of their package, imports, with that other."""
    importers: dict[str, set[str]] = {}
    for path in modules(root):
        for module in sizes(path).imports:
            importers.setdefault(module, set()).add(path.relative_to(root).as_posix())
    found: dict[Path, str] = {}
    for path in modules(root):
        name = path.relative_to(root).with_suffix("").as_posix().replace("/", ".")
        given = importers.get(f"castsmith.{name}", set())
        if path.name != "__init__.py" and len(given) == 1 and not next(iter(given)).endswith("__init__.py"):
            found[path] = next(iter(given))
    return found


def figures(root: Path) -> str:
    """Return the sizes as lines."""
    paths, counts = modules(root), folders(root)
    (largest, most), *_ = counts.most_common(1)
    longest = max((*found, path) for path in paths for found in sizes(path).functions)
    lines = [sizes(path).lines for path in paths]
    return "\n".join([
        f"files: {len(paths)}, {sum(lines) / len(paths):.0f} lines on average",
        f"folders: {len(counts)}; the largest has {most} modules ({largest})",
        f"longest module: {max(lines)} lines",
        f"longest function: {longest[0]} lines ({longest[1]} in {longest[2].relative_to(root).as_posix()})",
        f"modules that one other imports: {len(sole_importers(root))}",
    ])  # fmt: skip


if __name__ == "__main__":
    print(figures(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]))
