"""Every block of code in the documentation and the README runs, and prints what the page says: see pages.py."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.examples.pages import PageError, blocks, in_this_process, run_page

pytestmark = pytest.mark.usefixtures("engines_here")

ROOT = Path(__file__).parents[2]
BESIDE_CODE = (
    "ARCHITECTURE.md",
    "RELEASING.md",
    "benchmarks/README.md",
    "lowering/encodings/README.md",
    "tests/README.md",
)
FILES = (ROOT / "README.md", *(ROOT / name for name in BESIDE_CODE), *sorted((ROOT / "docs").rglob("*.md")))
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
GENERATED = ("docs/numerics.md",)
"""Generated pages, which have tests of their own; their blocks are not code."""

WRITTEN = sorted(set(PAGES) - set(GENERATED))


def needs(page: str) -> list[str]:
    """Packages that the blocks of a page import, which are not there."""
    text = "".join(block.text for block in blocks(PAGES[page]) if block.language == "python" and not block.file)
    # `make integrations` runs this page.
    tools = ("olive", "optimum.onnx", "modelopt") if page == "docs/howto/inside.md" else ()
    imports = [name for name in ("onnxruntime", "qonnx", "torch") if f"import {name}" in text]
    return [name for name in (*imports, *tools) if find_spec(name.partition(".")[0]) is None or find_spec(name) is None]


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("page", WRITTEN)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := needs(page):
        pytest.skip(f"{page} needs {', '.join(missing)}")
    monkeypatch.chdir(tmp_path)
    run_page(PAGES[page], page, in_this_process)


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n```output\n2\n```",
        "```python\n1 / 0\n```",
        "```console\n$ castsmith dev promote int8 int16\nint8\n```",
        "```console\n$ castsmith dev promote int8\n...\n```\n```console\n$ echo $?\n7\n```",
        "```sh\nls\n```",
        "text\n\n    indented\n",
        "```json\n{\n```",
    ],
)
def test_a_block_that_does_not_do_what_the_page_says_is_found(page: str) -> None:
    with pytest.raises((PageError, ZeroDivisionError, ValueError)):
        run_page(page, "page", in_this_process)


def test_what_is_not_run_is_known() -> None:
    """Each block that is not run says why; no other is left out."""
    left_out = {page: [block.not_run for block in blocks(PAGES[page]) if block.not_run] for page in WRITTEN}
    assert {page: len(reasons) for page, reasons in left_out.items() if reasons} == {
        "README.md": 1,
        "RELEASING.md": 2,
        "benchmarks/README.md": 1,
        "docs/conformance/index.md": 1,
        "docs/contributing.md": 3,
        "docs/howto/certificate.md": 1,
        "docs/howto/inside.md": 1,
        "docs/index.md": 4,
        "docs/install.md": 4,
        "docs/targets.md": 1,
        "tests/README.md": 2,
    }


def test_what_a_page_shows_exists_and_every_example_is_shown() -> None:
    shown = {block.file for text in PAGES.values() for block in blocks(text) if block.file}
    assert all((ROOT / name).is_file() for name in shown)
    examples = {f"examples/{path.name}" for path in (ROOT / "examples").iterdir() if path.is_file()}
    assert examples <= shown


def test_the_links_of_pages_beside_the_site_lead_somewhere() -> None:
    """`mkdocs build --strict` checks those of the site."""
    for page in ("README.md", *BESIDE_CODE):
        links = re.findall(r"\]\((?!https?:)([^)#\s]+)", PAGES[page])
        assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == [], page


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in PAGES if page.startswith("docs/") and f" {page.removeprefix('docs/')}\n" not in text] == []


def test_every_package_that_an_example_needs_is_in_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["examples"]
    names = {extra.partition("=")[0].partition(">")[0].replace("-", "_") for extra in extras}
    own = {"castsmith", "numpy", "onnx", "onnx_ir", "onnxscript", "dataclasses", "pathlib", "json"}
    for path in (ROOT / "examples").glob("*.py"):
        lines = [line.split() for line in path.read_text().splitlines() if line.startswith(("import ", "from "))]
        assert {words[1].partition(".")[0] for words in lines} <= own | names, path.name
