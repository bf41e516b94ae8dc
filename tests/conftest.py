"""The last lines of a run: what was skipped and why, and what was sampled."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests import sampling

MOST_CASES = 8 if sampling.SIZE == 1 else 16 * sampling.SIZE
"""Of one test in a run of whole folders, such as `make test`: more of them are a sample, drawn by the seed."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of the cases of each test that has many, unless files are named or the run is complete.

    All cases of a test marked `every_case` are kept, and those of a test that `sampled` drew itself.
    """
    if sampling.COMPLETE or not all(Path(argument).is_dir() for argument in config.args):
        return
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    left = set[pytest.Item]()
    for name, found in cases.items():
        if len(found) > MOST_CASES and not _keeps_all(found[0]):
            kept = sampling.sampled(f"cases of tests with many [{name}]", found, MOST_CASES)
            left.update(set(found).difference(kept))
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def _keeps_all(item: pytest.Item) -> bool:
    drawn = any(isinstance(value, sampling.Sampled) for mark in item.iter_markers("parametrize") for value in mark.args)
    return drawn or item.get_closest_marker("every_case") is not None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give the process that reports what this one has sampled."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["sampled"], output["processor"] = sampling.DRAWN, processor_seconds()


def processor_seconds() -> float:
    """Return the seconds of the processor that this process and those it has waited for took."""
    return sum(os.times()[:4])


_WORKERS: list[float] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist has sampled."""
    output: dict[str, Any] = getattr(node, "workeroutput", {})
    _WORKERS.append(output.get("processor", 0.0))
    drawn: dict[str, tuple[int, int]] = output.get("sampled", {})
    sampling.DRAWN.update({domain: (kept, of) for domain, (kept, of) in drawn.items()})


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a line for each reason of skips, and one for what was sampled."""
    reasons, places = Counter[str](), defaultdict[str, set[str]](set)
    for report in terminalreporter.stats.get("skipped", []):
        file, _, reason = report.longrepr
        reason = reason.removeprefix("Skipped: ").partition("\n")[0]
        reasons[reason] += 1
        places[reason].add(report.nodeid.partition("::")[0] or str(file))
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count} {', '.join(sorted(places[reason]))}: {reason[:160]}")
    if sampling.DRAWN:
        terminalreporter.section("sampled")
        kept, of = Counter[str](), Counter[str]()
        for domain, (some, every) in sampling.DRAWN.items():
            kept[domain.partition(" [")[0]] += some
            of[domain.partition(" [")[0]] += every
        terminalreporter.line("; ".join(f"{domain} {kept[domain]} of {of[domain]}" for domain in sorted(of)))
        terminalreporter.line(
            f"CASTSMITH_SEED={sampling.SEED} draws the same cases again; `make exhaustive` runs every case"
        )
    # Processes of pytest-xdist count twice where they have ended already.
    seconds = max(processor_seconds(), sum(os.times()[:2]) + sum(_WORKERS))
    terminalreporter.line(f"{seconds / 60:.1f} minutes of the processor")
