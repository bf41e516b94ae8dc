"""The explanation of every code: the findings of check, the rules of the passes, and the refusals.

The pages are data in `check`, `passes` and `lowering`; `python -m castsmith.cli.codes.catalogue` prints docs/codes.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from castsmith.cli.codes.check import FINDINGS
from castsmith.cli.codes.lowering import LOWERING
from castsmith.cli.codes.page import Page
from castsmith.cli.codes.passes import PASSES


def all_pages() -> tuple[Page, ...]:
    return (*FINDINGS, *PASSES, *LOWERING)


def page_of(code: str) -> Page | None:
    """Return the page of a code in records: `lower-Cast` is on the page `lower-*`."""
    pages = {page.code: page for page in all_pages()}
    family = f"{code.partition('-')[0]}-*"
    return pages.get(code) or (pages.get(family) if "-" in code else None)


def page_text(page: Page) -> str:
    """Return the page as text for people."""
    example = "\n".join(f"    {line}" for line in page.example.splitlines())
    parts = (f"{page.code} ({page.kind})", page.what, f"Why: {page.why}", f"Example:\n{example}")
    return "\n\n".join((*parts, f"What to do: {page.advice}", f"Since version {page.since}.")) + "\n"


def markdown() -> Iterator[str]:
    """Yield docs/codes.md, line by line."""
    yield "# Codes"
    yield ""
    yield "Every finding, rewrite and refusal has a code that stays the same from version to version."
    yield "`castsmith explain CODE` prints a page. This file is made by `python -m castsmith.cli.codes.catalogue`."
    yield ""
    yield "| code | kind | what |"
    yield "|---|---|---|"
    for page in all_pages():
        link = f"[{page.code}](#{page.code.replace('*', '')})"
        yield f"| {link} | {page.kind} | {page.what.partition('. ')[0].rstrip('.')} |"
    for page in all_pages():
        yield from ("", f"## {page.code}", "", f"*{page.kind}*. {page.what}", "", f"**Why.** {page.why}", "", "```")
        yield from page.example.splitlines()
        yield from ("```", "", f"**What to do.** {page.advice} Since version {page.since}.")


if __name__ == "__main__":
    print("\n".join(markdown()))
