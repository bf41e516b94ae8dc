"""A comparison as lines: changes by place, unchanged nodes only as a count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from castsmith.cli.text.alike import SHOWN, Form, folded, more_text
from castsmith.cli.text.rewrites import item_line
from castsmith.cli.text.terminal import Line, Part, counted
from castsmith.ir.records import Item, NodeItem, ValueItem
from castsmith.verification.diff.interface import Change
from castsmith.verification.diff.models import ModelDiff

_HANG = 6

_MOST_OPERATORS = 8


def comparison_lines(a: str, b: str, differences: ModelDiff, *, full: bool = False) -> Iterator[Line]:
    """Yield the differences, and at the end their number; only the latter for equal models.

    Unless `full`, of places that changed alike except for names and shapes only the first are shown; constants with
    other values are always shown.
    """
    if differences.changes:
        yield Line((("red", f"--- {a}"),))
        yield Line((("green", f"+++ {b}"),))
    converted = Counter[tuple[str, str]]() if full else _converted(differences.changes)
    for (before, after), count in converted.items():
        text = f"converted from {before} to {after}: {counted(count, 'constant')} (shown by --full)"
        yield Line((("", text),), 4)
    changes = [change for change in differences.changes if _types(change) not in converted]
    places, regions = _without_regions(_by_place(changes), full=full)
    for graph, before, after, nodes in regions:
        text = f"{graph}: converted from {before} to {after}: {counted(len(nodes), 'node')}, {nodes[0]} to {nodes[-1]}"
        yield Line((("", f"{text} (shown by --full)"),), 4)
    place = ""
    forms = ((str(index),) if full else _form(index, group) for index, group in enumerate(places))
    for group, similar in folded(places, forms):
        if group[0].place != place:
            place = group[0].place
            yield Line((("bold", group[0].place),), 4)
        for change in group:
            yield from _change_lines(change)
        if similar:
            place = ""
            yield Line(
                (("dim", f"  and in the same way (shown by --full), {more_text([more[0].site for more in similar])}"),),
                4,
            )
    for text in _operators(differences.changes):
        yield Line((("", text),), 4)
    yield Line((("", differences.summary()),), 2)


def _converted(changes: Sequence[Change]) -> Counter[tuple[str, str]]:
    """Count the constants that changed their element type, by both types, if there are more than a few."""
    counts = Counter(pair for change in changes if (pair := _types(change)) is not None)
    return Counter({pair: count for pair, count in counts.items() if count > SHOWN})


def _types(change: Change) -> tuple[str, str] | None:
    """Return the element types of a constant before and after, None for other changes and for one type."""
    before, after = _element(change.removed), _element(change.made)
    constant = change.kind == "constant-changed"
    return (before, after) if constant and before and after and before != after else None


def _by_place(changes: Iterable[Change]) -> list[list[Change]]:
    """Group the changes of one node. Nodes of one name share a place, so each start of a node begins a group."""
    places: list[list[Change]] = []
    for change in changes:
        starts = change.kind in ("node-added", "node-removed", "operator-changed")
        if starts or not places or places[-1][0].place != change.place:
            places.append([])
        places[-1].append(change)
    return places


Region = tuple[str, str, str, list[str]]
"""A graph, the element types before and after, and the nodes between two other changes."""


def _without_regions(places: list[list[Change]], *, full: bool) -> tuple[list[list[Change]], list[Region]]:
    """Return the places without the runs of nodes that changed one element type for another and nothing else."""
    runs: list[tuple[tuple[str, str, str] | None, list[list[Change]]]] = []
    for group in places:
        key = None if full else _retyped_from(group)
        if not runs or runs[-1][0] != key:
            runs.append((key, []))
        runs[-1][1].append(group)
    remaining: list[list[Change]] = []
    regions: list[Region] = []
    for key, groups in runs:
        if key is None or len(groups) <= SHOWN:
            remaining += groups
        else:
            sites = [group[0].site for group in groups]
            regions.append((*key, [site.name or site.op for site in sites if site is not None]))
    return remaining, regions


def _retyped_from(group: list[Change]) -> tuple[str, str, str] | None:
    """Return the graph of a node whose results all changed one element type for another, and both types."""
    pairs = {(_element(change.removed), _element(change.made)) for change in group}
    site = group[0].site
    if site is None or len(pairs) > 1 or any(change.kind != "type-changed" for change in group):
        return None
    ((before, after),) = pairs
    return (site.graph, before, after) if before and after and before != after else None


def change_forms(changes: Sequence[Change]) -> list[Form]:
    """Return for each change a key that changes alike share: those of places that changed alike, in turn."""
    forms: list[Form] = []
    for index, group in enumerate(_by_place(changes)):
        form = _form(index, group)
        forms += [(*form, str(turn)) for turn in range(len(group))]
    return forms


_ALIKE = ("node-added", "node-removed", "operator-changed", "operand-changed", "type-changed", "attribute-changed")


def _form(index: int, group: list[Change]) -> Form:
    """Return a key for places whose changes differ only in names and shapes, or the place itself."""
    if not all(change.kind in _ALIKE or _retyped(change) for change in group):
        return (str(index),)
    site = group[0].site
    parts: list[str] = [group[0].place if site is None else site.op]
    for change in group:
        subject = change.subject if change.kind in ("operand-changed", "attribute-changed") else ""
        sides = (change.before, change.removed), (change.after, change.made)
        parts += (change.kind, subject, *(_gist(change, text, item) for text, item in sides))
    return tuple(parts)


def _retyped(change: Change) -> bool:
    """True if a constant changed its element type; one that changed only its values is shown individually."""
    if change.kind != "constant-changed":
        return False
    return _element(change.removed) != _element(change.made) or (not change.before) != (not change.after)


def _element(item: Item | None) -> str:
    return item.element if isinstance(item, ValueItem) else ""


def _gist(change: Change, text: str, item: Item | None) -> str:
    """Return a node without names and shapes, an operand without name, a type without shape."""
    if isinstance(item, NodeItem):
        return item.call
    if isinstance(item, ValueItem):
        return item.role if change.kind == "operand-changed" else item.element
    return text if change.kind in ("attribute-changed", "constant-changed") else str(bool(text))


def _operators(changes: Sequence[Change]) -> Iterator[str]:
    """Return the operators of the nodes removed and added, if there are more than a few."""
    for kind, word in (("node-removed", "removed"), ("node-added", "added")):
        nodes = [change.removed or change.made for change in changes if change.kind == kind]
        counts = Counter(node.operator for node in nodes if isinstance(node, NodeItem))
        if len(nodes) > SHOWN:
            most = [f"{number} {name}" for name, number in counts.most_common(_MOST_OPERATORS)]
            more = len(counts) - len(most)
            others = f" and {counted(more, 'other kind')}" if more > 0 else ""
            yield f"{word}: {', '.join(most)}{others}"


def _change_lines(change: Change) -> Iterator[Line]:
    indent = "  " if change.place else ""
    if change.subject in ("node", "operator"):
        for mark, style, item in (("-", "red", change.removed), ("+", "green", change.made)):
            if item is not None:
                yield item_line(f"{indent}{mark} ", style, item, _HANG)
        return
    parts: list[Part] = [("", f"{indent}{change.subject}: ")]
    if not change.before or not change.after:
        parts.append(("red", f"- {change.before}") if change.before else ("green", f"+ {change.after}"))
    elif change.before == change.after:
        parts.append(("", change.before))
    else:
        parts += [("red", change.before), ("", " -> "), ("green", change.after)]
    if change.detail:
        style, last = parts.pop()
        parts += [(style, f"{last};"), ("", f" {change.detail}")]
    yield Line(tuple(parts), _HANG)
