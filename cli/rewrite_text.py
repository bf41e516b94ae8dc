"""Rewrites and refusals as lines, grouped by pass and rule: a small before and after in ONNX text, and the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from castsmith.cli.plain import one_line
from castsmith.cli.report import count_by_rule, effect_name
from castsmith.cli.wrapping import Line, Part
from castsmith.ir.records import Refusal, Rewrite

_HANG = 8

_LONG, _MOST_PLACES = 6, 4
"""Lines from which a rewrite is long, and how many of the places where it is repeated are named."""

_CALL = re.compile(r" = (\S+(?: <.*?>)?) \(")

CODE_PIECES = 4
"""How many lines of a terminal one node may take."""


def rewrite_lines(rewrites: Sequence[Rewrite], *, full: bool = False) -> Iterator[Line]:
    """Each rewrite: where, what was there (-), what is there now (+), and why.

    Unless `full`, of long ones that differ in nothing but names and shapes the first stands for all.
    """
    alike = Counter(form for record in rewrites if not full and (form := _form(record)) is not None)
    shown: set[tuple[str, ...]] = set()
    for record, heading in _grouped(rewrites):
        yield from heading
        assert isinstance(record, Rewrite)
        form = None if full else _form(record)
        if form in shown:
            continue
        yield Line((("", "  "), ("cyan", one_line(str(record.site)))), 4)
        yield from _code_lines("-", "red", record.before)
        yield from _code_lines("+", "green", record.after)
        yield Line((("dim", f"    {one_line(record.reason)} [{effect_name(record)}]"),), 4)
        if form is not None and alike[form] > 1:
            shown.add(form)
            others = [other for other in rewrites if other is not record and _form(other) == form]
            yield Line((("dim", f"    and in the same way (--diff=full shows it), {_places(others)}"),), 4)


def _form(record: Rewrite) -> tuple[str, ...] | None:
    """What long rewrites have in common that differ in names and shapes alone; None for short ones."""
    lines = record.after.split("\n")
    if len(lines) < _LONG:
        return None
    calls = (found[1] if (found := _CALL.search(line)) else line for line in (*record.before.split("\n"), *lines))
    return record.pass_name, record.rule, record.reason, *calls


def _places(records: Sequence[Rewrite]) -> str:
    names = [one_line(record.site.node or record.site.op) for record in records[:_MOST_PLACES]]
    more = len(records) - len(names)
    return f"{len(records)} more: {', '.join(names)}{f' and {more} others' if more else ''}"


def refusal_lines(refusals: Sequence[Refusal]) -> Iterator[Line]:
    """Each refusal: where, why not, and a value that shows it."""
    for record, heading in _grouped(refusals):
        yield from heading
        assert isinstance(record, Refusal)
        yield Line((("", "  "), ("cyan", one_line(str(record.site)))), 4)
        witness = f" (witness: {one_line(record.witness)})" if record.witness else ""
        yield Line((("yellow", f"    not done: {one_line(record.reason)}"), ("", witness)), 4)


def _grouped(records: Sequence[Rewrite | Refusal]) -> Iterator[tuple[Rewrite | Refusal, list[Line]]]:
    """Each record with the heading to print ahead of it, which is there for the first of a pass and rule."""
    counts = count_by_rule(records)
    order = {key: index for index, key in enumerate(counts)}
    ordered = sorted(records, key=lambda record: order[record.pass_name, record.rule])
    for (name, rule), group in groupby(ordered, key=lambda record: (record.pass_name, record.rule)):
        gap = [Line(())] if order[name, rule] else []
        heading = [*gap, Line((("bold", f"{name}, {rule} ({counts[name, rule]})"),))]
        for record in group:
            yield record, heading
            heading = []


def _code_lines(mark: str, style: str, text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        code, separator, types = one_line(line).partition("  # ")
        parts: list[Part] = [(style, f"    {mark} {code}")]
        if separator:
            parts.append(("dim", f"{separator}{types}"))
        yield Line(tuple(parts), _HANG, CODE_PIECES)
