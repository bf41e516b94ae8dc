"""Lines folded to the width of a terminal, and what every command prints on a narrow one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from castsmith.cli.text.coloured import wrapped
from castsmith.cli.text.terminal import (
    Line,
    columns,
    one_line,
    print_data,
    print_line,
    print_text,
    size_text,
    table_lines,
)
from castsmith.numerics.errors import printable
from tests.cli.helpers import CHAIN, Command, parsers, write_model


def folded(line: Line, width: int) -> list[str]:
    return [piece.plain for piece in wrapped(line, Console(width=width))]


CODE = Line(
    (("red", "    - y = Concat <axis = 1> (first, second)"), ("dim", "  # (float[N, 1], float[N, 1]) -> float")), 8
)


def test_one_line_of_text() -> None:
    """Lines are joined; without a line feed, each other end of a line is escaped like a control character."""
    rows = {
        "a\nb\n": "a b",
        "a": "a",
        "a\r\nb": "a b",
        "a\rb": "a\\rb",
        "a\x0bb": "a\\x0bb",
        "a\u2028b": "a\\u2028b",
        "": "",
    }
    assert {text: one_line(text) for text in rows} == rows


def test_the_lines_of_a_table() -> None:
    rows = [("a", "first"), ("long", "second")]
    for head, styles in ((True, ["bold", ""]), (False, ["", ""])):
        assert list(table_lines(rows, "  ", head=head)) == [
            Line(((styles[0], "  a     first"),), 8),
            Line(((styles[1], "  long  second"),), 8),
        ]
    for length, hang in ((36, 40), (37, 6)):  # the last cell begins at 40, or beyond
        ((line),) = table_lines([("x" * length, "y")], "  ")
        assert line.hang == hang


def test_what_fits_is_left_alone() -> None:
    assert folded(CODE, 200) == [CODE.plain]


def test_neither_attributes_nor_shapes_are_broken() -> None:
    assert folded(CODE, 34) == [
        "    - y = Concat <axis = 1>",
        "        (first, second)  #",
        "        (float[N, 1], float[N, 1])",
        "        -> float",
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
    assert folded(Line((("", "x" * 50),), 2), 22) == ["x" * 22, "  " + "x" * 20, "  " + "x" * 8]


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
    assert folded(longer, 60) == [f"{text} 1024 of 1024", "      elements differ"]


HELP = [(), *(tuple(name.split()) for name in parsers())]
PRINTED = (
    *("info A", "targets", "targets show openvino-cpu", "targets show onnxruntime-android", "passes", "explain"),
    *(
        "explain mixed-operand-types fold-constant",
        "dev promote f16 i8",
        "dev trunc 7 --in-bitwidth 8 --out-bitwidth 4",
    ),
    *("cast 1 0.1 300 --from f64 --to i8", "show A", "diff A B", "diff A B --full", "verify A B --sets 1", "bounds A"),
    *("bounds A --to float16", "optimize A -o C --diff --explain", "optimize A B -o folder/"),
    *("convert A -o C --to bfloat16 --diff --dry-run",),
)


def on_terminal(castsmith: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], width: int) -> str:
    """Return what a terminal of that width shows, without colours."""
    with monkeypatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(sys.stdout, "isatty", lambda: True)
        coloured = castsmith(*words).out
    return re.sub(r"\x1b\[[0-9;]*m", "", coloured)


def require_whole(shown: str, plain: str, width: int) -> None:
    """Assert that the lines fit, and that no word of the plain text is broken."""
    assert [line for line in shown.splitlines() if len(line) > width] == []
    assert shown.split() == plain.split()


def test_every_help_fits(castsmith: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for words in HELP:
        for option in ("-h", "--help-all"):
            told = [*words, option]
            plain = "".join(castsmith(*told).out.split())
            for width in (80, 60):
                text = on_terminal(castsmith, monkeypatch, told, width)
                assert [line for line in text.splitlines() if len(line) > width] == []
                assert "".join(text.split()) == plain
        assert castsmith(*words, "-h").out == castsmith(*words, "--help").out
        assert castsmith(*words, "-h").out.startswith(" ".join(["usage: castsmith", *words, "[options]"]))


@pytest.mark.usefixtures("one_process")
def test_every_command_fits(castsmith: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(Path("A"), CHAIN)
    write_model(Path("B"), CHAIN.replace("z = Relu (b)", "z = Neg (b)"))
    for words in map(str.split, PRINTED):
        plain = castsmith(*words).out
        for width in (80, 60) if plain.count("\n") > 1 else ():
            require_whole(on_terminal(castsmith, monkeypatch, words, width), plain, width)


def test_help_says_which_options_are_common(castsmith: Command) -> None:
    short, whole = castsmith("optimize", "--help").out, castsmith("optimize", "--help-all").out
    assert "--dry-run" in short
    assert "--storage" in whole
    assert "--storage" not in short
    assert castsmith("dev", "trunc", "--help").out.split("\n\n")[1].startswith("Compute QONNX Trunc of values")


def test_text_ends_with_one_line_break_and_shows_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for text, data in (("a", "a"), ("a\n", "a\n"), ("a\nb", "a\nb"), ("", ""), ("\n", "\n")):
        print_text(text)
        assert capsys.readouterr() == (data + "\n" * (bool(data) and data[-1] != "\n"), "")
        print_data(text)
        assert capsys.readouterr() == (data + "\n" * (not data or data[-1] != "\n"), "")
    print_line("a\nb\x1b", sys.stderr)
    print_text("a\nb\x1b", sys.stderr)
    assert capsys.readouterr() == ("", "a b\\x1b\na\nb\\x1b\n")
    print_line("c")
    assert capsys.readouterr() == ("c\n", "")
