"""castsmith optimize: fix the element types of a model, write it, and report the changes."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import castsmith
from castsmith.cli.arguments import given_options, split_passes
from castsmith.cli.batch.inputs import is_folder, means_many
from castsmith.cli.collisions import require_apart, require_no_datafile, settings_files
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED
from castsmith.cli.inputs import given_inputs, given_ranges, require_names, structures
from castsmith.cli.messages import complain, remark
from castsmith.cli.models import read_model, size_of, source_of
from castsmith.cli.output import page_wanted, report_path, require_writable, write_file, write_report
from castsmith.cli.promotion import promotion_rules
from castsmith.cli.report.data import report_data
from castsmith.cli.report.fit import plan_data
from castsmith.cli.report.savings import ModelSizes, Watched, measure
from castsmith.cli.streams import STDOUT, STREAM, require_one_stdin, require_redirected, shown
from castsmith.cli.text.findings import as_command, finding_line
from castsmith.cli.text.fit import plan_lines
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import progress
from castsmith.cli.text.summary import print_result
from castsmith.cli.text.terminal import print_line
from castsmith.cli.usage.writing import OPTIONS
from castsmith.cli.wording import with_command_options
from castsmith.ir.errors import ModelError
from castsmith.ir.io.files import same_name
from castsmith.ir.io.saving import kept_note, save, write, write_to
from castsmith.ir.records import Severity
from castsmith.ir.walks import files_read
from castsmith.lowering import pipeline
from castsmith.lowering.fit.results import FitResult
from castsmith.lowering.registry import PIPELINE, REPAIR, needs_target
from castsmith.numerics.errors import OptionError
from castsmith.passes.core.options import Options, flag_of

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.cli.models import Source
    from castsmith.cli.page.overview import Overview
    from castsmith.lowering.results import Result


_NOWHERE = "castsmith-dry-run.onnx"
"""Stands for the file or folder that a dry run without -o would write."""


def run(arguments: argparse.Namespace) -> int:
    return run_each(arguments, _optimize, _steps)


def run_each(arguments: argparse.Namespace, work: Work, steps: Callable[[argparse.Namespace], int]) -> int:
    """Do the work on the model, or on each of many; one model for a folder is written there under its name."""
    if arguments.output is None:  # of a dry run
        arguments.output = f"{_NOWHERE}/" if means_many(arguments.input) else _NOWHERE
    if arguments.dask is not None or arguments.skip_unchanged or means_many(arguments.input):
        if getattr(arguments, "certificate", None) is not None:
            raise OptionError("--certificate covers one model: name one for IN.")
        if not means_many(arguments.input, arguments.output):
            option = "--dask" if arguments.dask is not None else "--skip-unchanged"
            raise OptionError(f"{option} is for many models: name a folder to write to, as -o {arguments.output}/.")
        require_names(arguments, structures(arguments.input, Path(arguments.output)))
        from castsmith.cli.batch.many import run_many

        return run_many(arguments)
    (arguments.input,) = arguments.input
    if is_folder(arguments.output):
        arguments.output = _in_folder(arguments)
    return run_one(arguments, work, steps(arguments))


def _in_folder(arguments: argparse.Namespace) -> str:
    """Return the file in the folder OUT for the only model, and make the folder."""
    if arguments.input == STREAM:
        raise OptionError(f"-o {arguments.output} is a folder, and standard input has no name: name a file in it.")
    folder = Path(arguments.output)
    output = folder / Path(arguments.input).name
    if not arguments.output.endswith("/") and same_name(output, Path(arguments.input)):
        raise OptionError(f"-o {folder} is the folder of the model: write -o {folder}/ to replace the model.")
    if not arguments.dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    return str(output)


Work = Callable[[argparse.Namespace, "onnx_ir.Model", Callable[[str], None]], "Result"]
"""The work of a command on one model: it takes the model, which it may change, and announces its steps."""


def run_one(arguments: argparse.Namespace, work: Work, steps: int) -> int:
    """Read the model, do the work, and write the result and what is asked for beside it."""
    _require_streams(arguments)
    output, certificate = file_of(arguments.output), _certificate_path(arguments)
    require_apart(settings_files(arguments), {"OUT": [output]})
    report = report_path(arguments, (arguments.input, arguments.output))
    for path in filter(None, (output, certificate)):
        if not arguments.dry_run or path.parent.exists():
            require_writable(path)
    with progress(steps, quiet=arguments.quiet, verbose=arguments.verbose) as announce:
        announce(f"reading {shown(Path(arguments.input).name)}")
        source = source_of(arguments.input)
        model = read_model(source)
        require_no_datafile("-o", output, files_read(model))
        data = [output.parent / (arguments.external_data or f"{output.name}.data")] if output else []
        for option, path in (("--report", report), ("--certificate", certificate)):
            require_no_datafile(option, path, (*data, *files_read(model)))
        before = measure(model, size_of(source))
        drawn = None
        if page_wanted(arguments, report):
            from castsmith.cli.page.overview import overview

            drawn = overview(model)
        watched = Watched(model)
        result = work(arguments, model, watched.noting(announce) if _savings_wanted(arguments) else announce)
        sizes = ModelSizes(before, measure(result.model), watched.amounts(result.rewrites))
    result = replace(result, diagnostics=list(map(as_command, result.diagnostics)))
    for record in result.diagnostics:
        if record.severity is Severity.ERROR or not arguments.quiet:
            print_line(finding_line(shown(arguments.input), record), sys.stderr)
    if any(record.severity is Severity.ERROR for record in result.diagnostics):
        _give(arguments, _data(arguments, None, result, sizes))
        _tell_refusal(arguments, result, source)
        return REFUSED
    if arguments.verify:
        result = _verified(arguments, source, result)
    page = None
    if arguments.dry_run:
        data = _data(arguments, None, result, sizes)
    else:
        size, unused_files = _write_model(arguments, result.model, output)
        sizes = replace(sizes, after=replace(sizes.after, file_bytes=size))
        page = None if drawn is None else _page(arguments, drawn, result, sizes)
        data = _data(arguments, arguments.output, result, sizes)
        if report is not None:  # if it or the model cannot be written, an older report stays
            write_report(report, data, page)
        if certificate is not None and result.certificate is not None:
            write_file(certificate, json.dumps(result.certificate, indent=1) + "\n")
        for file in unused_files:
            remark(kept_note(file), quiet=arguments.quiet)
        arguments.written = output
    _give(arguments, data, page)
    if not arguments.json:  # what a model on standard output would be mixed with goes to stderr
        with redirect_stdout(sys.stderr if output is None else sys.stdout):
            print_result(arguments, result, sizes)
    return INCONCLUSIVE if result.verdict is not None and result.verdict.inconclusive else DONE


def _data(arguments: argparse.Namespace, destination: str | None, result: Result, sizes: ModelSizes) -> dict[str, Any]:
    """Return the report as data, if it is wanted."""
    if arguments.outcome is None and not arguments.json and not arguments.report:
        return {}
    report = report_data(arguments.input, destination, arguments.target, result, sizes)
    plan = {"fit": plan_data(result, arguments.input, destination)} if isinstance(result, FitResult) else {}
    return {**report, **plan}


def _give(arguments: argparse.Namespace, data: dict[str, Any], page: dict[str, Any] | None = None) -> None:
    """Print the report if JSON is asked for, and give it to a run over many models."""
    if arguments.outcome is not None:
        arguments.outcome.report, arguments.outcome.page = data, page
    if arguments.json:
        print_json(data)


def _tell_refusal(arguments: argparse.Namespace, result: Result, source: Source) -> None:
    """Say that nothing was written, and what was tried that works."""
    reason = f"the result would be invalid for {arguments.target or 'any runtime'}"
    if all(
        diagnostic.code == "infinite-error"
        for diagnostic in result.diagnostics
        if diagnostic.severity is Severity.ERROR
    ):
        reason = "the error of the result is infinite"
    if isinstance(result, FitResult):
        reason = f"no way was found to make the model run on {arguments.target}"
    complain(f"{reason}, so nothing was written.")
    way_out = with_command_options(result.hint) if isinstance(result, FitResult) else ""
    alone = (
        arguments.outcome is None and not getattr(arguments, "passes", None) and not getattr(arguments, "until", None)
    )
    if arguments.command == "optimize" and arguments.target is not None and alone:
        from castsmith.cli.advice import tried_way_out

        way_out = tried_way_out(read_model(source), arguments.input, arguments.output, arguments.target)
    if way_out:
        complain(f"{way_out}.")


def _verified(arguments: argparse.Namespace, source: Source, result: Result) -> Result:
    """Return the result with the verdict on the input and the file that is written.

    Raises:
        VerificationError: They differ; raised before any file is replaced.
    """
    from castsmith.verification.run import require_no_difference, verify

    output = file_of(arguments.output)
    beside = None if output is None or arguments.dry_run else output.parent
    with tempfile.TemporaryDirectory(dir=beside, prefix=".castsmith-verify-") as folder:
        candidate = Path(folder) / (output.name if output else "model.onnx")
        save(result.model, candidate, external_data=arguments.external_data, shard_bytes=arguments.shard_bytes)
        verdict = verify(
            read_model(source),
            candidate,
            engine=arguments.engine,
            promotion=replace(promotion_rules(arguments), promote_unsafe=True),
            accept=pipeline.retyped(result.rewrites),
            **given_inputs(arguments),
        )
    return replace(result, verdict=require_no_difference(verdict, "writing"))


def _steps(arguments: argparse.Namespace) -> int:
    """Return the number of progress steps: reading, and each pass."""
    if arguments.repair_only:
        return 1 + len(REPAIR)
    if arguments.passes is not None:
        return 1 + len(split_passes(arguments.passes))
    return 1 + sum(1 for name in PIPELINE if arguments.target is not None or not needs_target(name))


def _savings_wanted(arguments: argparse.Namespace) -> bool:
    """True if what each rule saves is shown."""
    of_many = arguments.outcome is not None and arguments.outcome.task.wanted != "figures"
    return bool(arguments.diff or arguments.report or arguments.json or of_many)


def _optimize(arguments: argparse.Namespace, model: onnx_ir.Model, announce: Callable[[str], None]) -> Result:
    require_names(arguments, [model])
    inputs = given_inputs(arguments)
    chosen = given_options(arguments, OPTIONS)
    if arguments.repair_only:
        chosen["passes"] = list(REPAIR)
    options = Options(
        **chosen,
        promotion=promotion_rules(arguments),
        certificate=arguments.certificate is not None,
        progress=announce,
        verify=arguments.engine if arguments.verify else None,
        ranges=given_ranges(arguments) or None,
        verify_dims=inputs["dims"],
        verify_inputs=inputs["inputs"],
    )
    return pipeline.optimize_loaded(model, options, None if arguments.certificate is None else arguments.input)


def _write_model(arguments: argparse.Namespace, model: onnx_ir.Model, output: Path | None) -> tuple[int, list[Path]]:
    """Write the model; return its size, and the unused data files of a replaced model that are kept."""
    if output is None:
        return _write_stream(model), []
    with progress(quiet=arguments.quiet, verbose=arguments.verbose) as announce:
        announce(f"writing {output.name}")
        unused_files = write(
            model,
            output,
            external_data=arguments.external_data,
            reference_data=arguments.link_data,
            shard_bytes=arguments.shard_bytes,
        )
    return output.stat().st_size, unused_files


def _page(arguments: argparse.Namespace, drawn: Overview, result: Result, sizes: ModelSizes) -> dict[str, Any]:
    from castsmith.cli.page.data import report_page

    title = f"{arguments.input} \u2192 {arguments.output}"
    goal = f"for {arguments.target}" if arguments.target else "without a target"
    sub = f"castsmith {castsmith.__version__} {arguments.command}, {goal}"
    page = report_page(title, sub, drawn, result, sizes)
    if isinstance(result, FitResult):
        page["plan"] = list(plan_lines(result, arguments.input, arguments.output))
    return page


def file_of(argument: str) -> Path | None:
    """Return the file that the argument names; None for standard input or output."""
    return None if argument == STREAM else Path(argument)


def _require_streams(arguments: argparse.Namespace) -> None:
    """Raise OptionError for `-` in positions, or with options, that do not support it."""
    require_one_stdin((arguments.input, arguments.inputs))
    if arguments.external_data == STREAM:
        raise OptionError("--external-data - is not supported: name a file.")
    if arguments.output != STREAM:
        return
    for option in ("json", "external_data", "link_data", "shard_bytes"):
        if getattr(arguments, option):
            reason = "print the report too: use --report FILE" if option == "json" else "write files beside it"
            raise OptionError(f"-o - writes the model alone to standard output, so {flag_of(option)} cannot {reason}.")
    require_redirected()


def _certificate_path(arguments: argparse.Namespace) -> Path | None:
    """Return the file of the certificate, which only optimize writes."""
    name = getattr(arguments, "certificate", None)
    if name is None:
        return None
    if STREAM in (name, arguments.input, arguments.output):
        raise OptionError("--certificate does not work with -: name files for IN, OUT and the certificate.")
    files = [Path(arguments.input), Path(arguments.output)]
    files += [] if arguments.report is None else [Path(arguments.report)]
    require_apart({**settings_files(arguments), "the model": files}, {"--certificate": [Path(name)]})
    if same_name(files[0], files[1]):
        raise OptionError("--certificate needs IN after the run: choose another name for OUT.")
    return Path(name)


def _write_stream(model: onnx_ir.Model) -> int:
    """Write the model with its weights to standard output, and return the number of bytes.

    A temporary file is written first: an error until then leaves standard output empty.
    """
    with tempfile.TemporaryFile() as file:
        try:
            size = write_to(model, file, STDOUT)
            file.seek(0)
        except OSError as error:
            raise ModelError(f"{STDOUT}: no temporary file of the model can be written ({error.strerror}).") from None
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return size
