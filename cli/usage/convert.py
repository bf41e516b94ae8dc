"""The arguments of castsmith convert."""

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
    *("--output", "--dry-run", "--to", "--target", "--io", "--keep", "--force", "--rescale", "--measure"),
    *("--inputs", "--max-error"),
    "--weights-only",
    *("--diff", "--report", "--json", "--quiet", "--verbose"),
)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "convert", "convert:run", "convert a model to float16, bfloat16 or float", _COMMON)
    parser.epilog = (
        "A pattern is a node name, an operator such as Softmax or op:Softmax, or a path of modules such as"
        f" encoder.layer.0; it may contain * and ?. {parser.epilog}"
    )
    add_models(parser)
    add_output(parser)
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
    add_reporting(parser)
    parser.set_defaults(verify=False, promotion=None)
