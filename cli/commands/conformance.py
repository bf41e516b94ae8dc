"""castsmith conformance: the suite of vectors for conversions, and what an engine makes of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from castsmith.cli.arguments import Commands, add_command, add_json, add_quiet, canonical_type, integer, print_json
from castsmith.cli.exit_codes import DONE, REFUSED, cleaned_up_if_interrupted
from castsmith.cli.text.terminal import Line, print_line, print_lines, table_lines

if TYPE_CHECKING:
    from onnx_ir import DataType

    from castsmith.conformance.engines.running import Run
    from castsmith.conformance.judging import Outcome
    from castsmith.conformance.vectors import Vector

_MOST_SHOWN = 40
"""Lines of wrong vectors in the text; --json has all."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "conformance", run_list, "write test vectors of every conversion, or run an engine on them"
    )
    add_json(parser)
    inner = parser.add_subparsers(metavar="[export | run]")
    export = add_command(inner, "export", run_export, "write the suite: models, data sets, raw vectors and a manifest")
    export.add_argument("output", metavar="DIR", help="a new directory")
    export.add_argument(
        "--opset", metavar="N", type=integer(1), help="the opset of all models (default: each that differs)"
    )
    _add_types(export)
    add_quiet(export)
    add_json(export, nested=True)
    run = add_command(inner, "run", run_engine, "convert the vectors with an engine and compare")
    run.add_argument("input", metavar="DIR", nargs="?", help="an exported suite (default: all vectors)")
    run.add_argument("--engine", metavar="NAME", required=True, help="castsmith conformance lists the engines")
    run.add_argument("--python", metavar="PATH", help="the interpreter that has the engine (default: this one)")
    run.add_argument("--match", metavar="TEXT", default="", help="only vectors whose name contains TEXT")
    _add_types(run)
    add_json(run, nested=True)


def _add_types(parser: argparse.ArgumentParser) -> None:
    help_text = "element types of inputs and outputs (default: all)"
    parser.add_argument("--types", metavar="TYPE", nargs="+", type=canonical_type, default=[], help=help_text)


def run_list(arguments: argparse.Namespace) -> int:
    from castsmith.conformance.engines.worker import ENGINES

    if arguments.json:
        print_json({"engines": [{"name": name, "package": package} for name, (package, _) in ENGINES.items()]})
    else:
        print_lines(table_lines([("engine", "package"), *((name, package) for name, (package, _) in ENGINES.items())]))
    return DONE


def run_export(arguments: argparse.Namespace) -> int:
    from castsmith.conformance.exporting import export

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
    from castsmith.conformance.engines.running import run

    made = run(_engine(arguments.engine), _vectors(arguments), arguments.python)
    bad = [each for each in made.outcomes if each.status in ("wrong", "crashes")]
    if arguments.json:
        print_json(
            {"engine": made.engine, "version": made.version, "vectors": [asdict(each) for each in made.outcomes]}
        )
    else:
        print_lines(_lines(made, bad))
    return REFUSED if bad else DONE


def _engine(name: str) -> str:
    from castsmith.conformance.engines.worker import ENGINES
    from castsmith.numerics.errors import OptionError, did_you_mean

    if name not in ENGINES:
        raise OptionError(f"unknown engine {name!r}; {did_you_mean(name, ENGINES, 'castsmith conformance lists them')}")
    return name


def _vectors(arguments: argparse.Namespace) -> Iterator[Vector]:
    """Yield the vectors of the directory, or those of the suite; raise OptionError if nothing is left."""
    from castsmith.conformance.exporting import suite
    from castsmith.conformance.reading import read_suite
    from castsmith.numerics.errors import OptionError
    from castsmith.numerics.types import type_name

    types = _types(arguments)
    every = suite(types) if arguments.input is None else read_suite(arguments.input, arguments.match)
    wanted = {type_name(each) for each in types}
    found = False
    for vector in every:
        named = {type_name(each) for each in (*(given.dtype for given in vector.inputs[:1]), vector.output_type)}
        if arguments.match in vector.name and named <= wanted:
            found = True
            yield vector
    if not found:
        raise OptionError("no vector has these types and a name that contains the text of --match.")


def _types(arguments: argparse.Namespace) -> tuple[DataType, ...]:
    from castsmith.conformance.vectors import every_type
    from castsmith.numerics.types import parse_type

    given = {parse_type(name) for name in arguments.types}
    return tuple(dtype for dtype in every_type() if not given or dtype in given)


def _lines(made: Run, bad: list[Outcome]) -> Iterator[Line]:
    from castsmith.conformance.judging import count

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
