"""Results as text for a terminal.

Each command calls the module of its result, which gives lines; `print_lines` prints them.

    terminal             `print_lines`, `print_text` ...: escaped names, width, colours; `table_lines`; `progress`
    rewrites, summary    `print_result`: rewrites, refusals, counts and sizes of optimize and convert; measured errors
    findings             `finding_line`: what check found
    diff                 `comparison_lines`: the differences of two models
    model                `model_lines`: a whole model
    verify, bounds       `verdict_lines`, `bounds_lines`, and both as data
    cast                 the numbers that the command cast reads and prints
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from castsmith.lazy import door

if TYPE_CHECKING:
    from castsmith.cli.text.bounds import bounds_data, bounds_lines
    from castsmith.cli.text.cast import convert, read_value, shown
    from castsmith.cli.text.diff import change_forms, comparison_lines
    from castsmith.cli.text.findings import as_command, finding_line
    from castsmith.cli.text.model import model_lines
    from castsmith.cli.text.rewrites import refusal_form, rewrite_form
    from castsmith.cli.text.summary import error_notes, error_table, error_title, print_result
    from castsmith.cli.text.terminal import (
        Line,
        change_text,
        columns,
        counted,
        one_line,
        print_data,
        print_line,
        print_lines,
        print_text,
        printable,
        progress,
        size_text,
        table_lines,
    )
    from castsmith.cli.text.verify import verdict_data, verdict_lines

__all__ = [
    "Line",
    "as_command",
    "bounds_data",
    "bounds_lines",
    "change_forms",
    "change_text",
    "columns",
    "comparison_lines",
    "convert",
    "counted",
    "error_notes",
    "error_table",
    "error_title",
    "finding_line",
    "model_lines",
    "one_line",
    "print_data",
    "print_line",
    "print_lines",
    "print_result",
    "print_text",
    "printable",
    "progress",
    "read_value",
    "refusal_form",
    "rewrite_form",
    "shown",
    "size_text",
    "table_lines",
    "verdict_data",
    "verdict_lines",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(
        __name__,
        {
            "bounds": ("bounds_data", "bounds_lines"),
            "cast": ("convert", "read_value", "shown"),
            "diff": ("change_forms", "comparison_lines"),
            "findings": ("as_command", "finding_line"),
            "model": ("model_lines",),
            "rewrites": ("refusal_form", "rewrite_form"),
            "summary": ("error_notes", "error_table", "error_title", "print_result"),
            "terminal": (
                "Line",
                "change_text",
                "columns",
                "counted",
                "one_line",
                "print_data",
                "print_line",
                "print_lines",
                "print_text",
                "printable",
                "progress",
                "size_text",
                "table_lines",
            ),
            "verify": ("verdict_data", "verdict_lines"),
        },
    )
