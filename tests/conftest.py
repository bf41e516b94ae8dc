"""The last lines of a run: what was skipped and why, and what was sampled."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from tests import sampling


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give the process that reports what this one has sampled."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["sampled"] = sampling.DRAWN


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist has sampled."""
    drawn: dict[str, tuple[int, int]] = getattr(node, "workeroutput", {}).get("sampled", {})
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
