"""The measured error of a conversion: per output, where it leaps, what overflows, and the search for a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest

from castsmith import convert
from castsmith.ir.errors import ModelError
from castsmith.lowering.accuracy import measure, reference
from castsmith.numerics.errors import OptionError
from tests.passes.precision.models import model

pytestmark = pytest.mark.usefixtures("engines_here")

_HALVES = ", ".join(["0.5"] * 16)
CHAIN = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[4,4] x) => (float[4,4] y, float[4,4] z) <float[4,4] w = {{{_HALVES}}}, float k = {{300}}> {{
  a = MatMul (x, w) b = Mul (a, k) c = Mul (b, k) d = Tanh (c) y = MatMul (d, w) z = Relu (a)
}}"""


def feeds(scale: float = 1.0) -> dict[str, Any]:
    return {"x": (np.linspace(0.1, 1, 16).reshape(4, 4) * scale).astype(np.float32)}


def test_nothing_is_measured_without_inputs() -> None:
    assert convert(onnx.parser.parse_model(CHAIN), to="float16").error is None


def test_a_magnitude_beyond_the_precision_is_told_for_generated_inputs_too() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y)
    <float k = {1e4}> { a = Mul (x, k) b = Mul (a, k) y = Tanh (b) }"""
    scaled = onnx.parser.parse_model(text)
    for converted in (
        convert(scaled, to="float16", measure=True),
        convert(scaled, to="float16", inputs={"x": np.full(4, 2, np.float32)}),
    ):
        assert max(converted.magnitudes.values()) > 65504


def test_each_output_has_its_error() -> None:
    error = convert(onnx.parser.parse_model(CHAIN), to="float16", inputs=feeds(0.001)).error
    assert error is not None
    assert [output.name for output in error.outputs] == ["y", "z"]
    assert all(output.relative < 0.01 and output.cosine > 0.999 for output in error.outputs)
    assert 0 < error.outputs[1].relative == error.worst
    assert error.overflows == ()


def test_what_is_nan_in_the_model_is_noted_and_not_compared() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,3] y) 
    <float[2,3] m = {0, 0, 0, 0, 0, 0}> { a = Add (x, m) y = Softmax (a) }"""
    masked = onnx.parser.parse_model(text)
    mask = np.array([[0, 0, 0], [-np.inf] * 3], np.float32)
    masked.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(mask, "m"))
    drawn = {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32)}
    error = convert(masked, to="float16", inputs=[drawn, drawn]).error
    assert error is not None
    assert 0 < error.worst < 0.01
    assert error.outputs[0].top1 == 1.0
    assert error.notes == ("3 of 6 elements of y are NaN in the model and numbers in the result",)


def test_an_overflow_that_is_absorbed_is_found() -> None:
    error = convert(onnx.parser.parse_model(CHAIN), to="float16", inputs=feeds(), lower="name:c").error
    assert error is not None
    assert error.worst < 0.01
    assert error.overflows == ("c",)


def test_a_measured_overflow_keeps_the_node_in_float() -> None:
    result = convert(onnx.parser.parse_model(CHAIN), to="float16", inputs=feeds())
    assert result.error is not None
    assert result.error.overflows == ()
    dtype, reason = result.precisions["c"]
    assert dtype == onnx_ir.DataType.FLOAT
    assert "(measured), beyond float16" in reason


def test_a_stated_range_keeps_a_node_in_float() -> None:
    result = convert(onnx.parser.parse_model(CHAIN), to="float16", inputs=feeds(), ranges={"c": (0, 2e5)})
    assert result.error is not None
    assert result.error.overflows == ()
    assert result.precisions["c"] == (onnx_ir.DataType.FLOAT, "c reaches 200000 (stated), beyond float16")


def test_a_result_that_does_not_run_in_time_has_no_error_of_zero() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(CHAIN))
    baseline = reference(model, feeds())
    baseline.seconds = 0.0
    error = measure(baseline, model)
    assert (error.sets, error.outputs, error.worst) == ((), (), float("inf"))
    assert error.notes[0].startswith("the result does not run on the inputs: ")


def test_an_output_of_another_shape_is_infinitely_off() -> None:
    model = onnx_ir.from_proto(onnx.parser.parse_model(CHAIN))
    longer = onnx_ir.from_proto(onnx.parser.parse_model(CHAIN.replace("z = Relu (a)", "z = Concat <axis = 0> (a, a)")))
    error = measure(reference(model, feeds()), longer)
    assert error.worst == float("inf")
    assert error.notes == ("z has the shape [8, 4] instead of [4, 4]",)


def test_the_search_on_made_up_inputs_starts_from_what_overflows_on_them() -> None:
    proto = onnx.parser.parse_model(CHAIN.replace("{300}", "{3000}"))
    assert convert(proto, to="float16", inputs="made-up").error is not None
    result = convert(proto, to="float16", max_error=0.01)
    assert result.error is not None
    assert result.error.overflows == ()
    assert "beyond float16" in result.precisions["c"][1]


@pytest.mark.parametrize("kind", ["npz", "folder of npz", "folder of npy", "sets", "pairs"])
def test_inputs_come_in_every_form(kind: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", **feeds())
    np.save(tmp_path / "x.npy", feeds()["x"])
    inputs: Any = {"npz": tmp_path / "one.npz", "sets": [feeds(), feeds(0.5)], "pairs": [("a", feeds())]}.get(
        kind, tmp_path
    )
    if kind == "folder of npy":
        (tmp_path / "one.npz").unlink()
    error = convert(onnx.parser.parse_model(CHAIN), to="float16", inputs=inputs).error
    assert error is not None
    assert len(error.sets) == (2 if kind == "sets" else 1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [({"q": np.zeros(1)}, "are for 'q'; expected x"), ({}, "lack 'x'")],
)
def test_inputs_that_do_not_fit_are_refused(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        convert(onnx.parser.parse_model(CHAIN), to="float16", inputs=inputs)


def test_inputs_on_which_the_model_does_not_run_are_refused() -> None:
    with pytest.raises(OptionError, match=r"'x' has the shape \[3, 3\]; expected \[4, 4\]"):
        convert(onnx.parser.parse_model(CHAIN), to="float16", inputs={"x": np.zeros((3, 3), np.float32)})
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64[1] i) => (float[1] y) <float[2] w = {1, 2}>
    { a = Gather (w, i) y = Relu (a) }"""
    with pytest.raises(ModelError, match="cannot be measured: not run on "):
        convert(onnx.parser.parse_model(text), to="float16", inputs={"i": np.array([9])})


def test_measured_mask_values_keep_nothing_in_float() -> None:
    result = convert(model("mask"), to="float16", inputs={"x": feeds()["x"], "c": np.tri(4, dtype=bool)})
    assert not [reason for _, reason in result.precisions.values() if "measured" in reason]
    assert result.error is not None
    assert result.error.leap is None
    assert max(result.error.contributions.values()) < 0.01
    assert result.error.worst < 0.01
