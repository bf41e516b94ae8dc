"""The plan of fit, and the ways that were tried, as data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from castsmith.cli.report.data import accuracy_data, diagnostic_data
from castsmith.cli.streams import STREAM
from castsmith.cli.wording import with_command_options
from castsmith.lowering.fit.results import FitResult, Step, Way

if TYPE_CHECKING:
    from castsmith.lowering.fit.cost import Cost

OUTPUT = "OUT.onnx"
"""The name of a file that is not written, in commands."""


def command_file(output: str) -> str:
    """Return the file that commands write: one of any name for standard output, which no second command reads."""
    return OUTPUT if output == STREAM else output


def plan_data(result: FitResult, source: str, output: str | None) -> dict[str, Any]:
    """Return the plan, all ways that were tried, and what `check` finds in the result."""
    return {
        "plan": _steps(result.plan, result.commands(source, output or OUTPUT)),
        "changes": list(result.changes),
        "error": accuracy_data(result.error),
        "cost_before": _cost(result.before),
        "ways": [_way(way, source, output or OUTPUT) for way in result.ways],
        "findings": list(map(diagnostic_data, result.findings)),
        "hint": with_command_options(result.hint),
    }


def _steps(steps: list[Step] | tuple[Step, ...], commands: list[str]) -> list[dict[str, Any]]:
    return [{"command": text, "cost": _cost(step.cost)} for step, text in zip(steps, commands, strict=True)]


def _way(way: Way, source: str, output: str) -> dict[str, Any]:
    return {
        "steps": _steps(way.steps, way.commands(source, output)),
        "legal": way.legal,
        "lossy": way.lossy,
        "changes": list(way.changes),
        "error": accuracy_data(way.error),
        "obstacles": list(map(with_command_options, way.obstacles)),
    }


def _cost(cost: Cost | None) -> dict[str, int] | None:
    return None if cost is None else {**asdict(cost), "total": cost.total}
