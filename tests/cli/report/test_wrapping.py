"""Lines folded to the width of a terminal."""

from __future__ import annotations

import pytest

from castsmith.cli.text.terminal import Line, columns, one_line, printable, size_text, wrap


def folded(line: Line, width: int) -> list[str]:
    return ["".join(text for _, text in piece) for piece in wrap(line, width)]


CODE = Line(
    (("red", "    - y = Concat <axis = 1> (first, second)"), ("dim", "  # (float[N, 1], float[N, 1]) -> float")), 8
)


def test_what_fits_is_left_alone() -> None:
    assert folded(CODE, 200) == [CODE.plain]


def test_types_move_to_a_line_of_their_own() -> None:
    assert folded(CODE, 60) == [
        "    - y = Concat <axis = 1> (first, second)",
        "        # (float[N, 1], float[N, 1]) -> float",
    ]


def test_neither_attributes_nor_shapes_are_broken() -> None:
    assert folded(CODE, 34) == [
        "    - y = Concat <axis = 1>",
        "        (first, second)",
        "        # (float[N, 1],",
        "        float[N, 1]) -> float",
    ]


@pytest.mark.parametrize("width", range(20, 120, 7))
def test_no_piece_is_wider_than_the_terminal_and_long_lines_are_elided(width: int) -> None:
    inputs = ", ".join(f"value_{index}" for index in range(200))
    pieces = folded(Line((("", f"    + y = Concat ({inputs})"), ("dim", f"  # ({'float, ' * 200})")), 8, 4), width)
    assert len(pieces) == 4
    assert pieces[-1].endswith(" ...")
    assert all(len(piece) <= max(width, 28) for piece in pieces)


def test_text_is_not_elided() -> None:
    assert "\n".join(folded(Line((("", "word " * 100),)), 40)).split() == ["word"] * 100


def test_a_word_wider_than_the_line_is_cut() -> None:
    assert folded(Line((("", "x" * 50),), 2), 22) == ["x" * 20, "  " + "x" * 20, "  " + "x" * 10]


def test_text_helpers() -> None:
    assert printable("a\x1b[0m\tb\nc") == "a\\x1b[0m\\tb\nc"
    assert one_line("a\nb") == "a b"
    assert [size_text(size) for size in (0, 999, 1000, 4096, 10**6, 10**12)] == [
        "0 B",
        "999 B",
        "1.0 KB",
        "4.1 KB",
        "1.0 MB",
        "1000.0 GB",
    ]
    assert columns([("a", "bb"), ("ccc", "d")]) == ["  a    bb", "  ccc  d"]
    assert columns([]) == []


def test_blanks_around_styled_parts_stay() -> None:
    line = Line((("", "constant w: "), ("red", "float[32, 32]"), ("", " -> "), ("green", "bfloat16[32, 32];")), 6)
    text = "constant w: float[32, 32] -> bfloat16[32, 32];"
    assert folded(line, 80) == [text]
    longer = Line((*line.parts, ("", " 1024 of 1024 elements differ")), 6)
    assert folded(longer, 60) == [text, "      1024 of 1024 elements differ"]
