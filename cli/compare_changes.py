"""One difference between two models, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Change:
    """`kind` is a stable code. `before` or `after` is empty where there is nothing on that side.

    place: the graph and node, empty for the model as a whole. subject: what there differs. detail: how much.
    """

    kind: str
    place: str
    subject: str
    before: str
    after: str
    detail: str = ""


@dataclass
class GraphComparison:
    """Changes found so far, and the nodes counted so far."""

    changes: list[Change] = field(default_factory=list[Change])
    same: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
