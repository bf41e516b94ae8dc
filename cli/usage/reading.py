"""The arguments of the commands that read models, or compare them."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_engine,
    add_inputs,
    add_jobs,
    add_promotion,
    add_quiet,
    add_ranges,
    add_settings,
    integer,
    text_value,
)
from castsmith.verification.evaluate.names import MEMORY

_LEVELS = ("note", "warning", "error")
FAIL_ON = "warning"


def _add_check(commands: Commands) -> None:
    parser = add_command(
        commands,
        "check",
        "check:run",
        "find type errors, and what a target would reject",
        (),
        ("sarif", "github", "markdown"),
    )
    parser.epilog = (
        "Settings of a project: castsmith.toml, or [tool.castsmith] in pyproject.toml, may set the target, the"
        f" promotion, --select, --ignore, --fail-on and --baseline. Options win. {parser.epilog}"
    )
    parser.add_argument(
        "input",
        metavar="IN",
        nargs="+",
        help="an ONNX model, valid or not, or several: files, folders, patterns; - for standard input",
    )
    parser.add_argument("--target", metavar="T", help="the runtime that the model is for (see castsmith targets)")
    help_text = "report nodes that leave the device as errors"
    parser.add_argument("--strict-device", action="store_true", help=help_text)
    help_text = "arrays to run a float16 model on, to find values that overflow or vanish: an .npz, or a folder"
    parser.add_argument("--inputs", metavar="FILE.npz", type=text_value, help=help_text)
    select = parser.add_argument_group("findings (castsmith explain lists the codes)")
    help_text = "show only these codes, separated by commas"
    select.add_argument("--select", metavar="CODES", type=text_value, help=help_text)
    help_text = "hide these codes, separated by commas"
    select.add_argument("--ignore", metavar="CODES", type=text_value, help=help_text)
    help_text = f"exit with 1 for findings of this severity or higher (default: {FAIL_ON})"
    select.add_argument("--fail-on", choices=_LEVELS, help=help_text)
    select.add_argument("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    help_text = "hide the accepted findings in this file"
    select.add_argument("--baseline", metavar="FILE", type=text_value, help=help_text)
    help_text = "accept all findings: write them to the --baseline file"
    select.add_argument("--write-baseline", action="store_true", help=help_text)
    select.add_argument("--all", action="store_true", help="on a terminal, list similar findings too")
    add_promotion(parser)
    add_jobs(parser)
    help_text = "also write a file: json, sarif or markdown, such as sarif=findings.sarif"
    parser.add_argument("--also", metavar="FORMAT=FILE", action="append", default=[], help=help_text)
    add_settings(parser)
    add_quiet(parser, "the findings")


def _add_bounds(commands: Commands) -> None:
    summary = "show the range of each value, and which ones overflow another type"
    parser = add_command(commands, "bounds", "bounds:run", summary)
    parser.add_argument("input", metavar="MODEL", help="an ONNX model; - for standard input")
    add_ranges(parser)
    parser.add_argument(
        "--inputs", metavar="FILE.npz", help="arrays to measure on: `name`, or `set/name` for several sets"
    )
    parser.add_argument(
        "--to", metavar="TYPE", help="list the values that overflow or vanish in this type, such as float16"
    )
    parser.add_argument("--all", action="store_true", help="print every value, not only the widest")
    parser.add_argument("--report", metavar="FILE", help="write a plot of the bounds (.html), or all bounds (.json)")
    add_promotion(parser)
    add_quiet(parser, "the bounds")


def _add_info(commands: Commands) -> None:
    parser = add_command(commands, "info", "info:run", "show what a model holds, and which targets can run it")
    help_text = "an ONNX model, or several: files, folders, patterns; - for standard input"
    parser.add_argument("input", metavar="MODEL", nargs="+", help=help_text)


def _add_show(commands: Commands) -> None:
    parser = add_command(commands, "show", "show:run", "print a model as text, one item per line")
    parser.epilog = (
        "The graph determines the order of lines. Large constants are shown as a digest, external data as its"
        f" location. In git: git config diff.onnx.textconv 'castsmith show --textconv'. {parser.epilog}"
    )
    parser.add_argument("input", metavar="MODEL", help="an ONNX model; - for standard input")
    help_text = "if a file cannot be read, print the reason and exit with 0, as git needs"
    parser.add_argument("--textconv", action="store_true", help=help_text)


def _add_diff(commands: Commands) -> None:
    parser = add_command(commands, "diff", "diff:run", "show the differences between two models", (), ("html",))
    parser.epilog = (
        "Ignored: the names of intermediate values, the order of nodes, whether a constant is an"
        " initializer or a Constant node, attributes at their defaults, the producer and documentation; and,"
        " unless --all is given, the metadata of nodes and unused constants. In git: git config diff.onnx.command"
        f" 'castsmith diff'; with git's seven arguments the exit code is 0. {parser.epilog}"
    )
    parser.add_argument("a", metavar="A", help="an ONNX model; - for standard input")
    parser.add_argument("b", metavar="B", nargs="?", help="the model to compare it with")
    parser.add_argument("rest", nargs="*", default=[], help=argparse.SUPPRESS)
    help_text = "also compare the metadata of nodes and unused constants"
    parser.add_argument("--all", action="store_true", help=help_text)
    help_text = "show every difference, without grouping similar ones"
    parser.add_argument("--full", action="store_true", help=help_text)
    help_text = "write a page with all differences (.html), or data (.json)"
    parser.add_argument("--report", metavar="FILE", help=help_text)
    add_quiet(parser, "the differences")


_EPILOG = (
    "Each model is run one operator at a time. Conversions (Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear),"
    " promotions and QONNX Trunc are computed exactly by Castsmith, since ONNX Runtime merges chains of casts even with"
    " its optimization off; everything else is run by the engine. The result of a runtime for B as a whole is"
    " reported separately."
)


def _add_verify(commands: Commands) -> None:
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
        raise argparse.ArgumentTypeError("must be a finite number of seconds, more than 0")
    return number


def _add_certificate(commands: Commands) -> None:
    parser = add_command(commands, "certificate", "certificate:run", "check a certificate of castsmith optimize")
    parser.description = (
        "Replay the rewrites in a certificate on the model IN, require that they lead to OUT, and check that each keeps"
        " every value. castsmith optimize --certificate writes one."
    )
    parser.epilog = (
        "The checker is one file that uses nothing else of Castsmith, castsmith/verification/checker.py; you can also"
        f" run it alone: python checker.py IN OUT C.json. {parser.epilog}"
    )
    parser.add_argument("a", metavar="IN", help="the model before castsmith optimize")
    parser.add_argument("b", metavar="OUT", help="the model after it")
    parser.add_argument("certificate", metavar="C.json", help="the certificate")
    add_quiet(parser, "what is certified")


def add_to(commands: Commands) -> None:
    for add in (_add_check, _add_bounds, _add_info, _add_show, _add_diff, _add_verify, _add_certificate):
        add(commands)
