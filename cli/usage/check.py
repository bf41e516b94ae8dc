"""The arguments of castsmith check."""

from __future__ import annotations

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_format,
    add_jobs,
    add_promotion,
    add_quiet,
    add_settings,
    text_value,
)

_LEVELS = ("note", "warning", "error")
FAIL_ON = "warning"


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "check", "check:run", "find type errors, and what a target would reject")
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
    add_format(parser, "sarif", "github", "markdown")
    help_text = "also write a file: json, sarif or markdown, such as sarif=findings.sarif"
    parser.add_argument("--also", metavar="FORMAT=FILE", action="append", default=[], help=help_text)
    add_settings(parser)
    add_quiet(parser, "the findings")
