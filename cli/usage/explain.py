"""The arguments of castsmith explain."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "explain", "explain:run", "explain the code of a finding, a rewrite or a skipped change"
    )
    parser.add_argument("codes", metavar="CODE", nargs="*", help="a code such as fold-undefined; without one, list all")
    add_json(parser)
