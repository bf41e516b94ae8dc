"""A sample of the random models of `python -m tests.lowering.float8.random_blocked 500`."""

from __future__ import annotations

import random

import onnx.defs
import onnx.parser
import pytest

import castsmith
from castsmith.ir.records import Effect
from tests.lowering.float8.random_blocked import check, draw
from tests.sampling import SEED, sampled

COUNT = 26


@pytest.mark.parametrize("number", sampled("random blocked models", range(COUNT), COUNT))
def test_the_lowered_model_gives_the_bits_of_exact_arithmetic(number: int) -> None:
    """The numbers go through the quantized types, and the draw of each is another in each run."""
    seed = COUNT * random.Random(f"{SEED} {number}").randrange(1000) + number
    case = draw(seed, onnx.defs.onnx_opset_version())
    reason = check(case)
    assert not reason or "to int4" in reason or "to uint4" in reason, case.text


@pytest.mark.parametrize(
    "pair",
    [
        "c = Cast <to = 18, saturate = 0> (x) y = Cast <to = 1> (c)",
        "c = QuantizeLinear <output_dtype = 18, saturate = 0> (x, s) y = DequantizeLinear (c, s)",
    ],
)
def test_records_of_codes_that_are_only_decoded_say_what_becomes_of_nan(pair: str) -> None:
    """Overflow to the NaN of float8e4m3fnuz, whose code has the bit of the sign, gives a NaN without it."""
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (float[2] y) <float s = {{0.5}}> {{ {pair} }}'
    rewrites = castsmith.optimize(onnx.parser.parse_model(text), target="openvino-cpu").rewrites
    assert [each.effect for each in rewrites] == [Effect.BIT_EXACT_BUT_NAN] * 2
    assert [each.reason for each in rewrites] == [
        "the codes are only decoded, which is rounding in place",
        "the codes are made from floats, so those are rounded in place",
    ]
