"""One page about a code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """The explanation of one code. A code ending in `-*` covers one code per operator.

    Attributes:
        kind: `finding`, `rewrite` or `refusal`.
        what: What the code means; the first sentence stands alone.
        why: Why it matters.
        example: Before and after, or the model that causes it.
        advice: What to do, and how safe it is.
        since: The version of Castsmith that added the code.
    """

    code: str
    kind: str
    what: str
    why: str
    example: str
    advice: str
    since: str = "0.1.0"
