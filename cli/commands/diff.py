"""castsmith diff: the differences in meaning between two models, independent of their producers; also for git."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from castsmith.cli.arguments import format_of
from castsmith.cli.collisions import require_no_datafile
from castsmith.cli.commands.show import git_lines, lines_of
from castsmith.cli.exit_codes import DONE, INCONCLUSIVE, REFUSED
from castsmith.cli.messages import remark
from castsmith.cli.models import Source, read_model, read_partly, source_of, tell_flaws
from castsmith.cli.output import is_html, report_path, write_report
from castsmith.cli.report.data import comparison_data
from castsmith.cli.report.savings import measure
from castsmith.cli.streams import require_one_stdin, shown
from castsmith.cli.text.diff import comparison_lines
from castsmith.cli.text.json import print_json
from castsmith.cli.text.screen import print_lines, progress
from castsmith.cli.text.terminal import Line, counted, print_data, size_text
from castsmith.ir.errors import ModelError
from castsmith.ir.io.loading import load, load_structure
from castsmith.ir.records import Flaw
from castsmith.ir.walks import files_read
from castsmith.numerics.errors import CastsmithError, OptionError
from castsmith.verification.diff.models import ModelDiff, diff

if TYPE_CHECKING:
    import onnx_ir

_ABSENT = "/dev/null"
_OF_GIT = (7, 9)
"""Number of arguments that git gives to a program.

