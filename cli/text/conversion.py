"""The text that convert prints of a conversion: the nodes by their precision, the reasons, and the measured error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from castsmith.cli.text.terminal import columns, counted, one_line
from castsmith.lowering.accuracy import Accuracy
from castsmith.lowering.conversion import ConvertResult
from castsmith.numerics.types import type_name

_MOST_REASONS, _MOST_NAMES = 6, 3


def conversion_lines(result: ConvertResult) -> Iterator[str]:
    """Nodes by precision, the most frequent reasons to leave one, and the error of each output."""
    types = Counter(type_name(dtype) for dtype, _ in result.precisions.values())
    regions = len(set(result.regions.values()))
    shares = ", ".join(f"{count} {name}" for name, count in types.most_common())
    yield f"  precision of {counted(len(result.precisions), 'node')}: {shares or 'none'}; {counted(regions, 'region')}"
    kept = Counter(_kind(reason) for name, (_, reason) in result.precisions.items() if name not in result.regions)
    for reason, count in kept.most_common(_MOST_REASONS):
        yield one_line(f"    {count} left: {reason}")
    if result.error is None:
        yield "  error: not measured (--inputs FILE.npz or --measure)"
    else:
        yield from _error_lines(result.error)
    if result.attempts > 1:
        yield f"  search: {result.attempts} conversions tried"


def _kind(reason: str) -> str:
    """The reason without what differs from node to node."""
    return reason.partition(" stays in a wider type by default: ")[2] or reason


def _error_lines(error: Accuracy) -> Iterator[str]:
    yield f"  error on {counted(len(error.sets), 'set')} of inputs, relative to the largest element:"
    rows = [("output", "relative", "absolute", "cosine", "top-1")]
    for each in error.outputs:
        top1 = "" if each.top1 is None else f"{each.top1:.1%}"
        rows.append((one_line(each.name), f"{each.relative:.3g}", f"{each.absolute:.3g}", f"{each.cosine:.6f}", top1))
    yield from (f"  {line}" for line in columns(rows))
    if error.leap is not None:
        yield one_line(f"    the error leaps first at {error.leap[0]}: by {error.leap[1]:.3g}")
    if error.overflows:
        names = ", ".join(error.overflows[:_MOST_NAMES]) + (", ..." if len(error.overflows) > _MOST_NAMES else "")
        yield one_line(f"    {counted(len(error.overflows), 'value')} became infinite or NaN: {names}")
    yield from (one_line(f"    {note}") for note in error.notes)
