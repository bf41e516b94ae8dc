"""Inputs and outputs of two graphs: the pairs that correspond, and how they differ.

Those of the main graph correspond by name, those of subgraphs and functions by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir

from castsmith.ir.records import Item, Site
from castsmith.ir.text import Types, type_text

# One difference between two models, as plain data.


@dataclass(frozen=True)
class Change:
    """One difference between two models.

    Attributes:
        kind: The stable code of the difference.
        place: The graph and node; empty for the model as a whole.
        subject: What differs there.
        before: The text of the first side; empty if it has no counterpart.
        after: The text of the second side; empty if it has no counterpart.
        detail: The size of the difference.
        removed: The node or value of the first side in short form, if there is one.
        made: The node or value of the second side in short form, if there is one.
        site: The node, if the difference is at one.
    """

    kind: str
    place: str
    subject: str
    before: str
    after: str
    detail: str = ""
    removed: Item | None = None
    made: Item | None = None
    site: Site | None = None


@dataclass
class GraphComparison:
    """The changes found so far, and the nodes counted so far; `types` are those with which nodes are shown."""

    types: Types = field(default_factory=dict[onnx_ir.Value, onnx_ir.DataType])
    changes: list[Change] = field(default_factory=list[Change])
    same: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0


Value = onnx_ir.Value


@dataclass(frozen=True)
class Interface:
    """Pairs of inputs (or outputs), and those of one side alone. `named`: names are part of the interface."""

    pairs: tuple[tuple[Value, Value], ...]
    removed: tuple[Value, ...]
    added: tuple[Value, ...]
    named: bool


def pair_by_name(a: Sequence[Value], b: Sequence[Value]) -> Interface:
    """Pair by name; then pair the rest by position and type, as renamed."""
    names = {value.name: value for value in b}
    partner = {value: names[value.name] for value in a if value.name in names}
    paired = set(partner.values())
    for left, right in zip(a, b, strict=False):
        if left not in partner and right not in paired and left.dtype == right.dtype:
            partner[left] = right
            paired.add(right)
    return Interface(
        tuple(partner.items()),
        tuple(value for value in a if value not in partner),
        tuple(value for value in b if value not in paired),
        named=True,
    )


def pair_by_index(a: Sequence[Value], b: Sequence[Value]) -> Interface:
    """Pair by position."""
    count = min(len(a), len(b))
    return Interface(tuple(zip(a, b, strict=False)), tuple(a[count:]), tuple(b[count:]), named=False)


def interface_changes(
    noun: str, place: str, interface: Interface, a: Sequence[Value], b: Sequence[Value]
) -> Iterator[Change]:
    """Yield inputs or outputs (`noun`) that are added, removed, renamed, of another type, or in another order."""
    for value in interface.removed:
        yield Change(f"{noun}-removed", place, f"{noun} {value.name}", type_text(value), "")
    for value in interface.added:
        yield Change(f"{noun}-added", place, f"{noun} {value.name}", "", type_text(value))
    for left, right in interface.pairs:
        if interface.named and left.name != right.name:
            yield Change(f"{noun}-renamed", place, f"name of {noun} {left.name}", f"{left.name}", f"{right.name}")
        if types_differ(left, right, strict=interface.named):
            yield Change(f"{noun}-type-changed", place, f"{noun} {left.name}", type_text(left), type_text(right))
    partner = dict(interface.pairs)
    order = [value for value in b if value not in interface.added]
    if interface.named and [partner[value] for value in a if value in partner] != order:
        before, after = (", ".join(str(value.name) for value in side) for side in (a, b))
        yield Change(f"{noun}-order-changed", place, f"order of {noun}s", before, after)


def types_differ(a: Value, b: Value, *, strict: bool) -> bool:
    """True if the declared types differ; unless `strict`, a type that only one side declares does not count."""
    if strict:
        return type_text(a) != type_text(b)
    if a.type is not None and b.type is not None and a.type != b.type:
        return True
    if a.shape is None or b.shape is None:
        return False
    if a.shape.rank() != b.shape.rank():
        return True
    return any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a.shape, b.shape, strict=True))
