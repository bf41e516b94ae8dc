"""Commands on the program itself.

castsmith passes lists the passes with their summaries, in the order in which optimize runs them; castsmith completion
prints a script that lets a shell complete the command, its options and their values. The script is generated from the
argument parser of the installed version, and from the targets, presets and passes that are installed then. Completing
starts no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from castsmith.cli.completion.shells import bash_script, fish_script, zsh_script
from castsmith.cli.completion.words import commands_of, known_values
from castsmith.cli.exit_codes import DONE, UNUSABLE
from castsmith.cli.extensions import usable
from castsmith.cli.main import whole_parser
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, print_data
from castsmith.lowering.registry import PASSES, added_passes, needs_target, option_names, pass_class, summary
from castsmith.numerics.extensions import LOWERINGS, extensions


def run_passes(arguments: argparse.Namespace) -> int:
    added, complete = usable(added_passes(), pass_class)
    if arguments.json:
        entries = [
            {"name": n, "summary": summary(n), "options": option_names(n), "needs_target": needs_target(n)}
            for n in (*PASSES, *added)
        ]
        operators = [{"name": each.name, "package": each.package} for each in extensions(LOWERINGS)]
        print_json({"passes": entries, "lowered_operators": operators})
        return DONE if complete else UNUSABLE
    print_lines(line for name in (*PASSES, *added) for line in _lines(name, is_added=name in added))
    return DONE if complete else UNUSABLE


def _lines(name: str, *, is_added: bool) -> Iterator[Line]:
    when = f"{' (with --target)' if needs_target(name) else ''}{' (--passes only)' if is_added else ''}"
    yield Line((("bold", name), ("", when)), 4)
    texts = [summary(name)]
    if option_names(name):
        texts.append(f"options: {', '.join(option_names(name))}")
    if name == "lower-custom":
        texts += [f"lowers {each.name} ({each.package})" for each in extensions(LOWERINGS)]
    yield from (Line((("", f"    {text}"),), 6) for text in texts)


def run_completion(arguments: argparse.Namespace) -> int:
    write = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    script = write[arguments.shell](list(commands_of(whole_parser(), known_values())))
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print_data(script)
    return DONE
