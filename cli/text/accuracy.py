"""The text of a measured error: of each output, and remarks."""

from __future__ import annotations

from collections.abc import Iterator

from castsmith.cli.text.terminal import columns, counted
from castsmith.lowering.results import Accuracy

_MOST_NAMES = 3


def error_lines(error: Accuracy) -> Iterator[str]:
    """Yield the measured error of each output, and remarks."""
    yield f"  {error_title(error)}{':' if error.sets else ''}"
    yield from (f"  {line}" for line in columns(error_table(error)) if error.outputs)
    yield from (f"    {note}" for note in error_notes(error))


def error_title(error: Accuracy) -> str:
    """Return the line above a measured error: on what it was measured."""
    if not error.sets:
        return "error: not measured, since the result does not run"
    on = f"error on {counted(len(error.sets), 'set')} of inputs"
    return f"{on}, relative to the largest element" if error.outputs else on


def error_table(error: Accuracy) -> list[tuple[str, ...]]:
    """Return the measured error of each output, below a row of heads."""
    rows = [("output", "relative", "absolute", "cosine", "top-1")]
    for output in error.outputs if error.sets else ():
        top1 = "" if output.top1 is None else f"{output.top1:.1%}"
        rows.append((output.name, f"{output.relative:.3g}", f"{output.absolute:.3g}", f"{output.cosine:.6f}", top1))
    return rows


def error_notes(error: Accuracy) -> Iterator[str]:
    """Yield the remarks on a measured error: integers that differ, where it leaps, what overflows."""
    for name, (count, total) in error.differing.items():
        differ = "differs" if count == 1 else "differ"
        yield f"output {name}: {count} of {counted(total, 'element')} {differ}"
    if error.leap is not None:
        yield f"the error leaps first at {error.leap[0]}: by {error.leap[1]:.3g}"
    if error.overflows:
        names = ", ".join(error.overflows[:_MOST_NAMES]) + (", ..." if len(error.overflows) > _MOST_NAMES else "")
        yield f"{counted(len(error.overflows), 'value')} became infinite or NaN: {names}"
    yield from error.notes
