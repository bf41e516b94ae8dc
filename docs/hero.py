"""The picture of the landing page: a diff by castsmith with its graphs. `python -m docs.hero` writes it."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from html import escape
from pathlib import Path

import onnx
import onnx.parser

from castsmith.cli.main import main

PICTURE = Path(__file__).parent / "pictures/hero.svg"
MODEL = """<ir_version: 10, opset_import: ["": 21]>
    prices (int64[n] quantity, float[n] price) => (float[n] total) { total = Mul (quantity, price) }"""
LABEL = "Before: ONNX Runtime rejects the model, a Mul of int64 and float. After: a Cast makes both operands float."
WIDTH, HEIGHT = 600, 426
STYLE = """
  text { font: 15px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e8ebf0; }
  text.soft { fill: #aab4c4; } text.bad { fill: #ff9d94; }
  text.good { fill: #7fd99a; } text.mid { text-anchor: middle; }
  rect { stroke: #55617a; fill: none; } rect.value { stroke-dasharray: 4 3; } rect.node { fill: #2b3445; }
  rect.bad { fill: #4a1f22; stroke: #ff9d94; } rect.good { fill: #173c27; stroke: #7fd99a; }
  rect.card { fill: #161b25; stroke: none; } path { fill: none; stroke: #8d98aa; stroke-width: 1.4; }
"""


def changed() -> list[str]:
    """Return the lines of `castsmith optimize --diff` that show what was there and what is there now."""
    with tempfile.TemporaryDirectory() as empty, chdir(empty), redirect_stdout(io.StringIO()) as out:
        onnx.save(onnx.parser.parse_model(MODEL), "prices.onnx")
        main(["optimize", "prices.onnx", "-o", "repaired.onnx", "--promote-unsafe", "--diff"])
    return [line.strip() for line in out.getvalue().splitlines() if line.startswith(("    - ", "    + "))]


def picture() -> str:
    """Return the picture as SVG, of one look on light and dark pages."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{LABEL}">'
    card = f'<rect class="card" width="{WIDTH}" height="{HEIGHT}" rx="10"/>'
    parts = (*_before(), *_after(), *_lines(changed()))
    return "\n".join((head, f"<style>{STYLE}</style>", card, *parts, "</svg>", ""))


def _before() -> Iterator[str]:
    yield _text(24, 32, "before: rejected by ONNX Runtime", "bad")
    yield from (_box(24, 48, 108, "quantity"), _box(24, 106, 108, "price"))
    yield from (_edge(132, 65, 330, 84, "int64[n]", "bad"), _edge(132, 123, 330, 104, "float[n]", "soft"))
    yield from (_box(330, 76, 70, "Mul", "bad"), _edge(400, 93, 486, 93, "", "soft"), _box(486, 76, 90, "total"))


def _after() -> Iterator[str]:
    yield _text(24, 178, "after: one type, and it loads", "good")
    yield from (_box(24, 194, 108, "quantity"), _box(24, 252, 108, "price"))
    yield from (_edge(132, 211, 228, 211, "int64[n]", "soft"), _box(228, 194, 70, "Cast", "good"))
    yield from (_edge(298, 211, 390, 230, "float[n]", "good"), _edge(132, 269, 390, 250, "float[n]", "soft"))
    yield from (_box(390, 222, 64, "Mul", "node"), _edge(454, 239, 500, 239, "", "soft"), _box(500, 222, 76, "total"))


def _lines(lines: list[str]) -> Iterator[str]:
    yield _text(24, 326, "$ castsmith optimize prices.onnx --diff ...", "soft")
    for index, line in enumerate(lines):
        yield _text(24, 354 + 24 * index, line.partition("  #")[0], "bad" if line.startswith("-") else "good")


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'


def _box(x: int, y: int, width: int, text: str, kind: str = "value") -> str:
    rect = f'<rect x="{x}" y="{y}" width="{width}" height="34" rx="{17 if kind == "value" else 5}" class="{kind}"/>'
    return rect + _text(x + width // 2, y + 22, text, "mid")


def _edge(x: int, y: int, to_x: int, to_y: int, type_name: str, kind: str) -> str:
    middle = (x + to_x) // 2 + 20
    path = f'<path d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"/>'
    return path + (_text(x + 8, y - 6, type_name, kind) if type_name else "")


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
