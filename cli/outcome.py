"""The outcome of a command as data: its error, and what it gives to a run over many models besides its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Wanted = Literal["figures", "report", "page"]
"""The data that is wanted: what the table shows, the whole report, or that and the HTML page."""


@dataclass
class Outcome:
    """The error or the report of one model as data, filled in by the command.

    Attributes:
        wanted: The data that is wanted. For figures the bytes that each rule saves are not counted.
        error: The error in the layout of docs/schema/error-1.json; None without one.
        report: What the command prints with --json; None if it did not get that far.
        page: What the HTML page shows; None unless that is wanted.
    """

    wanted: Wanted = "figures"
    error: dict[str, Any] | None = None
    report: dict[str, Any] | None = None
    page: dict[str, Any] | None = None


@dataclass(frozen=True)
class Failure:
    """The reason why a command failed. `code` is one of those in docs/schema/error-1.json; `file` may be empty."""

    code: str
    message: str
    file: str
    exit_code: int

    def data(self) -> dict[str, Any]:
        """Return the layout of docs/schema/error-1.json, without its version."""
        error = {"code": self.code, "message": self.message, "file": self.file or None, "exit_code": self.exit_code}
        return {"error": error}
