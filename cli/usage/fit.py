"""The arguments of castsmith fit."""

from __future__ import annotations

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_inputs,
    add_ranges,
    positive,
)
from castsmith.cli.usage.optimize import add_models, add_output, add_reporting

_COMMON = (
    *(
        "--output",
        "--dry-run",
        "--target",
        "--max-error",
        "--exact",
        "--range",
        "--plan",
        "--inputs",
        "--diff",
        "--report",
    ),
    *("--json", "--quiet", "--verbose"),
)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "fit", "fit:run", "make a model run on a target, in the cheapest way", _COMMON)
    parser.epilog = (
        "Castsmith tries what optimize and convert can do, and takes the cheapest result that the target accepts. It"
        f" prints the commands that make the same model. {parser.epilog}"
    )
    add_models(parser)
    add_output(parser)
    work = parser.add_argument_group("processing")
    help_text = "the runtime to make the model run on, one of castsmith targets"
    work.add_argument("--target", metavar="T", required=True, help=help_text)
    help_text = "allow rounding, with a relative error below E"
    work.add_argument("--max-error", metavar="E", type=positive, help=help_text)
    work.add_argument("--exact", action="store_true", help="do not use operators that add in a different order")
    work.add_argument("--plan", action="store_true", help="list all ways with their costs, and write nothing")
    add_ranges(work)
    add_inputs(work)
    add_reporting(parser)
    parser.set_defaults(verify=False, promotion=None)
