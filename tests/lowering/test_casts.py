"""Casts that a target computes otherwise become operators that it computes exactly, or are refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.lowering.casts import LowerCasts
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.critical import critical_values
from castsmith.numerics.types import parse_type, type_name
from castsmith.targets.target import load_target
from tests.evaluator import evaluator, outputs_of
from tests.sampling import check_all, shortened
from tests.soak.cast_graphs import silent

OPENVINO = load_target("openvino-cpu")
HELD = "note openvino-cpu holds {} in {}: numbers that {} lacks change, first in {}"
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def model(source: str, to: str, opset: int = 21, made: str = "x") -> onnx_ir.Model:
    text = f"g ({source}[N] x) => ({to}[N] y) {{ c = Identity ({made}) y = Cast <to = {int(parse_type(to))}> (c) }}"
    return onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


def rules(before: onnx_ir.Model) -> tuple[onnx_ir.Model, list[str], list[str]]:
    result = LowerCasts(OPENVINO)(before)
    again = LowerCasts(OPENVINO)(result.model)
    assert not again.modified
    assert not again.records.rewrites
    return result.model, [r.rule for r in result.records.rewrites], [r.reason for r in result.records.refusals]


def _wraps(source: str, to: str) -> None:
    before = model(source, to)
    after, rewrites, refused = rules(before)
    held = OPENVINO.keeps_high_bits(parse_type(source), parse_type(to))
    assert (rewrites, refused) == (["wrap-before-cast"] * held, [])
    onnx.checker.check_model(onnx_ir.to_proto(after), full_check=True)
    x = critical_values(parse_type(source), parse_type(to))
    (y,) = outputs_of(evaluator(after), {"x": x})
    assert y.tobytes() == cast(x, to).tobytes()
    if held:  # what is cast fits, so a runtime that does not wrap gives the same
        (wide,) = (node.inputs[0] for node in after.graph if node.outputs[0].name == "y")
        assert wide is not None
        assert wide.dtype == DataType.INT32


def test_the_low_bits_are_taken_before_a_cast_to_a_narrower_integer() -> None:
    check_all(_wraps, [(a, b) for a in INTEGERS for b in ("int4", "uint4", *INTEGERS) if a != b])


@pytest.mark.parametrize("source", ["int32", "int64", "float16", "float", "double"])
def test_a_cast_to_bool_becomes_a_comparison(source: str) -> None:
    after, rewrites, refused = rules(model(source, "bool"))
    assert (rewrites, refused) == (["compare-with-zero"], [])
    numbers = [0, 1, -1, 2] if source.startswith("int") else [0.0, -0.0, 1e-7, np.nan, np.inf, -1]
    x = cast(np.array(numbers), source)
    (y,) = outputs_of(evaluator(after), {"x": x})
    assert y.tolist() == cast(x, "bool").tolist()


@pytest.mark.parametrize(
    ("source", "to", "opset", "said"),
    [
        ("int32", "int16", 17, "openvino-cpu has no BitwiseAnd of int32 at opset 17"),
        ("float", "bool", 7, "openvino-cpu has no Equal of float at opset 7"),
    ],
)
def test_what_an_old_opset_lacks_is_refused(source: str, to: str, opset: int, said: str) -> None:
    _, rewrites, (refused,) = rules(model(source, to, opset))
    assert rewrites == []
    assert said.replace("openvino-cpu has", "it has") in refused


@pytest.mark.parametrize(
    ("source", "opset", "said"),
    [
        ("double", 10, "rounding before it needs Clip with bounds as inputs: raise the opset from 10 to 11"),
        ("double", 11, "it has no Clip of double at opset 11 to replace the cast with"),
        ("double", 12, ""),
        ("uint32", 10, "rounding before it needs Clip with bounds as inputs: raise the opset from 10 to 11"),
        ("uint32", 11, "it has no Clip of double at opset 11 to replace the cast with"),
        ("uint32", 12, ""),
        ("int64", 11, "rounding before it needs Min of int64: raise the opset from 11 to 12"),
        ("int64", 12, ""),
    ],
)
def test_rounding_before_a_cast_needs_an_opset(source: str, opset: int, said: str) -> None:
    records = LowerCasts(load_target("onnxruntime-cpu"))(model(source, "bfloat16", opset)).records
    assert [refusal.reason.rpartition(", and ")[2] for refusal in records.refusals] == [said] * bool(said)
    assert [rewrite.rule for rewrite in records.rewrites] == ["round-in-place"] * (not said)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("g (bool[N] b) => (int16[N] y) { x = Cast <to = 6> (b) y = Cast <to = 5> (x) }", []),
        ("g (int32[N] x) => (int16[N] y) <int32 k = {255}> { a = BitwiseAnd (x, k) y = Cast <to = 5> (a) }", []),
        ("g (int32[N] x, int16 z) => (int16[N] y) { y = CastLike (x, z) }", ["wrap-before-cast"]),
        ("g (uint8[N] x) => (int16[N] y) { y = Cast <to = 5> (x) }", []),
        ("g (float[N] x) => (int16[N] y) { y = Cast <to = 5> (x) }", []),
        ("""g (int8[N] x) => (uint16[N] y) { a = Cast <to = 22> (x) y = Cast <to = 4> (a) }""",
         ["wrap-before-cast", "wrap-before-cast"]),
    ],
)  # fmt: skip
def test_values_that_are_known_to_fit_are_left_alone(text: str, made: list[str]) -> None:
    before = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    assert rules(before)[1] == made


def test_a_target_that_computes_them_as_the_standard_says_is_left_alone() -> None:
    target = replace(OPENVINO, held={}, wrong_casts=())
    assert not LowerCasts(target)(model("int32", "int16")).modified
    assert not LowerCasts(target)(model("float", "bool")).modified


@pytest.mark.skipif(find_spec("openvino") is None, reason="needs openvino")
def test_random_casts_in_openvino_are_exact_or_reported() -> None:
    """Executed in the runtime, bit for bit: no graph differs of which nothing is said."""
    counts, silent_graphs = silent("openvino-cpu", shortened("graphs of casts in OpenVINO", 600, 24), 0)
    assert silent_graphs == []
    assert counts["right, not reported"] > sum(counts.values()) / 2


@pytest.mark.parametrize(
    ("source", "to", "expected"),
    [
        ("float", "float16", ["note openvino-cpu holds float16 in a wider type, so this cast does not round"]),
        ("float", "int64", [HELD.format("int64", "int32", "int32", "y")]),
        ("int32", "int64", []),
        ("int64", "int32", [HELD.format("int64", "int32", "int32", "x")]),
        ("int8", "uint32", [HELD.format("uint32", "int32", "int32", "y")]),
        ("int8", "float16", []),
        ("float", "double", ["note openvino-cpu casts float to double differently: it gives 3.4028235e38 for infinity",
                             HELD.format("double", "float", "float", "y")]),
        ("int32", "int16", ["error openvino-cpu computes int32 to int16 wrongly: it holds int16 in a wider type, and"
                            " does not wrap"]),
        ("float", "int16", []),
        ("float", "string", ["error openvino-cpu has no Cast of string"]),
        ("uint8", "float8e8m0", ["error openvino-cpu has no Cast of uint8 to float8e8m0"]),
    ],
)  # fmt: skip
def test_what_check_says_of_a_pair(source: str, to: str, expected: list[str]) -> None:
    findings = castsmith.check(model(source, to, 24), target=OPENVINO)
    assert [f"{finding.severity.value} {finding.message}" for finding in findings] == expected


def test_casts_of_text_are_not_among_the_measured_pairs() -> None:
    for source, to in (("float", "string"), ("string", "int64")):
        assert castsmith.check(model(source, to), target="ort") == []


def test_check_says_which_casts_onnxruntime_merges() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[N] x, int64[N] i) => (int32[N] y, int32[N] z, int16[N] w, float[N] v) {
            a = Cast <to = 7> (x) y = Cast <to = 6> (a) z = Cast <to = 6> (i)
            b = Cast <to = 6> (x) w = Cast <to = 5> (b) v = Cast <to = 1> (a) }"""
    told = castsmith.check(onnx_ir.from_onnx_text(text), target="ort")
    (miscomputed,) = (finding for finding in told if finding.code == "target-miscomputes-cast")
    assert (miscomputed.severity, miscomputed.site.output) == (castsmith.Severity.NOTE, "y")
    assert miscomputed.message.startswith(
        "onnxruntime-cpu merges this cast with the one before it, so numbers beyond int32"
    )


def test_pairs_that_do_not_load_are_lowered() -> None:
    for source, to in (("uint8", "float8e8m0"), ("int32", "float4e2m1"), ("float8e8m0", "int8")):
        middle = source if source.startswith("float8") else to
        text = f"""<ir_version: 12, opset_import: ["": 24]> g (float[N] x) => (float[N] y) {{
            a = Cast <to = {int(parse_type(source))}> (x) b = Cast <to = {int(parse_type(to))}> (a)
            y = Cast <to = 1> (b) }}"""
        result = castsmith.optimize(onnx_ir.from_onnx_text(text), target=OPENVINO)
        assert not [finding for finding in result.diagnostics if finding.severity is castsmith.Severity.ERROR]
        left = {value.dtype for node in result.model.graph for value in node.outputs}
        assert parse_type(middle) not in left, type_name(parse_type(middle))
