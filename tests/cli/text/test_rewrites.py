"""Of rewrites and refusals that are alike, the first are shown, and the others counted."""

from __future__ import annotations

from castsmith.cli.text.rewrites import refusal_lines, rewrite_lines
from castsmith.ir.records import Effect, Refusal, Rewrite, Site, TextItem
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
    """Of a converted region 4 nodes at each end are shown, if they leave more than one."""
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


def test_the_ends_of_a_converted_region() -> None:
    check_all(require_ends, [(count, side) for count in (1, 7, 8, 9, 10, 11, 30) for side in ("removed", "made")])


def test_refusals_are_alike_by_their_reason_and_witness() -> None:
    def refusal(index: int, reason: str, witness: str) -> Refusal:
        return Refusal("p", "r", Site("g", f"n{index}", "Cast"), reason, witness)

    alike = [refusal(index, f"value v{index}: it loses {index}", "1.5") for index in range(6)]
    assert shown([line.plain for line in refusal_lines(alike, "float")]) == (
        3, "    also skipped, for the same reason (shown by --diff=full), 3 more: n3, n4, n5",
    )  # fmt: skip
    for other in (refusal(6, "value v6: it gains 6", "1.5"), refusal(6, "value v6: it loses 6", "2.5")):
        assert shown([line.plain for line in refusal_lines([*alike, other], "float")])[0] == 4
