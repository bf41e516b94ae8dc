"""Notebooks run while the site is built, as pages: what their cells print and show is never out of date.

A cell is run as Jupyter does: its text output, then the value of its last expression, as HTML where the value has
`_repr_html_`. Nothing but the standard library is needed. The first cell that fails ends the build.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from html import escape
from pathlib import Path
from typing import Any

HOWTO = Path(__file__).parent / "howto"


def notebook_page(path: Path) -> Iterator[str]:
    """Yield the page of a notebook as Markdown: its text, its code, and what the code shows."""
    cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "__main__"}
    for index, cell in enumerate(cells):
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            yield f"{source}\n"
            continue
        yield f"```python\n{source}\n```\n"
        yield from run_cell(source, names, f"{path.name}, cell {index + 1}")
    yield f"[The notebook]({path.name}) as a file.\n"


def run_cell(source: str, names: dict[str, Any], where: str) -> Iterator[str]:
    """Run the source of a cell, and yield what it shows as Markdown."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, where, "exec"), names)
        value = eval(compile(ast.Expression(last.value), where, "eval"), names) if isinstance(last, ast.Expr) else None
    if printed.getvalue():
        yield f"```text\n{printed.getvalue()}```\n"
    shown = getattr(value, "_repr_html_", None)
    if shown is not None:
        yield f'<div class="shown">{shown()}</div>\n'
    elif value is not None:
        yield f'<div class="shown"><pre>{escape(_text(value))}</pre></div>\n'


def _text(value: object) -> str:
    """Return the value as Jupyter prints it: a list or tuple over several lines, if it is long."""
    from pprint import pformat

    return pformat(value, width=100)
