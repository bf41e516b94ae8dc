"""One HTML file that needs no network: the records as JSON, drawn by the script in the file.

Names in models are untrusted. They occur only in the JSON, in which `<` is escaped so that nothing ends the element
around it, and the script makes text nodes of them.
"""

from __future__ import annotations

import base64
import gzip
import json
from importlib.resources import files
from typing import Any

_LARGE = 1 << 18
"""Characters of JSON from which it is compressed."""


def html_text(data: dict[str, Any]) -> str:
    """Return the page that shows `data`, in the layout that `page.js` reads."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    if len(text) > _LARGE:
        text = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    folder = files("castsmith.cli") / "page"
    page, style, script = ((folder / name).read_text("utf-8") for name in ("page.html", "page.css", "page.js"))
    for mark, content in (("/*STYLE*/", style), ("/*SCRIPT*/", script), ("/*DATA*/", text)):
        before, _, after = page.partition(mark)
        page = before + content + after
    return page
