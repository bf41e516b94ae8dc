"""castsmith diff: the differences in meaning between two models, independent of their producers."""

from __future__ import annotations

import argparse

from castsmith.cli.arguments import Commands, add_command, print_json
from castsmith.cli.exit_codes import DONE, REFUSED


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "diff", run, "compare two models; exit code 1 if they differ")
    parser.epilog = (
        "Ignored: the names of intermediate values, the order of nodes, whether a constant is an"
        " initializer or a Constant node, attributes at their defaults, the producer and documentation; and,"
        f" unless --all is given, the metadata of nodes and unused constants. {parser.epilog}"
    )
    parser.add_argument("a", metavar="A", help="an ONNX model; - for standard input")
    parser.add_argument("b", metavar="B", help="the model to compare it with")
    help_text = "also compare the metadata of nodes and unused constants"
    parser.add_argument("--all", action="store_true", help=help_text)
    help_text = "show every difference, including places that changed alike"
    parser.add_argument("--full", action="store_true", help=help_text)
    parser.add_argument("--format", choices=("text", "json", "html"), default="text", help="default: text")
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")


def run(arguments: argparse.Namespace) -> int:
    from castsmith.cli.models import read_model, require_one_stdin, shown, source_of
    from castsmith.cli.report import comparison_data
    from castsmith.cli.text import comparison_lines, print_lines, progress
    from castsmith.ir.diff import diff

    require_one_stdin((arguments.a, arguments.b))
    names = shown(arguments.a), shown(arguments.b)
    with progress() as announce:
        announce(f"comparing {names[0]} with {names[1]}")
        a, b = read_model(source_of(arguments.a)), read_model(source_of(arguments.b))
        found = diff(a, b, everything=arguments.all)
    if arguments.format == "html":
        from castsmith.cli.page import diff_page, html_text

        print(html_text(diff_page(" \u2192 ".join(names), a, b, found)), end="")
    elif arguments.format == "json":
        print_json({"a": arguments.a, "b": arguments.b, "same": not found, **comparison_data(found)})
    else:
        print_lines(comparison_lines(*names, found, full=arguments.full))
    return REFUSED if found else DONE
