"""The arguments of castsmith conformance."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, add_json, add_quiet, canonical_type, integer


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "conformance",
        "conformance:run_list",
        "write test vectors of every conversion, or run an engine on them",
    )
    add_json(parser)
    inner = parser.add_subparsers(metavar="[export | run]")
    export = add_command(
        inner, "export", "conformance:run_export", "write the suite: models, data sets, raw vectors and a manifest"
    )
    export.add_argument("output", metavar="DIR", help="a new directory")
    export.add_argument(
        "--opset", metavar="N", type=integer(1), help="the opset of all models (default: each that differs)"
    )
    _add_types(export)
    add_quiet(export)
    add_json(export, nested=True)
    run = add_command(inner, "run", "conformance:run_engine", "convert the vectors with an engine and compare")
    run.add_argument("input", metavar="DIR", nargs="?", help="an exported suite (default: all vectors)")
    run.add_argument("--engine", metavar="NAME", required=True, help="castsmith conformance lists the engines")
    run.add_argument("--python", metavar="PATH", help="the interpreter that has the engine (default: this one)")
    run.add_argument("--match", metavar="TEXT", default="", help="only vectors whose name contains TEXT")
    _add_types(run)
    add_json(run, nested=True)


def _add_types(parser: argparse.ArgumentParser) -> None:
    help_text = "element types of inputs and outputs (default: all)"
    parser.add_argument("--types", metavar="TYPE", nargs="+", type=canonical_type, default=[], help=help_text)
