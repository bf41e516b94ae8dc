"""The pages of `castsmith explain`: for each code what it does, why it matters, an example, and the advice.

`page_of` finds the page of a code and `page_text` prints it. The pages of passes are in `passes` and `lowering`, those
of findings in `check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.codes.catalogue import all_pages, page_of, page_text
    from castsmith.cli.codes.check import FINDINGS

__all__ = ["FINDINGS", "all_pages", "page_of", "page_text"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "catalogue": ("all_pages", "page_of", "page_text"),
            "check": ("FINDINGS",),
        },
    )
