"""What a pass did, what it would not do, and what it noticed: plain data for diffs, reports and checks."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir

if TYPE_CHECKING:
    from castsmith.ir.inference import Inference


class Effect(enum.Enum):
    """What a rewrite does to values."""

    BIT_EXACT = "bit-exact"
    BIT_EXACT_BUT_NAN = "bit-exact, but for the sign and payload of NaN"
    REPAIR = "the model had no meaning before; values are now as the promotion rule defines them"
    IN_WIDER_TYPE = "computed in a wider type and rounded once; the last bit is left to runtimes anyway"
    AS_DEFINED = "computed as the standard defines it; a runtime's own kernel may differ in the last bit"
    INTERFACE = "bit-exact, but a graph input or output changed its element type"


class Severity(enum.Enum):
    """How much a diagnostic matters: an ERROR means that the emitted model is not right for its target."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a model: the graph or function by name, and the node by name and operator where there is one."""

    graph: str
    node: str = ""
    op: str = ""

    def __str__(self) -> str:
        return f"{self.graph}: {self.node or '(unnamed)'} ({self.op})" if self.op else self.graph


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One change: ONNX text before and after, why, by which rule, and how exact."""

    pass_name: str
    rule: str
    site: Site
    before: str
    after: str
    reason: str
    effect: Effect = Effect.BIT_EXACT
    saved_bytes: int | None = None
    """Bytes that are no longer read and written each time the model runs, at the sizes known or assumed; None where
    nobody counted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that a rule would have made but for `reason`; `witness` is a value that shows it, where there is one."""

    pass_name: str
    rule: str
    site: Site
    reason: str
    witness: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something a reader should know: `code` is stable, `message` says what and where, `help` the way out."""

    code: str
    severity: Severity
    site: Site
    message: str
    help: str = ""


@dataclass
class Records:
    """The records of one or several passes, in the order in which they were made."""

    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def extend(self, other: Records) -> None:
        self.rewrites += other.rewrites
        self.refusals += other.refusals
        self.diagnostics += other.diagnostics


@dataclass
class RewriteResult(onnx_ir.passes.PassResult):
    """An onnx_ir PassResult that carries the records of the pass.

    inference: the element types of the model as it is now, where the pass has them (`castsmith.ir.inference.cache`).
    """

    records: Records = field(default_factory=Records)
    inference: Inference | None = None
