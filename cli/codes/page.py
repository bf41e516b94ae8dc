"""One page about a code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """One code; `kind` is finding, rewrite or refusal. A code ending in `-*` covers one code per operator."""

    code: str
    kind: str
    what: str
    why: str
    example: str
    advice: str
