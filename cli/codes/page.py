"""One page about a code, in four parts, and the words for how safe a fix or a rewrite is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SAFETY = {
    # of a rewrite: its effects on values, by the names of castsmith.Effect
    "bit-exact": "bit-exact: no value changes",
    "bit-exact-but-nan": "bit-exact, but for the sign and payload of NaN",
    "repair": "a repair: the model had no meaning before, and values are now as the promotion rule defines them",
    "in-wider-type": "computed in a wider type and rounded once (the last bit differs between runtimes anyway)",
    "as-defined": "computed as the standard defines it (a runtime's own kernel may differ in the last bit)",
    "converted": "lossy, as requested: values are rounded to another precision",
    "interface": "bit-exact, but a graph input or output changes its type, and callers feed or read the new one",
    "unknown": "unknown, because the pass left no record",
    # of the fix of a finding or a refusal
    "automatic": "safe, optimize does it without changing a value or refuses with the reason",
    "promoted": "safe where the common type holds every value, else opt-in",
    "on-request": "safe, an option requests it and no value changes",
    "opt-in": "opt-in, because values may change",
    "manual": "not automatic, because it depends on what the model is meant to compute",
    "none": "not needed",
}


@dataclass(frozen=True)
class Page:
    """The explanation of one code. A code ending in `-*` covers one code per operator.

    Attributes:
        kind: `finding`, `rewrite` or `refusal`.
        what: What the code means; the first sentence stands alone.
        why: Why it matters.
        example: Before and after, or the model that causes it.
        advice: What to do; empty if nothing.
        safety: How safe the fix or the rewrite is: keys of SAFETY.
        silence: When to silence a finding, or how to prevent a rewrite other than by leaving out its passes.
        passes: The passes that make the rewrite or the refusal.
        since: The version of Castsmith that added the code.
    """

    code: str
    kind: str
    what: str
    why: str
    example: str
    advice: str
    safety: tuple[str, ...]
    silence: str = ""
    passes: tuple[str, ...] = ()
    since: str = "0.1.0"


def parts(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of the four parts of a page; the example belongs to the first."""
    if page.kind == "rewrite":
        yield "What it does", page.what
        yield "Why it matters", page.why
        safety = safety_of(page)
        yield "How safe it is", f"{safety[0].upper()}{safety[1:]}. {page.advice}".strip()
        yield "How to prevent it", page.silence or f"Run other passes (--passes) than {' and '.join(page.passes)}."
    else:
        yield "What it says", page.what
        yield "Why it matters", page.why
        yield "How to fix it", page.advice
        yield "When to silence it", page.silence or "It fails no run, and only --explain lists it."


def head(page: Page) -> str:
    """Return the line under the title of a page."""
    fix = "" if page.kind == "rewrite" else f" Fix: {safety_of(page)}."
    return f"A {page.kind}, since version {page.since}.{fix}"


def safety_of(page: Page) -> str:
    """Return how safe the fix or the rewrite is, as the end of a sentence."""
    text = "; or ".join(SAFETY[key] for key in page.safety)
    return f"{text}; the record says which" if len(page.safety) > 1 else text
