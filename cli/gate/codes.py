"""Codes of findings and their severities, as options and settings name them."""

from __future__ import annotations

from castsmith.cli.codes.check import FINDINGS
from castsmith.ir.records import Severity
from castsmith.numerics.errors import OptionError, did_you_mean

LEVELS = tuple(each.value for each in Severity)
"""The severities, lowest first."""


def known_codes() -> list[str]:
    """Return the codes of findings."""
    return [page.code for page in FINDINGS]


def codes_of(text: str) -> frozenset[str]:
    """Return the codes that an option lists. Raises OptionError for an unknown one."""
    codes, known = frozenset(filter(None, (word.strip() for word in text.split(",")))), known_codes()
    unknown = sorted(codes - {*known})
    if unknown:
        way_out = did_you_mean(unknown[0], known, "`castsmith explain` lists them")
        raise OptionError(f"unknown code {unknown[0]!r} of a finding; {way_out}")
    return codes
