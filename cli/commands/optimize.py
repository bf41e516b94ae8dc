"""castsmith optimize: fix the element types of a model, write it, and report the changes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castsmith.cli.arguments import (
    Commands,
    add_command,
    add_jobs,
    add_json,
    add_options,
    add_promotion,
    add_quiet,
    add_settings,
    given_options,
    integer,
    json_text,
    promotion_rules,
)
from castsmith.cli.batch.inputs import is_folder, means_many
from castsmith.cli.commands.verify import add_engine, add_inputs, given_inputs, require_dims, require_names_somewhere
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED, cleaned_up_if_interrupted, complain

if TYPE_CHECKING:
    import onnx_ir

    from castsmith.cli.models import Source
    from castsmith.cli.page.data import Seen
    from castsmith.cli.report.savings import ModelSizes, Watched
    from castsmith.lowering.results import Result

_FULL_DIFF = "--full-diff"
_WORK = (
    *(
        "target",
        "strict_device",
        "keep_output_types",
        "max_growth",
        "max_total_growth",
        "fold_disputed",
        "fold_as",
        "fold_quantized",
    ),
    *("interface", "storage", "emit_functions", "vendor", "narrow", "narrow_interface", "largest_dim"),
    *("passes", "provenance", "until"),
)
"""The options of `castsmith.optimize` that the command has under the same names, in the order of its help."""

_COMMON = (
    *("--output", "--target", "--promotion", "--narrow", "--diff", "--explain", "--report", "--verify"),
    *("--jobs", "--dry-run"),
)


def spell_out(words: Sequence[str]) -> list[str]:
    """Return `--diff=full` as an option of its own: an option with an optional value would consume IN."""
    return [_FULL_DIFF if word == "--diff=full" else word for word in words]


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "optimize", run, "fix the element types of a model, and write it", _COMMON)
    add_models(parser)
    add_output(parser, "the file to write; may be IN; - for standard output; a folder for several models")
    work = parser.add_argument_group("processing")
    add_options(work, _WORK)
    add_promotion(parser)
    add_many(parser)
    add_shown(parser)
    verification = parser.add_argument_group("verification")
    help_text = "compare the model with the input after each pass and as written, bit for bit"
    verification.add_argument("--verify", action="store_true", help=help_text)
    add_engine(verification)
    add_inputs(verification)
    add_settings(parser)
    add_quiet(parser)
    add_json(parser)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the models of a command that writes them."""
    help_text = "an ONNX model, or several: files, folders, patterns such as 'a/**/*.onnx'; - for standard input"
    parser.add_argument("input", metavar="IN", nargs="+", help=help_text)


def add_many(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run over many models that are written to a folder."""
    many = parser.add_argument_group("many models")
    add_jobs(many)
    many.add_argument("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that sees the same files")
    help_text = "skip models whose result exists for the same input, options and version"
    many.add_argument("--skip-unchanged", action="store_true", help=help_text)


def add_output(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Add the options that say where the model is written, and how."""
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help=help_text)
    parser.add_argument("--external-data", metavar="NAME", help="file beside OUT for weights of more than 1 KiB")
    parser.add_argument(
        "--reference-data", action="store_true", help="reference data files beside OUT instead of copying their weights"
    )
    parser.add_argument("--shard-bytes", metavar="N", type=integer(1), help="split data files above this size")
    help_text = "write no files, and print what would be written"
    parser.add_argument("--dry-run", action="store_true", help=help_text)


