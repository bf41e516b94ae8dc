"""castsmith fit: make a model run on a target, write it, and print the commands that make the same model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from castsmith.cli.batch.inputs import means_many
from castsmith.cli.commands.optimize import run_each
from castsmith.cli.exit_codes import DONE, REFUSED
from castsmith.cli.inputs import given_ranges, inputs_to_measure_on, require_names
from castsmith.cli.models import read_model, source_of
from castsmith.cli.report.fit import plan_data
from castsmith.cli.streams import require_one_stdin, shown
from castsmith.cli.text.fit import way_lines
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines, progress
from castsmith.lowering.fit.run import fit
from castsmith.numerics.errors import OptionError

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.lowering.fit.results import FitResult

_STEPS = 8


def run(arguments: argparse.Namespace) -> int:
    if arguments.plan:
        return _print_plan(arguments)
    return run_each(arguments, _fit, lambda _: _STEPS)


def _fit(
    arguments: argparse.Namespace, model: onnx_ir.Model, announce: Callable[[str], None], *, all_ways: bool = False
) -> FitResult:
    require_names(arguments, [model])
    return fit(
        model,
        target=arguments.target,
        exact=arguments.exact,
        max_error=arguments.max_error,
        **inputs_to_measure_on(arguments),
        ranges=given_ranges(arguments),
        all_ways=all_ways,
        progress=announce,
    )


def _print_plan(arguments: argparse.Namespace) -> int:
    """Try all ways on one model and print them, the best one first."""
    if len(arguments.input) > 1 or means_many(arguments.input):
        raise OptionError("--plan is for one model: name one.")
    for option in ("output", "report"):
        if getattr(arguments, option) is not None:
            raise OptionError(f"--plan writes nothing, so --{option} has no meaning: leave out one of them.")
    (source,) = arguments.input
    require_one_stdin((source, arguments.inputs))
    with progress(_STEPS, quiet=arguments.quiet, verbose=arguments.verbose) as announce:
        announce(f"reading {shown(source)}")
        result = _fit(arguments, read_model(source_of(source)), announce, all_ways=True)
    if arguments.json:
        print_json({"input": source, "target": arguments.target, "fit": plan_data(result, source, None)})
    else:
        print_lines(way_lines(result, source, arguments.target))
    return DONE if result.plan else REFUSED
