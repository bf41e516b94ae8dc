"""The findings of a model that count, their severity, and the exit code that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from castsmith.cli.exit_codes import DONE, REFUSED
from castsmith.cli.gate.codes import LEVELS
from castsmith.cli.gate.settings import Settings
from castsmith.cli.outcome import Failure
from castsmith.ir.records import Diagnostic, Severity


@dataclass
class Checked:
    """A file with its findings, or the reason why it was not checked.

    Attributes:
        file: The file as it was named.
        findings: The findings that count; those of the baseline are not among them.
        failure: The reason why the model was not checked; None if it was.
        known: The number of findings that the baseline has.
    """

    file: str
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    failure: Failure | None = None
    known: int = 0


@dataclass(frozen=True)
class Rules:
    """The findings that count, and their severity.

    Attributes:
        selected: The codes that count; None for all.
        ignored: The codes that do not count.
        settings: What the file of settings says of codes and files.
    """

    selected: frozenset[str] | None
    ignored: frozenset[str]
    settings: Settings

    def counts(self, file: str, code: str) -> bool:
        """True if findings of this code count in the file."""
        out = self.ignored | self.settings.ignored_in(file)
        return code not in out and (self.selected is None or code in self.selected)

    def judged(self, file: str, findings: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Return the findings that count, with the severity that the settings give them."""
        severities = self.settings.severities

        def judge(finding: Diagnostic) -> Diagnostic | None:
            if not self.counts(file, finding.code):
                return None
            return replace(finding, severity=Severity(severities.get(finding.code, finding.severity.value)))

        return changed(findings, judge)


def changed(findings: Sequence[Diagnostic], change: Callable[[Diagnostic], Diagnostic | None]) -> list[Diagnostic]:
    """Return the findings as `change` makes them; None leaves one out, and what follows from it stands alone then."""
    changes = [(index, new) for index, finding in enumerate(findings) if (new := change(finding)) is not None]
    places = {old: index for index, (old, _) in enumerate(changes)}
    return [replace(new, follows=None if new.follows is None else places.get(new.follows)) for _, new in changes]


def exit_code(checked: Checked, fail_on: str) -> int:
    """Return the exit code for the file: that of its error, or whether a finding is of the severity or higher."""
    if checked.failure is not None:
        return checked.failure.exit_code
    least = LEVELS.index(fail_on)
    return REFUSED if any(LEVELS.index(finding.severity.value) >= least for finding in checked.findings) else DONE
