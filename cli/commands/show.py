"""castsmith show: a model as text, in an order that follows from its graph, for people and for git."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from castsmith.cli.arguments import Commands, add_command, add_json, print_json
from castsmith.cli.exit_codes import DONE

_DIGITS = 16


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "show", run, "print a model as text, one node, constant or attribute a line")
    parser.epilog = (
        "The order follows from the graph, not from the file. Large constants are shown as a digest, external data"
        f" as its location. In git: git config diff.onnx.textconv 'castsmith show --textconv'. {parser.epilog}"
    )
    parser.add_argument("input", metavar="MODEL", help="an ONNX model; - for standard input")
    help_text = "if a file cannot be read, print the reason and exit with 0, as git needs"
    parser.add_argument("--textconv", action="store_true", help=help_text)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.text.terminal import Line, print_lines

    lines = git_lines(arguments.input) if arguments.textconv else _lines(arguments.input)
    if arguments.json:
        print_json({"model": arguments.input, "lines": lines})
    else:
        print_lines(Line((("", line),), len(line) - len(line.lstrip()) + 4) for line in lines)
    return DONE


def git_lines(path: str) -> list[str]:
    """Return the lines for the file; of one that cannot be read, the reason, and a digest of it.

    The reason is without the name of the file, which git makes up.
    """
    from castsmith.numerics.errors import CastsmithError

    try:
        return _lines(path)
    except CastsmithError as error:
        reason = f"not shown: {str(error).removeprefix(f'{path}: ')}"
        return [reason, *_digest(path)] if os.path.isfile(path) else [reason]


def _digest(path: str) -> Iterator[str]:
    from hashlib import file_digest

    with open(path, "rb") as file:
        yield f"{os.path.getsize(path)} bytes, sha256 {file_digest(file, 'sha256').hexdigest()[:_DIGITS]}"


def _lines(path: str) -> list[str]:
    from castsmith.cli.models import STREAM, read_model, source_of
    from castsmith.cli.text.model import model_lines
    from castsmith.ir.io.loading import load_structure

    return list(model_lines(read_model(source_of(path)) if path == STREAM else load_structure(path)))
