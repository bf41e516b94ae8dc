"""The pages of docs/conformance say what the records hold; the scripts of the bug reports print what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

from tests.conformance.pages import DEVIATIONS, REPORTED, read_records
from tests.conformance.record import FOLDER
from tests.sampling import sampled

SCRIPT = re.compile(r"```python\n(.+?)```\n\nInput .+?: expected .+?, got (.+?)\.\n", re.DOTALL)
SCRIPTS = [
    (name, code, got)
    for engine, name in REPORTED.items()
    if engine != "openvino"
    for code, got in SCRIPT.findall((DEVIATIONS / f"{name}.md").read_text())
]
RECORDED = {each.engine: each for each in read_records(FOLDER)}


def test_the_example_of_a_hash_is_of_the_record() -> None:
    record = json.loads((FOLDER / "domains.json").read_text())
    (digest,) = re.findall(r"[0-9a-f]{64}", (FOLDER / "index.md").read_text())
    assert digest == record["sha256"]["bfloat16_to_float8e5m2_no_saturate"]


def test_the_results_page_has_the_engines_of_the_records_with_their_versions() -> None:
    page = (FOLDER / "results.md").read_text()
    assert len(RECORDED) >= 8
    for record in RECORDED.values():
        right = record.statuses.count("r")
        assert f"| {record.version} | {record.date} | {right} |" in page, record.engine
    assert f"{len(RECORDED)} engines and settings" in page
    assert (FOLDER / "wrong.csv").read_text().count("castsmith dev conformance run --engine") >= 25
    assert (FOLDER / "casts.csv").read_text().count("\n") > 500


@pytest.mark.parametrize(("name", "code", "got"), sampled("scripts of deviations", SCRIPTS, 3), ids=str)
def test_a_script_prints_what_the_page_says(name: str, code: str, got: str, tmp_path: Path) -> None:
    if name == "onnxruntime" and onnxruntime.__version__ != RECORDED["onnxruntime"].version:
        pytest.skip("of another version of ONNX Runtime")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    code_given = re.search(r"\(0x([0-9a-f]+)\)", got)
    wanted = {got} | ({str(int(code_given[1], 16)), hex(int(code_given[1], 16))} if code_given else set[str]())
    wanted |= {{"True": "0x1", "False": "0x0"}.get(got, got), got.partition(" ")[0].removesuffix(".0")}
    printed = ended.stdout.strip()
    assert any(each in printed for each in wanted) or name == "onnx", (printed, wanted, ended.stderr)
