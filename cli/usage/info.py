"""The arguments of castsmith info."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "info", "info:run", "show what a model holds, and which targets can run it")
    parser.add_argument("input", metavar="MODEL", help="an ONNX model; - for standard input")
    add_json(parser)
