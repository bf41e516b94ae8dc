"""A page opened in headless Chromium, and a script run in it: needs the browser alone, no driver and no package."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--dump-dom"),
    "--virtual-time-budget=120000",
)
_HARNESS = """<script>
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
(async () => {
  while (document.body.dataset.ready !== "yes") await wait(10);
  let found;
  try { found = await (async () => { SCRIPT })(); } catch (error) { found = { failed: String(error.stack) }; }
  const made = document.createElement("pre");
  made.id = "found-by-the-test";
  made.textContent = JSON.stringify(found);
  document.body.replaceChildren(made);
})();
</script>"""


def run_in_page(page: Path, script: str, *, width: int = 1280, fragment: str = "") -> Any:
    """Return what the script returns in the page; skips the test loudly where there is no Chromium."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip("NOT CHECKED IN A BROWSER: install chromium")
    copy = page.with_name(f"run-{page.name}")
    before, body, after = page.read_text().rpartition("</body>")
    copy.write_text(before + _HARNESS.replace("SCRIPT", script) + body + after)
    address = copy.as_uri() + (f"#{fragment}" if fragment else "")
    folder = page.with_name("profile")
    words = [browser, *_FLAGS, f"--window-size={width},900", f"--user-data-dir={folder}", address]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r'<pre id="found-by-the-test">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    result = json.loads(html.unescape(found[1]))
    assert not (isinstance(result, dict) and "failed" in result), result
    return result
