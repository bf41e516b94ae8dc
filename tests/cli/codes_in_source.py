"""Every code that the source gives to a record, read from its syntax trees, and what the pages of codes leave out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from castsmith.cli.codes.catalogue import page_of
from castsmith.ir.records import Refusal, Rewrite

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "ir", "lowering", "passes")
_PLACE = {"Rewrite": 1, "Refusal": 1, "Replacement": 0, "Diagnostic": 0}
_KEYWORD = {"Rewrite": "rule", "Refusal": "rule", "Replacement": "rule", "Diagnostic": "code"}


def codes_in_source() -> dict[str, str]:
    """Each code as a regular expression (a code with a name in it stands for many), and a file that uses it."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for code in _codes(ast.parse(text)) if any(f"{kind}(" in text for kind in _PLACE) else ():
                found.setdefault(code, path.relative_to(ROOT).as_posix())
    return found


def _codes(tree: ast.Module) -> Iterator[str]:
    names = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        kind = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, ast.Call) and kind in _PLACE:
            place = _PLACE[kind]
            named = [word.value for word in node.keywords if word.arg == _KEYWORD[kind]]
            given = named or node.args[place : place + 1]
            yield from (text for value in given for text in _texts(value, names))


def _texts(value: ast.expr, names: dict[str, str]) -> Iterator[str]:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield re.escape(value.value)
    elif isinstance(value, ast.Name) and value.id in names:
        yield re.escape(names[value.id])
    elif isinstance(value, ast.IfExp):
        yield from (*_texts(value.body, names), *_texts(value.orelse, names))
    elif isinstance(value, ast.JoinedStr):
        parts = (re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[A-Za-z]+" for p in value.values)
        yield "".join(parts)
    elif isinstance(value, ast.Attribute) and value.attr == "rule":
        return  # of another record, which has been read
    else:
        yield f"(unread) {ast.unparse(value)}"


def undescribed(records: Iterable[Rewrite | Refusal]) -> list[str]:
    """The records whose page names another effect or other passes; a rule refused has the page of its rewrite."""
    found: list[str] = []
    for record in records:
        page = page_of(record.rule)
        if page is None or record.pass_name not in page.passes:
            found.append(f"{record.rule}: its page does not name {record.pass_name}")
        elif isinstance(record, Rewrite) and record.effect.name.lower().replace("_", "-") not in page.safety:
            found.append(f"{record.rule}: its page does not name {record.effect}")
    return found
