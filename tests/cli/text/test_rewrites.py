"""Of rewrites and refusals that are alike, the first are shown, and the others counted."""

from __future__ import annotations

from castsmith.cli.text.rewrites import KEPT_NODE, refusal_lines, rewrite_form, rewrite_lines, words_of
from castsmith.ir.records import Effect, Item, NodeItem, Refusal, Rewrite, Site, TextItem, ValueItem
from tests.sampling import check_all


def shown(lines: list[str]) -> tuple[int, str]:
    """Return how many places are shown, and the line that counts the others."""
    return sum(line.startswith("  g: n") for line in lines), next((line for line in lines if "shown by" in line), "")


def require_shown(length: int, most: int, alone: int, count: int) -> None:
    items = [TextItem(f"made {index}") for index in range(length)]
    rewrites = [Rewrite("p", "r", Site("g", f"n{index}", "Cast"), "before", items, "why") for index in range(count)]
    places, rest = shown([line.plain for line in rewrite_lines(rewrites)])
    assert places == (count if count <= alone else most)
    left = count - places
    names = ", ".join(f"n{index}" for index in range(places, count)[:4])
    others = "" if left <= 4 else f" and {left - 4} other{'s' if left > 5 else ''}"
    assert rest == (f"    and in the same way (shown by --diff=full), {left} more: {names}{others}" if left else "")
    assert shown([line.plain for line in rewrite_lines(rewrites, full=True)]) == (count, "")


def test_similar_rewrites() -> None:
    """A long one represents all; of short ones three do, or four where one would be left to count."""
    forms = (1, 3, 4), (5, 3, 4), (6, 1, 1), (7, 1, 1)
    check_all(require_shown, [(*form, count) for form in forms for count in range(1, 12)])


def require_ends(count: int, side: str) -> None:
    """Of a converted region 4 nodes at each end are shown, if they leave more than one; of other rewrites all."""
    items = [TextItem(f"node {index}") for index in range(count)]
    sides = (items, "after") if side == "removed" else ("before", items)
    converted = Rewrite("p", "r", Site("g", "n", "Cast"), *sides, "why", Effect.CONVERTED)
    shown_of = {
        full: [line.plain.strip(" -+") for line in rewrite_lines([converted], full=full) if "node" in line.plain]
        for full in (False, True)
    }
    whole = [f"node {index}" for index in range(count)]
    assert shown_of[True] == whole
    assert shown_of[False] == (whole if count <= 9 else [*whole[:4], *whole[-4:]])
    lines = [line.plain.strip(" -+") for line in rewrite_lines([converted])]
    told = [f"{count - 8} more (shown by --diff=full)"] if count > 9 else []
    assert [text for text in lines if "more (shown" in text] == told
    replaced = Rewrite("p", "r", Site("g", "n", "Cast"), *sides, "why")
    assert [line.plain.strip(" -+") for line in rewrite_lines([replaced]) if "node" in line.plain] == whole


def test_the_ends_of_a_converted_region() -> None:
    check_all(require_ends, [(count, side) for count in (1, 7, 8, 9, 10, 11, 30) for side in ("removed", "made")])


def test_rewrites_are_alike_by_their_items() -> None:
    """Nodes by their operator and attributes, values by their role or type, any texts."""
    x, y = ValueItem("x", "float", "[2]"), ValueItem("y", "float", "[3]")
    alike: list[tuple[Item, Item]] = [
        (TextItem("a"), TextItem("b")),
        (x, y),
        (ValueItem("x", "float", role="input"), ValueItem("y", "int8", role="input")),
        (NodeItem("Relu", (x,), (y,), name="a"), NodeItem("Relu", (y,), (x,), name="b")),
    ]
    apart: list[tuple[Item, Item]] = [
        (TextItem("float"), x),
        (x, ValueItem("x", "int8", "[2]")),
        (ValueItem("x", "float", role="input"), ValueItem("x", "float", role="output")),
        (ValueItem("x", "float", role="input"), x),
        (NodeItem("Relu", (x,), (y,)), NodeItem("Neg", (x,), (y,))),
        (NodeItem("Cast", (x,), (y,), (("to", "float"),)), NodeItem("Cast", (x,), (y,), (("to", "int8"),))),
    ]
    for pairs, is_alike in ((alike, True), (apart, False)):
        for pair in pairs:
            for side in range(2):
                both = [(item, "same") if side else ("same", item) for item in pair]
                forms = {rewrite_form(Rewrite("p", "r", Site("g", "n", "Op"), a, b, "why")) for a, b in both}
                assert (len(forms) == 1) is is_alike, pair


