"""The net change: rewrites of one place composed, without what one makes and another removes."""

from __future__ import annotations

from dataclasses import replace

import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.ir.records import Effect, Rewrite, Site, TextItem, ValueItem
from castsmith.lowering.net import net_rewrites
from tests.cli.helpers import MIXED


def steps(*changes: str) -> list[Rewrite]:
    """The rewrites `removed>made` of values by their letters."""
    rewrites: list[Rewrite] = []
    for index, change in enumerate(changes):
        removed, made = ([ValueItem(name, content="1") for name in side] for side in change.split(">"))
        effect = Effect.REPAIR if index else Effect.BIT_EXACT
        rewrites.append(
            Rewrite("p", f"r{index}", Site(f"g{index}"), removed=removed, made=made, reason="why", effect=effect)
        )
    return rewrites


@pytest.mark.parametrize(
    ("changes", "net"),
    [
        ("a>b b>c", "a>c"),
        ("a>bc b>d", "a>cd"),
        ("a>b c>d", "a>b c>d"),
        ("a>b c>d bd>e", "ac>e"),
        ("a>b x>y b>a", "x>y"),
        ("x>y a>b b>c", "x>y a>c"),
        (">b b>", ""),
        ("a>b c>b", "a>b c>b"),
        ("a>b b>b b>bc", "a>bc"),
        (" ".join(f"{chr(97 + i)}>{chr(98 + i)}" for i in range(12)), "a>m"),
        (
            " ".join(f"{chr(97 + i)}>{chr(98 + i)}" for i in range(13)),
            "a>b b>c c>d d>e e>f f>g g>h h>i i>j j>k k>l l>m m>n",
        ),
    ],
)
def test_rewrites_compose(changes: str, net: str) -> None:
    empty = onnx_ir.from_proto(onnx.parser.parse_model(MIXED))
    composed = net_rewrites(steps(*changes.split()), empty)
    shown = [
        ">".join("".join(sorted(item.made[0] for item in side)) for side in (rewrite.removed, rewrite.made))
        for rewrite in composed
    ]
    assert shown == net.split()


def test_a_composed_rewrite_names_its_rules_and_the_effect_that_is_not_exact() -> None:
    empty = onnx_ir.from_proto(onnx.parser.parse_model(MIXED))
    (net,) = net_rewrites(steps("a>b", "b>c"), empty)
    assert (net.pass_name, net.rule, net.reason) == ("p", "r0 + r1", "why")
    assert (net.site, net.effect) == (Site("g0"), Effect.REPAIR)


@pytest.mark.parametrize(
    ("saved", "total"), [((None, None), None), ((3, None), 3), ((3, -1), 2), ((0, 0), 0), ((None, 0), 0), ((4, -4), 0)]
)
def test_the_bytes_of_all_steps_are_added(saved: tuple[int | None, ...], total: int | None) -> None:
    empty = onnx_ir.from_proto(onnx.parser.parse_model(MIXED))
    sized = [replace(step, saved_bytes=size) for step, size in zip(steps("a>b", "b>c"), saved, strict=True)]
    (net,) = net_rewrites(sized, empty)
    assert net.saved_bytes == total


@pytest.mark.parametrize(
    ("second", "removed", "made"),
    [
        ((("b",), ("c",)), ["t", "a", "u"], ["c", "s"]),
        ((("b", "s"), ("c",)), ["t", "a", "u"], ["c"]),
        ((("b",), ("a", "t")), ["u"], ["s"]),
        ((("b",), ("c", "u", "t")), ["a"], ["c", "s"]),
    ],
)
def test_text_that_makes_no_value_is_kept_unless_both_sides_have_it(
    second: tuple[tuple[str, ...], ...], removed: list[str], made: list[str]
) -> None:
    """Letters from s on are text, such as an opset."""
    empty = onnx_ir.from_proto(onnx.parser.parse_model(MIXED))

    def items(letters: tuple[str, ...]) -> list[TextItem | ValueItem]:
        return [TextItem(letter) if letter >= "s" else ValueItem(letter, content="1") for letter in letters]

    changes = ((("t", "a", "u"), ("b", "s")), second)
    rewrites = [Rewrite("p", "r", Site("g"), removed=items(a), made=items(b), reason="why") for a, b in changes]
    net = net_rewrites(rewrites, empty)
    shown = [
        [getattr(item, "name", item.code) for item in side]
        for rewrite in net
        for side in (rewrite.removed, rewrite.made)
    ]
    expected = [
        [letter for letter in removed if letter != "s"],
        [letter for letter in made if letter != "s" or "s" not in second[0]],
    ]
    assert shown == expected


def test_a_notebook_hides_promotions_unless_asked_for() -> None:
    result = castsmith.optimize(onnx.parser.parse_model(MIXED))
    net, _, every = result._repr_html_().partition("<details><summary>every rewrite of every pass (")  # pyright: ignore[reportPrivateUsage]
    assert "ConvertPromoteTypes" not in net
    assert "y_float = Cast &lt;to = float&gt; (y)  # (int16[N]) -&gt; float[N]<br>z = Add (x, y_float)" in net
    assert every.startswith(f"{len(result.rewrites)})")
    assert "ConvertPromoteTypes" in every
