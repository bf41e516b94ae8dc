"""The arguments of the commands that write a model."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_engine,
    add_inputs,
    add_jobs,
    add_options,
    add_promotion,
    add_quiet,
    add_ranges,
    add_settings,
    add_verbose,
    integer,
    positive,
)
from castsmith.cli.parser import Parser

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
    *("--output", "--dry-run", "--to", "--target", "--io", "--keep", "--force", "--rescale", "--measure", "--range"),
    *(
        "--inputs",
        "--max-error",
        "--exact",
        "--plan",
        "--weights-only",
        "--repair-only",
        "--promote-unsafe",
        "--narrow",
    ),
    *("--diff", "--explain", "--report", "--verify", "--json", "--quiet", "--verbose"),
)
"""The options that --help shows of these commands."""


def _add_optimize(commands: Commands) -> None:
    parser = add_command(
        commands, "optimize", "optimize:run", "repair types, remove casts, and replace what a target lacks", _COMMON
    )
    parser.description = (
        "Repair mixed types, remove needless casts, and with --target replace what the runtime does not support."
        " No value changes. To change the precision, use castsmith convert."
    )
    _add_models(parser)
    _add_output(parser)
    work = parser.add_argument_group("processing")
    help_text = "only repair mixed types: do not fold, remove casts or simplify shapes"
    work.add_argument("--repair-only", action="store_true", help=help_text)
    add_options(work, OPTIONS)
    add_ranges(work)
    add_promotion(parser)
    _add_reporting(parser)
    verification = parser.add_argument_group("verification")
    help_text = "compare the model with the original after each pass, bit for bit"
    verification.add_argument("--verify", action="store_true", help=help_text)
    add_engine(verification)
    add_inputs(verification)
    help_text = "write a certificate of the run as FILE, which castsmith certificate checks"
    verification.add_argument("--certificate", metavar="FILE", help=help_text)


def _add_models(parser: argparse.ArgumentParser) -> None:
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


def _add_output(parser: argparse.ArgumentParser) -> None:
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


def _add_reporting(parser: Parser) -> None:
    """Add the options of a run over many models, and those that say what is shown of the work."""
    _add_many(parser)
    shown = parser.add_argument_group("output")
    help_text = "show what changed at each node, grouping similar changes; --diff=full shows every step"
    shown.add_argument("--diff", action="store_const", const="short", help=help_text)
    shown.add_argument("--full-diff", dest="diff", action="store_const", const="full", help=argparse.SUPPRESS)
    shown.add_argument("--explain", action="store_true", help="show what was skipped, and why, with an example value")
    shown.add_argument("--report", metavar="FILE", help="write a report as FILE.json or FILE.html")
    add_settings(parser)
    add_quiet(parser)
    add_verbose(parser)


def _add_convert(commands: Commands) -> None:
    parser = add_command(commands, "convert", "convert:run", "convert a model to float16, bfloat16 or float", _COMMON)
    parser.epilog = (
        "A pattern is a node name, an operator such as Softmax or op:Softmax, or a path of modules such as"
        f" encoder.layer.0; it may contain * and ?. {parser.epilog}"
    )
    _add_models(parser)
    _add_output(parser)
    parser.add_argument("--to", metavar="TYPE", required=True, help="float16, bfloat16 or float")
    work = parser.add_argument_group("processing")
    work.add_argument("--target", metavar="T", help="the runtime to convert for (see castsmith targets)")
    help_text = "keep (default), convert, or the names of the inputs and outputs to convert"
    work.add_argument("--io", metavar="WHICH", default="keep", help=help_text)
    help_text = "keep these nodes in their type"
    work.add_argument("--keep", metavar="PATTERN", action="append", default=[], help=help_text)
    help_text = "convert these nodes, even if their operator is sensitive"
    work.add_argument("--force", metavar="PATTERN", action="append", default=[], help=help_text)
    help_text = "keep the fewest nodes in float that limit the relative error to E"
    work.add_argument("--max-error", metavar="E", type=positive, help=help_text)
    help_text = "store weights in 16 bits and compute as before: half the file size"
    work.add_argument("--weights-only", action="store_true", help=help_text)
    help_text = "scale values by powers of two instead of computing in float"
    work.add_argument("--rescale", action="store_true", help=help_text)
    work.add_argument("--measure", action="store_true", help="measure the error on generated inputs")
    add_inputs(work)
    add_ranges(work)
    _add_reporting(parser)
    parser.set_defaults(verify=False, promotion=None)


def _add_fit(commands: Commands) -> None:
    parser = add_command(commands, "fit", "fit:run", "make a model run on a target, in the cheapest way", _COMMON)
    parser.epilog = (
        "Castsmith tries what optimize and convert can do, and takes the cheapest result that the target accepts. It"
        f" prints the commands that make the same model. {parser.epilog}"
    )
    _add_models(parser)
    _add_output(parser)
    work = parser.add_argument_group("processing")
    help_text = "the runtime to make the model run on, one of castsmith targets"
    work.add_argument("--target", metavar="T", required=True, help=help_text)
    help_text = "allow rounding, with a relative error below E"
    work.add_argument("--max-error", metavar="E", type=positive, help=help_text)
    work.add_argument("--exact", action="store_true", help="do not use operators that add in a different order")
    work.add_argument("--plan", action="store_true", help="list all ways with their costs, and write nothing")
    add_ranges(work)
    add_inputs(work)
    _add_reporting(parser)
    parser.set_defaults(verify=False, promotion=None)


def add_to(commands: Commands) -> None:
    for add in (_add_optimize, _add_convert, _add_fit):
        add(commands)
