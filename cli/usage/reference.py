"""The arguments of castsmith passes and completion."""

from __future__ import annotations

from castsmith.cli.arguments import Commands, add_command, add_json


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "passes", "reference:run_passes", "list the passes, in the order of optimize")
    add_json(parser)
    parser = add_command(
        commands, "completion", "reference:run_completion", "print a shell script that completes this command"
    )
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    add_json(parser)
