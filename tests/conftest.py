"""The last lines of a run: what was skipped and why, and what was sampled."""

from __future__ import annotations

import gc
import os
from collections import Counter, defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests import sampling

MOST_CASES = 6 if sampling.SIZE == 1 else 16 * sampling.SIZE
"""Of one test in a run of whole folders, such as `make test`: more of them are a sample, drawn by the seed."""


_SLOW = Path(__file__).with_name("slow.txt")
"""Processor seconds of the slow tests, for each case. `CASTSMITH_SAMPLE=4 CASTSMITH_TIMES=1 make test` writes it."""
_SLOW_CASE, _SLOW_TEST = 0.08, 0.6
"""Seconds from which a case of many, and a test without other cases, is slow."""
_CASES = 0.5
"""Seconds for the cases of a slow test in a quick run."""
_SLOW_DRAWN = 0.2
"""Seconds from which a case is slow that `sampled` drew: such a draw often has one case of each kind."""


def pytest_configure() -> None:
    """Let the collector walk through all objects, of which collected tests have many, less often."""
    gc.set_threshold(20_000, 20, 50)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of the tests, unless files are named or the run is complete.

    Of a test that has many cases some are kept: fewer of a slow one, about half a second of them. Of the slow tests
    without cases a third are kept in a quick run. A test marked `every_case` is kept with all of its cases; so are
    those that `sampled` drew itself, unless they are slow.
    """
    if sampling.COMPLETE or not all(Path(argument).is_dir() for argument in config.args):
        return
    cases, slow = defaultdict[str, list[pytest.Item]](list), slow_tests()
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    left = set[pytest.Item]()
    for name, found in cases.items():
        most = len(found) if _is_drawn(found[0]) else MOST_CASES
        if slow.get(name, 0) >= (_SLOW_DRAWN if _is_drawn(found[0]) else _SLOW_CASE):
            most = min(most, max(1, round(_CASES / slow[name])))
        if len(found) > most and not _is_kept(found[0]):
            kept = sampling.sampled(f"cases of tests with many [{name}]", found, most, factor=1)
            left.update(set(found).difference(kept))
    alone = [found[0] for name, found in cases.items() if len(found) == 1 and slow.get(name, 0) >= _SLOW_TEST]
    alone = [item for item in alone if not _is_kept(item)]
    if alone and slow:
        left.update(set(alone).difference(sampling.sampled("slow tests", alone, len(alone) // 3)))
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def slow_tests() -> dict[str, float]:
    """Return the seconds of each case of a slow test; of none in a run that is not quick."""
    if not sampling.QUICK or not _SLOW.exists():
        return {}
    lines = (line.split(" ", 1) for line in _SLOW.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in lines}


_TIMES = defaultdict[str, list[float]](list)
"""Processor seconds of each case that this process has run, by the name of its test."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None]:
    """Take the processor time of each case."""
    before = processor_seconds()
    yield
    _TIMES[item.nodeid.partition("[")[0]].append(processor_seconds() - before)


def write_slow_tests() -> None:
    """Write the file of slow tests."""
    rows = {name: sum(times) / len(times) for name, times in _TIMES.items()}
    least = {name: _SLOW_TEST if len(times) == 1 else _SLOW_CASE for name, times in _TIMES.items()}
    lines = [f"{rows[name]:.2f} {name}" for name in sorted(rows) if rows[name] >= least[name]]
    _SLOW.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _is_drawn(item: pytest.Item) -> bool:
    return any(isinstance(value, sampling.Sampled) for mark in item.iter_markers("parametrize") for value in mark.args)


def _is_kept(item: pytest.Item) -> bool:
    return item.get_closest_marker("every_case") is not None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give the process that reports what this one has sampled."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["sampled"], output["times"] = sampling.DRAWN, dict(_TIMES)
        output["processor"] = processor_seconds(), own_seconds()


def processor_seconds() -> float:
    """Return the seconds of the processor that this process and those it has waited for took."""
    return sum(os.times()[:4])


def own_seconds() -> float:
    """Return the seconds of the processor that this process took without others."""
    return sum(os.times()[:2])


_WORKERS: list[tuple[float, float]] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist has sampled."""
    output: dict[str, Any] = getattr(node, "workeroutput", {})
    _WORKERS.append(output.get("processor", (0.0, 0.0)))
    times: dict[str, list[float]] = output.get("times", {})
    for name, seconds in times.items():
        _TIMES[name] += seconds
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
    seconds = max(processor_seconds(), own_seconds() + sum(each for each, _ in _WORKERS))
    others = seconds - own_seconds() - sum(own for _, own in _WORKERS)
    terminalreporter.line(
        f"{seconds / 60:.1f} minutes of the processor, {others / 60:.1f} of them in processes that tests started"
    )
    if os.environ.get("CASTSMITH_TIMES"):
        write_slow_tests()
