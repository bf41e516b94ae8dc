"""verify with a tolerance: errors by output, the first node at which they exceed it, and the inputs."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.numerics.errors import OptionError
from castsmith.verification.compare import Tolerance, distances

_HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
_A = """g (float[4] x) => (float[4] y, float[4] z) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    s = Mul (x, w) y = Neg (s) z = Abs (s) }"""
_B = _A.replace("1.0, 2.0, 3.0, 4.0", "1.0, 2.0, 3.0, 4.004")
_X = np.array([1, -2, 3, 8], np.float32)


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(_HEAD + text))


def compared(a: str = _A, b: str = _B, x: Any = _X, **options: Any) -> castsmith.Verdict:
    return castsmith.verify(parsed(a), parsed(b), inputs={"x": x}, **options)


@pytest.mark.parametrize(
    ("options", "equal"),
    [
        ({"rtol": 2e-3}, True),
        ({"atol": 0.1}, True),
        ({"rtol": 1e-5, "atol": 0.03}, False),
        ({"rtol": 5e-4}, False),
        ({"rtol": {"y": 2e-3}}, False),
        ({"rtol": {"y": 2e-3, "z": 2e-3}}, True),
        ({"rtol": {"": 2e-3}}, True),
        ({"rtol": {"": 2e-3, "z": 1e-5}}, False),
        ({"rtol": 1e-5, "atol": {"y": 0.1, "z": 0.1}}, True),
        ({}, False),
    ],
)
def test_a_tolerance_is_for_all_outputs_or_by_name(options: dict[str, Any], equal: bool) -> None:
    verdict = compared(**options)
    assert (verdict.equal, verdict.different) == (equal, not equal)


def test_the_errors_of_all_outputs_and_the_first_node_that_exceeds() -> None:
    verdict = compared(rtol={"y": 1e-2, "z": 1e-6})
    assert verdict.mismatch is not None
    assert (verdict.mismatch.value, verdict.mismatch.site.op, verdict.mismatch.difference.index) == ("s", "Mul", (3,))
    error = 8 * float(np.float32(4.004)) - 32
    for name in ("y", "z"):
        assert verdict.outputs[name].absolute == float(np.float32(8) * np.float32(4.004)) - 32 == error
        assert verdict.outputs[name].relative == error / 32
    assert verdict.seconds > 0


def test_errors_are_the_largest_of_all_sets() -> None:
    sets = [{"x": np.full(4, number, np.float32)} for number in (2, 1000, 1)]
    verdict = castsmith.verify(parsed(_A), parsed(_B), inputs=sets, rtol=1e-6)
    assert verdict.mismatch is not None
    assert verdict.mismatch.inputs == "set 1"
    assert verdict.runs == ["set 1", "set 2", "set 3"]
    assert verdict.outputs["y"].absolute > 3


def test_what_no_tolerance_allows() -> None:
    nan, inf = [np.nan, 1, 1, 1], [np.inf, -np.inf, 1, 1]
    a = "g (float[4] x) => (float[4] y) { y = Identity (x) }"
    for b, x, equal in (
        ("y = Abs (x)", nan, True),
        ("y = Abs (x)", inf, False),
        ("n = IsNaN (x) m = Neg (x) y = Where (n, m, x)", inf, True),
        ("n = IsNaN (x) i = Not (n) y = Cast <to = 1> (i)", nan, False),
    ):
        text = f"g (float[4] x) => (float[4] y) {{ {b} }}"
        assert compared(a, text, np.array(x, np.float32), rtol=1.0, atol=10.0, allow_unreached=True).equal is equal, b
    assert compared(a, "g (float[4] x) => (double[4] y) { y = Cast <to = 11> (x) }", rtol=1.0).different
    flag = "g (float[4] x) => (bool[4] y) <float o = {{{}}}> {{ y = Greater (x, o) }}"
    flags = flag.format("0.5"), flag.format("2.5")
    assert compared(*flags, rtol=1.0, atol=5.0).different


def test_another_type_of_an_output_is_compared_in_the_wider_one() -> None:
    a = "g (float[4] x) => (float[4] y) { y = Sqrt (x) }"
    b = "g (float[4] x) => (float16[4] y) { h = Cast <to = 10> (x) y = Sqrt (h) }"
    x = np.array([2, 3, 5, 7], np.float32)
    assert compared(a, b, x, rtol=1e-3).different
    assert compared(a, b, x, rtol=1e-3, accept=["y"]).equal
    assert compared(a, b, x, rtol=1e-6, accept=["y"]).different


def test_distances() -> None:
    big = np.array([-(2**63), 2**63 - 1, 5, -5], np.int64)
    apart, relative = distances(big, np.array([2**63 - 1, 2**63 - 2, 5, 5], np.int64))
    assert apart.tolist() == [float(2**64 - 1), 1.0, 0.0, 10.0]
    assert relative[3] == 2.0
    for dtype in (np.float16, ml_dtypes.bfloat16, np.uint8, ml_dtypes.int4, np.float64):
        apart, relative = distances(np.array([4, 0, 2], dtype), np.array([2, 1, 2], dtype))
        assert (apart.tolist(), relative.tolist()) == ([2.0, 1.0, 0.0], [0.5, 0.0, 0.0]), dtype
    texts = np.array(["a", "b"], object)
    assert distances(texts, np.array(["a", "c"], object))[0].tolist() == [0.0, np.inf]
    assert distances(np.array([1 + 1j]), np.array([1 - 1j]))[0].tolist() == [2.0]
    assert not Tolerance(rtol=1e300).exceeded(np.array([1e300]), np.array([2e300])).any()


def test_generated_inputs_are_ordinary_numbers_and_take_the_branches() -> None:
    half = castsmith.convert(parsed("g (float[N] x) => (float[N] y) { s = Sigmoid (x) y = Mul (s, x) }"), to="float16")
    plain = parsed("g (float[N] x) => (float[N] y) { s = Sigmoid (x) y = Mul (s, x) }")
    assert castsmith.verify(plain, half.model).different
    verdict = castsmith.verify(plain, half.model, rtol=1e-2, atol=1e-2)
    assert verdict.equal
    assert verdict.summary().startswith("match within rtol 0.01, atol 0.01 on 15 sets of inputs: ")
    branches = """g (float[4] x, int64 rate) => (float[4] y) <int64 known = {{16000}}, float k = {{{}}}> {{
        same = Equal (rate, known)
        y = If (same) <then_branch = t () => (float[4] a) {{ a = Mul (x, k) }},
                       else_branch = e () => (float[4] b) {{ b = Add (x, k) }}> }}"""
    pair = [parsed(branches.format(number)) for number in ("3.0", "3.00001")]
    assert castsmith.verify(*pair, rtol=1e-3, atol=1e-3).equal


def test_a_tolerance_that_is_none_is_refused() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"rtol": -1.0}, "rtol must be a number of at least 0, not -1.0."),
        ({"atol": float("nan")}, "atol must be a number of at least 0, not nan."),
        ({"atol": float("inf")}, "atol must be a number of at least 0, not inf."),
        ({"rtol": {"w": 1e-3}}, "rtol names the unknown output 'w'; expected y, z."),
    ]
    for options, text in refused:
        with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
            compared(**options)
