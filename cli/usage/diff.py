"""The arguments of castsmith diff."""

from __future__ import annotations

import argparse
import os

from castsmith.cli.arguments import Commands, add_command, add_format, add_quiet


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "diff", "diff:run", "show the differences between two models")
    parser.epilog = (
        "Ignored: the names of intermediate values, the order of nodes, whether a constant is an"
        " initializer or a Constant node, attributes at their defaults, the producer and documentation; and,"
        " unless --all is given, the metadata of nodes and unused constants. In git: git config diff.onnx.command"
        f" 'castsmith diff'; with git's seven arguments the exit code is 0. {parser.epilog}"
    )
    parser.add_argument("a", metavar="A", help="an ONNX model; - for standard input")
    parser.add_argument("b", metavar="B", nargs=_one_but_of_git(), help="the model to compare it with")
    parser.add_argument("rest", nargs="*", default=[], help=argparse.SUPPRESS)
    help_text = "also compare the metadata of nodes and unused constants"
    parser.add_argument("--all", action="store_true", help=help_text)
    help_text = "show every difference, without grouping similar ones"
    parser.add_argument("--full", action="store_true", help=help_text)
    help_text = "write a page with all differences (.html), or data (.json)"
    parser.add_argument("--report", metavar="FILE", help=help_text)
    add_format(parser, "html")
    add_quiet(parser, "the differences")


def _one_but_of_git() -> str | None:
    """Return the number of models B as argparse writes it: of an unmerged file git gives the path alone."""
    return "?" if "GIT_DIFF_PATH_COUNTER" in os.environ else None
