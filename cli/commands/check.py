"""castsmith check: findings about the types of models, one per line; nothing is written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_format,
    add_promotion,
    add_quiet,
    format_of,
    print_json,
    promotion_rules,
    text_value,
)
from castsmith.cli.batch import means_many, models_of
from castsmith.cli.exit_codes import DONE, REFUSED, Failure, complain, failure_of, worst

if TYPE_CHECKING:
    from castsmith.ir.records import Diagnostic
    from castsmith.ir.targets import Target
    from castsmith.numerics.promotion import PromotionRules

_LEVELS = ("NOTE", "WARNING", "ERROR")
"""The names of `Severity`, lowest first; it is not imported for --help."""

Checked = list[tuple[str, "list[Diagnostic] | Failure"]]
"""Each file with its findings, or the reason why it was not checked."""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "check", run, "report invalid types in models; exit code 1 for findings")
    parser.add_argument(
        "input",
        metavar="IN",
        nargs="+",
        help="an ONNX model, valid or not, or several: files, folders, patterns; - for standard input",
    )
    parser.add_argument("--target", metavar="T", help="the runtime that the model is for (see castsmith targets)")
    select = parser.add_argument_group("findings (castsmith explain lists the codes)")
    select.add_argument(
        "--select", metavar="CODES", type=text_value, help="report only these codes, separated by commas"
    )
    select.add_argument(
        "--ignore", metavar="CODES", type=text_value, help="do not report these codes, such as intended lossy casts"
    )
    levels = tuple(level.lower() for level in _LEVELS)
    help_text = "exit with 1 for findings of this severity or higher (default: note, that is any)"
    select.add_argument("--fail-on", choices=levels, default=levels[0], help=help_text)
    add_promotion(parser)
    add_format(parser, "sarif")
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check every file; an unreadable file does not keep the others from being checked."""
    from castsmith.cli.models import require_one_stdin
    from castsmith.ir.targets import load_target

    require_one_stdin(arguments.input)
    target = None if arguments.target is None else load_target(arguments.target)
    rules, wanted = promotion_rules(arguments), _wanted(arguments)
    files = [file for file, _ in models_of(arguments.input)]
    if not means_many(arguments.input):
        checked: Checked = [(files[0], _findings(files[0], rules, target, wanted))]
    else:
        checked = [(file, _outcome(file, rules, target, wanted)) for file in files]
    _print(arguments, checked)
    return worst(_exit_code(found, arguments.fail_on) for _, found in checked)


def _exit_code(found: list[Diagnostic] | Failure, fail_on: str) -> int:
    if isinstance(found, Failure):
        return found.exit_code
    least = _LEVELS.index(fail_on.upper())
    return REFUSED if any(_LEVELS.index(record.severity.name) >= least for record in found) else DONE


def _outcome(
    file: str, rules: PromotionRules, target: Target | None, wanted: tuple[frozenset[str] | None, frozenset[str]]
) -> list[Diagnostic] | Failure:
    try:
        return _findings(file, rules, target, wanted)
    except Exception as error:  # one file of many: it is reported, and the others are checked
        failure = failure_of(error, {"command": "check", "input": file})
        complain(failure.message)
        return failure


def _findings(
    file: str, rules: PromotionRules, target: Target | None, wanted: tuple[frozenset[str] | None, frozenset[str]]
) -> list[Diagnostic]:
    from castsmith.cli.models import read_model, shown, source_of
    from castsmith.cli.text import as_command, progress
    from castsmith.lowering.check import check

    selected, ignored = wanted
    with progress() as announce:
        announce(f"checking {shown(file)}")
        found = map(as_command, check(read_model(source_of(file)), target=target, promotion=rules))
        return [f for f in found if f.code not in ignored and (selected is None or f.code in selected)]


def _wanted(arguments: argparse.Namespace) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Return the codes to select, None for all, and those to ignore."""
    from castsmith.lowering.registry import OptionError

    selected = None if arguments.select is None else _codes(arguments.select)
    ignored = _codes(arguments.ignore or "")
    if selected is not None and selected & ignored:
        raise OptionError(f"--select and --ignore both name {min(selected & ignored)}: give it to one of them.")
    return selected, ignored


def _codes(text: str) -> frozenset[str]:
    from castsmith.cli.codes import FINDINGS
    from castsmith.numerics.errors import OptionError, did_you_mean

    codes = frozenset(filter(None, (word.strip() for word in text.split(","))))
    unknown = sorted(codes - {page.code for page in FINDINGS})
    if unknown:
        way_out = did_you_mean(unknown[0], [page.code for page in FINDINGS], "`castsmith explain` lists them")
        raise OptionError(f"unknown code {unknown[0]!r} of a finding; {way_out}")
    return codes


def _print(arguments: argparse.Namespace, checked: Checked) -> None:
    from castsmith.cli.models import shown
    from castsmith.cli.text import Line, finding_line, print_lines

    found = [(file, records) for file, records in checked if not isinstance(records, Failure)]
    shape = format_of(arguments)
    if shape == "sarif":
        from castsmith.cli.text import sarif_text

        print(sarif_text(found), end="")
    elif shape == "json":
        print_json(_data(arguments, checked))
    elif not arguments.quiet:
        print_lines(
            Line((("", finding_line(shown(file), record)),), 4) for file, records in found for record in records
        )


def _data(arguments: argparse.Namespace, checked: Checked) -> dict[str, Any]:
    """Return one file in the layout check-1.json, many in check-many-1.json."""
    models = [{"input": file, **_model_data(found)} for file, found in checked]
    if not means_many(arguments.input):
        return {"input": models[0]["input"], "target": arguments.target, "findings": models[0]["findings"]}
    return {"target": arguments.target, "models": models}


def _model_data(found: list[Diagnostic] | Failure) -> dict[str, Any]:
    from castsmith.cli.report import diagnostic_data

    if isinstance(found, Failure):
        return {"findings": [], **found.data()}
    return {"findings": [diagnostic_data(record) for record in found], "error": None}
