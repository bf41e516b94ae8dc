"""Every Python block of the documentation runs: those of one page one after another, in an empty directory."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)


def pages() -> dict[str, str]:
    found = {path: path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))}
    return {str(path.relative_to(ROOT)): text for path, text in found.items()}


PAGES = pages()


@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if BLOCK.search(text)])
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [match for match in BLOCK.finditer(PAGES[page]) if not SNIPPET.search(match[1])]
    if any("onnxruntime" in match[1] for match in blocks):
        pytest.importorskip("onnxruntime", reason=f"{page} needs onnxruntime")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    with redirect_stdout(io.StringIO()):
        for match in blocks:
            before = PAGES[page].count("\n", 0, match.start(1))
            exec(compile("\n" * before + match[1], page, "exec"), names)


def test_what_a_page_shows_exists_and_every_example_is_shown() -> None:
    shown = {name for text in PAGES.values() for name in SNIPPET.findall(text)}
    assert all((ROOT / name).is_file() for name in shown)
    examples = {f"examples/{path.name}" for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert examples <= shown
