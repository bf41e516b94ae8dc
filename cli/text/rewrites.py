"""Rewrites and refusals as lines, grouped by pass and rule: a small before and after in ONNX text, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from castsmith.cli.report.data import effect_text
from castsmith.cli.report.savings import count_by_rule
from castsmith.cli.text.terminal import Line, Part, counted
from castsmith.ir.records import Effect, Item, NodeItem, Refusal, Rewrite, TextItem, ValueItem
from castsmith.numerics.types import ELEMENT_TYPES, type_name

_HANG = 8

_LONG, _MOST_PLACES = 6, 4
"""Lines from which a rewrite is long, and the number of repeated places that are named."""

_SHOWN_LONG, _SHOWN_SHORT = 1, 3
"""Number of similar records shown: of long rewrites, and of others."""

CODE_PIECES = 4
"""Largest number of terminal lines per node."""

_ENDS = 4
"""Nodes of a converted region that are shown at each end."""

KEPT_NODE = "convert-node"
"""The code of a node that a conversion keeps in its type, which is no failure."""

_TYPES = frozenset(map(type_name, ELEMENT_TYPES))

Form = tuple[str, ...]
R = TypeVar("R", Rewrite, Refusal)


def rewrite_lines(rewrites: Sequence[Rewrite], *, full: bool = False) -> Iterator[Line]:
    """Yield each rewrite: its place, the removed items (-), the new items (+), and the reason.

    Unless `full`, of rewrites that differ only in names and shapes the first represent all.
    """
    for record, heading, similar in _grouped(rewrites, rewrite_form, full=full):
        yield from heading
        yield Line((("", "  "), ("cyan", str(record.site))), 4)
        ends = _ENDS if record.effect is Effect.CONVERTED and not full else len(record.removed) + len(record.made)
        yield from _side("    - ", "red", record.removed, ends)
        yield from _side("    + ", "green", record.made, ends)
        yield Line((("dim", f"    {record.reason} [{effect_text(record)}]"),), 4)
        if similar:
            yield Line((("dim", f"    and in the same way (shown by --diff=full), {_places(similar)}"),), 4)


def _side(mark: str, style: str, items: Iterable[Item], ends: int) -> Iterator[Line]:
    """Yield the items of one side, of many only so many at each end: a region may be a whole model."""
    lines = list(_by_line(items))
    hidden = len(lines) - 2 * ends
    for place, item in enumerate(lines):
        if hidden <= 1 or place < ends or place >= len(lines) - ends:
            yield item_line(mark, style, item, _HANG)
        elif place == ends:
            yield Line(((style, mark), ("dim", f"{hidden} more (shown by --diff=full)")), 4)


def refusal_lines(refusals: Sequence[Refusal], kept_in: str, *, full: bool = False) -> Iterator[Line]:
    """Yield each refusal: its place, the reason, and a witness; unless `full`, of many with one reason the first.

    kept_in: The type in which nodes are kept.
    """
    for record, heading, similar in _grouped(refusals, refusal_form, full=full):
        yield from heading
        yield Line((("", "  "), ("cyan", str(record.site))), 4)
        witness = f" (example value: {record.witness})" if record.witness else ""
        is_kept = record.rule == KEPT_NODE
        done = f"kept in {kept_in}" if is_kept else "skipped"
        yield Line((("yellow", f"    {done}: {record.reason}"), ("", witness)), 4)
        if similar:
            also = "also kept" if is_kept else "also skipped"
            yield Line((("dim", f"    {also}, for the same reason (shown by --diff=full), {_places(similar)}"),), 4)


def rewrite_form(record: Rewrite) -> Form:
    """Return a key for rewrites that differ only in names and shapes."""
    sides = (*map(_gist, record.removed), "->", *map(_gist, record.made))
    length = sum(1 for _ in _by_line(record.made))
    return ("long" if length >= _LONG else "short", *words_of(record.reason), *sides)


def _gist(item: Item) -> str:
    """Return a node without names and shapes, a value without name and shape; for text, that it is text."""
    if isinstance(item, NodeItem):
        return item.call
    return item.role or item.element if isinstance(item, ValueItem) else "text"


def refusal_form(record: Refusal) -> Form:
    """Return a key for refusals for the same reason."""
    return ("short", *words_of(record.reason), record.witness)


def words_of(reason: str) -> Iterator[str]:
    """Return the words of a reason, without punctuation, names of values and numbers."""
    words = (word.strip(":;,.()") for word in reason.split())
    return (word for word in words if word.isalpha() or word in _TYPES)


def _places(records: Sequence[Rewrite | Refusal]) -> str:
    names = [record.site.name or record.site.op for record in records[:_MOST_PLACES]]
    more = len(records) - len(names)
    more_text = f" and {counted(more, 'other')}" if more else ""
    return f"{len(records)} more: {', '.join(names)}{more_text}"


def _grouped(
    records: Sequence[R], form_of: Callable[[R], Form], *, full: bool
) -> Iterator[tuple[R, list[Line], list[R]]]:
    """Return the records to show, each with its heading, if any, and the similar records that are not shown."""
    counts = count_by_rule(records)
    groups: dict[tuple[str, str], list[R]] = {key: [] for key in counts}
    for record in records:
        groups[record.pass_name, record.rule].append(record)
    for index, ((name, rule), group) in enumerate(groups.items()):
        gap = [Line(())] if index else []
        heading = [*gap, Line((("bold", f"{name}, {rule} ({len(group)})"),))]
        alike: dict[Form, list[int]] = {}
        for place, record in enumerate(group):
            alike.setdefault((str(len(alike)),) if full else form_of(record), []).append(place)
        for place, similar in _in_order(alike):
            yield group[place], heading, [group[position] for position in similar]
            heading = []


def _in_order(alike: Mapping[Form, Sequence[int]]) -> list[tuple[int, Sequence[int]]]:
    """Return the places of the shown records of a group in order; the last one of each form carries the others."""
    shown: list[tuple[int, Sequence[int]]] = []
    for form, places in alike.items():
        most = _SHOWN_LONG if form[0] == "long" else _SHOWN_SHORT
        count = most if len(places) > most + (form[0] != "long") else len(places)
        shown += [(place, ()) for place in places[: count - 1]]
        shown.append((places[count - 1], places[count:]))
    return sorted(shown, key=lambda entry: entry[0])


def _by_line(items: Iterable[Item]) -> Iterator[Item]:
    """Return the items, a text of several lines as one item each."""
    for item in items:
        if isinstance(item, TextItem):
            yield from map(TextItem, filter(None, item.code.split("\n")))
        else:
            yield item


def item_line(mark: str, style: str, item: Item, hang: int) -> Line:
    """Return the item after a mark, its types dim."""
    parts: list[Part] = [(style, f"{mark}{item.code}")]
    if isinstance(item, NodeItem):
        parts.append(("dim", f"  # {item.comment}"))
    return Line(tuple(parts), hang, CODE_PIECES)
