"""The arguments of castsmith bounds."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json, add_promotion, add_quiet, add_ranges


def add_to(commands: Commands) -> None:
    summary = "show the range of each value, and which ones overflow another type"
    parser = add_command(commands, "bounds", "bounds:run", summary)
    parser.add_argument("input", metavar="MODEL", help="an ONNX model; - for standard input")
    add_ranges(parser)
    parser.add_argument(
        "--inputs", metavar="FILE.npz", help="arrays to measure on: `name`, or `set/name` for several sets"
    )
    parser.add_argument(
        "--to", metavar="TYPE", help="list the values that overflow or vanish in this type, such as float16"
    )
    parser.add_argument("--all", action="store_true", help="print every value, not only the widest")
    parser.add_argument("--report", metavar="FILE", help="write a plot of the bounds (.html), or all bounds (.json)")
    add_promotion(parser)
    add_quiet(parser, "the bounds")
    add_json(parser)
