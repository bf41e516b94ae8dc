"""Results as JSON documents, on stdout or in a file."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from castsmith.cli.text.terminal import print_data


def number(value: object) -> object:
    """Return the value; a number that JSON lacks as text."""
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def print_json(data: dict[str, Any]) -> None:
    """Print one JSON document on stdout. The key `schema` is the version of its layout."""
    print_data(json_text(data))


def json_text(data: dict[str, Any]) -> str:
    """Return `data` as an indented JSON document in ASCII, headed by the version of the layout."""
    return json.dumps({"schema": 1, **data}, indent=2) + "\n"
