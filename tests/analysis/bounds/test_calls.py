"""Calls of functions of the model, in the opset of the function."""

from __future__ import annotations

import onnx
import onnx.parser

from castsmith import bounds


def test_a_call_that_leaves_out_outputs() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
        g (float[2] x) => (float[2] y) { y = f.both (x) }
        <domain: "f", opset_import: ["" : 21]> both (a) => (r, s) { r = Relu (a) s = Neg (a) }"""
    assert bounds(onnx.parser.parse_model(text))["y"].low == 0


def test_functions_of_another_opset() -> None:
    """The function is computed by its own: before opset 13 a softmax along axis 1 covers all axes behind it."""
    text = """<ir_version: 10, opset_import: ["" : 13, "f" : 1]> m (float[2,2] x) => (float[2,2] y) { y = f.h (x) }
        <domain: "f", opset_import: ["" : %d]> h (a) => (r) { r = ReduceMax <axes = [0]> (a) }"""
    assert bounds(onnx.parser.parse_model(text % 13), ranges={"x": (-1, 2)})["y"].high == 2
    text = text.replace("ReduceMax <axes = [0]> (a)", "Clip <min = 0.0> (a)")
    assert bounds(onnx.parser.parse_model(text % 6), ranges={"x": (-1, 2)})["y"].low == 0
