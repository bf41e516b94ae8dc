"""castsmith passes: what each pass does, in the order in which optimize runs them."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, add_json, print_json
from castsmith.cli.failure import DONE


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "passes", run, "the passes, in the order in which optimize runs them")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from castsmith.lowering.registry import PASSES, needs_target, option_names, summary

    if arguments.json:
        entries = [
            {"name": n, "summary": summary(n), "options": option_names(n), "needs_target": needs_target(n)}
            for n in PASSES
        ]
        print_json({"passes": entries})
        return DONE
    for name in PASSES:
        print(f"{name}{' (with --target)' if needs_target(name) else ''}")
        print(f"    {summary(name)}")
        if option_names(name):
            print(f"    options: {', '.join(option_names(name))}")
    return DONE
