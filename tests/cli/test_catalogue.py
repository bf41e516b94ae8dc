"""How severe a finding is follows from what happens to the model, which its code states."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module

from castsmith.cli.catalogue import all_codes
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.records import Severity
from tests.cli.codes_in_source import FOLDERS
from tests.house import trees

_PLACES = {"Diagnostic": (0, 1), "noted": (1, 2)}
"""Functions that make findings, and where their code and their severity stand."""


def _severities_in(node: ast.AST) -> set[Severity]:
    return {
        Severity[each.attr]
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "Severity"
    }


def _found() -> Iterator[tuple[FindingCode, set[Severity]]]:
    """Yield the code of each finding that the source makes, with the severities that it may give it."""
    for file, tree in ((file, tree) for file, tree in trees().items() if file.partition("/")[0] in FOLDERS):
        module = f"castsmith.{file.removesuffix('.py').replace('/', '.')}"
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _PLACES:
                    code, severity = (call.args[place] for place in _PLACES[call.func.id])
                    name = code.value if isinstance(code, ast.Attribute) and code.attr == "code" else code
                    described = vars(import_module(module)).get(name.id) if isinstance(name, ast.Name) else None
                    if isinstance(described, FindingCode):
                        yield described, _severities_in(severity) or _severities_in(function)


def test_each_finding_is_as_severe_as_what_happens() -> None:
    made = dict[str, set[Severity]]()
    for code, severities in _found():
        stated = {outcome.severity for outcome in code.outcomes}
        assert severities <= stated, f"{code.code} is {severities}, and what happens makes it {stated}"
        made.setdefault(code.code, set()).update(severities)
    assert len(made) > 30
    for code in all_codes():
        if isinstance(code, FindingCode) and code.code in made:
            assert made[code.code] == {outcome.severity for outcome in code.outcomes}, code.code


def test_what_is_refused_or_computed_otherwise_is_an_error() -> None:
    by_severity = {level: [each for each in Outcome if each.severity is level] for level in Severity}
    assert by_severity == {
        Severity.ERROR: [Outcome.REFUSED, Outcome.OTHERWISE],
        Severity.WARNING: [Outcome.LOSSY, Outcome.ELSEWHERE, Outcome.UNCERTAIN],
        Severity.NOTE: [Outcome.HELD, Outcome.NEITHER],
    }
