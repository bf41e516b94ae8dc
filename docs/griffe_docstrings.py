"""An extension of griffe, with which mkdocstrings reads our docstrings (see mkdocs.yml)."""

from __future__ import annotations

from typing import Any

import griffe

from docs.docstrings import as_markdown


class AsMarkdown(griffe.Extension):
    """Every docstring of what is shown, as Markdown."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
