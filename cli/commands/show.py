"""castsmith show: a model as text, in an order that follows from its graph, for people and for git."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from hashlib import file_digest

import onnx_ir

from castsmith.cli.exit_codes import DONE
from castsmith.cli.models import Source, read_partly, source_of, tell_flaws
from castsmith.cli.streams import shown
from castsmith.cli.text.json import print_json
from castsmith.cli.text.model import model_lines, proto_lines
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line
from castsmith.ir.records import Flaw
from castsmith.numerics.errors import CastsmithError

_DIGITS = 16


def run(arguments: argparse.Namespace) -> int:
    flaws = list[Flaw]()
    lines = git_lines(arguments.input) if arguments.textconv else lines_of(source_of(arguments.input), flaws)
    tell_flaws(shown(arguments.input), flaws)
    if arguments.json:
        print_json({"model": arguments.input, "lines": lines})
    else:
        print_lines(Line((("", line),), len(line) - len(line.lstrip()) + 4) for line in lines)
    return DONE


def git_lines(path: str) -> list[str]:
    """Return the lines for the file; of one that cannot be read, the reason, and a digest of it.

    The reason is without the name of the file, which git makes up.
    """
    try:
        return lines_of(path, [])
    except CastsmithError as error:
        reason = f"not shown: {str(error).removeprefix(f'{path}: ')}"
        return [reason, *_digest(path)] if os.path.isfile(path) else [reason]


def _digest(path: str) -> Iterator[str]:
    with open(path, "rb") as file:
        yield f"{os.path.getsize(path)} bytes, sha256 {file_digest(file, 'sha256').hexdigest()[:_DIGITS]}"


def lines_of(source: Source, flaws: list[Flaw]) -> list[str]:
    """Return the lines for the model; of one that cannot be loaded, those of its proto. flaws: Takes what is wrong."""
    model = read_partly(source, flaws, with_data=False)
    return list(model_lines(model)) if isinstance(model, onnx_ir.Model) else proto_lines(model)
