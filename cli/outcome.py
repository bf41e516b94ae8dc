"""The data that a command gives to a run over many models, besides its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Outcome:
    """The error or the report of one model as data, filled in by the command.

    Attributes:
        page_wanted: The data of the HTML page is wanted too.
        error: The error in the layout of docs/schema/error-1.json; None without one.
        report: What the command prints with --json; None if it did not get that far.
        page: What the HTML page shows; None unless wanted.
    """

    page_wanted: bool = False
    error: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    page: dict[str, Any] | None = None
