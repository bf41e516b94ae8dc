"""castsmith check: findings about the types of models, and whether they fail the run; no model is written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_format,
    add_jobs,
    add_promotion,
    add_quiet,
    add_settings,
    format_of,
    print_json,
    promotion_rules,
    text_value,
)
from castsmith.cli.batch.inputs import means_many, models_of
from castsmith.cli.batch.many import run_tasks
from castsmith.cli.batch.pool import useful_processes
from castsmith.cli.batch.worker import Task
from castsmith.cli.exit_codes import DONE, REFUSED, Failure, complain, failure_of, worst

if TYPE_CHECKING:
    from castsmith.cli.gate.baseline import Baseline
    from castsmith.cli.gate.judging import Checked, Rules
    from castsmith.ir.records import Diagnostic
    from castsmith.ir.targets.target import Target
    from castsmith.numerics.promotion.rules import PromotionRules

_LEVELS = ("note", "warning", "error")
_FAIL_ON = "warning"
_OF_WORK = (
    "target",
    "strict_device",
    "promotion",
    "promote_unsafe",
    "pytorch_scalar_promotion",
    "u64_integer_promotion_target",
)
"""The options that the work on one model depends on."""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "check", run, "report invalid types in models; exit code 1 for findings")
    parser.epilog = (
        "Settings of a project: castsmith.toml, or [tool.castsmith] in pyproject.toml, may set target, the promotion,"
        f" --select, --ignore, --fail-on and --baseline; options win over it. {parser.epilog}"
    )
    parser.add_argument(
        "input",
        metavar="IN",
        nargs="+",
        help="an ONNX model, valid or not, or several: files, folders, patterns; - for standard input",
    )
    parser.add_argument("--target", metavar="T", help="the runtime that the model is for (see castsmith targets)")
    help_text = "report types that a device leaves to the CPU as errors, instead of counting them"
    parser.add_argument("--strict-device", action="store_true", help=help_text)
    select = parser.add_argument_group("findings (castsmith explain lists the codes)")
    help_text = "report only these codes, separated by commas"
    select.add_argument("--select", metavar="CODES", type=text_value, help=help_text)
    help_text = "do not report these codes, such as intended lossy casts"
    select.add_argument("--ignore", metavar="CODES", type=text_value, help=help_text)
    help_text = f"exit with 1 for findings of this severity or higher (default: {_FAIL_ON})"
    select.add_argument("--fail-on", choices=_LEVELS, help=help_text)
    select.add_argument("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    help_text = "a file of accepted findings, which are not reported"
    select.add_argument("--baseline", metavar="FILE", type=text_value, help=help_text)
    help_text = "write the findings to the file of --baseline, and exit with 0"
    select.add_argument("--write-baseline", action="store_true", help=help_text)
    select.add_argument("--all", action="store_true", help="on a terminal, list similar findings and consequences too")
    add_promotion(parser)
    add_jobs(parser)
    add_format(parser, "sarif", "github", "markdown")
    add_settings(parser)
    add_quiet(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check every file; an unreadable file does not keep the others from being checked."""
    from castsmith.cli.gate.judging import exit_code
    from castsmith.cli.models import require_one_stdin
    from castsmith.ir.targets.target import as_target

    require_one_stdin(arguments.input)
    target = as_target(arguments.target, strict=arguments.strict_device)
    promotion, rules = promotion_rules(arguments), _rules(arguments)
    if arguments.outcome is not None:
        return _part(arguments, promotion, target)
    files = [file for file, _ in models_of(arguments.input)]
    baseline = _baseline(arguments, files)
    checked = [_judged(each, rules) for each in _checked(arguments, files, promotion, target)]
    if baseline is not None and arguments.write_baseline:
        _write_baseline(baseline, checked, rules)
        return worst(each.failure.exit_code for each in checked if each.failure is not None)
    if baseline is not None:
        checked = [baseline.without(each, rules) for each in checked]
    _print(arguments, checked, baseline)
    codes = [exit_code(each, arguments.fail_on or _FAIL_ON) for each in checked]
    return worst(DONE if code == REFUSED and arguments.exit_zero else code for code in codes)


def _rules(arguments: argparse.Namespace) -> Rules:
    from castsmith.cli.gate.judging import Rules, codes_of
    from castsmith.numerics.errors import OptionError

    selected = None if arguments.select is None else codes_of(arguments.select)
    ignored = codes_of(arguments.ignore or "")
    if selected is not None and selected & ignored:
        raise OptionError(f"--select and --ignore both name {min(selected & ignored)}: give it to one of them.")
    return Rules(selected, ignored, arguments.settings)


# The work: each file here, or many in processes.

_MANY = 2000
"""Small models whose check takes longer than the start of one more process and the way of their findings from there."""


def _checked(
    arguments: argparse.Namespace, files: Sequence[str], promotion: PromotionRules, target: Target | None
) -> Iterator[Checked]:
    """Yield each file with all of its findings."""
    from castsmith.cli.gate.judging import Checked, from_data
    from castsmith.cli.text.terminal import progress

    if not means_many(arguments.input):
        with progress(quiet=arguments.quiet) as announce:
            announce(f"checking {files[0]}")
            found = _findings(files[0], promotion, target)
        yield Checked(files[0], found)
        return
    if min(arguments.jobs, useful_processes(files, _MANY)) > 1 and "-" not in files:
        tasks = [Task(file, "", [*_words(arguments), "--", file]) for file in dict.fromkeys(files)]
        done = run_tasks(arguments.jobs, tasks, quiet=arguments.quiet)
        for file in files:
            report, error = done[file]["report"], done[file]["error"]
            failure = None if error is None else _failure(file, error)
            yield Checked(file, from_data(report["findings"]) if report else [], failure)
        return
    with progress(len(files), quiet=arguments.quiet) as announce:
        for number, file in enumerate(files):
            announce(f"{number + 1} of {len(files)}: {file}")
            yield _one(file, promotion, target)


