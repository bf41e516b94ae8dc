"""Codes of findings and their severities, as options and settings name them."""

from __future__ import annotations

from collections.abc import Iterable

from castsmith.cli.catalogue import all_codes, code_named
from castsmith.ir.codes import FindingCode
from castsmith.ir.records import Severity
from castsmith.numerics.errors import OptionError, did_you_mean

LEVELS = tuple(severity.value for severity in Severity)
"""The severities, lowest first."""


def codes_of(text: str) -> frozenset[str]:
    """Return the codes that an option lists. Raises OptionError for an unknown one."""
    codes = frozenset(filter(None, (word.strip() for word in text.split(","))))
    require_findings(codes)
    return codes


def require_findings(codes: Iterable[str]) -> None:
    """Raise OptionError unless each is the code of a finding."""
    for code in sorted(codes):
        if not isinstance(code_named(code), FindingCode):
            names = [code.code for code in all_codes() if isinstance(code, FindingCode)]
            way_out = did_you_mean(code, names, "`castsmith explain` lists them")
            raise OptionError(f"unknown code {code!r} of a finding; {way_out}")
