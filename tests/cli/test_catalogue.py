"""How severe a finding is follows from what happens to the model, which its code states."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import get_args

from castsmith.cli.catalogue import (
    all_codes,
    code_data,
    code_named,
    code_text,
    codes_of_pass,
    head,
    parts,
    passes_with,
    summary_of,
)
from castsmith.ir.codes import FindingCode, Fix, Outcome, RefusalCode, Rule
from castsmith.ir.records import Effect, Severity
from tests.cli.codes_in_source import FOLDERS
from tests.house import texts, trees

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
    for file, tree in ((file, tree) for file, tree in trees(*_PLACES).items() if file.partition("/")[0] in FOLDERS):
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


WORDS = {"why": "It matters.", "example": "a\nb", "since": "1.2"}
EXACT, WIDER = Effect.BIT_EXACT, Effect.IN_WIDER_TYPE
EXACT_TEXT, WIDER_TEXT = "bit-exact: no value changes", "computed in a wider type and rounded once"
RULE = Rule("r", "It does. And more.", **WORDS, advice="Do.", safety=(EXACT,), certified=True)


def test_the_page_of_a_rule() -> None:
    assert code_text(RULE) == (
        "r\n\nA rewrite, since version 1.2.\n\nWhat it does: It does. And more.\n\n    a\n    b\n\n"
        "Why it matters: It matters.\n\nHow safe it is: Bit-exact: no value changes. Do.\n\n"
        "What a certificate proves: That no value changes, for all inputs (`castsmith certificate`).\n\n"
        "How to prevent it: Leave out  (--passes).\n"
    )
    assert summary_of(RULE) == "It does"
    page = dict(parts(replace(RULE, safety=(EXACT, WIDER), certified=None, silence="Do not.", advice="")))
    assert page["How safe it is"].startswith(f"B{EXACT_TEXT[1:]}; or {WIDER_TEXT}")
    assert page["How safe it is"].endswith("; the record says which.")
    assert page["What a certificate proves"].startswith("For some models, that no value changes;")
    assert page["How to prevent it"] == "Do not."
    lossy = dict(parts(replace(RULE, safety=(Effect.CONVERTED,))))
    assert lossy["What a certificate proves"].startswith("Nothing: `castsmith verify`")


def test_the_page_of_a_finding_and_of_a_refusal() -> None:
    outcomes = (Outcome.REFUSED, Outcome.HELD)
    finding = FindingCode("f", "It is.", **WORDS, advice="Fix it.", silence="Never.", outcomes=outcomes, fix="opt-in")
    assert code_text(finding) == (
        f"f\n\nA finding, since version 1.2. Error: {Outcome.REFUSED.value}. Note: {Outcome.HELD.value}. Fix: opt-in,"
        " because values may change.\n\nWhat it means: It is.\n\n    a\n    b\n\nWhy it matters: It matters.\n\n"
        "How to fix it: Fix it.\n\nWhen to silence it: Never.\n"
    )
    assert code_data(finding) == {
        "code": "f", "kind": "finding", "what": "It is.", "why": "It matters.", "example": "a\nb", "advice": "Fix it.",
        "safety": ["opt-in"], "certified": None, "silence": "Never.", "severities": ["error", "note"], "passes": [],
        "since": "1.2",
    }  # fmt: skip
    refusal = RefusalCode("s", "It stays.", **WORDS, advice="Do.", fix="none")
    assert head(refusal) == "A skipped change, since version 1.2. Fix: not needed."
    assert dict(parts(refusal))["When to silence it"] == "You do not need to: only --explain lists it."
    data = code_data(replace(RULE, safety=(EXACT, WIDER)))
    assert (data["safety"], data["certified"], data["severities"]) == (["bit-exact", "in-wider-type"], True, [])


def test_a_code_is_found_by_its_name_or_its_family() -> None:
    for code in all_codes():
        assert code_named(code.code) is code
    for name in ("lower-Relu", "lower-"):
        family = code_named(name)
        assert family is not None
        assert family.code == "lower-*"
    assert [code_named(name) for name in ("lower", "nothing", "nothing-at-all", "")] == [None] * 4
    folded = code_named("fold-constant")
    assert folded is not None
    assert passes_with(folded) == ("fold-constants",)
    assert folded in codes_of_pass("fold-constants")


def test_every_effect_and_fix_has_words() -> None:
    for effect in Effect:
        assert dict(parts(replace(RULE, safety=(effect,))))["How safe it is"]
    for fix in get_args(Fix):
        assert head(RefusalCode("s", "", **WORDS, fix=fix)).endswith(".")


def test_every_finding_that_the_source_describes_has_a_page() -> None:
    described = {name for text in texts().values() for name in re.findall(r'= FindingCode\(\s*"([a-z0-9-]+)"', text)}
    assert len(described) > 30
    assert described == {code.code for code in all_codes() if isinstance(code, FindingCode)}
