"""The parts of the site that a browser runs, and the picture of its first page."""

from __future__ import annotations

from html import escape
from pathlib import Path

from docs.hero import PICTURE, changed, picture
from docs.wrapping import keep_words
from tests.cli.page.chromium import run_in_page

STYLE = Path(__file__).parents[2] / "docs/style"


def test_the_picture_shows_what_castsmith_prints() -> None:
    """`python -m docs.hero` writes the picture again."""
    assert PICTURE.read_text() == picture()
    assert [line[0] for line in changed()] == ["-", "+", "+"]


def test_in_chromium_the_copy_button_takes_the_commands_alone(tmp_path: Path) -> None:
    console = "$ castsmith check a.onnx \\\n    --target x\na.onnx: $ 5 found \\\nmore\n$ echo $?\n1\n"
    blocks = f"""<div class="language-console highlight"><pre><code>{escape(console)}</code></pre></div>
        <div class="language-python highlight"><pre><code>print(1)</code></pre></div>"""
    script = (STYLE / "copy.js").read_text()
    page = tmp_path / "page.html"
    page.write_text(f'<body data-ready="yes">{blocks}<script>{script}</script></body>')
    copied = run_in_page(page, "return [...document.querySelectorAll('.highlight')].map((each) => each.dataset.copy)")
    assert copied == ["castsmith check a.onnx \\\n    --target x\necho $?", None]


def test_words_with_hyphens_stay_in_one_piece_in_code_blocks() -> None:
    def block(*words: str) -> str:
        return '<pre><code><span class="gp">$ </span>a<span> </span>{}<span> </span>{} {} d\n</code></pre>'.format(
            *words
        )

    words = ("--to", "x-y", "&lt;b-c&gt;")
    kept = block(*(f'<span class="word">{word}</span>' for word in words))
    assert keep_words(f"<p>e-f</p>{block(*words)}") == f"<p>e-f</p>{kept}"
    long = f"<pre><code>{'-' * 60}</code></pre>"
    assert keep_words(long) == long