def add_shown(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is shown of the work."""
    shown = parser.add_argument_group("output")
    help_text = "show what changed at each node, similar places once; with --diff=full every rewrite of every pass"
    shown.add_argument("--diff", action="store_const", const="short", help=help_text)
    shown.add_argument(_FULL_DIFF, dest="diff", action="store_const", const="full", help=argparse.SUPPRESS)
    shown.add_argument(
        "--explain", action="store_true", help="show each refusal, with a value that demonstrates the reason"
    )
    shown.add_argument("--report", metavar="FILE", help="write a report as FILE.json or FILE.html")


def run(arguments: argparse.Namespace) -> int:
    return run_each(arguments, _optimize, _steps)


def run_each(arguments: argparse.Namespace, work: Work, steps: Callable[[argparse.Namespace], int]) -> int:
    """Do the work on the model, or on each of many; one model for a folder is written there under its name."""
    from castsmith.numerics.errors import OptionError

    if arguments.dask is not None or arguments.skip_unchanged or means_many(arguments.input):
        if not means_many(arguments.input, arguments.output):
            option = "--dask" if arguments.dask is not None else "--skip-unchanged"
            raise OptionError(f"{option} is for many models: name a folder to write to, as -o {arguments.output}/.")
        require_names_somewhere(arguments, arguments.input, Path(arguments.output))
        from castsmith.cli.batch.many import run_many

        return run_many(arguments)
    (arguments.input,) = arguments.input
    if is_folder(arguments.output):
        arguments.output = _in_folder(arguments)
    return run_one(arguments, work, steps(arguments))


def _in_folder(arguments: argparse.Namespace) -> str:
    """Return the file in the folder OUT for the only model, and make the folder."""
    from castsmith.cli.models import STREAM
    from castsmith.ir.io.files import same_name
    from castsmith.numerics.errors import OptionError

    if arguments.input == STREAM:
        raise OptionError(f"-o {arguments.output} is a folder, and standard input has no name: name a file in it.")
    folder = Path(arguments.output)
    output = folder / Path(arguments.input).name
    if not arguments.output.endswith("/") and same_name(output, Path(arguments.input)):
        raise OptionError(f"-o {folder} is the folder of the model: write -o {folder}/ to replace the model.")
    if not arguments.dry_run:
        folder.mkdir(parents=True, exist_ok=True)
    return str(output)


Work = Callable[[argparse.Namespace, "onnx_ir.Model", "Watched", Callable[[str], None]], "Result"]
"""The work of a command on one model: it takes the model, which it may change, and announces its steps."""


def run_one(arguments: argparse.Namespace, work: Work, steps: int) -> int:
    """Read the model, do the work, and write the result and what is asked for beside it."""
    from castsmith.cli.collisions import require_no_datafile
    from castsmith.cli.models import read_model, shown, size_of, source_of
    from castsmith.cli.output import require_writable
    from castsmith.cli.report.savings import ModelSizes, Watched, measure
    from castsmith.cli.text.findings import finding_line
    from castsmith.cli.text.terminal import print_line, progress
    from castsmith.ir.records import Severity
    from castsmith.ir.walks import files_read

    _require_streams(arguments)
    output, report = file_of(arguments.output), _report_path(arguments)
    for path in filter(None, (output, report)):
        if not arguments.dry_run or path.parent.exists():
            require_writable(path)
    with progress(steps, quiet=arguments.quiet) as announce:
        announce(f"reading {shown(Path(arguments.input).name)}")
        source = source_of(arguments.input)
        model = read_model(source)
        if output is not None:
            require_no_datafile("-o", output, files_read(model))
        if report is not None:
            data = [output.parent / (arguments.external_data or f"{output.name}.data")] if output else []
            require_no_datafile("--report", report, (*data, *files_read(model)))
        before = measure(model, size_of(source))
        drawn = _seen(model) if _page_wanted(arguments, report) else None
        watched = Watched(model)
        result = work(arguments, model, watched, announce)
        rules = watched.amounts(result.rewrites)
    for record in result.diagnostics:
        print_line(finding_line(shown(arguments.input), record), sys.stderr)
    if any(record.severity is Severity.ERROR for record in result.diagnostics):
        _tell_data(arguments, _data(arguments, None, result, ModelSizes(before, measure(result.model), rules)))
        complain(f"the result would be invalid for {arguments.target or 'any runtime'}, so nothing was written.")
        return REFUSED
    with cleaned_up_if_interrupted():
        if arguments.verify:
            result = _verified(arguments, source, result)
        sizes = ModelSizes(before, measure(result.model), rules)
        if arguments.dry_run:
            _tell(arguments, None, result, sizes)
        else:
            _write(arguments, result, sizes, report, drawn)
    return INCONCLUSIVE if result.verdict is not None and result.verdict.inconclusive else DONE


def _verified(arguments: argparse.Namespace, source: Source, result: Result) -> Result:
    """Return the result with the verdict on the input and the file that is written.

    Raises:
        VerificationError: They differ; raised before any file is replaced.
    """
    import tempfile
    from dataclasses import replace

    from castsmith.cli.models import read_model
    from castsmith.ir.io.saving import save
    from castsmith.ir.verify.run import require_no_difference, verify
    from castsmith.lowering.pipeline import retyped

    output = file_of(arguments.output)
    beside = None if output is None or arguments.dry_run else output.parent
    with tempfile.TemporaryDirectory(dir=beside, prefix=".castsmith-verify-") as folder:
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


def savings_wanted(arguments: argparse.Namespace) -> bool:
    """True if what each rule saves is shown."""
    of_many = arguments.outcome is not None and arguments.outcome.wanted != "figures"
    return bool(arguments.diff or arguments.report or arguments.json or of_many)


def _optimize(
    arguments: argparse.Namespace, model: onnx_ir.Model, watched: Watched, announce: Callable[[str], None]
) -> Result:
    from dataclasses import replace

    from castsmith.cli.text.findings import as_command
    from castsmith.ir.options import Options
    from castsmith.lowering.pipeline import optimize_loaded

    require_dims(arguments, model)
    given = given_inputs(arguments)
    looked_at = savings_wanted(arguments)

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
    arguments: argparse.Namespace, result: Result, sizes: ModelSizes, report: Path | None, drawn: Seen | None
) -> None:
    """Write the model and the report: if either fails, an older report stays."""
    from dataclasses import replace

    from castsmith.cli.output import write_file
    from castsmith.ir.io.saving import kept_note

    output = file_of(arguments.output)
    size, kept = _write_model(arguments, result.model, output)
    sizes = replace(sizes, after=replace(sizes.after, file_bytes=size))
    page = _page(arguments, drawn, result, sizes) if drawn is not None else None
    if report is not None:
        data = _data(arguments, arguments.output, result, sizes)
        write_file(report, json_text(data()) if page is None else _html(page))
    for file in kept:
        complain(kept_note(file))
    arguments.written = output
    _tell(arguments, arguments.output, result, sizes, page)


def _tell(
    arguments: argparse.Namespace,
    written: str | None,
    result: Result,
    sizes: ModelSizes,
    page: dict[str, Any] | None = None,
) -> None:
    """Print the result, as JSON or as text; what a model on standard output would be mixed with, to stderr."""
    from castsmith.cli.text.summary import print_result

    _tell_data(arguments, _data(arguments, written, result, sizes), page)
    if not arguments.json:
        with redirect_stdout(sys.stderr if file_of(arguments.output) is None else sys.stdout):
            print_result(arguments, result, sizes)


def _write_model(arguments: argparse.Namespace, model: onnx_ir.Model, output: Path | None) -> tuple[int, list[Path]]:
    """Write the model; return its size, and the unused data files of a replaced model that are kept."""
    from castsmith.cli.models import write_model
    from castsmith.cli.text.terminal import progress
    from castsmith.ir.io.saving import write

    if output is None:
        return write_model(model), []
    with progress(quiet=arguments.quiet) as announce:
        announce(f"writing {output.name}")
        kept = write(
            model,
            output,
            external_data=arguments.external_data,
            reference_data=arguments.reference_data,
            shard_bytes=arguments.shard_bytes,
        )
    return output.stat().st_size, kept


def _data(
    arguments: argparse.Namespace, written: str | None, result: Result, sizes: ModelSizes
) -> Callable[[], dict[str, Any]]:
    """Return a function that gives the report, which is made only where it is needed."""
    from castsmith.cli.report.data import report_data

    return lambda: report_data(arguments.input, written, arguments.target, result, sizes)


def _tell_data(
    arguments: argparse.Namespace, data: Callable[[], dict[str, Any]], page: dict[str, Any] | None = None
) -> None:
    """Print the report if JSON is asked for, and give it to a run over many models."""
    if arguments.outcome is not None:
        arguments.outcome.report, arguments.outcome.page = data(), page
    if arguments.json:
        from castsmith.cli.text.terminal import print_data

        print_data(json_text(data()))


def _page_wanted(arguments: argparse.Namespace, report: Path | None) -> bool:
    from castsmith.cli.output import is_html

    return (report is not None and is_html(report)) or (
        arguments.outcome is not None and arguments.outcome.wanted == "page"
    )


def _seen(model: onnx_ir.Model) -> Seen:
    from castsmith.cli.page.data import seen

    return seen(model)


def _page(arguments: argparse.Namespace, drawn: Seen, result: Result, sizes: ModelSizes) -> dict[str, Any]:
    import castsmith
    from castsmith.cli.page.data import report_page

    title = f"{arguments.input} \u2192 {arguments.output}"
    goal = f"for {arguments.target}" if arguments.target else "without a target"
    sub = f"castsmith {castsmith.__version__} {arguments.command}, {goal}"
    return report_page(title, sub, drawn, result, sizes)


def _html(page: dict[str, Any]) -> str:
    from castsmith.cli.page.data import html_text

    return html_text(page)


def file_of(argument: str) -> Path | None:
    """Return the file that the argument names; None for standard input or output."""
    from castsmith.cli.models import STREAM

    return None if argument == STREAM else Path(argument)


def _require_streams(arguments: argparse.Namespace) -> None:
    """Raise OptionError for `-` in positions, or with options, that do not support it."""
    from castsmith.cli.models import STREAM, require_one_stdin, require_redirected
    from castsmith.numerics.errors import OptionError

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
    from castsmith.cli.output import require_report

    settings = settings_files(arguments)
    source, output = file_of(arguments.input), file_of(arguments.output)
    report = None if arguments.report is None else Path(arguments.report)
    require_apart(settings, {"OUT": [output]})
    require_apart({**settings, "the model": [source, output]}, {"--report": [report]})
    if report is not None:
        require_report(report)
    return report
