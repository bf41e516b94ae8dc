"""Records that are alike: the first represent all, and the others are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from castsmith.cli.text.terminal import counted
from castsmith.ir.records import Site

Form = tuple[str, ...]
"""A key that records share if they are alike."""
Record = TypeVar("Record")

SHOWN = 3
"""Records of a form that are shown; one more is shown too, before it would be counted."""
_MOST_PLACES = 4


def folded(
    records: Sequence[Record], forms: Iterable[Form], is_long: Callable[[Record], bool] = lambda _: False
) -> list[tuple[Record, list[Record]]]:
    """Return the records to show, in order; the last one of each form carries those that are not shown.

    Args:
        records: The records.
        forms: The form of each.
        is_long: True for a record that alone represents all of its form.
    """
    alike: dict[Form, list[int]] = {}
    for index, form in enumerate(forms):
        alike.setdefault(form, []).append(index)
    hidden: dict[int, list[Record]] = {}
    for indexes in alike.values():
        long = is_long(records[indexes[0]])
        most, enough = (1, 1) if long else (SHOWN, SHOWN + 1)
        count = len(indexes) if len(indexes) <= enough else most
        hidden.update((index, []) for index in indexes[:count])
        hidden[indexes[count - 1]] = [records[index] for index in indexes[count:]]
    return [(records[index], hidden[index]) for index in sorted(hidden)]


def more_text(sites: Sequence[Site | None]) -> str:
    """Return how many places are not shown, and the names of some."""
    names = [site.name or site.op for site in sites[:_MOST_PLACES] if site is not None]
    others = f" and {counted(len(sites) - len(names), 'other')}" if len(sites) > len(names) else ""
    return f"{len(sites)} more: {', '.join(names)}{others}"
