"""Records as plain data: the text of each kind of item, what it names and makes, and how records are said."""

from __future__ import annotations

from typing import Any

import pytest

from castsmith.ir.records import (
    Diagnostic,
    Effect,
    Item,
    NodeItem,
    Records,
    Refusal,
    Rewrite,
    Severity,
    Site,
    TextItem,
    ValueItem,
    item_text,
    items_text,
)

X, W, Y = ValueItem("x", "float", "[N, 2]"), ValueItem("w", "float", "[]", "2.5"), ValueItem("y", "float16")
NODE = NodeItem("Clip", (X, None, W), (Y, ValueItem("")), (("to", "float"), ("axis", "1")), "d", "n")

ITEMS: list[tuple[Item, str, tuple[str, ...], tuple[str, ...]]] = [
    (TextItem("opset 21"), "opset 21", (), ()),
    (X, "float[N, 2] x", ("x",), ()),
    (W, "float[] w = {2.5}", ("w",), ("w",)),
    (ValueItem("", "float", "[2]", "", "constant"), "constant float[2] ? = {}", ("",), ("",)),
    (ValueItem("i", role="input"), "input i", ("i",), ()),
    (NODE, "y, ? = d.Clip <to = float, axis = 1> (x, , w {2.5})  # (float[N, 2], float[]) -> float16, ",
     ("y", "x", "w"), ("y",)),
    (NodeItem("Abs", (ValueItem(""),), (Y,)), "y = Abs (?)  # () -> float16", ("y",), ("y",)),
    (NodeItem("Abs"), " = Abs ()  # () -> ", (), ()),
]  # fmt: skip


@pytest.mark.parametrize(("item", "text", "names", "made"), ITEMS)
def test_each_item(item: Item, text: str, names: tuple[str, ...], made: tuple[str, ...]) -> None:
    assert (item_text(item), item.names, item.made) == (text, names, made)
    assert (item.comment == "") is not isinstance(item, NodeItem)


def test_each_place() -> None:
    sites = [
        Site("g"),
        Site("g", "n", "Add", "y"),
        Site("g", "", "Add", "y"),
        Site("", "", "Add"),
        Site("", "n", "Add"),
    ]
    assert [str(site) for site in sites] == [
        "g",
        "g: n (Add)",
        "g: y (Add)",
        "(unnamed): (unnamed) (Add)",
        "(unnamed): n (Add)",
    ]
    assert [site.name for site in sites] == ["", "n", "y", "", "n"]
    assert Site("g", "", "Add", "y") == Site("g", "", "Add", "z") != Site("g", "", "Mul", "y")


@pytest.mark.parametrize(
    ("removed", "items"),
    [("", ()), ("a", (TextItem("a"),)), (NODE, (NODE,)), (W, (W,)), ([NODE, W], (NODE, W)), ((), ())],
)
def test_a_rewrite_is_made_of_text_or_items(removed: Any, items: tuple[Item, ...]) -> None:
    site = Site("g", "n", "Add")
    for made in ({"before": removed, "after": [Y]}, {"removed": items, "made": [Y]}):
        rewrite = Rewrite("pass", "rule", site, **made, reason="why", effect=Effect.REPAIR, saved_bytes=3)
        assert (rewrite.removed, rewrite.made) == (items, (Y,))
        assert (rewrite.before, rewrite.after) == (items_text(items), "float16 y")
        assert (rewrite.pass_name, rewrite.rule, rewrite.site, rewrite.reason) == ("pass", "rule", site, "why")
        assert (rewrite.effect, rewrite.saved_bytes) == (Effect.REPAIR, 3)
        assert str(rewrite) == "g: n (Add): rule why"
    other = Rewrite("pass", "rule", site, [Y], removed, removed=[NODE], made=[NODE])
    assert (other.removed, other.made) == ((Y,), items or (NODE,))
    assert (other.effect, other.saved_bytes, other.reason) == (Effect.BIT_EXACT, None, "")
    assert items_text((NODE, W)).splitlines() == [item_text(NODE), item_text(W)]


def test_refusals_and_findings_are_said() -> None:
    site = Site("g", "n", "Add")
    assert str(Refusal("pass", "rule", site, "why")) == "g: n (Add): rule why"
    assert str(Refusal("pass", "rule", site, "why", "0.1")) == "g: n (Add): rule why (example value: 0.1)"
    finding = Diagnostic("code", Severity.NOTE, site, "what")
    assert (str(finding), finding.subject, finding.follows) == ("g: n (Add): code what", "", None)
    helped = Diagnostic("code", Severity.NOTE, site, "what", "do", subject="float", follows=1)
    assert str(helped) == "g: n (Add): code what (do)"
    assert helped == Diagnostic("code", Severity.NOTE, site, "what", "do")
    assert helped != finding


def test_records_are_joined_in_order() -> None:
    site = Site("g")
    rewrites, refusals = [Rewrite("p", name, site) for name in "ab"], [Refusal("p", name, site, "") for name in "ab"]
    findings = [Diagnostic(name, Severity.NOTE, site, "") for name in "ab"]
    first, second = (Records([rewrites[i]], [refusals[i]], [findings[i]]) for i in range(2))
    first.extend(second)
    assert (first.rewrites, first.refusals, first.diagnostics) == (rewrites, refusals, findings)
    assert Records() == Records([], [], [])
