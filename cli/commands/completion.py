"""castsmith completion: a script that lets a shell complete the command, its options and their values.

The script is generated from the argument parser of the installed version, and from the targets, presets and passes that
are installed then. Completing starts no Python.
"""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, add_json, print_json
from castsmith.cli.exit_codes import DONE


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "completion", run, "print a shell script that completes this command")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.completion import bash_script, commands_of, fish_script, known_values, zsh_script
    from castsmith.cli.main import whole_parser

    write = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    script = write[arguments.shell](list(commands_of(whole_parser(), known_values())))
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print(script, end="")
    return DONE
