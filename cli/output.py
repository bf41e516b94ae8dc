"""Output files: checked before the work starts, and under their final name only when complete."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from castsmith.cli.collisions import require_apart, settings_files
from castsmith.cli.streams import STREAM
from castsmith.cli.text.json import json_text
from castsmith.ir.errors import ModelError
from castsmith.ir.io.files import destination, write_text
from castsmith.numerics.errors import OptionError


def require_writable(path: Path) -> None:
    """Raise ModelError if `path` cannot be written, before any work is done."""
    if path.is_dir():
        raise ModelError(f"{path}: a folder, expected a file.")
    if path.exists() and not path.is_file():
        raise ModelError(f"{path}: not an ordinary file, so it is not replaced.")
    folder = destination(path).parent
    if not folder.is_dir():
        raise ModelError(f"{path}: the file cannot be written, because the folder {folder} does not exist.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ModelError(f"{path}: the file cannot be written, because the folder {folder} is read-only.")


def is_html(path: Path) -> bool:
    """True if the report of this name is a page."""
    return path.suffix.lower() in (".html", ".htm")


def report_path(arguments: argparse.Namespace, models: Iterable[str]) -> Path | None:
    """Return the file of --report. Raises OptionError or ModelError, before any work, if it must not be written."""
    if arguments.report is None:
        return None
    if arguments.report == STREAM:
        raise OptionError("--report - is not supported: --json prints the report on standard output.")
    report = Path(arguments.report)
    sources = [None if model == STREAM else Path(model) for model in models]
    require_apart({**settings_files(arguments), "the model": sources}, {"--report": [report]})
    if not is_html(report) and report.suffix.lower() != ".json":
        raise OptionError(f"--report {report}: the name must end in .json or .html.")
    require_writable(report)
    return report


def page_wanted(arguments: argparse.Namespace, report: Path | None) -> bool:
    """True if the report of this model is a page, or part of one of many models."""
    return (report is not None and is_html(report)) or (
        arguments.outcome is not None and arguments.outcome.task.wanted == "page"
    )


def write_report(path: Path, data: dict[str, Any], page: dict[str, Any] | None) -> None:
    """Write the report: the page, or the data without one."""
    if page is None:
        write_file(path, json_text(data))
        return
    from castsmith.cli.page.data import html_text

    write_file(path, html_text(page))


def write_file(path: Path, text: str) -> None:
    """Write the text to a file, which appears under its name when it is complete. Raises ModelError."""
    try:
        write_text(destination(path), text)
    except OSError as error:
        raise ModelError(f"{path}: the file cannot be written ({error.strerror}).") from None
