"""The HTML report: one page with the graph around each rewrite.

`report_page` and `diff_page` give the data of the page, `html_text` the file: `page.html` with `page.css`, `page.js`
and the data in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.page.bounds import bounds_page
    from castsmith.cli.page.data import Around, around, diff_page, html_text, report_page

__all__ = ["Around", "around", "bounds_page", "diff_page", "html_text", "report_page"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "bounds": ("bounds_page",),
            "data": ("Around", "around", "diff_page", "html_text", "report_page"),
        },
    )
