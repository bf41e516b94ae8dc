"""One page about a code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """One code. kind: finding, rewrite, or refusal. A code ending in `-*` stands for one for each operator."""

    code: str
    kind: str
    what: str
    why: str
    example: str
    advice: str
