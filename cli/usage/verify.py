"""The arguments of castsmith verify."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_engine,
    add_inputs,
    add_jobs,
    add_json,
    add_promotion,
    add_quiet,
    integer,
)
from castsmith.verification.evaluate.names import MEMORY

_EPILOG = (
    "Each model is run one operator at a time. Conversions (Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear),"
    " promotions and QONNX Trunc are computed exactly by Castsmith, since ONNX Runtime merges chains of casts even with"
    " its optimization off; everything else is run by the engine. The result of a runtime for B as a whole is"
    " reported separately."
)


def add_to(commands: Commands) -> None:
    summary = "run two models and compare their results bit by bit"
    parser = add_command(commands, "verify", "verify:run", summary)
    parser.epilog = f"{_EPILOG} {parser.epilog}"
    parser.add_argument("a", metavar="A", help="an ONNX model; mixed types are allowed; - for standard input")
    parser.add_argument("b", metavar="B", help="the model to compare with; two folders are compared file by file")
    add_engine(parser)
    parser.add_argument("--sets", metavar="N", type=integer(1), default=12, help="number of input sets (default: 12)")
    parser.add_argument(
        "--seed", metavar="N", type=integer(0), default=0, help="seed of the random inputs (default: 0)"
    )
    add_inputs(parser)
    for name, text in (("rtol", "relative"), ("atol", "absolute")):
        parser.add_argument(
            f"--{name}",
            metavar="[NAME=]X",
            action="append",
            default=[],
            type=_tolerance,
            help=f"allow this {text} difference, for all outputs or for the output NAME",
        )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=_seconds,
        help="stop after this much processor time (default: 20 to 120, by size)",
    )
    parser.add_argument(
        "--memory",
        metavar="MIB",
        type=integer(1),
        default=MEMORY,
        help=f"skip what needs more memory than this, not counting the models (default: {MEMORY})",
    )
    parser.add_argument(
        "--allow-type-change",
        metavar="NAME",
        action="append",
        default=[],
        help="allow this input or output another element type, and compare its codes or values; `all` for any",
    )
    help_text = "ignore differences in code that no input reached"
    parser.add_argument("--allow-unreached", action="store_true", help=help_text)
    parser.add_argument("--prove", action="store_true", help="say equal only if it is proven for all inputs")
    help_text = "a certificate of castsmith optimize that leads from A to B; if it holds, no model is run"
    parser.add_argument("--certificate", metavar="FILE", help=help_text)
    parser.add_argument("--nan-bits", action="store_true", help="distinguish NaN by sign and payload")
    help_text = "write a page with the errors along the graph (.html), or all results (.json)"
    parser.add_argument("--report", metavar="FILE", help=help_text)
    add_promotion(parser)
    add_jobs(parser)
    add_quiet(parser, "the verdict")
    add_json(parser)


def _tolerance(text: str) -> str:
    """Return the text of a tolerance, which commands of many models pass on as it is."""
    try:
        float(text.rpartition("=")[2])
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither a number nor of the form NAME=NUMBER") from None
    return text


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0 seconds")
    return number
