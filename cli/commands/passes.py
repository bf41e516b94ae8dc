"""castsmith passes: the passes with their summaries, in the order in which optimize runs them."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, add_json, print_json
from castsmith.cli.exit_codes import DONE, UNUSABLE


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "passes", run, "the passes, in the order in which optimize runs them")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.exit_codes import usable
    from castsmith.lowering.registry import PASSES, added_passes, needs_target, option_names, pass_class, summary
    from castsmith.numerics.extensions import LOWERINGS, extensions

    added, complete = usable(added_passes(), pass_class)
    if arguments.json:
        entries = [
            {"name": n, "summary": summary(n), "options": option_names(n), "needs_target": needs_target(n)}
            for n in (*PASSES, *added)
        ]
        operators = [{"name": each.name, "package": each.package} for each in extensions(LOWERINGS)]
        print_json({"passes": entries, "lowered_operators": operators})
        return DONE if complete else UNUSABLE
    for name in (*PASSES, *added):
        print(f"{name}{' (with --target)' if needs_target(name) else ''}{' (--passes only)' if name in added else ''}")
        print(f"    {summary(name)}")
        if option_names(name):
            print(f"    options: {', '.join(option_names(name))}")
        if name == "lower-custom":
            for each in extensions(LOWERINGS):
                print(f"    lowers {each.name} ({each.package})")
    return DONE if complete else UNUSABLE