def _part(arguments: argparse.Namespace, promotion: PromotionRules, target: Target | None) -> int:
    """Check one file for the process that runs the whole, and give it the findings as data."""
    from castsmith.cli.gate.judging import to_data

    arguments.outcome.report = {"findings": to_data(_findings(arguments.input[0], promotion, target))}
    return DONE


def _words(arguments: argparse.Namespace) -> Iterator[str]:
    yield "check"
    for name in _OF_WORK:
        value = getattr(arguments, name)
        option = f"--{name.replace('_', '-')}"
        if value is not None and value is not False:
            yield option if value is True else f"{option}={value}"


def _one(file: str, promotion: PromotionRules, target: Target | None) -> Checked:
    from castsmith.cli.gate.judging import Checked

    try:
        return Checked(file, _findings(file, promotion, target))
    except Exception as error:  # one file of many: it is reported, and the others are checked
        return Checked(file, [], _told(failure_of(error, {"command": "check", "input": file})))


def _failure(file: str, error: dict[str, Any]) -> Failure:
    return _told(Failure(error["code"], error["message"], error["file"] or file, error["exit_code"]))


def _told(failure: Failure) -> Failure:
    complain(failure.message)
    return failure


def _findings(file: str, promotion: PromotionRules, target: Target | None) -> list[Diagnostic]:
    from castsmith.cli.models import read_model, source_of
    from castsmith.lowering.check.run import check

    return check(read_model(source_of(file)), target=target, promotion=promotion)


def _judged(checked: Checked, rules: Rules) -> Checked:
    """Return the findings that count, in the words of the command line."""
    from castsmith.cli.gate.judging import Checked, changed
    from castsmith.cli.text.findings import as_command

    return Checked(checked.file, rules.judged(checked.file, changed(checked.findings, as_command)), checked.failure)


# The baseline.


def _baseline(arguments: argparse.Namespace, files: Sequence[str]) -> Baseline | None:
    from castsmith.cli.collisions import require_apart, settings_files
    from castsmith.cli.gate.baseline import Baseline
    from castsmith.cli.output import require_writable

    if arguments.baseline is None:
        return None
    path = Path(arguments.baseline)
    if arguments.write_baseline:
        require_apart({**settings_files(arguments), "the model": map(Path, files)}, {"--baseline": [path]})
        require_writable(path)
    return Baseline.read(path, must_exist=not arguments.write_baseline)


def _write_baseline(baseline: Baseline, checked: Sequence[Checked], rules: Rules) -> None:
    from castsmith.cli.output import write_file
    from castsmith.cli.text.terminal import counted, print_line

    write_file(baseline.path, baseline.text(checked, rules))
    found = sum(len(each.findings) for each in checked)
    print_line(f"{baseline.path}: {counted(found, 'finding')} of {counted(len(checked), 'model')} written")


# Output.


def _print(arguments: argparse.Namespace, checked: Sequence[Checked], baseline: Baseline | None) -> None:
    from castsmith.cli.gate.comments import markdown_text, workflow_commands
    from castsmith.cli.gate.sarif import sarif_text
    from castsmith.cli.gate.terminal import grouped_lines
    from castsmith.cli.models import shown
    from castsmith.cli.text.findings import finding_line
    from castsmith.cli.text.terminal import Line, counted, print_data, print_line, print_lines, print_text

    shape = format_of(arguments)
    if shape == "json":
        print_json(_data(arguments, checked, baseline))
        return
    if shape == "sarif":
        print_data(sarif_text(checked, arguments.target))
    elif shape == "markdown":
        print_text(markdown_text(checked, arguments.target))
    elif shape == "github":
        for line in workflow_commands(checked):
            print_line(line)
    elif sys.stdout.isatty() and not arguments.quiet:
        print_lines(grouped_lines(checked, everything=arguments.all))
    elif not arguments.quiet:
        print_lines(
            Line((("", finding_line(shown(each.file), record)),), 4) for each in checked for record in each.findings
        )
    if baseline is not None and baseline.fixed:
        fixed = counted(baseline.fixed.total(), "finding")
        complain(f"{fixed} of {baseline.path} fixed: --write-baseline removes what is fixed.")


def _data(arguments: argparse.Namespace, checked: Sequence[Checked], baseline: Baseline | None) -> dict[str, Any]:
    """Return one file in the layout check-1.json, many in check-many-1.json."""
    models = [{"input": each.file, **_model_data(each)} for each in checked]
    accepted = None if baseline is None else baseline.data(checked)
    if not means_many(arguments.input):
        (one,) = models
        findings = one["findings"]
        return {"input": one["input"], "target": arguments.target, "findings": findings, "baseline": accepted}
    return {"target": arguments.target, "models": models, "baseline": accepted}


def _model_data(checked: Checked) -> dict[str, Any]:
    from castsmith.cli.gate.baseline import fingerprint
    from castsmith.cli.report.data import diagnostic_data

    findings = [
        {**diagnostic_data(each), "fingerprint": fingerprint(each), "follows": each.follows}
        for each in checked.findings
    ]
    return {"findings": findings, **({"error": None} if checked.failure is None else checked.failure.data())}
