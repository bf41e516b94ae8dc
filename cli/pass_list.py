"""The text of --passes as a list."""

from __future__ import annotations

import re

_COMMA_OUTSIDE_BRACES = re.compile(r",(?![^{]*\})")


def split_passes(text: str) -> list[str]:
    """`a,b{x=1}` as `["a", "b{x=1}"]`; a comma within braces separates nothing."""
    return [part.strip() for part in _COMMA_OUTSIDE_BRACES.split(text) if part.strip()]
