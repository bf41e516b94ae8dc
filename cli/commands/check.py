"""castsmith check: findings about the types of models, and whether they fail the run; no model is written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castsmith.cli.arguments import format_of
from castsmith.cli.batch import pool
from castsmith.cli.batch.inputs import means_many, models_of
from castsmith.cli.batch.many import outcomes, task_of
from castsmith.cli.collisions import require_apart, settings_files
from castsmith.cli.exit_codes import DONE, REFUSED, worst
from castsmith.cli.gate.baseline import Baseline, fingerprint
from castsmith.cli.gate.codes import codes_of
from castsmith.cli.gate.judging import Checked, Rules, changed, exit_code
from castsmith.cli.gate.terminal import grouped_lines
from castsmith.cli.inputs import read_inputs
from castsmith.cli.messages import complain, remark
from castsmith.cli.models import source_of
from castsmith.cli.outcome import Failure
from castsmith.cli.output import require_writable, write_file
from castsmith.cli.promotion import promotion_rules
from castsmith.cli.streams import STDIN, require_one_stdin, shown
from castsmith.cli.text.findings import as_command, finding_line
from castsmith.cli.text.json import json_text
from castsmith.cli.text.screen import print_lines, progress
from castsmith.cli.text.terminal import Line, counted, print_data, print_line
from castsmith.cli.usage.reading import FAIL_ON
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import from_bytes, proto_from_bytes
from castsmith.ir.records import Flaw, Severity
from castsmith.lowering.check.run import check
from castsmith.numerics.errors import OptionError, printable
from castsmith.targets.target import as_target

if TYPE_CHECKING:
    from castsmith.ir.io.loading import ModelLike
    from castsmith.ir.records import Diagnostic

Ask = Callable[["ModelLike"], "list[Diagnostic]"]
"""Checks a model with the options of the command."""


def run(arguments: argparse.Namespace) -> int:
    """Check every file; an unreadable file does not keep the others from being checked."""
    require_one_stdin(arguments.input)
    target, rules = as_target(arguments.target, strict=arguments.strict_device), _rules(arguments)
    inputs = None if arguments.inputs is None else list(read_inputs(arguments.inputs))
    ask = partial(check, target=target, promotion=promotion_rules(arguments), inputs=inputs)
    if arguments.outcome is not None:
        arguments.outcome.findings = _findings(arguments.input[0], ask)
        return DONE
    files = [file for file, _ in models_of(arguments.input)]
    baseline, also = _baseline(arguments, files), _also_formats(arguments, files)
    checked = [_judged(model, rules) for model in _checked(arguments, files, ask)]
    if baseline is not None and arguments.write_baseline:
        _write_baseline(baseline, checked, rules)
        return worst(model.failure.exit_code for model in checked if model.failure is not None)
    if baseline is not None:
        checked = [baseline.without(model, rules) for model in checked]
    for path, shape in also.items():
        write_file(path, _text(shape, arguments, checked, baseline))
    _print(arguments, checked, baseline)
    codes = [exit_code(model, arguments.fail_on or FAIL_ON) for model in checked]
    return worst(DONE if code == REFUSED and arguments.exit_zero else code for code in codes)


def _rules(arguments: argparse.Namespace) -> Rules:
    selected = None if arguments.select is None else codes_of(arguments.select)
    ignored = codes_of(arguments.ignore or "")
    if selected is not None and selected & ignored:
        raise OptionError(f"--select and --ignore both name {min(selected & ignored)}: give it to one of them.")
    return Rules(selected, ignored, arguments.settings)


# The work: each file here, or many in processes.

_MANY = 2000
"""Small models whose check takes longer than the start of one more process and the way of their findings from there."""


def _checked(arguments: argparse.Namespace, files: Sequence[str], ask: Ask) -> Iterator[Checked]:
    """Yield each file with all of its findings."""
    many = means_many(arguments.input)
    if many and pool.useful_processes(arguments.jobs, files, _MANY) > 1 and "-" not in files:
        tasks = [task_of(arguments, file, input=[file]) for file in dict.fromkeys(files)]
        done = outcomes(pool.on_this_machine(arguments.jobs, tasks), len(tasks), quiet=arguments.quiet)
        for file in files:
            failure = done[file].failure
            if failure is not None:
                failure = _reported(replace(failure, file=failure.file or file))
            yield Checked(file, done[file].findings, failure)
        return
    with progress(len(files), quiet=arguments.quiet) as announce:
        for number, file in enumerate(files):
            announce(f"{number + 1} of {len(files)}: {file}")
            if many:
                yield _checked_file(file, ask)
            else:
                yield Checked(file, _findings(file, ask))


def _checked_file(file: str, ask: Ask) -> Checked:
    try:
        return Checked(file, _findings(file, ask))
    except Exception as error:  # one file of many: it is reported, and the others are checked
        from castsmith.cli.failures import failure_of

        return Checked(file, [], _reported(failure_of(error, {"command": "check", "input": file})))


def _reported(failure: Failure) -> Failure:
    complain(failure.message)
    return failure


def _findings(file: str, ask: Ask) -> list[Diagnostic]:
    source = source_of(file)
    if isinstance(source, str):
        return ask(source)
    flaws = list[Flaw]()
    try:
        from_bytes(source, STDIN, flaws)
    except ModelError:
        if not flaws:  # the file is unreadable, and not malformed
            raise
    return ask(proto_from_bytes(source, STDIN))


def _judged(checked: Checked, rules: Rules) -> Checked:
    """Return the findings that count, in the words of the command line."""
    return Checked(checked.file, rules.judged(checked.file, changed(checked.findings, as_command)), checked.failure)


# The baseline.


def _baseline(arguments: argparse.Namespace, files: Sequence[str]) -> Baseline | None:
    if arguments.baseline is None:
        return None
    path = Path(arguments.baseline)
    if arguments.write_baseline:
        require_apart({**settings_files(arguments), "the model": map(Path, files)}, {"--baseline": [path]})
        require_writable(path)
    return Baseline.read(path, must_exist=not arguments.write_baseline)


def _write_baseline(baseline: Baseline, checked: Sequence[Checked], rules: Rules) -> None:
    write_file(baseline.path, baseline.text(checked, rules))
    count = sum(len(model.findings) for model in checked)
    print_line(f"{baseline.path}: {counted(count, 'finding')} of {counted(len(checked), 'model')} written")


# Output.


def _print(arguments: argparse.Namespace, checked: Sequence[Checked], baseline: Baseline | None) -> None:
    shape = format_of(arguments)
    if shape in _FORMATS:
        print_data(_text(shape, arguments, checked, baseline))
    elif shape == "github":
        from castsmith.cli.gate.comments import workflow_commands

        for line in workflow_commands(checked):
            print_line(line)
    elif sys.stdout.isatty() and not arguments.quiet:
        print_lines(grouped_lines(checked, everything=arguments.all))
    elif not arguments.quiet:
        print_lines(
            Line((("", finding_line(shown(model.file), record)),), 4) for model in checked for record in model.findings
        )
        _summarize(checked)
    if baseline is not None and baseline.fixed and shape != "json":
        fixed = counted(baseline.fixed.total(), "finding")
        remark(f"{fixed} of {baseline.path} fixed: --write-baseline removes what is fixed.", quiet=arguments.quiet)


def _summarize(checked: Sequence[Checked]) -> None:
    """Print how many errors there are, behind findings that go to a pipe or a file; of one clean model nothing."""
    if len(checked) == 1 and not checked[0].findings:
        return
    errors = [sum(record.severity is Severity.ERROR for record in model.findings) for model in checked]
    models = sum(map(bool, errors))
    sys.stdout.flush()  # findings that cannot be written are the failure to tell of
    complain(f"{counted(sum(errors), 'error')} in {models} of {counted(len(checked), 'model')}.")


_FORMATS = ("json", "sarif", "markdown")
"""Formats of a whole file."""


def _also_formats(arguments: argparse.Namespace, files: Sequence[str]) -> dict[Path, str]:
    """Return the formats of the files that --also names. Raises OptionError or ModelError."""
    formats = dict[Path, str]()
    for text in arguments.also:
        shape, _, file = text.partition("=")
        if shape not in _FORMATS or not file:
            raise OptionError(f"--also {text} is not FORMAT=FILE with a format of {', '.join(_FORMATS)}.")
        formats[Path(file)] = shape
    baseline_file = {"the baseline": [None if arguments.baseline is None else Path(arguments.baseline)]}
    require_apart({**settings_files(arguments), **baseline_file, "the model": map(Path, files)}, {"--also": formats})
    for path in formats:
        require_writable(path)
    return formats


def _text(shape: str, arguments: argparse.Namespace, checked: Sequence[Checked], baseline: Baseline | None) -> str:
    """Return the findings as the content of a file of one of `_FORMATS`."""
    if shape == "json":
        return json_text(_data(arguments, checked, baseline))
    if shape == "sarif":
        from castsmith.cli.gate.sarif import sarif_text

        return sarif_text(checked, arguments.target)
    from castsmith.cli.gate.comments import markdown_text

    return printable(markdown_text(checked, arguments.target))


def _data(arguments: argparse.Namespace, checked: Sequence[Checked], baseline: Baseline | None) -> dict[str, Any]:
    """Return one file in the layout check-1.json, many in check-many-1.json."""
    models = [{"input": model.file, **_model_data(model)} for model in checked]
    accepted = None if baseline is None else baseline.data(checked)
    if not means_many(arguments.input):
        (entry,) = models
        findings = entry["findings"]
        return {"input": entry["input"], "target": arguments.target, "findings": findings, "baseline": accepted}
    return {"target": arguments.target, "models": models, "baseline": accepted}


def _model_data(checked: Checked) -> dict[str, Any]:
    from castsmith.cli.report.data import diagnostic_data

    findings = [
        {**diagnostic_data(finding), "fingerprint": fingerprint(finding), "follows": finding.follows}
        for finding in checked.findings
    ]
    return {"findings": findings, **({"error": None} if checked.failure is None else checked.failure.data())}
