"""How severe each outcome is, and which rules certificates prove."""

from __future__ import annotations

import pytest

from castsmith.ir.codes import Outcome, RefusalCode, Rule
from castsmith.ir.records import Effect, Severity

SEVERITIES = {
    "REFUSED": Severity.ERROR,
    "OTHERWISE": Severity.ERROR,
    "LOSSY": Severity.WARNING,
    "ELSEWHERE": Severity.WARNING,
    "UNCERTAIN": Severity.WARNING,
    "HELD": Severity.NOTE,
    "NEITHER": Severity.NOTE,
}


def test_each_outcome_has_its_severity() -> None:
    assert {outcome.name: outcome.severity for outcome in Outcome} == SEVERITIES


EXACT = ("BIT_EXACT", "BIT_EXACT_BUT_NAN", "REPAIR", "INTERFACE")


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize("certified", [True, False, None])
def test_what_may_change_values_is_not_certified(effect: Effect, certified: bool | None) -> None:
    rule = Rule("r-*", "what", why="why", example="", safety=(effect,), certified=certified)
    assert rule.is_certified is (certified if effect.name in EXACT else False)
    mixed = Rule("r", "what", why="why", example="", safety=(effect, Effect.BIT_EXACT), certified=certified)
    assert mixed.is_certified is certified


def test_a_code_of_each_operator() -> None:
    code = RefusalCode("kept-*", "what", why="why", example="e", fix="none")
    assert (code.of("Add"), code.kind, code.advice, code.silence) == ("kept-Add", "refusal", "", "")
    rule = Rule("r", "what", why="why", example="")
    assert (rule.of("Add"), rule.kind, rule.safety, rule.certified) == ("r", "rewrite", (Effect.BIT_EXACT,), None)
