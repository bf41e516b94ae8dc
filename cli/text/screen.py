"""Lines and progress: in colours on a terminal, plain elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from castsmith.cli.text.terminal import Line, print_line


def print_lines(lines: Iterable[Line]) -> None:
    """Print the lines; on a terminal, or in the pager of git, coloured and wrapped to its width."""
    if sys.stdout.isatty() or os.environ.get("GIT_PAGER_IN_USE"):
        from castsmith.cli.text.coloured import print_coloured

        print_coloured(lines)
        return
    for line in lines:
        print_line(line.plain)


@contextmanager
def progress(
    steps: int | None = None, *, quiet: bool = False, verbose: bool = False
) -> Generator[Callable[[str], None]]:
    """Yield a function to call with the name of the current step; it moves a bar on stderr if that is a terminal.

    Args:
        steps: The number of calls, if known.
        quiet: Show no bar.
        verbose: Print a line for each step instead, with the seconds that it took.
    """
    if verbose:
        with _timed() as announce:
            yield announce
        return
    if quiet or not sys.stderr.isatty():
        yield _say_nothing
        return
    from castsmith.cli.text.coloured import progress_bar

    with progress_bar(steps) as announce:
        yield announce


@contextmanager
def _timed() -> Generator[Callable[[str], None]]:
    """Yield a function to call with the name of each step; each is printed with its time when the next one begins."""
    running = list[tuple[str, float]]()

    def announce(name: str) -> None:
        now = time.perf_counter()
        for step, start in running:
            print_line(f"castsmith: {now - start:8.3f} s  {step}", sys.stderr)
        running[:] = [(name, now)]

    yield announce
    announce("")


def _say_nothing(name: str) -> None:
    del name
