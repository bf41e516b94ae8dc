"""castsmith convert: a whole model in another floating-point precision, written with a report of the changes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from onnx_ir import DataType

from castsmith.cli.commands.optimize import run_each
from castsmith.cli.inputs import given_ranges, inputs_to_measure_on, require_names
from castsmith.cli.report.fit import command_file
from castsmith.cli.streams import shown
from castsmith.ir.records import Diagnostic, Severity, Site
from castsmith.lowering.check.target import TRIES
from castsmith.lowering.conversion import convert
from castsmith.lowering.faults import computes_in_half
from castsmith.lowering.results import ConvertResult
from castsmith.passes.precision.run import NOTHING_TO_CONVERT, nothing_to_convert, parse_precision

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.lowering.results import Result

_STEPS = 6


def run(arguments: argparse.Namespace) -> int:
    return run_each(arguments, _convert, lambda _: _STEPS)


def _convert(arguments: argparse.Namespace, model: onnx_ir.Model, announce: Callable[[str], None]) -> Result:
    to = parse_precision(arguments.to)
    heals = arguments.outcome is None or (to == DataType.FLOAT16 and computes_in_half(model))
    why = "" if heals else nothing_to_convert(model, to)
    if why:
        return _as_it_is(model, why)
    require_names(arguments, [model])
    chosen = inputs_to_measure_on(arguments)
    if chosen["inputs"] not in (None, arguments.inputs):  # the sets of a file
        chosen["inputs"] = [(_set_name(arguments.inputs, name), arrays) for name, arrays in chosen["inputs"]]
    made_up = arguments.measure or arguments.max_error is not None
    result = convert(
        model,
        to=arguments.to,
        target=arguments.target,
        io=arguments.io,
        keep=arguments.keep,
        lower=arguments.force,
        inputs=chosen["inputs"] if chosen["inputs"] is not None or not made_up else "made-up",
        dims=chosen["dims"],
        ranges=given_ranges(arguments),
        max_error=arguments.max_error,
        weights_only=arguments.weights_only,
        rescale=arguments.rescale,
        in_place=True,
        progress=announce,
    )
    return result if arguments.outcome is not None else _with_tried_way_out(arguments, result)


def _with_tried_way_out(arguments: argparse.Namespace, result: ConvertResult) -> ConvertResult:
    """Return the result with a way out, tried on it, where the target refuses it."""
    if not any(finding.help.startswith(TRIES) for finding in result.diagnostics):
        return result
    from castsmith.cli.advice import tried_way_out

    output = command_file(arguments.output)
    way_out = tried_way_out(result.model, output, output, arguments.target)
    diagnostics = [
        replace(finding, help=way_out) if finding.help.startswith(TRIES) else finding for finding in result.diagnostics
    ]
    return replace(result, diagnostics=diagnostics)


def _as_it_is(model: onnx_ir.Model, why: str) -> Result:
    """Return the result for one of many models that has nothing to convert: it belongs to the others, unchanged."""
    note = Diagnostic(
        NOTHING_TO_CONVERT.code, Severity.NOTE, Site(model.graph.name or ""), why, "it is written unchanged"
    )
    return ConvertResult(model, diagnostics=[note])


def _set_name(path: str, name: str) -> str:
    """Return the name of a set of inputs, with the file that it is from."""
    file = shown(path)
    return file if name == "given" else f"{file}/{name}"
