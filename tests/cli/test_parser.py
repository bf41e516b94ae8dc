"""What the two helps of each command list."""

from __future__ import annotations

import argparse
import re
from typing import cast

from castsmith.cli.parser import Parser, subcommands
from tests.cli.helpers import Command, parsers


def test_what_the_helps_list(castsmith: Command) -> None:
    """--help-all has each argument once; --help omits the options that are not common, and says so."""
    for name, parser in parsers().items():
        actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]  # pyright: ignore[reportPrivateUsage]
        options = {action.option_strings[0]: {*action.option_strings} for action in actions if action.option_strings}
        others = [str(a.metavar or a.dest) for a in actions if not a.option_strings and not subcommands(parser)]
        common = {*cast("Parser", parser).common, "--help", "--help-all"}
        few = [flag for flag, names in options.items() if names & common]
        is_short = len(common) > 2
        for flag, flags in (("--help-all", [*options]), ("--help", few if is_short else [*options])):
            text = castsmith(*name.split(), flag).out
            listed = [line.split()[0].rstrip(",") for line in text.splitlines() if re.match(r"  \S", line)]
            assert sorted(listed) == sorted([*flags, *others, *subcommands(parser)]), (name, flag)
            usage = " ".join(text.partition("\n\n")[0].split())
            assert all(a.option_strings[-1] in usage for a in actions if a.option_strings and a.required), name
            told = f"castsmith {name} --help-all shows all options." in " ".join(text.split())
            assert told is (is_short and flag == "--help"), (name, flag)
