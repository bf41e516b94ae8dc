"""The process that answers requests: errors, crashes, limits and ends, of a script that does what it is asked."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from castsmith.verification.evaluate import process as module
from castsmith.verification.evaluate.channel import TIMED
from castsmith.verification.evaluate.process import CrashError, EngineError, Process

_SCRIPT = """
import os, signal, sys, time

def answerer():
    def answer(what, *words):
        if what == "fail":
            raise ValueError(*words)
        if what == "exit":
            os._exit(*words)
        if what == "kill":
            os.kill(os.getpid(), words[0])
        if what == "spin":
            while True:
                pass
        if what == "sleep":
            time.sleep(*words)
        if what == "environment":
            return {name: os.environ.get(name) for name in words}
        return what, words, os.getpid(), sys.flags.safe_path
    return answer
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("process") / "script.py"
    file.write_text(_SCRIPT)
    return file


@pytest.fixture(scope="module")
def process(script: Path) -> Iterator[Process]:
    started = Process(script)
    yield started
    started.close()


def test_one_process_answers_until_it_ends(process: Process) -> None:
    process.close()
    turn, used = process.turn, process.used
    assert not process.is_alive
    what, words, number, safe = process.ask("echo", 1, "two")
    assert (what, words, safe) == ("echo", (1, "two"), True)
    assert process.is_alive
    assert process.ask("echo", seconds=math.inf)[2] == process.ask("echo", seconds=5.0)[2] == number != os.getpid()
    assert process.turn == turn + 1
    assert used < process.used < used + 60
    for text, said in (("two\nlines", "two lines"), ("", "ValueError")):
        with pytest.raises(EngineError, match=f"^{said}$") as failed:
            process.ask("fail", text)
        assert not isinstance(failed.value, CrashError)
        assert (failed.value.unsupported, failed.value.open) == (False, False)
    assert process.ask("echo")[2] == number
    process.close()
    process.close()
    assert not process.is_alive
    assert process.ask("echo")[2] != number
    assert process.turn == turn + 2


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_a_crash_is_named_and_costs_a_start(process: Process) -> None:
    for request, said in ((("exit", 7), "exit code 7"), (("exit", 0), "exit code 0"), (("kill", 9), "signal 9")):
        turn = process.turn if process.is_alive else process.turn + 1
        with pytest.raises(CrashError) as crashed:
            process.ask(*request)
        assert str(crashed.value) == f"crashed its process ({said})"
        assert not crashed.value.late
        assert not process.is_alive
        assert process.turn == turn
        process.ask("echo")
        assert process.turn == turn + 1


@pytest.mark.skipif(not TIMED, reason="this system counts no processor time")
def test_a_request_that_does_not_end_costs_its_limit(process: Process) -> None:
    used = process.used
    with pytest.raises(CrashError, match=r"^does not end within 0 s$") as crashed:
        process.ask("spin", seconds=0.05)
    assert crashed.value.late
    assert process.used >= used + 0.05


def test_a_request_that_waits_for_ever_is_ended(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock, after many times its seconds; but not the one after it, nor one without a limit."""
    monkeypatch.setattr(module, "_WATCHED_EVERY", 0.01)
    monkeypatch.setattr(module, "_WALL", 1.0)
    waiting = Process(script)
    waiting.ask("echo", seconds=100.0)
    with pytest.raises(CrashError, match=r"^does not end within 0 s$") as crashed:
        waiting.ask("sleep", 60, seconds=0.1)
    assert crashed.value.late
    assert waiting.ask("sleep", 0.2, seconds=math.inf)[0] == "sleep"
    assert sum(thread.name.endswith("(_watch)") for thread in threading.enumerate()) >= 1
    waiting.close()


def test_an_interrupted_request_ends_the_process(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its late answer would be that to the next request."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    process.ask("echo")
    with monkeypatch.context() as patch:
        patch.setattr(module, "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            process.ask("echo", "late")
    assert not process.is_alive
    assert process.ask("echo", "next")[1] == ("next",)


def test_the_environment_is_that_of_this_process_and_the_settings(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty entry of PYTHONPATH would be the current folder."""
    join = os.pathsep.join
    for path, expected in ((["", "a", "", "b"], "a" + os.pathsep + "b"), (["", ""], None), (None, None)):
        if path is None:
            monkeypatch.delenv("PYTHONPATH", raising=False)
        else:
            monkeypatch.setenv("PYTHONPATH", join(path))
        monkeypatch.setenv("ONE", "1")
        started = Process(script, settings={"TWO": "2", "ONE": "3"} if path else None)
        environment = started._environment()  # pyright: ignore[reportPrivateUsage]
        assert environment.get("PYTHONPATH") == expected
        assert (environment["ONE"], environment.get("TWO")) == (("3", "2") if path else ("1", None))
    given = Process(script, settings={"TWO": "2"})
    assert given.ask("environment", "ONE", "TWO") == {"ONE": "1", "TWO": "2"}
    given.close(patience=5.0)


def test_what_cannot_be_started_is_an_error(script: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(EngineError, match="cannot be started: No such file or directory") as failed:
        Process(script, (str(missing),)).ask("echo")
    assert str(failed.value).startswith(str(missing))
    other = Process(tmp_path / "none.py")
    with pytest.raises(EngineError, match=r"none\.py"):
        other.ask("echo")
    other.close()
