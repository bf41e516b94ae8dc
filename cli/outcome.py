"""The outcome of a command on one model, for a run over many: its error, its report, and what it printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from castsmith.ir.records import Diagnostic

Wanted = Literal["figures", "report", "page"]
"""The data that is wanted: what the table shows, the whole report, or that and the HTML page."""


class Task(NamedTuple):
    """One model, and the arguments of the command for it.

    Attributes:
        source: The model, for messages.
        output: The file that is written; or empty.
        values: The arguments, by name.
        wanted: The data that is wanted of the model.
    """

    source: str
    output: str
    values: Mapping[str, Any]
    wanted: Wanted = "figures"


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


@dataclass
class Outcome:
    """The outcome of one model, filled in by the command.

    Attributes:
        task: The model and the command. If only figures are wanted, the bytes that each rule saves are not counted.
        exit_code: The exit code.
        messages: The lines on stderr.
        text: The text on stdout.
        failure: The error; None without one.
        report: What the command prints with --json; None if it did not get that far.
        page: What the HTML page shows; None unless that is wanted.
        findings: What `check` found.
        unchanged: The result was there already.
    """

    task: Task
    exit_code: int = 0
    messages: list[str] = field(default_factory=list[str])
    text: str = ""
    failure: Failure | None = None
    report: dict[str, Any] | None = None
    page: dict[str, Any] | None = None
    findings: list[Diagnostic] = field(default_factory=list["Diagnostic"])
    unchanged: bool = False
