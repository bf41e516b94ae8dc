"""The arguments of castsmith explain."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "explain", "explain:run", "explain the code of a finding, rewrite or refusal")
    parser.add_argument(
        "codes", metavar="CODE", nargs="*", help="a code such as fold-undefined; without one, all are listed"
    )
    add_json(parser)