def test_the_words_of_a_reason() -> None:
    """Types count, though they have digits; numbers and names with other signs do not."""
    assert list(words_of("value x_1: float16, (float8e4m3fn) and int8 lose 3 of 10.5 elements.")) == [
        "value", "float16", "float8e4m3fn", "and", "int8", "lose", "of", "elements",
    ]  # fmt: skip


def test_nodes_that_are_kept_and_changes_that_are_skipped() -> None:
    for rule, done, also in ((KEPT_NODE, "kept in float", "also kept"), ("other", "skipped", "also skipped")):
        records = [Refusal("p", rule, Site("g", f"n{index}", "Op"), "why", "1.5") for index in range(5)]
        assert [line.plain for line in refusal_lines(records, "float")] == [
            f"p, {rule} (5)",
            *(text for index in range(3) for text in (f"  g: n{index} (Op)", f"    {done}: why (example value: 1.5)")),
            f"    {also}, for the same reason (shown by --diff=full), 2 more: n3, n4",
        ]


def test_refusals_are_alike_by_their_reason_and_witness() -> None:
    def refusal(index: int, reason: str, witness: str) -> Refusal:
        return Refusal("p", "r", Site("g", f"n{index}", "Cast"), reason, witness)

    alike = [refusal(index, f"value v{index}: it loses {index}", "1.5") for index in range(6)]
    assert shown([line.plain for line in refusal_lines(alike, "float")]) == (
        3, "    also skipped, for the same reason (shown by --diff=full), 3 more: n3, n4, n5",
    )  # fmt: skip
    for other in (refusal(6, "value v6: it gains 6", "1.5"), refusal(6, "value v6: it loses 6", "2.5")):
        assert shown([line.plain for line in refusal_lines([*alike, other], "float")])[0] == 4


def test_the_lines_of_rewrites_of_two_rules() -> None:
    """Headings with a blank line between them; a text of several lines as such; the comment of a node dim."""
    node = NodeItem("Neg", (ValueItem("a", "float", "[2]"),), (ValueItem("b", "float", "[2]"),))
    site = Site("g", "n", "Cast")
    records = [
        Rewrite("p", "q", site, [TextItem("one\n\ntwo")], [node], "why", saved_bytes=8),
        *(Rewrite("p", "r", site, [], [TextItem(f"{index}\n1\n2\n3\n4\n5")], "why") for index in range(2)),
        Rewrite("p", "r", site, [], [TextItem("last")], "other"),
    ]
    lines = list(rewrite_lines(records))
    assert [line.plain for line in lines[:9]] == [
        "p, q (1)", "  g: n (Cast)", "    - one", "    - two", f"    + {node.code}  # {node.comment}",
        "    why [bit-exact, saves 8 bytes]", "", "p, r (3)", "  g: n (Cast)",
    ]  # fmt: skip
    assert lines[4].parts == (("green", f"    + {node.code}"), ("dim", f"  # {node.comment}"))
    assert [(line.hang, line.most) for line in lines[:9]] == [
        (0, 0), (4, 0), (8, 4), (8, 4), (8, 4), (4, 0), (0, 0), (0, 0), (4, 0),
    ]  # fmt: skip
    (folded,) = [line for line in lines if "same way" in line.plain]
    assert (folded.hang, [line.plain for line in lines].count("p, r (3)")) == (4, 1)
    many = Rewrite("p", "q", site, [], [TextItem(str(index)) for index in range(30)], "why", Effect.CONVERTED)
    (hidden,) = [line for line in rewrite_lines([many]) if "22 more" in line.plain]
    assert hidden.hang == 4


def test_the_lines_of_refusals() -> None:
    records = [Refusal("p", "r", Site("g", f"n{index}", "Op"), "why") for index in range(5)]
    lines = list(refusal_lines(records, "float"))
    assert [line.plain for line in lines[:3]] == ["p, r (5)", "  g: n0 (Op)", "    skipped: why"]
    assert [line.hang for line in lines] == [0, *[4] * 7]
