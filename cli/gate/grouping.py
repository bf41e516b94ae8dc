"""Findings by cause: those alike are one group, and those that follow from it are counted with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from castsmith.cli.gate.codes import LEVELS
from castsmith.cli.gate.judging import Checked
from castsmith.cli.text.terminal import counted
from castsmith.ir.records import Diagnostic


@dataclass
class Group:
    """Findings of one file that have one code and one fix, and what follows from them.

    Attributes:
        file: The file.
        first: The first finding.
        alike: The others of the same code and fix, each a cause itself.
        following: The findings that follow from one of these.
    """

    file: str
    first: Diagnostic
    alike: list[Diagnostic] = field(default_factory=list[Diagnostic])
    following: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def more(self) -> list[str]:
        """Return how many others there are, in words: those alike, and those that follow."""
        texts = [f"{len(self.alike)} more like it"] if self.alike else []
        if self.following:
            codes = Counter(finding.code for finding in self.following)
            listed = ", ".join(f"{count} {code}" for code, count in codes.items())
            texts.append(f"{counted(len(self.following), 'finding follows', 'findings follow')} from it: {listed}")
        return texts


def groups_of(checked: Iterable[Checked]) -> list[Group]:
    """Return the groups of all files, of each the most severe first."""
    return [group for model in checked for group in sorted(_groups(model), key=_rank)]


def groups_by_severity(checked: Iterable[Checked]) -> list[Group]:
    """Return the groups of all files, the most severe of all first."""
    return sorted(groups_of(checked), key=_rank)


def _groups(checked: Checked) -> list[Group]:
    groups: dict[tuple[str, ...], Group] = {}
    of_cause: dict[int, Group] = {}
    for index, finding in enumerate(checked.findings):
        if finding.follows is not None:
            continue
        key = (finding.code, finding.severity.value, finding.help)
        if key in groups:
            groups[key].alike.append(finding)
        else:
            groups[key] = Group(checked.file, finding)
        of_cause[index] = groups[key]
    for finding in checked.findings:
        if finding.follows is not None:
            of_cause[finding.follows].following.append(finding)
    return list(groups.values())


def _rank(group: Group) -> int:
    return -LEVELS.index(group.first.severity.value)


def counts_text(checked: Sequence[Checked]) -> str:
    """Return the number of findings by severity and of files: `2 errors, 1 note in 1 of 3 models`."""
    levels = Counter(finding.severity.value for model in checked for finding in model.findings)
    severities = ", ".join(counted(levels[level], level) for level in reversed(LEVELS) if levels[level])
    having = sum(1 for model in checked if model.findings)
    models = counted(len(checked), "model")
    models_text = models if having in (0, len(checked)) else f"{having} of {models}"
    summary = f"{severities or 'no findings'} in {models_text}"
    old, failed = sum(model.known for model in checked), sum(1 for model in checked if model.failure is not None)
    summary += f"; {counted(old, 'finding')} of the baseline not shown" if old else ""
    return summary + (f"; {counted(failed, 'model')} not checked" if failed else "")
