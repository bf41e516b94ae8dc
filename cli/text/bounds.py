"""The result of bounds, as lines and as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from castsmith.cli.report.data import fault_data
from castsmith.cli.text.terminal import Line, columns, counted
from castsmith.numerics.types import type_name
from castsmith.verification.bounds import Bound, Bounds, Excess, Kind

if TYPE_CHECKING:
    from castsmith.lowering.faults import Fault

_TITLES: dict[Kind, tuple[str, str]] = {
    "nan": ("red", "NaN on the given inputs"),
    "infinite": ("red", "infinite on the given inputs"),
    "overflow": ("red", "can exceed {to}"),
    "vanish": ("yellow", "vanish{es} in {to}"),
    "unknown": ("dim", "unknown"),
}
"""The style and the title of the values with each fault."""
_WIDEST = 48


def bounds_lines(
    bounds: Bounds,
    excess: Sequence[Excess] | None,
    to: str | None,
    most: int | None,
    places: Sequence[Fault] | None = None,
) -> Iterator[Line]:
    """Yield a summary, what the type does not hold, the values with the widest bounds, and the ranges to declare.

    Args:
        bounds: The bounds.
        excess: The values that the type does not hold; None if no type was named.
        to: The type.
        most: The largest number of values in each table; None for all.
        places: Of a model in float16 the nodes that go wrong on inputs; None for another model.
    """
    shares = ", ".join(f"{bounds.count(how)} {how}" for how in ("proven", "measured", "unknown"))
    yield Line((("bold", counted(len(bounds), "value")), ("", f": {shares}")), 2)
    for text in sorted({text for bound in bounds.values() for text in bound.assumes}):
        yield Line((("dim", f"  assumed: {text}"),), 4)
    if places is not None:
        yield from _place_lines(places, most)
    if excess is not None:
        yield from _excess_lines(excess, to or "", most)
    else:
        yield from _table(bounds, most)
    for name, count in bounds.settling[:2]:
        depend = "depends" if count == 1 else "depend"
        text = f"  declare --range {name}=LOW:HIGH: {counted(count, 'unknown value')} {depend} on it"
        yield Line((("", text),), 4)


def _place_lines(places: Sequence[Fault], most: int | None) -> Iterator[Line]:
    if not places:
        yield Line((("green", "  on these inputs float16 gives the same results, apart from rounding"),), 4)
        return
    go = "goes" if len(places) == 1 else "go"
    yield Line((("red", f"  {counted(len(places), 'node')} of this model {go} wrong in float16 on these inputs"),), 4)
    for fault in places[:most]:
        yield Line((("", f"    {fault.place}: {fault.reason}"),), 6)
    if most is not None and len(places) > most:
        yield Line((("dim", f"    {len(places) - most} more (--all prints them, --json has all)"),), 6)
    yield Line((("", "  castsmith convert --to float16 computes them in float, with --rescale in float16"),), 4)


def _table(bounds: Bounds, most: int | None) -> Iterator[Line]:
    names = sorted(bounds, key=lambda name: (bounds[name].how == "unknown", -_size(bounds[name])))
    if most is not None and len(names) > most:
        bounded = [name for name in names if bounds[name].how != "unknown"]
        names = (bounded or names)[:most]
    rows = [(_cut(name), interval_text(bounds[name]), bounds[name].how, _cut(bounds.makers[name])) for name in names]
    for line in columns(rows):
        yield Line((("", line),), 4)
    if len(names) < len(bounds):
        yield Line((("dim", f"  {len(bounds) - len(names)} more (--all prints them, --json has all)"),), 4)


def _excess_lines(excess: Sequence[Excess], to: str, most: int | None) -> Iterator[Line]:
    if not excess:
        yield Line((("green", f"  every value fits {to}"),), 4)
        return
    for kind, (style, title) in _TITLES.items():
        group = [place for place in excess if place.kind == kind]
        if not group:
            continue
        firsts = [place for place in group if place.first]
        counts = f"  {counted(len(group), 'value')} {title.format(to=to, es='es' if len(group) == 1 else '')}"
        causes = "" if len(firsts) == len(group) else f", caused by {len(firsts)} of them"
        yield Line(((style, counts), ("", f"{causes}:")), 4)
        for place in firsts[:most]:
            interval = f"{interval_text(place.bound)} ({place.bound.how})"
            yield Line((("", f"    {_cut(place.value)} {interval}: {place.proposal}"),), 6)
        if most is not None and len(firsts) > most:
            yield Line((("dim", f"    {len(firsts) - most} more (--all prints them, --json has all)"),), 6)


def _size(bound: Bound) -> float:
    return bound.magnitude if not math.isnan(bound.magnitude) else math.inf


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"...{text[3 - _WIDEST :]}"


def interval_text(bound: Bound) -> str:
    """Return the ends of the bounds for people."""
    return f"[{bound.low:.6g}, {bound.high:.6g}]"


def bounds_data(
    bounds: Bounds, excess: Sequence[Excess] | None, places: Sequence[Fault] | None = None
) -> dict[str, Any]:
    """Return the whole result of bounds as data; infinite bounds are null."""
    return {
        "counts": {how: bounds.count(how) for how in ("proven", "measured", "unknown")},
        "values": [{"name": name, "node": bounds.makers[name], **_bound_data(bound)} for name, bound in bounds.items()],
        "exceeding": None
        if excess is None
        else [
            {
                "name": place.value,
                "node": place.node,
                "kind": place.kind,
                "first": place.first,
                "cause": place.cause,
                "proposal": place.proposal,
            }
            for place in excess
        ],
        "faults": None if places is None else [fault_data(fault) for fault in places],
        "declare": [{"input": name, "unknown_values": count} for name, count in bounds.settling],
    }


def _bound_data(bound: Bound) -> dict[str, Any]:
    return {
        "low": _number(bound.low),
        "high": _number(bound.high),
        "how": bound.how,
        "type": None if bound.dtype is None else type_name(bound.dtype),
        "assumes": list(bound.assumes),
        "depends_on": list(bound.depends_on),
        "measured": None if bound.measured is None else [_number(end) for end in bound.measured],
        "margin": None if bound.margin is None else _number(bound.margin),
        "may_be_nan": bound.may_be_nan,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
