"""Pages opened in one headless Chromium, and scripts run in them: needs the browser alone, no driver and no package."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_LISTENERS = """
const errors = [];
window.addEventListener("error", (event) => errors.push(event.message));
window.addEventListener("securitypolicyviolation", (event) => errors.push(event.violatedDirective));
const rows = () => [...document.querySelectorAll(".row")];
const count = (selector) => document.querySelectorAll(selector).length;
const wait = (time) => new Promise((done) => setTimeout(done, time));
const choose = (id, text) => {
  const box = document.getElementById(id);
  box.value = [...box.options].find((each) => each.textContent.startsWith(text)).value;
  box.dispatchEvent(new Event("change"));
};
const search = async (text) => {
  const box = document.getElementById("search");
  box.value = text;
  box.dispatchEvent(new Event("input"));
  await wait(200);
};
"""
_RUN = "(async () => { while (document.body?.dataset.ready !== 'yes') await wait(10); SCRIPT })()"


class _Browser:
    """A Chromium that takes commands of the DevTools protocol through a pipe."""

    def __init__(self, program: str) -> None:
        reads, self._commands = os.pipe()
        answers, writes = os.pipe()
        self._answers, self._numbers = os.fdopen(answers, "rb"), itertools.count(1)
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

        def take_pipes() -> None:  # Chromium expects them as 3 and 4
            ends = os.dup(reads), os.dup(writes)
            for end, number in zip(ends, (3, 4), strict=True):
                os.dup2(end, number)

        words = [program, *_FLAGS, f"--user-data-dir={self._folder.name}", "--remote-debugging-pipe"]
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            words, stdin=nowhere, stdout=nowhere, stderr=nowhere, preexec_fn=take_pipes, close_fds=False
        )
        os.close(reads)
        os.close(writes)

    def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        """Return the result of a command."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def _message(self) -> bytes:
        message = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "Chromium has ended"
            message += byte
        return bytes(message)


@cache
def _browser() -> _Browser | None:
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    return None if program is None else _Browser(program)


def close() -> None:
    """End the browser, if a test has started it."""
    if _browser.cache_info().currsize and (browser := _browser()) is not None:
        browser.close()
        _browser.cache_clear()


def run_in_page(page: Path, script: str, *, width: int = 1280, fragment: str = "") -> Any:
    """Return what the script returns in the page; skips the test loudly where there is no Chromium."""
    browser = _browser()
    if browser is None:
        pytest.skip("NOT CHECKED IN A BROWSER: install chromium")
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.call("Page.enable", session)
    browser.call("Page.addScriptToEvaluateOnNewDocument", session, source=_LISTENERS)
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", session, **size)
    browser.call("Page.navigate", session, url=page.as_uri() + (f"#{fragment}" if fragment else ""))
    run = {"expression": _RUN.replace("SCRIPT", script), "awaitPromise": True, "returnByValue": True}
    answer = browser.call("Runtime.evaluate", session, **run)
    browser.call("Target.closeTarget", targetId=target)
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")
