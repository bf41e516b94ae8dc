"""The explanation of every code, rendered from the codes of the passes and the findings of check.

docs/reference.py makes a page of each. A module is imported once its codes are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from castsmith.ir.codes import Code, FindingCode, RefusalCode, Rule
from castsmith.ir.records import Effect
from castsmith.lowering.registry import PASSES, pass_class
from castsmith.passes.core.rewrite_pass import RewritePass

_FINDERS = (
    *(f"castsmith.lowering.check.{name}" for name in ("malformed", "types", "casts", "run", "trunc", "standard")),
    *(f"castsmith.lowering.check.{name}" for name in ("target", "registered", "pairs", "forms", "device")),
    *("castsmith.lowering.pipeline", "castsmith.lowering.conversion"),
)
"""The modules with findings that no pass reports alone."""

_EFFECTS = {
    Effect.BIT_EXACT: "bit-exact: no value changes",
    Effect.BIT_EXACT_BUT_NAN: "bit-exact, except for the sign and payload of NaN",
    Effect.REPAIR: "a repair: the model had no defined meaning before, and the promotion rule now defines its values",
    Effect.IN_WIDER_TYPE: "computed in a wider type and rounded once (runtimes differ in the last bit anyway)",
    Effect.AS_DEFINED: "computed as the standard defines it (a runtime's own kernel may differ in the last bit)",
    Effect.SCALED: "as requested: multiplied by a power of two, bit-exact but for overflow and subnormal numbers",
    Effect.CONVERTED: "lossy, as requested: values are rounded to another precision",
    Effect.INTERFACE: ("bit-exact, but a graph input or output changes its type, so callers must use the new one"),
    Effect.UNKNOWN: "unknown, because the pass wrote no record",
}
_PROOFS = {
    True: "That no value changes, for all inputs (`castsmith certificate`).",
    False: "Nothing: `castsmith verify` compares such models by running them.",
    None: "For some models, that no value changes; `castsmith certificate` names the steps that it does not prove.",
}
_FIXES = {
    "automatic": "safe: optimize does it without changing a value, or skips it with a reason",
    "promoted": "safe if the common type holds every value, otherwise opt-in",
    "on-request": "safe: pass an option, and no value changes",
    "opt-in": "opt-in, because values may change",
    "manual": "by hand, because it depends on what the model should compute",
    "none": "not needed",
}


def all_codes() -> Iterator[Code]:
    """Yield each code once: the findings, then the codes of the passes in the order in which they run."""
    from_passes = (code for name in PASSES for code in codes_of_pass(name))
    every = (*map(_codes_in, _FINDERS), from_passes, _codes_in("castsmith.verification.diff.models"))
    yielded = set[str]()
    for code in (code for codes in every for code in codes):
        if code.code not in yielded:
            yielded.add(code.code)
            yield code


def _codes_in(module: str) -> Iterator[Code]:
    yield from (member for member in vars(import_module(module)).values() if isinstance(member, Code))


def codes_of_pass(name: str) -> tuple[Code, ...]:
    """Return the codes that the pass of that name gives."""
    kind = pass_class(name)
    return kind.codes if issubclass(kind, RewritePass) else ()


def code_named(name: str) -> Code | None:
    """Return the code of a record: `lower-Cast` is one of `lower-*`."""
    family = f"{name.partition('-')[0]}-*" if "-" in name else ""
    alike: Code | None = None
    for code in all_codes():
        if code.code == name:
            return code
        alike = code if code.code == family else alike
    return alike


@cache
def passes_with(code: Code) -> tuple[str, ...]:
    """Return the names of the passes that give the code."""
    return tuple(name for name in PASSES if code in codes_of_pass(name))


def summary_of(code: Code) -> str:
    """Return the first sentence."""
    return code.what.partition(". ")[0]


def code_text(code: Code) -> str:
    """Return the page of the code as text for people."""
    example = "\n".join(f"    {line}" for line in code.example.splitlines())
    (first, meaning), *details = parts(code)
    texts = (f"{title}: {text}" for title, text in details)
    return "\n\n".join((code.code, head(code), f"{first}: {meaning}", example, *texts)) + "\n"


def code_data(code: Code) -> dict[str, object]:
    """Return the page of the code as JSON data."""
    return {
        "code": code.code,
        "kind": code.kind,
        "what": code.what,
        "why": code.why,
        "example": code.example,
        "advice": code.advice,
        "safety": safety_names(code),
        "certified": code.is_certified if isinstance(code, Rule) else None,
        "silence": code.silence,
        "severities": [outcome.severity.value for outcome in code.outcomes] if isinstance(code, FindingCode) else [],
        "passes": [] if isinstance(code, FindingCode) else passes_with(code),
        "since": code.since,
    }


def safety_names(code: Code) -> list[str]:
    """Return how safe the rewrite, or the fix, is, by stable names."""
    if isinstance(code, Rule):
        return [effect.name.lower().replace("_", "-") for effect in code.safety]
    return [code.fix] if isinstance(code, FindingCode | RefusalCode) else []


def parts(code: Code) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of the parts of a page; the example belongs to the first."""
    if isinstance(code, Rule):
        yield "What it does", code.what
        yield "Why it matters", code.why
        safety = _safety(code)
        yield "How safe it is", f"{safety[0].upper()}{safety[1:]}. {code.advice}".strip()
        yield "What a certificate proves", _PROOFS[code.is_certified]
        passes = " and ".join(passes_with(code))
        yield "How to prevent it", code.silence or f"Leave out {passes} (--passes)."
    else:
        yield "What it means", code.what
        yield "Why it matters", code.why
        yield "How to fix it", code.advice
        yield "When to silence it", code.silence or "You do not need to: only --explain lists it."


def head(code: Code) -> str:
    """Return the line under the title of a page."""
    fix = "" if isinstance(code, Rule) else f" Fix: {_safety(code)}."
    kind = "skipped change" if code.kind == "refusal" else code.kind
    return f"A {kind}, since version {code.since}.{_severities(code)}{fix}"


def _severities(code: Code) -> str:
    """Return how severe a finding is, and why."""
    outcomes = code.outcomes if isinstance(code, FindingCode) else ()
    return "".join(f" {outcome.severity.value.capitalize()}: {outcome.value}." for outcome in outcomes)


def _safety(code: Code) -> str:
    """Return how safe the fix or the rewrite is, as the end of a sentence."""
    if isinstance(code, Rule):
        text = "; or ".join(_EFFECTS[effect] for effect in code.safety)
        return f"{text}; the record says which" if len(code.safety) > 1 else text
    return "; or ".join(_FIXES[name] for name in safety_names(code))
