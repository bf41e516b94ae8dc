"""The lines of a comparison, made of changes at each limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from castsmith.cli.text.diff import (
    _form,  # pyright: ignore[reportPrivateUsage]
    _retyped_from,  # pyright: ignore[reportPrivateUsage]
    _types,  # pyright: ignore[reportPrivateUsage]
    change_forms,
    comparison_lines,
)
from castsmith.ir.records import Item, NodeItem, Site, ValueItem
from castsmith.verification.diff.interface import Change
from castsmith.verification.diff.models import ModelDiff
from tests.cli.helpers import marked
from tests.sampling import check_all


def lines(changes: list[Change], *, full: bool = False) -> list[str]:
    """Return what is said between the names and the sum."""
    head, *said, end = (
        marked(line) for line in comparison_lines("A", "B", ModelDiff((*changes,), 1, 2, 3, 4), full=full)
    )
    assert head == "<red>--- A"
    assert said.pop(0) == "<green>+++ B"
    count = f"{len(changes)} difference{'' if len(changes) == 1 else 's'}"
    assert end == f"{count}; nodes: 1 the same, 2 changed, 3 added, 4 removed|2"
    return said


def test_equal_models_have_one_line() -> None:
    same = [marked(line) for line in comparison_lines("A", "B", ModelDiff((), 3, 0, 0, 0))]
    assert same == ["the same: 3 nodes and everything else|2"]


ONE = [
    (Change("ir-version-changed", "", "IR version", "9", "10"), ["IR version: <red>9<> -> <green>10|6"]),
    (Change("function-added", "f", "function", "", "f"), ["<bold>f|4", "  function: <green>+ f|6"]),
    (Change("function-removed", "f", "function", "f", ""), ["<bold>f|4", "  function: <red>- f|6"]),
    (
        Change("constant-changed", "g", "constant w", "float[2]", "float[2]", "1 of 2 elements differ"),
        ["<bold>g|4", "  constant w: <>float[2];<> 1 of 2 elements differ|6"],
    ),
    (
        Change("constant-changed", "g", "constant w", "float[2]", "half[2]", "the same"),
        ["<bold>g|4", "  constant w: <red>float[2]<> -> <green>half[2];<> the same|6"],
    ),
    (
        Change("constant-changed", "g", "constant w", "float[2]", "", "unused"),
        ["<bold>g|4", "  constant w: <red>- float[2];<> unused|6"],
    ),
]


def require_lines(change: Change, said: list[str]) -> None:
    assert lines([change]) == lines([change], full=True) == said


def test_one_change() -> None:
    check_all(require_lines, ONE)


def node(index: int, op: str, element: str = "float", **attributes: str) -> NodeItem:
    operand, result = ValueItem(f"x{index}", element, f"[{index}]"), ValueItem(f"y{index}", element)
    return NodeItem(op, (operand,), (result,), tuple(attributes.items()), "", f"n{index}")


def replaced(index: int, before: NodeItem, after: NodeItem) -> Change:
    site = Site("g", f"n{index}", before.op_type)
    return Change("operator-changed", str(site), "operator", before.op_type, after.op_type, "", before, after, site)


def test_a_node_is_shown_before_and_after_with_its_types() -> None:
    (place, gone, new) = lines([replaced(7, node(7, "Relu"), node(7, "Cast", to="float16"))])
    assert place == "<bold>g: n7 (Relu)|4"
    assert gone == "<red>  - y7 = Relu (x7)<dim>  # (float[7]) -> float|6"
    assert new == "<green>  + y7 = Cast <to = float16> (x7)<dim>  # (float[7]) -> float|6"


def require_folded(count: int, shown: int, more: str) -> None:
    changes = [replaced(index, node(index, "Relu"), node(index, "Abs")) for index in range(count)]
    said = lines(changes)
    assert [line for line in said if line.startswith("<bold>")] == [
        f"<bold>g: n{index} (Relu)|4" for index in range(shown)
    ]
    assert said[3 * shown :] == ([f"<dim>  and in the same way (shown by --full), {more}|4"] if more else [])
    assert len(lines(changes, full=True)) == 3 * count


def test_places_that_changed_alike_are_counted() -> None:
    check_all(
        require_folded, [(3, 3, ""), (4, 4, ""), (5, 3, "2 more: n3, n4"), (8, 3, "5 more: n3, n4, n5, n6 and 1 other")]
    )


def constant(index: int, before: Item, after: Item) -> Change:
    return Change("constant-changed", f"g{index}", f"constant w{index}", "a", "b", "", before, after)


def test_constants_that_are_converted_are_counted_beyond_three() -> None:
    pairs = [(ValueItem(f"w{index}", "float", "[2]"), ValueItem(f"w{index}", "float16", "[2]")) for index in range(4)]
    changes = [constant(index, *pair) for index, pair in enumerate(pairs)]
    assert len(lines(changes[:3])) == 6
    assert lines(changes) == ["converted from float to float16: 4 constants (shown by --full)|4"]
    assert len(lines(changes, full=True)) == 8
    same = [constant(index, before, before) for index, (before, _) in enumerate(pairs)]
    assert len(lines(same)) == 8
    back = [constant(index, after, before) for index, (before, after) in enumerate(pairs)]
    assert [line.partition(":")[0] for line in lines([*changes, *back])] == [
        "converted from float to float16", "converted from float16 to float",
    ]  # fmt: skip


def retyped(index: int, before: str = "float", after: str = "float16", graph: str = "g", node: str = "n") -> Change:
    site = Site(graph, f"{node}{index}" if node else "", "Relu", f"y{index}")
    items = ValueItem(f"y{index}", before), ValueItem(f"y{index}", after)
    return Change("type-changed", str(site), f"type of y{index}", before, after, "", *items, site)


def test_a_region_that_is_converted_is_one_line_beyond_three_nodes() -> None:
    run = [retyped(index) for index in range(4)]
    region = "g: converted from float to float16: 4 nodes, n0 to n3 (shown by --full)|4"
    assert lines(run) == [region]
    assert len(lines(run[:3])) == 6
    assert len(lines(run, full=True)) == 8
    assert lines([retyped(index, node="") for index in range(4)]) == [region.replace("n0 to n3", "y0 to y3")]
    for other in (retyped(9, after="double"), retyped(9, before="int8"), retyped(9, graph="h")):  # each ends the region
        said = lines([*run, other, *run])
        assert said[:2] == [region, region]
        assert len(said) == 4
    for before, after in (("", "float"), ("float", ""), ("float", "float")):  # unknown types, or one
        odd = [retyped(index, before, after) for index in range(5, 9)]
        assert lines([*run, *odd])[0] == region
        assert not [line for line in lines(odd) if "converted" in line]
    no_site = replace(run[0], place="p", site=None)
    assert len(lines([no_site] * 4)) == 5  # one place
    operands = [Change("operand-changed", change.place, "operand 0", "a", "b") for change in run]
    mixed = [change for pair in zip(run, operands, strict=True) for change in pair]
    assert not any("converted" in line for line in lines(mixed))


def test_the_operators_of_nodes_added_and_removed_are_counted_beyond_three() -> None:
    def one_side(kind: str, op: str, index: int) -> Change:
        item, site = node(index, op), Site("g", f"n{index}", op)
        sides = (item, None) if kind == "node-removed" else (None, item)
        return Change(kind, str(site), "node", "a" if sides[0] else "", "b" if sides[1] else "", "", *sides, site)

    kinds = ["Exp", "Exp", "Sin", "Cos", "Tan", "Abs", "Neg", "Erf", "Relu", "Ceil", "Sqrt"]
    for count, text in (
        (3, None), (4, "2 Exp, 1 Sin, 1 Cos"), (9, "2 Exp, 1 Sin, 1 Cos, 1 Tan, 1 Abs, 1 Neg, 1 Erf, 1 Relu"),
        (10, "2 Exp, 1 Sin, 1 Cos, 1 Tan, 1 Abs, 1 Neg, 1 Erf, 1 Relu and 1 other kind"),
        (11, "2 Exp, 1 Sin, 1 Cos, 1 Tan, 1 Abs, 1 Neg, 1 Erf, 1 Relu and 2 other kinds"),
    ):  # fmt: skip
        for kind, word, style in (("node-removed", "removed", "<red>  - "), ("node-added", "added", "<green>  + ")):
            said = lines([one_side(kind, op, index) for index, op in enumerate(kinds[:count])])
            assert sum(line.startswith(style) for line in said) == count
            assert [line for line in said if line.startswith(word)] == ([] if text is None else [f"{word}: {text}|4"])


def form(*changes: Change) -> object:
    return change_forms(changes)[0]


def test_what_makes_changes_alike() -> None:
    """Names and shapes do not count; operators, attributes, types, values and operands do."""
    site, other = Site("g", "n0", "Relu"), Site("h", "n1", "Relu")

    def at(site: Site, kind: str, subject: str, before: str, after: str, *items: Item) -> Change:
        removed, made = items or (None, None)
        return Change(kind, str(site), subject, before, after, "", removed, made, site)

    def operand(site: Site, place: int, before: str, after: str, *roles: str) -> Change:
        items = [ValueItem(name, role=role) for name, role in zip((before, after), roles, strict=False)]
        return at(site, "operand-changed", f"operand {place}", before, after, *items)

    relu = replaced(0, node(0, "Relu"), node(0, "Abs"))
    axis = at(site, "attribute-changed", "axis", "1", "2")
    alike = [
        (relu, replaced(1, node(1, "Relu"), node(1, "Abs"))),
        (axis, at(other, "attribute-changed", "axis", "1", "2")),
        (operand(site, 0, "a", "b"), operand(other, 0, "c", "d")),
        (operand(site, 0, "a", "b", "Relu", "Abs"), operand(other, 0, "c", "d", "Relu", "Abs")),
        (retyped(0), retyped(1, graph="h")),
    ]
    for one, two in alike:
        assert form(one) == form(two)
    different = [
        (relu, replaced(0, node(0, "Relu"), node(0, "Neg"))),
        (replaced(0, node(0, "Cast", to="a"), node(0, "Abs")), replaced(0, node(0, "Cast", to="b"), node(0, "Abs"))),
        (axis, at(site, "attribute-changed", "axis", "1", "3")),
        (axis, at(site, "attribute-changed", "keep", "1", "2")),
        (operand(site, 0, "a", "b"), operand(site, 1, "a", "b")),
        (operand(site, 0, "a", "b"), operand(site, 0, "a", "")),
        (operand(site, 0, "a", "b", "Relu", "Abs"), operand(site, 0, "a", "b", "Relu", "Exp")),
        (retyped(0), retyped(0, after="double")),
    ]
    for one, two in different:
        assert form(one) != form(two)
    values = [constant(index, ValueItem("w", "float"), ValueItem("w", "float")) for index in (1, 2)]
    assert change_forms(values) == [("0", "0"), ("1", "0")]  # each is shown
    assert [turn[-1] for turn in change_forms([relu, operand(site, 0, "a", "b")])] == ["0", "1"]


def test_constants_that_differ_in_values_alone_are_not_alike() -> None:
    """Those that changed their type are, and those that were added or removed."""
    was, now = ValueItem("w", "float", "[2]"), ValueItem("w", "float16", "[2]")
    for before, after, texts, alike in (
        (was, now, ("a", "b"), True),
        (was, was, ("a", "b"), False),
        (None, None, ("", "b"), True),
        (None, None, ("a", ""), True),
        (None, None, ("a", "b"), False),
    ):
        sites = Site("g"), Site("h")
        changes = [Change("constant-changed", str(s), "constant w", *texts, "", before, after, s) for s in sites]
        assert (len({*change_forms(changes)}) == 1) is alike, (before, after, texts)


@pytest.mark.parametrize(
    ("kind", "alike"),
    [
        *((f"{what}-changed", True) for what in ("operator", "operand", "type", "attribute")),
        *(("node-added", True), ("node-removed", True), ("constant-changed", False), ("output-count-changed", False)),
    ],
)
def test_which_changes_can_be_alike(kind: str, alike: bool) -> None:
    change = Change(kind, "g", "s", "a", "b")
    assert (_form(0, [change]) == _form(1, [change])) is alike
    assert _form(0, [change, Change("input-added", "g", "s", "", "b")]) == ("0",)


ABS = Site("g", "n", "Abs")


def of_types(before: str, after: str, kind: str = "type-changed", site: Site | None = ABS) -> Change:
    items = [ValueItem("v", element) if element else None for element in (before, after)]
    return Change(kind, "g", "s", before, after, removed=items[0], made=items[1], site=site)


def test_nodes_of_which_the_types_alone_changed() -> None:
    one, other = of_types("float", "float16"), of_types("float", "int8")
    assert _retyped_from([one, one]) == ("g", "float", "float16")
    for group in (
        [one, other], [one, of_types("float", "float16", "constant-changed")], [of_types("", "float16")],
        [of_types("float", "")], [of_types("float", "float")], [of_types("float", "float16", site=None)],
    ):  # fmt: skip
        assert _retyped_from(group) is None


def test_constants_of_which_the_type_changed() -> None:
    assert _types(of_types("float", "int8", "constant-changed")) == ("float", "int8")
    for before, after, kind in (
        ("float", "int8", "type-changed"), ("", "int8", "constant-changed"), ("float", "", "constant-changed"),
        ("float", "float", "constant-changed"),
    ):  # fmt: skip
        assert _types(of_types(before, after, kind)) is None
