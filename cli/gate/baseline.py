"""Findings that a project has accepted: a file of fingerprints, which depend neither on order nor on wording."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from castsmith.cli.gate.judging import Checked, Rules, changed
from castsmith.ir.records import Diagnostic
from castsmith.numerics.errors import OptionError
from castsmith.numerics.json_files import read_json


class Entry(NamedTuple):
    """A finding of the baseline: its file relative to that of the baseline, and what identifies it there."""

    file: str
    code: str
    place: str
    fingerprint: str


def fingerprint(finding: Diagnostic) -> str:
    """Return what identifies the finding in its model: its code and place, or its subject.

    A node without a name is identified by the name of its first output. The message is not a part: it may be worded
    otherwise in another version.
    """
    site = finding.site
    identity = (finding.subject,) if finding.subject else (site.graph, site.name, site.op)
    return hashlib.sha256("\0".join((finding.code, *identity)).encode()).hexdigest()[:16]


@dataclass
class Baseline:
    """The findings that are accepted, and how many of each.

    Attributes:
        path: The file.
        entries: The accepted findings, each with its number.
        fixed: The entries that the checked files do not have any more; filled in by `without`.
    """

    path: Path
    entries: Counter[Entry] = field(default_factory=Counter[Entry])
    fixed: Counter[Entry] = field(default_factory=Counter[Entry])

    @staticmethod
    def read(path: Path, *, must_exist: bool = True) -> Baseline:
        """Return the baseline of the file. Raises OptionError if it cannot be read."""
        if not path.exists() and not must_exist:
            return Baseline(path)
        if not os.path.lexists(path):
            raise OptionError(f"{path}: no baseline; --write-baseline writes it.")
        data: Any = read_json(path, OptionError)
        try:
            entries = {Entry(*(str(e[name]) for name in Entry._fields)): int(e["count"]) for e in data["findings"]}
        except (ValueError, TypeError, KeyError):
            raise OptionError(f"{path}: not a baseline of castsmith check.") from None
        return Baseline(path, Counter(entries))

    def without(self, checked: Checked, rules: Rules) -> Checked:
        """Return the file without the findings of the baseline, and note the entries that it does not have any more."""
        if checked.failure is not None:
            return checked
        name = self._name(checked.file)
        remaining = Counter({
            entry: count
            for entry, count in self.entries.items()
            if entry.file == name and rules.counts(checked.file, entry.code)
        })  # fmt: skip

        def if_new(finding: Diagnostic) -> Diagnostic | None:
            entry = self._entry(name, finding)
            if not remaining[entry]:
                return finding
            remaining[entry] -= 1
            return None

        findings = changed(checked.findings, if_new)
        self.fixed += remaining
        return Checked(checked.file, findings, None, len(checked.findings) - len(findings))

    def text(self, every: Sequence[Checked], rules: Rules) -> str:
        """Return the file with the findings of this run; entries of files that were not checked stay if those exist."""
        names = {self._name(checked.file): checked for checked in every}
        entries_kept = Counter({
            entry: count
            for entry, count in self.entries.items()
            if self._stays(entry, names.get(entry.file), rules)
        })  # fmt: skip
        counts = Counter(self._entry(name, finding) for name, checked in names.items() for finding in checked.findings)
        rows = [{**entry._asdict(), "count": count} for entry, count in sorted((entries_kept | counts).items())]
        return json.dumps({"schema": 1, "findings": rows}, indent=2) + "\n"

    def _stays(self, entry: Entry, checked: Checked | None, rules: Rules) -> bool:
        if checked is None:
            return (self.path.parent / entry.file).exists()
        return checked.failure is not None or not rules.counts(checked.file, entry.code)

    def _entry(self, name: str, finding: Diagnostic) -> Entry:
        return Entry(name, finding.code, str(finding.site), fingerprint(finding))

    def _name(self, file: str) -> str:
        return Path(os.path.relpath(os.path.abspath(file), self.path.parent.absolute())).as_posix()

    def data(self, every: Iterable[Checked]) -> Mapping[str, Any]:
        """Return what the baseline did, as data."""
        rows = [{**entry._asdict(), "count": count} for entry, count in sorted(self.fixed.items())]
        return {"file": str(self.path), "known": sum(checked.known for checked in every), "fixed": rows}
