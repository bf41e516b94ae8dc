"""The result of verify, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from castsmith.cli.text.json import number
from castsmith.cli.text.rewrites import item_line
from castsmith.cli.text.terminal import Line
from castsmith.cli.wording import with_command_options
from castsmith.verification.evaluate.engines import OURSELVES, TITLES
from castsmith.verification.verdict import Mismatch, Verdict, evidence_of

_WHO = {**{engine: f"{title}, each by itself" for engine, title in TITLES.items()}, OURSELVES: "exact arithmetic"}
_MOST_NAMES = 8


def verdict_lines(a: str, b: str, verdict: Verdict) -> Iterator[Line]:
    """Yield the verdict, the difference with the node that makes it, or the compared outputs; then notes."""
    verdict = as_command(verdict)
    style = {"equal": "green", "different": "red", "inconclusive": "yellow"}[verdict.outcome]
    if verdict.mismatch is not None:
        yield Line(((style, "different"), ("", f" on inputs {verdict.mismatch.inputs}")), 2)
        how = "exceeds the tolerance" if verdict.tolerances else "differs"
        yield from mismatch_lines(a, b, verdict.mismatch, how)
    elif verdict.interface:
        yield Line(((style, "different"), ("", ": the interfaces differ")), 2)
    else:
        outcome, text = evidence_of(verdict)
        yield Line(((style, outcome), ("", text)), 2)
    for text in (*verdict.interface, *verdict.unsure, *(f"to decide it, {text}" for text in verdict.advice)):
        yield Line((("", f"  {text}"),), 4)
    listed = (verdict.runs and verdict.tolerances) or (verdict.mismatch is None and not verdict.interface)
    for name, count in verdict.outputs.items() if listed else ():
        text = f"{count.compared} of {count.elements} elements"
        how = f"proven, {verdict.proven[name]}" if name in verdict.proven else "tested"
        open_text = f", {count.left_out} left out: the standard leaves them undefined" if count.left_out else ""
        yield Line((("", f"  {name}: {how}, {text}{open_text}{_errors(name, verdict)}"),), 4)
    if verdict.tolerances:
        yield Line((("", f"  compared in {verdict.seconds:.1f} s"),), 4)
    for text in notes_of(verdict):
        yield Line((("", f"  {text}"),), 4)


def _errors(name: str, verdict: Verdict) -> str:
    """Return the largest errors of an output that is compared with a tolerance."""
    tolerance, count = verdict.tolerances.get(name), verdict.outputs[name]
    if tolerance is None:
        return ""
    return f"; largest error {count.absolute:.3g}, relative {count.relative:.3g} ({tolerance})"


def as_command(verdict: Verdict) -> Verdict:
    """Return the verdict with Python parameters in its sentences in the syntax of the command line."""
    return replace(
        verdict,
        unsure=[with_command_options(text) for text in verdict.unsure],
        advice=[with_command_options(text) for text in verdict.advice],
        interface=[with_command_options(text) for text in verdict.interface],
        skipped=[(name, with_command_options(reason)) for name, reason in verdict.skipped],
        notes=[with_command_options(text) for text in verdict.notes],
    )


def mismatch_lines(a: str, b: str, mismatch: Mismatch, how: str = "differs") -> Iterator[Line]:
    """Yield the first value that differs, the nodes that make it, the element, and the operands at its position."""
    difference = mismatch.difference
    if not mismatch.value:
        yield Line((("", f"  {b} {difference.b}"),), 4)
        return
    yield Line((("", f"  the first value that {how} is "), ("bold", mismatch.value)), 4)
    if mismatch.site.op:
        yield Line((("", "  made by "), ("cyan", str(mismatch.site))), 4)
    if mismatch.within:
        yield Line((("", f"  inside the subgraph of {', '.join(mismatch.within)}"),), 4)
    for mark, style, item in zip(("    - ", "    + "), ("red", "green"), mismatch.nodes, strict=True):
        if item is not None:
            yield item_line(mark, style, item, 8)
    place = list(difference.index) if difference.index else ""
    much = (
        f" ({difference.elements} of {difference.of} elements {'differ' if how == 'differs' else 'exceed it'})"
        if difference.index
        else ""
    )
    yield Line((("", f"  {mismatch.value}{place} is {difference.a} in {a}"),), 4)
    yield Line((("", f"  {mismatch.value}{place} is {difference.b} in {b}{much}"),), 4)
    for text in mismatch.operands:
        yield Line((("dim", f"    where {text}"),), 6)


def notes_of(verdict: Verdict) -> Iterator[str]:
    """Yield remarks: what was accepted, not run and not reached, who computed what, and what the runtime changes."""
    yield from verdict.accepted
    if verdict.skipped:
        (name, reason), more = verdict.skipped[0], len(verdict.skipped) - 1
        more_text = f", and {more} more" if more else ""
        yield f"not run on inputs {name}{more_text}: {reason}"
    for text in verdict.not_reached[:_MOST_NAMES]:
        yield f"not reached: {text}"
    if len(verdict.not_reached) > _MOST_NAMES:
        yield f"not reached: {len(verdict.not_reached) - _MOST_NAMES} more (--json has all)"
    if verdict.stood_in:
        names = ", ".join(verdict.stood_in)
        yield f"{TITLES[verdict.engine]} cannot run, or would narrow, {names}: the reference implementation ran them"
    if verdict.computed:
        engines = (f"{_WHO[engine]}: {_listed(operators)}" for engine, operators in verdict.computed.items())
        yield f"computed by {'; by '.join(engines)}"
    yield from verdict.notes
    for text in verdict.runtime:
        yield f"note: the runtime changes this value, not the model: {text}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """Return the whole result of verify as data."""
    verdict, mismatch = as_command(verdict), verdict.mismatch
    return {
        "verdict": verdict.outcome,
        "same": verdict.equal,
        "engine": verdict.engine,
        "difference": None if mismatch is None else mismatch_data(mismatch),
        "interface": verdict.interface,
        "unsure": verdict.unsure,
        "advice": verdict.advice,
        "sets": verdict.runs,
        "skipped": [{"set": name, "reason": reason} for name, reason in verdict.skipped],
        "outputs": [
            {
                "name": name,
                "elements": count.elements,
                "compared": count.compared,
                "undefined": count.left_out,
                "proven": verdict.proven.get(name),
                "absolute": number(count.absolute) if name in verdict.tolerances else None,
                "relative": number(count.relative) if name in verdict.tolerances else None,
            }
            for name, count in verdict.outputs.items()
        ],
        "elements": verdict.elements,
        "compared": verdict.compared,
        "undefined": verdict.undefined,
        "accepted": verdict.accepted,
        "not_reached": verdict.not_reached,
        "runtime": verdict.runtime,
        "stood_in": list(verdict.stood_in),
        "computed": {engine: list(operators) for engine, operators in verdict.computed.items()},
        "notes": verdict.notes,
        "seconds": round(verdict.seconds, 3),
    }


def mismatch_data(mismatch: Mismatch) -> dict[str, Any]:
    """Return one difference, with its place in the layout that reports use."""
    return {
        "set": mismatch.inputs,
        "value": mismatch.value,
        "place": asdict(mismatch.site),
        "node_a": mismatch.node_a,
        "node_b": mismatch.node_b,
        **asdict(mismatch.difference),
        "index": list(mismatch.difference.index),
        "operands": list(mismatch.operands),
        "within": list(mismatch.within),
    }
