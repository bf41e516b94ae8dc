"""Expressions as functions of one element."""

from __future__ import annotations

import onnx.parser
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.io.loading import as_model
from castsmith.verification.prove.proof import Held, prove
from tests.verification.prove.test_proof import HEAD, proven


@pytest.mark.parametrize("saturate", [0, 1])
def test_codes_are_proven_to_be_those_of_the_values(saturate: int) -> None:
    text = f"g (float[N] x) => (float8e4m3fn[N] y) {{ y = Cast <to = 17, saturate = {saturate}> (x) }}"
    model = onnx.parser.parse_model(HEAD + text)
    lowered = castsmith.optimize(model, target="onnxruntime-android", interface="stored").model
    held = {"y": Held(DataType.FLOAT8E4M3FN, DataType.UINT8, by_code=True)}
    assert set(prove(as_model(model), lowered, held=held).proven) == {"y"}
    other = onnx.parser.parse_model(HEAD + text.replace(f"saturate = {saturate}", f"saturate = {1 - saturate}"))
    assert prove(as_model(other), lowered, held=held).proven == {}
    verdict = castsmith.verify(model, lowered, accept=["y"])
    assert verdict.equal, verdict.summary()
    assert verdict.proven


def test_of_a_function_to_text_nothing_is_known() -> None:
    """Runtimes write numbers in different ways, and texts have no bits to compare."""
    text = "g (bool[3] x) => (string[3] y) {{ a = Not (x) y = Cast <to = 8> ({0}) }}"
    assert proven(text.format("x"), text.format("x"))
    assert not proven(text.format("x"), text.format("a"))
