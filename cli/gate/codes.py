"""Codes of findings and their severities, as options and settings name them."""

from __future__ import annotations

from castsmith.cli.catalogue import all_codes, code_named
from castsmith.ir.codes import FindingCode
from castsmith.ir.records import Severity
from castsmith.numerics.errors import OptionError, did_you_mean

LEVELS = tuple(severity.value for severity in Severity)
"""The severities, lowest first."""


def known_codes() -> list[str]:
    """Return the codes of findings."""
    return [code.code for code in all_codes() if isinstance(code, FindingCode)]


def is_finding(code: str) -> bool:
    """True for the code of a finding."""
    return isinstance(code_named(code), FindingCode)


def codes_of(text: str) -> frozenset[str]:
    """Return the codes that an option lists. Raises OptionError for an unknown one."""
    codes = frozenset(filter(None, (word.strip() for word in text.split(","))))
    unknown = sorted(code for code in codes if not is_finding(code))
    if unknown:
        way_out = did_you_mean(unknown[0], known_codes(), "`castsmith explain` lists them")
        raise OptionError(f"unknown code {unknown[0]!r} of a finding; {way_out}")
    return codes
