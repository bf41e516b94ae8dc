"""castsmith check: each finding by its code, on the smallest model that has it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import TensorProto

from tests.cli.helpers import CHAIN, CLEAN, MIXED, UNSAFE, Command, write_model

CONSTANT = """<ir_version: 10, opset_import: ["" : 21]>
constant () => (TO z) <FROM w = VALUES> {
    z = Cast <to = CODE> (w)
}"""


def constant_cast(source: str, values: str, to: str, code: int) -> str:
    words = {"TO": to, "FROM": source, "VALUES": values, "CODE": str(code)}
    text = CONSTANT
    for word, value in words.items():
        text = text.replace(word, value)
    return text


TRUNC = """<ir_version: 10, opset_import: ["" : 18 IMPORT]>
trunc (float[N] x) => (float[N] z)
<float s = {1.0}, float zero = {0.0}, float i = {8.0}, float o = {4.0}> {
    z = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (INPUTS)
}"""

GUESSED = TRUNC.replace("IMPORT", "").replace("INPUTS", "x, s, zero, i, o")
MALFORMED = TRUNC.replace("IMPORT", "").replace("INPUTS", "x, s")
KNOWN = TRUNC.replace("IMPORT", ', "qonnx.custom_op.general" : 1').replace("INPUTS", "x, s, zero, i, o")

DECLARED = CLEAN.replace("(float[N] z)", "(double[N] z)")
INNER = CHAIN.replace("z = Relu (b)", "z = Relu (b)").replace("(float16[N] z)", "(float16[N] z) <float16[N] a>")

FLOAT8 = """<ir_version: 10, opset_import: ["" : 21]>
float8 (float[N] x) => (float[N] z) {
    a = Cast <to = 17> (x)
    z = Cast <to = 1> (a)
}"""

WRONG = """<ir_version: 10, opset_import: ["" : 21]>
wrong (double[N] x) => (float8e4m3fn[N] z) {
    z = Cast <to = 17> (x)
}"""


@pytest.mark.parametrize(
    ("text", "options", "codes"),
    [
        (CLEAN, (), []),
        (CHAIN, (), []),
        (MIXED, (), ["mixed-operand-types"]),
        (UNSAFE, (), ["mixed-operand-types"]),
        (UNSAFE, ("--promote-unsafe",), ["mixed-operand-types"]),
        (DECLARED, (), ["output-type-mismatch"]),
        (INNER, (), ["value-type-mismatch"]),
        (constant_cast("float[2]", "{1.0, 300.0}", "int8[2]", 3), (), ["undefined-constant-cast"]),
        (constant_cast("float[2]", "{1.0, 1.5}", "int4[2]", 22), (), ["disputed-constant-cast"]),
        (constant_cast("float[2]", "{1.0, 3.0}", "int8[2]", 3), (), []),
        (GUESSED, (), ["trunc-version-guessed"]),
        (MALFORMED, (), ["trunc-malformed"]),
        (KNOWN, (), []),
        (FLOAT8, (), []),
        (FLOAT8, ("--target", "onnxruntime-cpu"), []),
        (FLOAT8, ("--target", "onnxruntime-android"), ["target-lacks-type"]),
        (WRONG, ("--target", "onnxruntime-cpu"), ["target-miscomputes-cast"]),
        (CLEAN.replace(": 18", ": 28"), ("--target", "onnxruntime-cpu"), ["opset-too-new"]),
        (CLEAN.replace("version: 10", "version: 14"), ("--target", "onnxruntime-cpu"), ["ir-version-too-new"]),
    ],
)
def test_findings(castsmith: Command, tmp_path: Path, text: str, options: tuple[str, ...], codes: list[str]) -> None:
    model = write_model(tmp_path / "a.onnx", text)
    ended = castsmith("check", model, *options)
    assert (ended.code, ended.err) == (int(bool(codes)), "")
    lines = ended.out.splitlines()
    assert [line for line, code in zip(lines, codes, strict=True) if f": {code} " not in line] == []
    assert all(line.startswith(f"{model}: ") for line in lines)
    data = json.loads(castsmith("check", model, *options, "--json").out)
    assert data["schema"] == 1
    assert [finding["code"] for finding in data["findings"]] == codes
    assert list(tmp_path.iterdir()) == [model]


def test_a_finding_names_the_operands_and_the_way_out(castsmith: Command, tmp_path: Path) -> None:
    model = write_model(tmp_path / "a.onnx", MIXED)
    line = castsmith("check", model).out
    assert "Add needs operands of one type, but has x (float) and y (int16) (optimize makes them float)" in line
    model = write_model(tmp_path / "a.onnx", UNSAFE)
    assert "(optimize --promote-unsafe makes them float; int64 with float could" in castsmith("check", model).out


def test_a_refused_promotion_is_one_finding(castsmith: Command, tmp_path: Path) -> None:
    """What follows from it is typed as if it were allowed, so nothing downstream is reported again."""
    text = UNSAFE.replace("z = Add (x, y)", "a = Add (y, x)\n b = Relu (a)\n z = Mul (b, x)")
    model = write_model(tmp_path / "a.onnx", text)
    assert castsmith("check", model).out.count("\n") == 1


def test_branches_that_disagree(castsmith: Command, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    branches (bool c, float[N] x, int16[N] y) => (float[N] z) {
        z = If (c) <
            then_branch = one () => (float[N] a) { a = Identity (x) },
            else_branch = two () => (int16[N] b) { b = Identity (y) }
        >
    }"""
    ended = castsmith("check", write_model(tmp_path / "a.onnx", text))
    assert ended.code == 1
    assert "two: mixed-operand-types the output b has to leave as float" in ended.out


def test_operands_without_a_common_type(castsmith: Command, tmp_path: Path) -> None:
    text = MIXED.replace("Add", "Equal").replace("int16", "string").replace("float[N] z", "bool[N] z")
    ended = castsmith("check", write_model(tmp_path / "a.onnx", text))
    assert ended.code == 1
    assert "have no common type" in ended.out


def test_an_unknown_target_is_bad_usage(castsmith: Command, tmp_path: Path) -> None:
    assert castsmith("check", write_model(tmp_path / "a.onnx", CLEAN), "--target", "abacus").code == 2


def test_a_type_that_no_value_declares_is_found_by_inference(castsmith: Command, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(FLOAT8)
    assert not any(value.type.tensor_type.elem_type == TensorProto.FLOAT8E4M3FN for value in proto.graph.value_info)
    onnx.save_model(proto, tmp_path / "a.onnx")
    text = castsmith("check", tmp_path / "a.onnx", "--target", "onnxruntime-android").out
    assert "onnxruntime-android has no float8e4m3fn, which the value a has" in text
