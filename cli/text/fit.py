"""The text of fit: the plan as commands, with the cost after each, and all ways that were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from castsmith.cli.report.fit import OUTPUT, command_file
from castsmith.cli.streams import shown
from castsmith.cli.text.accuracy import error_lines
from castsmith.cli.text.findings import as_command, finding_line
from castsmith.cli.text.terminal import Line, counted, size_text
from castsmith.cli.wording import with_command_options
from castsmith.ir.records import Severity
from castsmith.lowering.fit.results import FitResult, Way

if TYPE_CHECKING:
    from castsmith.lowering.fit.cost import Cost


def plan_lines(result: FitResult, source: str, output: str) -> Iterator[str]:
    """Yield the commands that make the model, each with the cost after it, and what `check` says of the result."""
    yield "  the same, as plain commands:"
    for step, command in zip(result.plan, result.commands(shown(source), command_file(output)), strict=True):
        yield f"    {command}"
        yield f"      {cost_text(step.cost)}"
    yield from (f"  changed: {change}" for change in result.changes)
    if result.error is not None:
        yield from error_lines(result.error)
    else:
        yield "  no value is rounded to another precision"
    codes = Counter(finding.code for finding in result.findings)
    listed = ", ".join(f"{count} {code}" for code, count in codes.items())
    errors = sum(finding.severity is Severity.ERROR for finding in result.findings)
    yield f"  check: {counted(errors, 'error') if errors else 'no error'}{f'; {listed}' if listed else ''}"
    if result.hint:
        yield f"  {with_command_options(result.hint)}"


def way_lines(result: FitResult, source: str, target: str) -> Iterator[Line]:
    """Yield all ways that were tried, the best one first, and which of them is taken."""
    yield Line((("", f"{shown(source)} for {target}, now {cost_text(result.before)}"),), 2)
    for number, way in enumerate(result.ways, 1):
        note = " (this one is taken)" if result.plan and way.steps == tuple(result.plan) else ""
        yield Line((("", f"{number}. {_verdict(way)}{note}"),), 3)
        for step, command in zip(way.steps, way.commands(shown(source), OUTPUT), strict=True):
            yield Line((("", f"   {command}"),), 7)
            yield Line((("", f"     {cost_text(step.cost)}"),), 7)
        yield from (Line((("", f"   changed: {change}"),), 5) for change in way.changes)
        yield from (Line((("", f"   {with_command_options(obstacle)}"),), 5) for obstacle in way.obstacles)
    if result.hint:
        yield Line((("", with_command_options(result.hint)),), 2)
    if not result.plan:
        yield from (Line((("", finding_line(source, as_command(diagnostic))),), 2) for diagnostic in result.diagnostics)


def _verdict(way: Way) -> str:
    how = "rounds values" if way.lossy else "exact"
    if way.error is not None:
        how = f"error {way.error.worst:.2g} on {counted(len(way.error.sets), 'set')} of inputs"
    return f"{'legal' if way.legal else 'not legal'}, {how}"


def cost_text(cost: Cost | None) -> str:
    """Return a cost in words."""
    if cost is None:
        return "not made"
    moved, tensors = size_text(cost.moved_bytes), size_text(cost.tensor_bytes)
    return f"{cost}, {moved} moved per run, {tensors} of tensors"
