"""Records that are alike, in the form in which the first represent all."""

from __future__ import annotations

import pytest

from castsmith.cli.text.alike import folded, more_text
from castsmith.ir.records import Site


@pytest.mark.parametrize(
    ("letters", "shown"),
    [
        ("", []),
        ("a", ["a0:"]),
        ("aaaa", ["a0:", "a1:", "a2:", "a3:"]),
        ("aaaaa", ["a0:", "a1:", "a2:a3 a4"]),
        ("abaabaa", ["a0:", "b1:", "a2:", "a3:a5 a6", "b4:"]),
        ("LL", ["L0:L1"]),
        ("LaLaL", ["L0:L2 L4", "a1:", "a3:"]),
    ],
)
def test_the_first_three_or_all_four_of_a_form_are_shown_and_one_of_a_long_one(letters: str, shown: list[str]) -> None:
    records = [f"{letter}{index}" for index, letter in enumerate(letters)]
    found = folded(records, [(letter,) for letter in letters], lambda record: record.startswith("L"))
    assert [f"{record}:{' '.join(hidden)}" for record, hidden in found] == shown
    if "L" not in letters:
        assert folded(records, [(letter,) for letter in letters]) == found


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "1 more: a"),
        (["a", "b", "c", "d"], "4 more: a, b, c, d"),
        (["a", "b", "c", "d", "e"], "5 more: a, b, c, d and 1 other"),
        (["a", None, "c", "d", "e"], "5 more: a, c, d and 2 others"),
    ],
)
def test_places_that_are_not_shown_are_counted(names: list[str | None], text: str) -> None:
    assert more_text([None if name is None else Site("g", name, "Abs") for name in names]) == text
    assert more_text([Site("g", "", "Abs")]) == "1 more: Abs"
