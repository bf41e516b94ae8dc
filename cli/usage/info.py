"""The arguments of castsmith info."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "info", "info:run", "show what a model holds, and which targets can run it")
    help_text = "an ONNX model, or several: files, folders, patterns; - for standard input"
    parser.add_argument("input", metavar="MODEL", nargs="+", help=help_text)
    add_json(parser)
