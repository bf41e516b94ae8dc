"""The arguments of castsmith optimize, and those that it shares with convert."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_engine,
    add_inputs,
    add_jobs,
    add_json,
    add_options,
    add_promotion,
    add_quiet,
    add_ranges,
    add_settings,
    add_verbose,
    integer,
)
from castsmith.cli.parser import Parser

_FULL_DIFF = "--full-diff"
OPTIONS = (
    *(
        "target",
        "strict_device",
        "keep_output_types",
        "max_growth",
        "max_total_growth",
        "fold_disputed",
        "fold_as",
        "fold_quantized",
    ),
    *("interface", "storage", "emit_functions", "vendor", "narrow", "narrow_interface", "largest_dim"),
    *("passes", "provenance", "until"),
)
"""The options of `castsmith.optimize` that the command has under the same names, in the order of its help."""

_COMMON = (
    *("--output", "--dry-run", "--target", "--repair-only", "--promote-unsafe", "--narrow", "--diff", "--explain"),
    *("--report", "--verify", "--json", "--quiet", "--verbose"),
)


def _spell_out_diff(words: Sequence[str]) -> list[str]:
    """Return `--diff=full` as an option of its own: an option with an optional value would consume IN."""
    return [_FULL_DIFF if word == "--diff=full" else word for word in words]


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "optimize", "optimize:run", "repair types, remove casts, and replace what a target lacks", _COMMON
    )
    parser.description = (
        "Repair mixed types, remove needless casts, and with --target replace what the runtime does not support."
        " No value changes. To change the precision, use castsmith convert."
    )
    add_models(parser)
    add_output(parser)
    work = parser.add_argument_group("processing")
    help_text = "only repair mixed types: do not fold, remove casts or simplify shapes"
    work.add_argument("--repair-only", action="store_true", help=help_text)
    add_options(work, OPTIONS)
    add_ranges(work)
    add_promotion(parser)
    add_reporting(parser)
    verification = parser.add_argument_group("verification")
    help_text = "compare the model with the original after each pass, bit for bit"
    verification.add_argument("--verify", action="store_true", help=help_text)
    add_engine(verification)
    add_inputs(verification)
    help_text = "write a certificate of the run as FILE, which castsmith certificate checks"
    verification.add_argument("--certificate", metavar="FILE", help=help_text)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the models of a command that writes them."""
    help_text = "an ONNX model, or several: files, folders, patterns such as 'a/**/*.onnx'; - for standard input"
    parser.add_argument("input", metavar="IN", nargs="+", help=help_text)


def _add_many(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run over many models that are written to a folder."""
    many = parser.add_argument_group("many models")
    add_jobs(many)
    many.add_argument("--dask", metavar="ADDRESS", help="use a Dask cluster that sees the same files")
    help_text = "skip models that are already done with the same input, options and version"
    many.add_argument("--skip-unchanged", action="store_true", help=help_text)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the model is written, and how."""
    help_text = "the file to write (may be IN; - for standard output), or a folder for several models"
    parser.add_argument("-o", "--output", metavar="OUT", help=help_text)
    parser.add_argument("--dry-run", action="store_true", help="do all the work, but write nothing")
    files = parser.add_argument_group("weight files")
    files.add_argument(
        "--external-data", metavar="NAME", help="write weights of more than 1 KiB to this file, next to OUT"
    )
    help_text = "refer to existing data files next to OUT instead of copying weights"
    files.add_argument("--link-data", action="store_true", help=help_text)
    files.add_argument("--shard-bytes", metavar="N", type=integer(1), help="split data files above this size")


def add_reporting(parser: Parser) -> None:
    """Add the options of a run over many models, and those that say what is shown of the work."""
    _add_many(parser)
    parser.spell_out = _spell_out_diff
    shown = parser.add_argument_group("output")
    help_text = "show what changed at each node, grouping similar changes; --diff=full shows every step"
    shown.add_argument("--diff", action="store_const", const="short", help=help_text)
    shown.add_argument(_FULL_DIFF, dest="diff", action="store_const", const="full", help=argparse.SUPPRESS)
    shown.add_argument("--explain", action="store_true", help="show what was skipped, and why, with an example value")
    shown.add_argument("--report", metavar="FILE", help="write a report as FILE.json or FILE.html")
    add_settings(parser)
    add_quiet(parser)
    add_verbose(parser)
    add_json(parser)
