"""castsmith dev conformance: the suite of vectors for conversions, and what an engine makes of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from castsmith.cli.exit_codes import DONE, REFUSED
from castsmith.cli.interrupts import cleaned_up_if_interrupted
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
    with cleaned_up_if_interrupted():
        made = export(arguments.output, _types(arguments), arguments.opset)
    if arguments.json:
        print_json({"output": arguments.output, **asdict(made)})
    elif not arguments.quiet:
        print_line(
            f"{arguments.output}: {made.vectors:,} vectors of {made.elements:,} elements, {made.models:,} models,"
            f" {made.size / 1e6:.0f} MB; SHA-256 of the manifest {made.sha256}"
        )
    return DONE


def run_engine(arguments: argparse.Namespace) -> int:
    made = run(_engine(arguments.engine), _vectors(arguments), arguments.python)
    bad = [outcome for outcome in made.outcomes if outcome.status in ("wrong", "crashes")]
    if arguments.json:
        print_json(
            {"engine": made.engine, "version": made.version, "vectors": [asdict(outcome) for outcome in made.outcomes]}
        )
    else:
        print_lines(_lines(made, bad))
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
    wanted = {type_name(dtype) for dtype in types}
    found = False
    for vector in every:
        named = {type_name(each) for each in (*(given.dtype for given in vector.inputs[:1]), vector.output_type)}
        if arguments.match in vector.name and named <= wanted:
            found = True
            yield vector
    if not found:
        raise OptionError("no vector has these types and a name that contains the text of --match.")


def _types(arguments: argparse.Namespace) -> tuple[DataType, ...]:
    given = {parse_type(name) for name in arguments.types}
    return tuple(dtype for dtype in every_type() if not given or dtype in given)


def _lines(made: Run, bad: list[Outcome]) -> Iterator[Line]:
    counts = ", ".join(f"{number:,} {status}" for status, number in count(made.outcomes).items())
    yield Line((("bold", f"{made.engine} {made.version}"), ("", f": {counts}")))
    heads = ("vector", "wrong", "of", "input", "expected", "got")
    rows = [_row(each) for each in bad[:_MOST_SHOWN]]
    yield from table_lines([heads, *rows], head=True) if rows else ()
    if len(bad) > _MOST_SHOWN:
        yield Line((("", f"and {len(bad) - _MOST_SHOWN:,} more; --json lists all"),))


def _row(each: Outcome) -> tuple[str, ...]:
    if each.first is None:
        return each.name, "", "", "", "", f"crashes ({each.reason})"
    return each.name, str(each.wrong), str(each.elements), each.first.input, each.first.expected, each.first.got