The path, and file, hash and mode of both sides; of a renamed file also the new path and the change as text.
"""


def run(arguments: argparse.Namespace) -> int:
    if arguments.rest or arguments.b is None:
        words = [arguments.a, *([] if arguments.b is None else [arguments.b]), *arguments.rest]
        if len(words) not in (*_OF_GIT, *([1] if "GIT_DIFF_PATH_COUNTER" in os.environ else [])):
            more = f"diff compares 2 models, not {len(words)}"
            reason = "B is missing: the model to compare it with" if len(words) == 1 else more
            raise OptionError(f"{reason} (see castsmith diff --help).")
        print_lines(_git_lines(words, everything=arguments.all, full=arguments.full))
        return DONE
    require_one_stdin((arguments.a, arguments.b))
    report, shape = report_path(arguments, (arguments.a, arguments.b)), format_of(arguments)
    names = shown(arguments.a), shown(arguments.b)
    with progress(quiet=arguments.quiet) as announce:
        announce(f"comparing {names[0]} with {names[1]}")
        sources, flaws = (source_of(arguments.a), source_of(arguments.b)), (list[Flaw](), list[Flaw]())
        try:
            a, b = map(read_model, sources, flaws)
        except ModelError:
            if shape == "html" or report is not None:
                raise
            return _unloadable(arguments, names, sources, as_json=shape == "json")
        require_no_datafile("--report", report, (*files_read(a), *files_read(b)))
        for name, of_one in zip(names, flaws, strict=True):
            tell_flaws(name, of_one, quiet=arguments.quiet)
        differences = diff(a, b, everything=arguments.all)
    data = {"a": arguments.a, "b": arguments.b, "same": not differences, **comparison_data(differences)}
    if report is not None:
        write_report(report, data, _page(names, a, b, differences) if is_html(report) else None)
    if shape == "html":
        from castsmith.cli.page.data import html_text

        print_data(html_text(_page(names, a, b, differences)))
    elif shape == "json":
        print_json(data)
    elif not arguments.quiet:
        print_lines(comparison_lines(*names, differences, full=arguments.full))
    return REFUSED if differences else DONE


def _page(names: tuple[str, str], a: onnx_ir.Model, b: onnx_ir.Model, differences: ModelDiff) -> dict[str, Any]:
    from castsmith.cli.page.data import diff_page

    return diff_page(" \u2192 ".join(names), a, b, differences)


def _unloadable(
    arguments: argparse.Namespace, names: tuple[str, str], sources: tuple[Source, Source], *, as_json: bool
) -> int:
    """Compare the texts of two models of which one cannot be loaded, or lacks its data."""
    flaws = list[Flaw](), list[Flaw]()
    a, b = map(lines_of, sources, flaws)
    for name, source, of_one in zip(names, sources, flaws, strict=True):
        if not of_one:
            read_partly(source, of_one)  # which says that its data is missing
        tell_flaws(name, of_one, quiet=arguments.quiet)
    how = "not compared by meaning, only the texts of the models: external data and weights by their place"
    remark(how, quiet=arguments.quiet)
    changes = list(unified_diff(a, b, *names, lineterm="", n=1))
    if as_json:
        same = False if changes else None
        print_json({"a": arguments.a, "b": arguments.b, "same": same, "lines": changes})
    elif not arguments.quiet:
        print_lines(_styled(changes))
    return REFUSED if changes else INCONCLUSIVE


# The external diff program of git: any other exit code than 0 would end `git diff` for all files.


def _git_lines(words: list[str], *, everything: bool, full: bool) -> Iterator[Line]:
    """Yield the difference of the two versions of a file as git names them.

    Args:
        words: The path in the repository; then file, hash and mode of the old and of the new version, where a missing
            version is /dev/null; then, of a renamed file, the new path and lines about the change.
        everything: As the option --all.
        full: As the option --full.
    """
    if len(words) == 1:
        yield Line((("", f"unmerged: {words[0]}"),))
        return
    (path, old, _, _, new), (renamed, header) = words[:5], words[7:] or ("", "")
    names = _ABSENT if old == _ABSENT else f"a/{path}", _ABSENT if new == _ABSENT else f"b/{renamed or path}"
    yield Line((("bold", f"castsmith diff a/{path} b/{renamed or path}"),))
    for line in header.splitlines():
        yield Line((("bold", line),))
    if _ABSENT in (old, new):
        yield from _alone(names, old if new == _ABSENT else new, is_new=old == _ABSENT)
    else:
        yield from _compared(names, (old, new), everything=everything, full=full)


def _alone(names: tuple[str, str], file: str, *, is_new: bool) -> Iterator[Line]:
    """Yield the summary of a model that only one side has."""
    yield Line((("red", f"--- {names[0]}"),))
    yield Line((("green", f"+++ {names[1]}"),))
    title = "new model" if is_new else "deleted model"
    try:
        yield Line((("", f"{title}: {_size(load_structure(file, []))}"),), 2)
    except CastsmithError as error:
        yield Line((("", f"{title}: not shown: {_message(error, file, names[is_new])}"),), 2)


def _size(model: onnx_ir.Model) -> str:
    size = measure(model)
    opset = model.graph.opset_imports.get("")
    texts = [f"opset {opset}"] if opset is not None else []
    texts += [counted(size.nodes, "node"), counted(size.casts, "cast"), f"tensors of {size_text(size.tensor_bytes)}"]
    return ", ".join(texts)


def _compared(names: tuple[str, str], files: tuple[str, str], *, everything: bool, full: bool) -> Iterator[Line]:
    """Yield the difference; where external data is missing, that of the texts of both, with data by its place."""
    try:
        a, b = map(load, files)
        yield from comparison_lines(*names, diff(a, b, everything=everything), full=full)
    except CastsmithError as error:
        at_fault = 0 if str(error).startswith(f"{files[0]}:") else 1
        reason = _message(error, files[at_fault], names[at_fault])
        yield Line((("dim", f"not compared by meaning: {reason}"),), 2)
        yield from _texts_compared(names, files)


def _texts_compared(names: tuple[str, str], files: tuple[str, str]) -> Iterator[Line]:
    a, b = map(git_lines, files)
    yield from _styled(unified_diff(a, b, *names, lineterm="", n=1))


def _styled(lines: Iterable[str]) -> Iterator[Line]:
    styles = {"-": "red", "+": "green", "@": "cyan"}
    for line in lines:
        yield Line(((styles.get(line[0], ""), line),), 4)


def _message(error: Exception, file: str, name: str) -> str:
    """Return the text of the error with the name in the repository; the file may be a temporary one of git."""
    return str(error).replace(f"{file}:", f"{name}:", 1)
