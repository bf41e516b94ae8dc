"""What the code of a finding, a rewrite or a refusal means, stated once, beside the function that gives it.

`castsmith explain`, the pages of the documentation and SARIF are rendered from these objects.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import ClassVar, Literal

from castsmith.ir.records import Effect, Severity

Kind = Literal["finding", "rewrite", "refusal"]
Fix = Literal["automatic", "promoted", "on-request", "opt-in", "manual", "none"]
"""How safe it is to fix a finding, or what a refusal kept."""


class Outcome(Enum):
    """What happens to a model with a finding, in words; it decides how severe the finding is."""

    REFUSED = "the model is refused"
    OTHERWISE = "values are not those of the standard"
    LOSSY = "values lose precision, or overflow, on the way"
    ELSEWHERE = "part of the model falls back to a slower device"
    UNCERTAIN = "the model may be refused or computed otherwise: that depends on what is not known"
    HELD = "only values that are rare in models change, by the type in which the target holds them"
    NEITHER = "the model runs as it is written"

    @property
    def severity(self) -> Severity:
        """An error, a warning or a note."""
        if self in (Outcome.REFUSED, Outcome.OTHERWISE):
            return Severity.ERROR
        return Severity.NOTE if self in (Outcome.HELD, Outcome.NEITHER) else Severity.WARNING


@dataclass(frozen=True)
class Code:
    """The meaning of a code, which stays the same from version to version.

    Attributes:
        code: The code; one that ends in `-*` stands for one code per operator.
        what: What it means; the first sentence stands alone.
        why: Why it matters.
        example: Before and after, or the model that causes it.
        advice: What to do; empty if nothing.
        silence: When to silence a finding, or how to prevent a rewrite other than by leaving out its passes.
        since: The version of Castsmith that added the code.
    """

    kind: ClassVar[Kind]

    code: str
    what: str
    _: KW_ONLY
    why: str
    example: str
    advice: str = ""
    silence: str = ""
    since: str = "0.1.0"

    def of(self, operator: str) -> str:
        """Return the code for one operator, of a code that ends in `-*`."""
        return self.code.replace("*", operator)


@dataclass(frozen=True)
class Rule(Code):
    """A rewrite, which may be refused under the same code.

    Attributes:
        safety: Its possible effects on values.
        certified: True if the checker of certificates proves every such rewrite, False if none, None if some.
    """

    kind = "rewrite"

    safety: tuple[Effect, ...] = (Effect.BIT_EXACT,)
    certified: bool | None = None

    @property
    def is_certified(self) -> bool | None:
        """As `certified`, and False if every such rewrite may change values."""
        exact = {Effect.BIT_EXACT, Effect.BIT_EXACT_BUT_NAN, Effect.REPAIR, Effect.INTERFACE}
        return self.certified if exact & {*self.safety} else False


@dataclass(frozen=True)
class FindingCode(Code):
    """Something wrong with a model, or that its user should know: the code of a Diagnostic.

    Attributes:
        outcomes: What may happen, the usual first. A Diagnostic has the severity of one of them.
        fix: How safe it is to fix it.
    """

    kind = "finding"

    outcomes: tuple[Outcome, ...]
    fix: Fix


@dataclass(frozen=True)
class RefusalCode(Code):
    """A reason to leave a node as it is: the code of refusals alone."""

    kind = "refusal"

    fix: Fix
