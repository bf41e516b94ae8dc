"""The codes that the source describes or gives to records, read from its syntax trees, and what they leave out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache

from castsmith.cli.catalogue import code_named, passes_with, safety_names
from castsmith.ir.records import Refusal, Rewrite
from tests.house import trees

FOLDERS = ("cli", "ir", "lowering", "passes", "verification")
_DESCRIPTIONS = ("Rule", "NodeRule", "FindingCode", "RefusalCode")
_RECORDS = {"Rewrite": 1, "Refusal": 1, "Replacement": 0, "Diagnostic": 0}
_KEYWORDS = ("rule", "code")


@cache
def _calls() -> list[tuple[str, str, ast.Call]]:
    """Each call of a plain name in the source, with the file."""
    return [
        (name, node.func.id, node)
        for name, tree in trees().items()
        if name.partition("/")[0] in FOLDERS
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]


def described_codes() -> list[str]:
    """The codes of all rules, findings and refusals that the source describes."""
    return [
        str(code.value)
        for _, kind, call in _calls()
        if kind in _DESCRIPTIONS and isinstance(code := call.args[0], ast.Constant)
    ]


def literal_codes() -> list[str]:
    """The records that the source gives a text as their code, instead of the code of a description."""
    return [
        f"{file}:{call.lineno}"
        for file, kind, call in _calls()
        if kind in _RECORDS
        for value in _codes_given(call, _RECORDS[kind])
        if isinstance(value, ast.Constant | ast.JoinedStr)
    ]


def _codes_given(call: ast.Call, place: int) -> Iterator[ast.expr]:
    """The expressions that give the record its code."""
    given = [*call.args[place : place + 1], *(word.value for word in call.keywords if word.arg in _KEYWORDS)]
    for value in given:
        yield from (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)


def undescribed(records: Iterable[Rewrite | Refusal]) -> list[str]:
    """The records whose code names another effect or other passes; a rule refused has the code of its rewrite."""
    found: list[str] = []
    for record in records:
        code = code_named(record.rule)
        if code is None or record.pass_name not in passes_with(code):
            found.append(f"{record.rule}: {record.pass_name} does not have it among its codes")
        elif isinstance(record, Rewrite) and record.effect.name.lower().replace("_", "-") not in safety_names(code):
            found.append(f"{record.rule}: its description does not name {record.effect}")
    return found
