"""The explanation of every code: the findings of check, the rules of the passes, and the refusals.

The pages are data in `check`, `passes` and `lowering`; `python -m castsmith.cli.codes.catalogue` prints docs/codes.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from castsmith.cli.codes.check import FINDINGS
from castsmith.cli.codes.lowering import LOWERING
from castsmith.cli.codes.page import Page, head, parts
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
    (first, what), *others = parts(page)
    texts = (f"{title}: {text}" for title, text in others)
    return "\n\n".join((page.code, head(page), f"{first}: {what}", example, *texts)) + "\n"


def markdown() -> Iterator[str]:
    """Yield docs/codes.md, line by line."""
    yield "# Codes"
    yield ""
    yield "Find out what a finding, rewrite or refusal means, how safe its fix is, and when to silence it. A code stays"
    yield "the same from version to version. `castsmith explain CODE` prints its page. To silence a finding, name its"
    yield "code in `check --ignore` or the [settings](howto/gate.md#settings-of-a-project), or accept it in a baseline."
    yield ""
    yield "This file is made by `python -m castsmith.cli.codes.catalogue`."
    yield ""
    yield "| code | kind | what |"
    yield "|---|---|---|"
    for page in all_pages():
        link = f"[{page.code}](#{page.code.replace('*', '')})"
        yield f"| {link} | {page.kind} | {page.what.partition('. ')[0].rstrip('.')} |"
    for page in all_pages():
        (first, what), *others = parts(page)
        yield from ("", f"## {page.code}", "", head(page), "")
        yield from (f"**{first}.** {what}", "", "```", *page.example.splitlines(), "```")
        for title, text in others:
            yield from ("", f"**{title}.** {text}")


if __name__ == "__main__":
    print("\n".join(markdown()))
