"""The arguments of the commands that need no model."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_promotion,
    add_quiet,
    canonical_type,
    integer,
)


def _add_cast(commands: Commands) -> None:
    parser = add_command(commands, "cast", "values:run_cast", "cast values as the ONNX standard defines")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the source type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    help_text = "the type of the values (default: int64 if all are integers, otherwise double)"
    parser.add_argument("--from", dest="source", metavar="TYPE", help=help_text)
    parser.add_argument("--to", metavar="TYPE", required=True, help="the type to cast to")
    parser.add_argument("--no-saturate", action="store_true", help="do not saturate (the attribute saturate = 0)")
    parser.add_argument(
        "--round-mode", metavar="MODE", help="rounding to float8e8m0: up (the default), down or nearest"
    )
    parser.add_argument(
        "--opset", metavar="N", type=integer(1), help="use the Cast of this opset (default: the newest)"
    )


def _add_targets(commands: Commands) -> None:
    parser = add_command(commands, "targets", "targets:run", "list the known targets")
    inner = parser.add_subparsers(metavar="[show NAME | probe NAME]")
    add_command(inner, "list", "targets:run", "list the known targets")
    show = add_command(inner, "show", "targets:run_show", "show the facts about one target")
    show.add_argument("name", metavar="NAME", help="a target, or the path of a JSON file that describes one")
    probe = add_command(inner, "probe", "targets:run_probe", "probe the installed runtime, and print a new target file")
    probe.add_argument("name", metavar="NAME", help="onnxruntime-cpu or openvino-cpu")


def _add_reference(commands: Commands) -> None:
    parser = add_command(commands, "passes", "reference:run_passes", "list the passes, in the order of optimize")
    parser = add_command(
        commands, "completion", "reference:run_completion", "print a shell script that completes this command"
    )
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def _add_explain(commands: Commands) -> None:
    parser = add_command(
        commands, "explain", "explain:run", "explain the code of a finding, a rewrite or a skipped change"
    )
    parser.add_argument("codes", metavar="CODE", nargs="*", help="a code such as fold-undefined; without one, list all")


def _add_dev(commands: Commands) -> None:
    parser = add_command(commands, "dev", "", "compute and test conversions: trunc, promote, conformance")
    inner = parser.add_subparsers(metavar="COMMAND")
    _add_trunc(inner)
    _add_promote(inner)
    _add_conformance(inner)


def _add_trunc(commands: Commands) -> None:
    parser = add_command(commands, "trunc", "values:run_trunc", "compute QONNX Trunc of values: drop their low bits")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    parser.add_argument("--scale", metavar="X", default="1", help="the scale of the input (default: 1)")
    parser.add_argument("--zero-point", metavar="X", default="0", help="the zero point of the input (default: 0)")
    parser.add_argument("--in-bitwidth", metavar="N", type=integer(1), required=True, help="bits of the input")
    parser.add_argument("--out-bitwidth", metavar="N", type=integer(1), required=True, help="bits of the output")
    parser.add_argument("--out-scale", metavar="X", help="the scale of the output (version 2 only)")
    parser.add_argument(
        "--rounding-mode",
        metavar="MODE",
        default="FLOOR",
        help="ROUND, CEIL, FLOOR (the default), UP, DOWN, HALF_UP or HALF_DOWN",
    )
    parser.add_argument("--unsigned", action="store_true", help="version 2: clip to unsigned integers, as signed = 0")
    parser.add_argument("--narrow", action="store_true", help="version 2: clip to the narrow range, as narrow = 1")
    parser.add_argument(
        "--type", metavar="TYPE", default="float", help="type of the numbers: float (the default) or double"
    )


def _add_promote(commands: Commands) -> None:
    parser = add_command(
        commands, "promote", "values:run_promote", "print the common type of operands of several types"
    )
    parser.add_argument("types", metavar="TYPE", nargs="+", help="an element type, such as float16, bf16 or i64")
    help_text = "indices of scalar operands, from 0, for a --promotion that tells scalars apart"
    parser.add_argument("--scalar", metavar="INDEX", nargs="+", type=integer(0), default=[], help=help_text)
    add_promotion(parser)


def _add_conformance(commands: Commands) -> None:
    parser = add_command(
        commands,
        "conformance",
        "conformance:run_list",
        "write test vectors of every conversion, or run an engine on them",
    )
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
    run = add_command(inner, "run", "conformance:run_engine", "convert the vectors with an engine and compare")
    run.add_argument("input", metavar="DIR", nargs="?", help="an exported suite (default: all vectors)")
    run.add_argument("--engine", metavar="NAME", required=True, help="castsmith dev conformance lists the engines")
    run.add_argument("--python", metavar="PATH", help="the interpreter that has the engine (default: this one)")
    run.add_argument("--match", metavar="TEXT", default="", help="only vectors whose name contains TEXT")
    _add_types(run)


def _add_types(parser: argparse.ArgumentParser) -> None:
    help_text = "element types of inputs and outputs (default: all)"
    parser.add_argument("--types", metavar="TYPE", nargs="+", type=canonical_type, default=[], help=help_text)


def add_to(commands: Commands) -> None:
    for add in (_add_cast, _add_targets, _add_reference, _add_explain, _add_dev):
        add(commands)
