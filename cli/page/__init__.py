"""The HTML report: one page with the graph around each rewrite.

`html_text` makes the file: `page.html` with `page.css`, `page.js` and the data, which these modules give.

    data      `report_page` of a run, `many_page` of many, and `diff_page` of a comparison
    overview  the map of the whole graph
    bounds    `bounds_page` of the bounds of all values
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.page.bounds import bounds_page
    from castsmith.cli.page.data import Seen, diff_page, html_text, many_page, report_page, seen

__all__ = ["Seen", "bounds_page", "diff_page", "html_text", "many_page", "report_page", "seen"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "bounds": ("bounds_page",),
            "data": ("Seen", "diff_page", "html_text", "many_page", "report_page", "seen"),
        },
    )
