"""castsmith optimize: fix the element types of a model, write it, and report the changes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_json,
    add_options,
    add_promotion,
    given_options,
    integer,
    json_text,
    promotion_rules,
)
from castsmith.cli.batch import is_batch, run_batch
from castsmith.cli.commands.verify import add_engine, add_inputs, given_inputs
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED, cleaned_up_if_interrupted, complain

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.cli.models import Source
    from castsmith.cli.page import Around
    from castsmith.cli.report import ModelSizes, Watched
    from castsmith.lowering.results import Result

_FULL_DIFF = "--full-diff"
_WORK = (
    *("target", "keep_output_types", "max_growth", "max_total_growth", "fold_disputed", "fold_as", "fold_quantized"),
    *("interface", "storage", "emit_functions", "narrow", "narrow_interface", "largest_dim"),
    *("passes", "provenance", "until"),
)
"""The options of `castsmith.optimize` that the command has under the same names, in the order of its help."""


def spell_out(words: Sequence[str]) -> list[str]:
    """Return `--diff=full` as an option of its own: an option with an optional value would consume IN."""
    return [_FULL_DIFF if word == "--diff=full" else word for word in words]


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "optimize", run, "fix the element types of a model, and write it")
    parser.add_argument("input", metavar="IN", nargs="+", help="an ONNX model, or several; - for standard input")
    add_output(parser, "the file to write; may be IN; - for standard output; a folder for several models")
    work = parser.add_argument_group("processing")
    add_options(work, _WORK)
    add_promotion(parser)
    many = parser.add_argument_group("many models")
    many.add_argument(
        "-j",
        "--jobs",
        metavar="N",
        type=integer(1),
        default=os.cpu_count() or 1,
        help="number of models processed at a time",
    )
    many.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that sees the same files")
    add_shown(parser)
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compare the model with the input after each pass and as written, bit for bit",
    )
    add_engine(parser)
    add_inputs(parser)
    add_json(parser)


def add_output(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add the options that say where the model is written, and how."""
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=help_text)
    parser.add_argument("--external-data", metavar="NAME", help="file beside OUT for weights of more than 1 KiB")
    parser.add_argument(
        "--reference-data", action="store_true", help="reference data files beside OUT instead of copying their weights"
    )
    parser.add_argument("--shard-bytes", metavar="N", type=integer(1), help="split data files above this size")


