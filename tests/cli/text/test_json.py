"""JSON output of the commands follows the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from castsmith import CastsmithError
from castsmith.cli.failures import failure_of
from tests.cli.helpers import CHAIN, CLEAN, MIXED, UNSAFE, Command, write_model
from tests.cli.text.json_schema import violations

pytestmark = pytest.mark.usefixtures("untried")

ROOT = Path(__file__).parents[3]
UNDEFINED = """<ir_version: 10, opset_import: ["" : 18]>
g () => (int8[2] z) <float[2] w = {1.0, 1000.0}> { z = Cast <to = 3> (w) }"""


def schema(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "docs" / "schema" / f"{name}-1.json").read_text())


def check(name: str, text: str) -> Any:
    data = json.loads(text)
    assert list(violations(data, schema(name))) == []
    return data


@pytest.mark.parametrize("text", [MIXED, CLEAN, CHAIN, UNDEFINED])
def test_every_layout(castsmith: Command, tmp_path: Path, text: str) -> None:
    a, b = write_model(tmp_path / "a.onnx", text), tmp_path / "b.onnx"
    check("report", castsmith("optimize", a, "-o", b, "--json", "--target", "onnxruntime-android").out)
    check("diff", castsmith("diff", a, b, "--json").out)
    check("check", castsmith("check", a, "--format", "json").out)
    check("verify", castsmith("verify", a, b, "--json").out)


def test_real_models(castsmith: Command, tmp_path: Path) -> None:
    for name in ("convnet", "float8_transformer", "mixed_types"):
        source, out = ROOT / "models" / f"{name}.onnx", tmp_path / "b.onnx"
        words = ("--target", "onnxruntime-android", "--promote-unsafe", "--json")
        assert check("report", castsmith("optimize", source, "-o", out, *words).out)["rewrites"]
        assert check("diff", castsmith("diff", source, out, "--json").out)["changes"]


def test_a_difference_of_verify(castsmith: Command, tmp_path: Path) -> None:
    a = write_model(tmp_path / "a.onnx", CLEAN)
    b = write_model(tmp_path / "b.onnx", CLEAN.replace("Relu", "Abs"))
    found = check("verify", castsmith("verify", a, b, "--json").out)["difference"]
    assert (found["value"], found["place"]["output"]) == ("z", "z")


@pytest.mark.usefixtures("one_process")
def test_many(castsmith: Command, tmp_path: Path) -> None:
    a, b = write_model(tmp_path / "a.onnx", MIXED), tmp_path / "none.onnx"
    check("check-many", castsmith("check", a, b, "--json").out)
    report = tmp_path / "all.json"
    for line in castsmith("optimize", a, b, "-o", tmp_path / "out", "--json", "--report", report).out.splitlines():
        check("error" if "error" in json.loads(line) else "report", line)
    check("report-many", report.read_text())


def test_every_failure(castsmith: Command, tmp_path: Path) -> None:
    a, none, out = write_model(tmp_path / "a.onnx", UNSAFE), tmp_path / "none.onnx", tmp_path / "b.onnx"
    for words, code, file in (
        (("optimize", none, "-o", out), "model", none),
        (("optimize", a, "-o", out), "promotion", a),
        (("optimize", a, "-o", a, "--report", a), "option", a),
        (("optimize", a, "-o", out, "--target", "abacus"), "target", a),
        (("optimize", a), "option", a),
        (("optimize", a, "--storage"), "usage", None),
        (("check", none), "model", none),
        (("diff", a, none), "model", none),
        (("verify", a, none), "model", none),
        (("verify", a, a, "--dim", "N"), "option", None),
        (("cast", "1", "--from", "f32", "--to", "nothing"), "element-type", None),
        (("explain", "nothing"), "option", None),
        (("targets", "show", "abacus"), "target", None),
    ):
        ended = castsmith(*words, "--json")
        error = check("error", ended.out)["error"]
        assert (error["code"], error["file"], error["exit_code"]) == (code, file and str(file), ended.code)
        assert ended.err == f"castsmith: {error['message']}\n"


def test_every_error_on_purpose_has_a_code_in_the_schema() -> None:
    codes = schema("error")["properties"]["error"]["properties"]["code"]["enum"]
    kinds: list[type[CastsmithError]] = [CastsmithError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind is not CastsmithError and kind.__module__.startswith("castsmith."):
            assert failure_of(kind("No."), {}).code in codes


def test_the_validator_finds_faults() -> None:
    good = {"schema": 1, "input": "a", "target": None, "findings": [], "baseline": None}
    assert list(violations(good, schema("check"))) == []
    for fault in ({"schema": 2}, {"input": 1}, {"findings": [{}]}, {"more": 1}):
        assert list(violations(good | fault, schema("check")))
