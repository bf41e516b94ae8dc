"""castsmith dev conformance: the suite of vectors for conversions, and what an engine makes of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from castsmith.cli.exit_codes import DONE, REFUSED
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines
from castsmith.cli.text.terminal import Line, print_line, table_lines
from castsmith.conformance.engines.running import run
from castsmith.conformance.engines.worker import ENGINES
from castsmith.conformance.exporting import export, suite
from castsmith.conformance.judging import count
from castsmith.conformance.reading import read_suite
from castsmith.conformance.vectors import every_type
from castsmith.numerics.errors import OptionError, did_you_mean
from castsmith.numerics.types import parse_type, type_name

if TYPE_CHECKING:
    from onnx_ir import DataType

    from castsmith.conformance.engines.running import Run
    from castsmith.conformance.judging import Outcome
    from castsmith.conformance.vectors import Vector

_MOST_SHOWN = 40
"""Lines of wrong vectors in the text; --json has all."""


def run_list(arguments: argparse.Namespace) -> int:
    if arguments.json:
        print_json({"engines": [{"name": name, "package": package} for name, (package, _) in ENGINES.items()]})
    else:
        print_lines(table_lines([("engine", "package"), *((name, package) for name, (package, _) in ENGINES.items())]))
    return DONE


def run_export(arguments: argparse.Namespace) -> int:
    exported = export(arguments.output, _types(arguments), arguments.opset)
    if arguments.json:
        print_json({"output": arguments.output, **asdict(exported)})
    elif not arguments.quiet:
        print_line(
            f"{arguments.output}: {exported.vectors:,} vectors of {exported.elements:,} elements, {exported.models:,}"
            f" models, {exported.size / 1e6:.0f} MB; SHA-256 of the manifest {exported.sha256}"
        )
    return DONE


def run_engine(arguments: argparse.Namespace) -> int:
    report = run(_engine(arguments.engine), _vectors(arguments), arguments.python)
    bad = [outcome for outcome in report.outcomes if outcome.status in ("wrong", "crashes")]
    if arguments.json:
        print_json(
            {
                "engine": report.engine,
                "version": report.version,
                "vectors": [asdict(outcome) for outcome in report.outcomes],
            }
        )
    else:
        print_lines(_lines(report, bad))
    return REFUSED if bad else DONE


def _engine(name: str) -> str:
    if name not in ENGINES:
        raise OptionError(
            f"unknown engine {name!r}; {did_you_mean(name, ENGINES, 'castsmith dev conformance lists them')}"
        )
    return name


def _vectors(arguments: argparse.Namespace) -> Iterator[Vector]:
    """Yield the vectors of the directory, or those of the suite; raise OptionError if nothing is left."""
    types = _types(arguments)
    every = suite(types) if arguments.input is None else read_suite(arguments.input, arguments.match)
    requested = {type_name(dtype) for dtype in types}
    any_wrong = False
    for vector in every:
        vector_types = {
            type_name(dtype) for dtype in (*(operand.dtype for operand in vector.inputs[:1]), vector.output_type)
        }
        if arguments.match in vector.name and vector_types <= requested:
            any_wrong = True
            yield vector
    if not any_wrong:
        raise OptionError("no vector has these types and a name that contains the text of --match.")


def _types(arguments: argparse.Namespace) -> tuple[DataType, ...]:
    types = {parse_type(name) for name in arguments.types}
    return tuple(dtype for dtype in every_type() if not types or dtype in types)


def _lines(report: Run, bad: list[Outcome]) -> Iterator[Line]:
    counts = ", ".join(f"{number:,} {status}" for status, number in count(report.outcomes).items())
    yield Line((("bold", f"{report.engine} {report.version}"), ("", f": {counts}")))
    heads = ("vector", "wrong", "of", "input", "expected", "got")
    rows = [_row(outcome) for outcome in bad[:_MOST_SHOWN]]
    yield from table_lines([heads, *rows], head=True) if rows else ()
    if len(bad) > _MOST_SHOWN:
        yield Line((("", f"and {len(bad) - _MOST_SHOWN:,} more; --json lists all"),))


def _row(outcome: Outcome) -> tuple[str, ...]:
    if outcome.first is None:
        return outcome.name, "", "", "", "", f"crashes ({outcome.reason})"
    return (
        outcome.name,
        str(outcome.wrong),
        str(outcome.elements),
        outcome.first.input,
        outcome.first.expected,
        outcome.first.got,
    )
