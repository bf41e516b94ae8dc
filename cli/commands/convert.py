"""castsmith convert: a whole model in another floating-point precision, written with a report of the changes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from castsmith.cli.arguments import Commands, add_command, add_json, add_quiet, add_settings
from castsmith.cli.commands import optimize
from castsmith.cli.commands.optimize import add_many, add_models, add_output, add_shown, run_each, savings_wanted
from castsmith.cli.commands.verify import add_inputs, given_inputs, require_dims

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.cli.report.savings import Watched
    from castsmith.lowering.results import Result

_STEPS = 6
_COMMON = (
    *("--output", "--to", "--target", "--io", "--keep", "--lower", "--max-error", "--inputs", "--report", "--dry-run"),
)


def spell_out(words: Sequence[str]) -> list[str]:
    """Return `--diff=full` as an option of its own, as optimize does."""
    return optimize.spell_out(words)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "convert", run, "convert a model to another precision, and write it", _COMMON)
    parser.epilog = (
        "A pattern is a node name, an operator such as Softmax or op:Softmax, or a path of modules such as"
        f" encoder.layer.0; it may contain * and ?. {parser.epilog}"
    )
    add_models(parser)
    add_output(parser, "the file to write; may be IN; - for standard output; a folder for several models")
    parser.add_argument("--to", metavar="TYPE", required=True, help="float16, bfloat16 or float")
    work = parser.add_argument_group("processing")
    work.add_argument("--target", metavar="T", help="the runtime to convert for (see castsmith targets)")
    help_text = "keep (default) or convert the types of inputs and outputs, or the names of those to convert"
    work.add_argument("--io", metavar="WHICH", default="keep", help=help_text)
    help_text = "patterns of nodes that keep their type"
    work.add_argument("--keep", metavar="PATTERN", action="append", default=[], help=help_text)
    help_text = "patterns of nodes to convert although their operator is sensitive"
    work.add_argument("--lower", metavar="PATTERN", action="append", default=[], help=help_text)
    help_text = "keep the fewest nodes in their type that limit the relative error to E, measured on inputs"
    work.add_argument("--max-error", metavar="E", type=_error, help=help_text)
    work.add_argument("--measure", action="store_true", help="measure the error on made-up inputs")
    add_many(parser)
    add_shown(parser)
    add_inputs(work)
    add_settings(parser)
    add_quiet(parser)
    add_json(parser)
    parser.set_defaults(verify=False, promotion=None)


def run(arguments: argparse.Namespace) -> int:
    return run_each(arguments, _convert, lambda _: _STEPS)


def _convert(
    arguments: argparse.Namespace, model: onnx_ir.Model, watched: Watched, announce: Callable[[str], None]
) -> Result:
    from castsmith.lowering.conversion import convert
    from castsmith.passes.precision.run import nothing_to_convert, parse_precision

    why = "" if arguments.outcome is None else nothing_to_convert(model, parse_precision(arguments.to))
    if why:
        return _as_it_is(model, why)
    require_dims(arguments, model)
    looked_at = savings_wanted(arguments)

    def ahead_of(name: str) -> None:
        announce(name)
        if looked_at:
            watched.note(name)

    path: str = arguments.inputs or ""
    is_folder = os.path.isdir(path)
    given: dict[str, Any] = {"inputs": path, "dims": {}} if is_folder else given_inputs(arguments)
    if not is_folder and given["inputs"] is not None:
        given["inputs"] = [(_set_name(path, name), arrays) for name, arrays in given["inputs"]]
    made_up = arguments.measure or arguments.max_error is not None
    return convert(
        model,
        to=arguments.to,
        target=arguments.target,
        io=arguments.io,
        keep=arguments.keep,
        lower=arguments.lower,
        inputs=given["inputs"] if given["inputs"] is not None or not made_up else "made-up",
        dims=given["dims"],
        max_error=arguments.max_error,
        in_place=True,
        progress=ahead_of,
    )


def _as_it_is(model: onnx_ir.Model, why: str) -> Result:
    """Return the result for one of many models that has nothing to convert: it belongs to the others, unchanged."""
    from castsmith.ir.records import Diagnostic, Severity, Site
    from castsmith.lowering.results import ConvertResult

    told = Diagnostic("nothing-to-convert", Severity.NOTE, Site(model.graph.name or ""), why, "it is written unchanged")
    return ConvertResult(model, diagnostics=[told])


def _set_name(path: str, name: str) -> str:
    """Return the name of a set of inputs, with the file that it is from."""
    from castsmith.cli.models import shown

    file = shown(path)
    return file if name == "given" else f"{file}/{name}"


def _error(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number above 0")
    return number
