"""The arguments of castsmith show."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "show", "show:run", "print a model as text, one item per line")
    parser.epilog = (
        "The graph determines the order of lines. Large constants are shown as a digest, external data as its"
        f" location. In git: git config diff.onnx.textconv 'castsmith show --textconv'. {parser.epilog}"
    )
    parser.add_argument("input", metavar="MODEL", help="an ONNX model; - for standard input")
    help_text = "if a file cannot be read, print the reason and exit with 0, as git needs"
    parser.add_argument("--textconv", action="store_true", help=help_text)
    add_json(parser)
