"""castsmith check: findings about the types of a model, one a line; nothing is written."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, add_promotion, print_json, promotion_rules
from castsmith.cli.outcome import DONE, REFUSED


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "check", run, "what is wrong with the types of a model; exit code 1 if anything is")
    parser.add_argument("input", metavar="IN", help="an ONNX model, even one that no runtime accepts")
    parser.add_argument("--target", metavar="T", help="a runtime that the model is to run on (see castsmith targets)")
    add_promotion(parser)
    parser.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.console import print_lines, progress
    from castsmith.cli.findings import findings
    from castsmith.cli.findings_text import finding_line
    from castsmith.cli.report import diagnostic_data
    from castsmith.cli.wrapping import Line
    from castsmith.ir.loading import load
    from castsmith.lowering.targets import load_target

    target = None if arguments.target is None else load_target(arguments.target)
    rules = promotion_rules(arguments)
    with progress() as announce:
        announce(f"checking {arguments.input}")
        found = list(findings(load(arguments.input), rules, target))
    if arguments.format == "sarif":
        from castsmith.cli.sarif import sarif_text

        print(sarif_text(arguments.input, found), end="")
    elif arguments.format == "json":
        data = [diagnostic_data(record) for record in found]
        print_json({"input": arguments.input, "target": arguments.target, "findings": data})
    else:
        print_lines(Line((("", finding_line(arguments.input, record)),), 4) for record in found)
    return REFUSED if found else DONE