def add_shown(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is shown of the work."""
    shown = parser.add_argument_group("output")
    help_text = "show each rewrite, before and after; similar ones once, unless --diff=full"
    shown.add_argument("--diff", action="store_const", const="short", help=help_text)
    shown.add_argument(_FULL_DIFF, dest="diff", action="store_const", const="full", help=argparse.SUPPRESS)
    shown.add_argument(
        "--explain", action="store_true", help="show each refusal, with a value that demonstrates the reason"
    )
    shown.add_argument("--report", metavar="FILE", help="write a report as FILE.json or FILE.html")


def run(arguments: argparse.Namespace) -> int:
    if is_batch(arguments):
        return run_batch(arguments)
    (arguments.input,) = arguments.input
    return run_one(arguments, _optimize, _steps(arguments))


Work = Callable[[argparse.Namespace, "onnx_ir.Model", "Watched", Callable[[str], None]], "Result"]
"""The work of a command on one model: it takes the model, which it may change, and announces its steps."""


def run_one(arguments: argparse.Namespace, work: Work, steps: int) -> int:
    """Read the model, do the work, and write the result and what is asked for beside it."""
    from castsmith.cli.collisions import require_no_datafile
    from castsmith.cli.models import read_model, shown, size_of, source_of
    from castsmith.cli.output import require_writable
    from castsmith.cli.report import ModelSizes, Watched, measure
    from castsmith.cli.text import finding_line, progress
    from castsmith.ir.records import Severity
    from castsmith.ir.walks import files_read

    _require_streams(arguments)
    output, report = file_of(arguments.output), _report_path(arguments)
    for path in filter(None, (output, report)):
        require_writable(path)
    with progress(steps) as announce:
        announce(f"reading {shown(Path(arguments.input).name)}")
        source = source_of(arguments.input)
        model = read_model(source)
        if report is not None:
            data = [output.parent / (arguments.external_data or f"{output.name}.data")] if output else []
            require_no_datafile("--report", report, (*data, *files_read(model)))
        before = measure(model, size_of(source))
        drawn = _drawn(model) if report is not None and is_html(report) else {}
        watched = Watched(model)
        result = work(arguments, model, watched, announce)
        rules = watched.amounts(result.rewrites)
    for record in result.diagnostics:
        print(finding_line(shown(arguments.input), record), file=sys.stderr)
    if any(record.severity is Severity.ERROR for record in result.diagnostics):
        if arguments.json:
            print(_json(arguments, None, result, ModelSizes(before, measure(result.model), rules)), end="")
        complain(f"the result would be invalid for {arguments.target or 'any runtime'}, so nothing was written.")
        return REFUSED
    with cleaned_up_if_interrupted():
        if arguments.verify:
            result = _verified(arguments, source, result)
        _write(arguments, result, ModelSizes(before, measure(result.model), rules), report, drawn)
    return INCONCLUSIVE if result.verdict is not None and result.verdict.inconclusive else DONE


def _verified(arguments: argparse.Namespace, source: Source, result: Result) -> Result:
    """Return the result with the verdict on the input and the file that is written.

    Raises:
        VerificationError: They differ; raised before any file is replaced.
    """
    import tempfile
    from dataclasses import replace

    from castsmith.cli.models import read_model
    from castsmith.ir.io import save
    from castsmith.ir.verify import require_no_difference, verify
    from castsmith.lowering.pipeline import retyped

    output = file_of(arguments.output)
    with tempfile.TemporaryDirectory(dir=output and output.parent, prefix=".castsmith-verify-") as folder:
        written = Path(folder) / (output.name if output else "model.onnx")
        save(result.model, written, external_data=arguments.external_data, shard_bytes=arguments.shard_bytes)
        verdict = verify(
            read_model(source),
            written,
            engine=arguments.engine,
            promotion=replace(promotion_rules(arguments), promote_unsafe=True),
            accept=retyped(result.rewrites),
            **given_inputs(arguments),
        )
    return replace(result, verdict=require_no_difference(verdict, "writing"))


def _steps(arguments: argparse.Namespace) -> int:
    """Return the number of progress steps: reading, and each pass."""
    from castsmith.cli.arguments import split_passes
    from castsmith.lowering.registry import PIPELINE, needs_target

    if arguments.passes is not None:
        return 1 + len(split_passes(arguments.passes))
    return 1 + sum(1 for name in PIPELINE if arguments.target is not None or not needs_target(name))


def _optimize(
    arguments: argparse.Namespace, model: onnx_ir.Model, watched: Watched, announce: Callable[[str], None]
) -> Result:
    from dataclasses import replace

    from castsmith.cli.text import as_command
    from castsmith.ir.options import Options
    from castsmith.lowering.pipeline import optimize_loaded

    given = given_inputs(arguments)
    looked_at = bool(arguments.diff or arguments.report or arguments.json)

    def ahead_of(name: str) -> None:
        announce(name)
        if looked_at:
            watched.note(name)

    options = Options(
        **given_options(arguments, _WORK),
        promotion=promotion_rules(arguments),
        progress=ahead_of,
        verify=arguments.engine if arguments.verify else None,
        verify_dims=given["dims"],
        verify_inputs=given["inputs"],
    )
    result = optimize_loaded(model, options)
    return replace(result, diagnostics=list(map(as_command, result.diagnostics)))


def _write(
    arguments: argparse.Namespace, result: Result, sizes: ModelSizes, report: Path | None, drawn: Around
) -> None:
    """Write the model and the report: if either fails, no report is written, and an older one stays."""
    from dataclasses import replace

    from castsmith.cli.output import staged_file
    from castsmith.cli.text import print_result
    from castsmith.ir.io import kept_note

    output = file_of(arguments.output)
    with staged_file(report) as write_report:
        size, kept = _write_model(arguments, result.model, output)
        sizes = replace(sizes, after=replace(sizes.after, file_bytes=size))
        if report is not None:
            as_html = is_html(report)
            write_report(
                _html(arguments, drawn, result, sizes) if as_html else _json(arguments, arguments.output, result, sizes)
            )
    for file in kept:
        complain(kept_note(file))
    arguments.written = output
    if arguments.json:
        print(_json(arguments, arguments.output, result, sizes), end="")
    else:
        with redirect_stdout(sys.stdout if output else sys.stderr):
            print_result(arguments, result, sizes)


def _write_model(arguments: argparse.Namespace, model: onnx_ir.Model, output: Path | None) -> tuple[int, list[Path]]:
    """Write the model; return its size, and the unused data files of a replaced model that are kept."""
    from castsmith.cli.models import write_model
    from castsmith.cli.text import progress
    from castsmith.ir.io import write

    if output is None:
        return write_model(model), []
    with progress() as announce:
        announce(f"writing {output.name}")
        kept = write(
            model,
            output,
            external_data=arguments.external_data,
            reference_data=arguments.reference_data,
            shard_bytes=arguments.shard_bytes,
            is_last_use=True,
        )
    return output.stat().st_size, kept


def _json(arguments: argparse.Namespace, written: str | None, result: Result, sizes: ModelSizes) -> str:
    from castsmith.cli.report import report_data

    return json_text(report_data(arguments.input, written, arguments.target, result, sizes))


def _drawn(model: onnx_ir.Model) -> Around:
    from castsmith.cli.page import around

    return around(model)


def _html(arguments: argparse.Namespace, drawn: Around, result: Result, sizes: ModelSizes) -> str:
    import castsmith
    from castsmith.cli.page import html_text, report_page

    title = f"{arguments.input} \u2192 {arguments.output}"
    goal = f"for {arguments.target}" if arguments.target else "without a target"
    return html_text(
        report_page(title, f"castsmith {castsmith.__version__} {arguments.command}, {goal}", drawn, result, sizes)
    )


def is_html(path: Path) -> bool:
    return path.suffix.lower() in (".html", ".htm")


def file_of(argument: str) -> Path | None:
    """Return the file that the argument names; None for standard input or output."""
    from castsmith.cli.models import STREAM

    return None if argument == STREAM else Path(argument)


def _require_streams(arguments: argparse.Namespace) -> None:
    """Raise OptionError for `-` in positions, or with options, that do not support it."""
    from castsmith.cli.models import STREAM, require_one_stdin, require_redirected
    from castsmith.lowering.registry import OptionError

    require_one_stdin((arguments.input, arguments.inputs))
    if arguments.report == STREAM:
        raise OptionError("--report - is not supported: --json prints the report on standard output.")
    if arguments.external_data == STREAM:
        raise OptionError("--external-data - is not supported: name a file.")
    if arguments.output != STREAM:
        return
    for option in ("json", "external_data", "reference_data", "shard_bytes"):
        if getattr(arguments, option):
            reason = "print the report too: use --report FILE" if option == "json" else "write files beside it"
            raise OptionError(
                f"-o - writes the model alone to standard output, so --{option.replace('_', '-')} cannot {reason}."
            )
    require_redirected()


def _report_path(arguments: argparse.Namespace) -> Path | None:
    from castsmith.cli.collisions import require_apart, settings_files

    settings = settings_files(arguments)
    source, output = file_of(arguments.input), file_of(arguments.output)
    report = None if arguments.report is None else Path(arguments.report)
    require_apart(settings, {"OUT": [output]})
    require_apart({**settings, "the model": [source, output]}, {"--report": [report]})
    return report
