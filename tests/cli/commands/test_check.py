"""castsmith check: each finding by its code, on the smallest model that has it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx.defs
import onnx.parser
import pytest
from onnx import TensorProto

from tests.cli.helpers import CHAIN, CLEAN, MIXED, UNSAFE, Command, is_one_sentence, write_model

CONSTANT = """<ir_version: 10, opset_import: ["" : 21]>
constant () => (TO z) <FROM w = VALUES> {
    z = Cast <to = CODE> (w)
}"""

SUMMARY = re.compile(r"castsmith: \d+ errors? in \d+ of \d+ models?\.\n")
"""The last line on standard error, behind findings that go to a pipe."""


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

SECOND = (
    TRUNC.replace("IMPORT", ', "qonnx.custom_op.general" : 2')
    .replace("INPUTS", "x, s, zero, i, t, o")
    .replace("float o =", "float t = {16.0}, float o =")
)

DECLARED = CLEAN.replace("(float[N] z)", "(double[N] z)")
INNER = CHAIN.replace("z = Relu (b)", "z = Relu (b)").replace("(float16[N] z)", "(float16[N] z) <float16[N] a>")

PASSED_ON = """<ir_version: 8, opset_import: ["": 13]>
g (bool c, bfloat16[2] x) => (bfloat16[2] y) {
    y = If (c) <then_branch = t () => (bfloat16[2] a) { a = Identity (x) },
                else_branch = e () => (bfloat16[2] b) { b = Identity (x) }>
}"""
FLOAT8 = """<ir_version: 10, opset_import: ["" : 21]>
float8 (float[N] x) => (float[N] z) {
    a = Cast <to = 17> (x)
    z = Cast <to = 1> (a)
}"""

MOVED = FLOAT8.replace("Cast <to = 1> (a)", "Cast <to = 1> (b)").replace("    z =", "    b = Identity (a)\n    z =")

SHAPE = """<ir_version: 10, opset_import: ["" : 21]>
shape (float[2, 3] x) => (int64[2] z) {
    s = Shape (x)
    a = Cast <to = 6> (s)
    z = Cast <to = 7> (a)
}"""

CLIPPED = """<ir_version: 10, opset_import: ["" : 21]>
clipped (float[N] x) => (float8e4m3fn[N] z) <float lo = {-448.0}, float hi = {448.0}> {
    a = Clip (x, lo, hi)
    z = Cast <to = 17> (a)
}"""


def chain(source: str, middle: int, last: int) -> str:
    return f"""<ir_version: 10, opset_import: ["" : 21]>
    chain ({source}[N] x) => ({TensorProto.DataType.Name(last).lower()}[N] z) {{
        a = Cast <to = {middle}> (x)
        z = Cast <to = {last}> (a)
    }}"""


WRONG = """<ir_version: 10, opset_import: ["" : 21]>
wrong (double[N] x) => (float8e4m3fn[N] z) {
    z = Cast <to = 17> (x)
}"""


@pytest.mark.usefixtures("untried")
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
        (GUESSED, (), ["trunc-version-guessed", "invalid-model"]),
        (MALFORMED, (), ["trunc-malformed"]),
        (KNOWN, (), []),
        (KNOWN.replace("FLOOR", "SIDEWAYS"), (), ["trunc-malformed"]),
        (KNOWN.replace("o = {4.0}", "o = {12.0}"), (), ["trunc-suspicious"]),
        (KNOWN.replace("o = {4.0}", "o = {8.0}"), (), ["trunc-suspicious"]),
        (KNOWN.replace("i = {8.0}", "i = {7.5}"), (), ["trunc-suspicious"]),
        (KNOWN.replace("zero = {0.0}", "zero = {-1600.0}"), (), ["trunc-suspicious"]),
        (KNOWN.replace("s = {1.0}", "s = {0.0}"), (), ["trunc-suspicious"]),
        (SECOND, (), []),
        (SECOND.replace("t = {16.0}", "t = {6.0}"), (), ["trunc-suspicious"]),
        (SECOND.replace("t = {16.0}", "t = {0.5}"), (), ["trunc-suspicious"]),
        (SECOND.replace("qonnx.custom", "finn.custom"), (), ["trunc-suspicious"]),
        (FLOAT8, (), ["lossy-cast-chain"]),
        (FLOAT8, ("--ignore", "lossy-cast-chain"), []),
        (FLOAT8, ("--select", "mixed-operand-types,double-rounding"), []),
        (FLOAT8, ("--target", "onnxruntime-cpu"), ["lossy-cast-chain"]),
        (FLOAT8, ("--target", "onnxruntime-android"), ["lossy-cast-chain", "target-lacks-type"]),
        (MOVED, (), ["lossy-cast-chain"]),
        (chain("double", 1, 10), (), ["double-rounding"]),
        (chain("double", 1, 17), (), ["double-rounding"]),
        (chain("double", 10, 1), (), []),
        (chain("int64", 6, 7), (), ["lossy-cast-chain"]),
        (chain("float", 6, 1), (), ["nan-lost-in-chain"]),
        (chain("float", 7, 6), (), []),
        (chain("float16", 1, 11), (), []),
        (SHAPE, (), []),
        (CLIPPED, (), ["nan-lost-by-clip"]),
        (CLIPPED.replace("448", "6"), (), []),
        (CLIPPED.replace("Clip (x, lo, hi)", "Min (x, hi)"), (), ["nan-lost-by-clip"]),
        (CLIPPED.replace("to = 17", "to = 11").replace("float8e4m3fn[N] z", "double[N] z"), (), []),
        (CLEAN.replace("float", "uint64"), (), ["type-not-allowed"]),
        (CLEAN.replace("float", "int64").replace(": 18", ": 13"), (), ["type-not-allowed"]),
        (WRONG.replace(": 21", ": 18"), (), ["type-not-allowed"]),
        (PASSED_ON, (), ["type-not-allowed"]),
        (CLEAN.replace("Relu", "Rely"), (), ["unknown-operator"]),
        (CLEAN.replace("Relu", "Gelu"), (), ["unknown-operator"]),
        (CLEAN.replace("Relu", "else.Where"), (), ["unknown-operator"]),
        (WRONG, ("--target", "onnxruntime-cpu"), ["target-miscomputes-cast"]),
        (CLEAN.replace(": 18", ": 28"), ("--target", "tensorrt-11"), ["opset-too-new"]),
        (CLEAN.replace("version: 10", "version: 14"), ("--target", "tensorrt-11"), ["ir-version-too-new"]),
    ],
)
def test_findings(castsmith: Command, tmp_path: Path, text: str, options: tuple[str, ...], codes: list[str]) -> None:
    if ": 28" in text and onnx.defs.onnx_opset_version() < 28:
        pytest.skip("needs an onnx that knows opset 28")
    model = write_model(tmp_path / "a.onnx", text)
    ended = castsmith("check", model, *options, "--fail-on", "note")
    assert (ended.code, SUMMARY.sub("", ended.err)) == (int(bool(codes)), "")
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
    """Later types are inferred as if the promotion were allowed, so that later nodes are not reported again."""
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
    assert "two: mixed-operand-types the output b must be cast to float" in ended.out


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


def test_a_chain_shows_a_value_that_it_loses(castsmith: Command, tmp_path: Path) -> None:
    """The numbers in the messages are what the casts give: numpy has the same formats."""
    text = castsmith("check", write_model(tmp_path / "a.onnx", chain("double", 1, 10))).out
    x = 1 + 2**-11 + 2**-40
    assert np.float16(np.float32(x)) == 1
    assert f"{x} becomes 1.0, and by one cast {np.float16(x)!s}" in text
    text = castsmith("check", write_model(tmp_path / "a.onnx", chain("float", 10, 1))).out
    assert f"0.1 becomes {np.float32(np.float16(0.1))!s}" in text
    text = castsmith("check", write_model(tmp_path / "a.onnx", chain("int64", 6, 7))).out
    assert f"{2**31 + 5} becomes {5 - 2**31}" in text


def test_many_models(castsmith: Command, tmp_path: Path) -> None:
    """One that cannot be read does not keep the others from being checked; the worst exit code is that of all."""
    a, b = write_model(tmp_path / "a.onnx", MIXED), write_model(tmp_path / "b.onnx", CLEAN)
    none = tmp_path / "none.onnx"
    assert castsmith("check", b, b).code == 0
    assert castsmith("check", a, b).code == castsmith("check", b, a).code == 1
    assert castsmith("check", b, a, none).code == castsmith("check", a, none, b).code == 2
    ended = castsmith("check", none, a, b)
    assert ended.code == 2
    assert is_one_sentence(SUMMARY.sub("", ended.err))
    assert ended.err.endswith("castsmith: 1 error in 1 of 3 models.\n")
    assert ended.out.startswith(f"{a}: mixed: ")
    ended = castsmith("check", none, a, b, "--json")
    models = json.loads(ended.out)["models"]
    assert [(Path(m["input"]).stem, len(m["findings"]), m["error"] is None) for m in models] == [
        ("none", 0, False),
        ("a", 1, True),
        ("b", 0, True),
    ]
    (run,) = json.loads(castsmith("check", a, b, a, "--format", "sarif").out)["runs"]
    assert len(run["results"]) == 2


def test_a_code_that_is_none_is_bad_usage(castsmith: Command, tmp_path: Path) -> None:
    model = write_model(tmp_path / "a.onnx", CLEAN)
    for option in ("--select", "--ignore"):
        ended = castsmith("check", model, option, "double-rounding,no-such")
        assert (ended.code, is_one_sentence(ended.err)) == (2, True)
        assert "unknown code 'no-such" in ended.err
