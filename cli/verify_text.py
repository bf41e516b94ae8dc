"""What verify found, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from castsmith.cli.plain import counted, one_line
from castsmith.cli.rewrite_text import CODE_PIECES
from castsmith.cli.wrapping import Line
from castsmith.ir.verify import Mismatch, Verdict
from castsmith.ir.verify_engines import OURSELVES, TITLES

_WHO = {**{engine: f"{title}, each by itself" for engine, title in TITLES.items()}, OURSELVES: "exact arithmetic"}
_MOST_NAMES = 8


def verdict_lines(a: str, b: str, verdict: Verdict) -> Iterator[Line]:
    """The difference with the node that makes it, or what was compared; then what a reader should know about it."""
    if verdict.mismatch is not None:
        yield Line((("red", "different"), ("", f" on inputs {verdict.mismatch.inputs}")), 2)
        yield from mismatch_lines(a, b, verdict.mismatch)
    else:
        ran = counted(len(verdict.runs), "set") + " of inputs"
        yield Line((("green", "no difference"), ("", f" in {verdict.elements} elements of outputs, on {ran}")), 2)
    for text in _notes(verdict):
        yield Line((("", f"  {one_line(text)}"),), 4)


def mismatch_lines(a: str, b: str, found: Mismatch) -> Iterator[Line]:
    """The first value that differs, what each model makes it by, the element, and the operands at its place."""
    here = found.difference
    if not found.value:
        yield Line((("", f"  {one_line(b)} {one_line(here.b)}"),), 4)
        return
    yield Line((("", "  the first value that differs is "), ("bold", one_line(found.value))), 4)
    if found.site.op:
        yield Line((("", "  made by "), ("cyan", one_line(str(found.site)))), 4)
    if found.within:
        yield Line((("", f"  within what makes {one_line(', '.join(found.within))}"),), 4)
    for mark, style, text in (("-", "red", found.node_a), ("+", "green", found.node_b)):
        if text:
            code, separator, types = one_line(text).partition("  # ")
            yield Line(((style, f"    {mark} {code}"), ("dim", separator + types)), 8, CODE_PIECES)
    place = list(here.index) if here.index else ""
    much = f" ({here.elements} of {here.of} elements differ)" if here.index else ""
    yield Line((("", f"  {one_line(found.value)}{place} is {here.a} in {one_line(a)}"),), 4)
    yield Line((("", f"  {one_line(found.value)}{place} is {here.b} in {one_line(b)}{much}"),), 4)
    for text in found.operands:
        yield Line((("dim", f"    where {one_line(text)}"),), 6)


def _notes(verdict: Verdict) -> Iterator[str]:
    if verdict.undefined:
        yield f"{counted(verdict.undefined, 'element')} left out: the standard leaves them undefined"
    if verdict.skipped:
        (name, reason), more = verdict.skipped[0], len(verdict.skipped) - 1
        rest = f", and {more} more" if more else ""
        yield f"the first model does not run on inputs {name}{rest}: {reason}"
    if verdict.stood_in:
        names = ", ".join(verdict.stood_in)
        yield f"{TITLES[verdict.engine]} is not believed for, or would not run, {names}: the reference did"
    if verdict.computed:
        yield f"computed by {'; by '.join(f'{_WHO[who]}: {_listed(ops)}' for who, ops in verdict.computed.items())}"
    for text in verdict.runtime:
        yield f"believe the models, not this run: {text}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Everything that verify found."""
    found = verdict.mismatch
    return {
        "same": verdict.same,
        "engine": verdict.engine,
        "difference": None if found is None else mismatch_data(found),
        "sets": verdict.runs,
        "skipped": [{"set": name, "reason": reason} for name, reason in verdict.skipped],
        "elements": verdict.elements,
        "undefined": verdict.undefined,
        "runtime": verdict.runtime,
        "stood_in": list(verdict.stood_in),
        "computed": {who: list(operators) for who, operators in verdict.computed.items()},
    }


def mismatch_data(found: Mismatch) -> dict[str, Any]:
    """One difference, with the place in the layout that reports use."""
    return {
        "set": found.inputs,
        "value": found.value,
        "place": {"graph": found.site.graph, "node": found.site.node, "op": found.site.op},
        "node_a": found.node_a,
        "node_b": found.node_b,
        **asdict(found.difference),
        "index": list(found.difference.index),
        "operands": list(found.operands),
        "within": list(found.within),
    }
