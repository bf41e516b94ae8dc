"""The first line of a run, its seed; and the last: what was skipped and why, and what was sampled."""

from __future__ import annotations

import gc
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from castsmith.lowering.check import apart, standard
from castsmith.targets import target
from castsmith.verification.evaluate import engines, worker
from tests import sampling
from tests.cli.helpers import batch_in_this_process
from tests.cli.page import chromium
from tests.engines import Here, session_made_once


def pytest_configure() -> None:
    """Draw the same examples of Hypothesis too."""
    hypothesis.settings.register_profile("seeded", derandomize=sampling.SEED == sampling.FIXED)
    hypothesis.settings.load_profile("seeded")
    gc.set_threshold(100_000, 20, 50)


def pytest_collection_finish() -> None:
    """Keep the collector from the modules and tests, which stay: it took a twelfth of a run to walk through them."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Return the line that says which cases are drawn."""
    return f"CASTSMITH_SEED={sampling.SEED} draws the samples"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the browser; give the process that reports what this one has sampled."""
    chromium.close()
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["sampled"] = sampling.DRAWN
        output["processor"] = processor_seconds(), own_seconds()


def processor_seconds() -> float:
    """Return the seconds of the processor that this process and those it has waited for took."""
    return sum(os.times()[:4])


def own_seconds() -> float:
    """Return the seconds of the processor that this process took without others."""
    return sum(os.times()[:2])


@pytest.fixture(scope="session", autouse=True)
def onnx_in_this_process() -> Iterator[None]:
    """`check` asks onnx in this process, as on Windows: to fork one of tests takes longer than to check most models.

    Not where other samples are drawn, of which one may end the process.
    """
    with pytest.MonkeyPatch.context() as patch:
        if sampling.QUICK and sampling.SEED == sampling.FIXED:
            patch.setattr(standard, "asked_apart", apart.error_of)
        yield


@pytest.fixture(scope="session", autouse=True)
def targets_are_read_once() -> Iterator[None]:
    """The files of the targets that come with Castsmith stay as they are: to read them took a twentieth of a run."""
    read = target._read  # pyright: ignore[reportPrivateUsage]
    once = cache(read)

    def read_once(path: Path) -> target.Target:
        return once(path) if path.parent == target.TARGETS_FOLDER else read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "_read", read_once)
        yield


@pytest.fixture(scope="session")
def engine_here() -> Here:
    return Here()


def _unlimited(_: int) -> None:
    """Leave the memory of this process as it is."""


@pytest.fixture
def engines_here(engine_here: Here, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """`verify` runs engines in this process: for models that end none of them.

    Not where other samples are drawn, of which one may end the process.
    """
    if sampling.QUICK and sampling.SEED == sampling.FIXED and "engines_apart" not in request.fixturenames:
        monkeypatch.setattr(engines, "_PROCESS", engine_here)
        monkeypatch.setattr(worker, "_limit_memory", _unlimited)
        monkeypatch.setitem(worker._KINDS, "onnxruntime", session_made_once)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def engines_apart() -> None:
    """In a file of `engines_here`, `verify` runs the engines of a test in another process, as it does for users."""


@pytest.fixture
def onnx_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` asks onnx in another process, as it does for users: for models that may end it."""
    monkeypatch.setattr(standard, "asked_apart", apart.asked_apart)


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs over many models do the work of each in this process, which has imported everything."""
    monkeypatch.setattr("castsmith.cli.batch.pool.on_this_machine", batch_in_this_process)


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints of findings are not tried on the model, which takes several times as long as to find them."""
    monkeypatch.setattr("castsmith.lowering.check.tried._MOST_NODES", 0)


_WORKERS: list[tuple[float, float]] = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist has sampled."""
    output: dict[str, Any] = getattr(node, "workeroutput", {})
    _WORKERS.append(output.get("processor", (0.0, 0.0)))
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
