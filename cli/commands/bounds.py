"""castsmith bounds: intervals of the values of a model, and those that a narrower type does not hold."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from onnx_ir import DataType

from castsmith.cli.collisions import require_no_datafile
from castsmith.cli.exit_codes import DONE, REFUSED
from castsmith.cli.inputs import given_ranges, read_inputs
from castsmith.cli.models import read_model, source_of
from castsmith.cli.output import is_html, report_path, write_report
from castsmith.cli.promotion import promotion_rules
from castsmith.cli.streams import require_one_stdin, shown
from castsmith.cli.text.bounds import bounds_data, bounds_lines
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines, progress
from castsmith.ir.walks import files_read
from castsmith.lowering.accuracy import fed
from castsmith.lowering.faults import computes_in_half, half_faults, widened
from castsmith.numerics.types import parse_type
from castsmith.verification.bounds import bounds, exceeding

if TYPE_CHECKING:
    pass

_MOST = 20


def run(arguments: argparse.Namespace) -> int:
    require_one_stdin((arguments.input, arguments.inputs))
    report = report_path(arguments, [arguments.input])
    ranges = given_ranges(arguments)
    with progress(2, quiet=arguments.quiet) as announce:
        announce(f"reading {shown(arguments.input)}")
        model = read_model(source_of(arguments.input))
        require_no_datafile("--report", report, files_read(model))
        inputs = None if arguments.inputs is None else [arrays for _, arrays in read_inputs(arguments.inputs)]
        announce("computing bounds")
        half = arguments.to is not None and parse_type(arguments.to) == DataType.FLOAT16 and computes_in_half(model)
        places = half_faults(model, inputs, ranges) if half else None
        if half:  # what values would be, if float16 held them
            model = widened(model)
            inputs = None if inputs is None else [fed(model, arrays) for arrays in inputs]
        found_bounds = bounds(model, ranges=ranges, inputs=inputs, promotion=promotion_rules(arguments))
        excess = None if arguments.to is None else exceeding(found_bounds, arguments.to)
    data = {"model": arguments.input, "to": arguments.to, **bounds_data(found_bounds, excess, places)}
    if report is not None:
        page = None
        if is_html(report):
            from castsmith.cli.page.bounds import bounds_page

            page = bounds_page(shown(arguments.input), model, found_bounds, arguments.to, excess)
        write_report(report, data, page)
    if arguments.json:
        print_json(data)
    elif not arguments.quiet:
        print_lines(bounds_lines(found_bounds, excess, arguments.to, None if arguments.all else _MOST, places))
    return REFUSED if excess or places else DONE
