"""Rewrites and refusals as lines, grouped by pass and rule: a small before and after in ONNX text, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from castsmith.cli.report.data import effect_text
from castsmith.cli.report.savings import count_by_rule
from castsmith.cli.text.alike import Form, folded, more_text
from castsmith.cli.text.terminal import Line, Part
from castsmith.ir.records import Effect, Item, NodeItem, Refusal, Rewrite, Site, TextItem, ValueItem
from castsmith.numerics.types import ELEMENT_TYPES, type_name

_HANG = 8

_LONG = 6
"""Lines from which a rewrite is long."""

CODE_PIECES = 4
"""Largest number of terminal lines per node."""

_ENDS = 4
"""Nodes of a converted region that are shown at each end."""

KEPT_NODE = "convert-node"
"""The code of a node that a conversion keeps in its type, which is no failure."""

_TYPES = frozenset(map(type_name, ELEMENT_TYPES))

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
            yield Line((("dim", f"    and in the same way (shown by --diff=full), {more_text(similar)}"),), 4)


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
            yield Line((("dim", f"    {also}, for the same reason (shown by --diff=full), {more_text(similar)}"),), 4)


def rewrite_form(record: Rewrite) -> Form:
    """Return a key for rewrites that differ only in names and shapes."""
    return (*words_of(record.reason), *map(_gist, record.removed), "->", *map(_gist, record.made))


def _gist(item: Item) -> str:
    """Return a node without names and shapes, a value without name and shape; for text, that it is text."""
    if isinstance(item, NodeItem):
        return item.call
    return item.role or item.element if isinstance(item, ValueItem) else "text"


def refusal_form(record: Refusal) -> Form:
    """Return a key for refusals for the same reason."""
    return (*words_of(record.reason), record.witness)


def words_of(reason: str) -> Iterator[str]:
    """Return the words of a reason, without punctuation, names of values and numbers."""
    words = (word.strip(":;,.()") for word in reason.split())
    return (word for word in words if word.isalpha() or word in _TYPES)


def _grouped(
    records: Sequence[R], form_of: Callable[[R], Form], *, full: bool
) -> Iterator[tuple[R, list[Line], list[Site]]]:
    """Return the records to show, each with its heading, if any, and the places of those alike that are not shown."""
    counts = count_by_rule(records)
    groups: dict[tuple[str, str], list[R]] = {key: [] for key in counts}
    for record in records:
        groups[record.pass_name, record.rule].append(record)
    for index, ((name, rule), group) in enumerate(groups.items()):
        gap = [Line(())] if index else []
        heading = [*gap, Line((("bold", f"{name}, {rule} ({len(group)})"),))]
        forms = map(form_of, group) if not full else ((str(index),) for index in range(len(group)))
        for record, similar in folded(group, forms, _is_long):
            yield record, heading, [more.site for more in similar]
            heading = []


def _is_long(record: Rewrite | Refusal) -> bool:
    return isinstance(record, Rewrite) and sum(1 for _ in _by_line(record.made)) >= _LONG


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
