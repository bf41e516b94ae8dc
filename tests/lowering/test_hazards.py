"""What runtimes do to arithmetic, and the sequences: contraction to FMA, emulated; OpenVINO, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.lowering.builder import Builder
from castsmith.lowering.codes import Policy, encode_array
from castsmith.lowering.sequences import Sequence, encode
from castsmith.numerics.types import FLOAT8_TYPES
from tests.lowering import patterns
from tests.lowering.runtime import Array, sequence_model

ORDINARY: dict[str, Any] = {
    "Abs": np.abs, "Min": np.fmin, "Max": np.fmax, "Mul": np.multiply, "Add": np.add, "Sub": np.subtract,
    "Round": np.round, "Where": np.where, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less,
    "Equal": np.equal, "IsNaN": np.isnan, "Or": np.logical_or, "And": np.logical_and, "Reciprocal": np.reciprocal,
}  # fmt: skip


def contracted(model: onnx_ir.Model, x: Array) -> tuple[Array, int]:
    """The output where every product that is added to something is not rounded in between; and how many there were.

    Exact products of floats fit a double; the sum in double is rounded once more, which only makes it milder.
    """
    values: dict[onnx_ir.Value, Array] = {model.graph.inputs[0]: x}
    values |= {v: v.const_value.numpy() for v in model.graph.initializers.values() if v.const_value is not None}
    fused = 0
    for node in model.graph:
        operands = [values[value] for value in node.inputs if value is not None]
        makers = [None if value is None else value.producer() for value in node.inputs]
        product = next((n for n, maker in enumerate(makers) if maker is not None and maker.op_type == "Mul"), None)
        if node.op_type in ("Add", "Sub") and product is not None:
            maker, fused = makers[product], fused + 1
            assert maker is not None
            factors = [values[value].astype(np.float64) for value in maker.inputs if value is not None]
            wide = [operand.astype(np.float64) for operand in operands]
            wide[product] = factors[0] * factors[1]
            result = ORDINARY[node.op_type](*wide).astype(np.float32)
        elif node.op_type == "Cast":
            result = operands[0].astype(np.uint8)
        else:
            result = ORDINARY[node.op_type](*operands)
        values[node.outputs[0]] = np.asarray(result)
    return values[model.graph.outputs[0]], fused


def ufp_rounding(build: Builder, x: onnx_ir.Value) -> onnx_ir.Value:
    """Rump's unit in the first place, then (a + c) - c: rounds a float to 4 bits, but not when contracted."""
    scaled = build.op("Mul", x, 2.0**23 + 1)
    unit = build.op("Sub", scaled, build.op("Mul", scaled, 1 - 2.0**-24))
    big = build.op("Mul", build.op("Abs", unit), 1.5 * 2.0**20)
    return build.op("Sub", build.op("Add", x, big), big)


@pytest.mark.parametrize("to", FLOAT8_TYPES)
@pytest.mark.parametrize("saturate", [True, False])
def test_a_ladder_has_nothing_to_contract(to: DataType, saturate: bool):
    policy = Policy(saturate, 24)
    proto = sequence_model(lambda build, x: encode(build, x, to, policy, Sequence.LADDER), DataType.FLOAT, 24)
    values = patterns.float32_around(to, 100)
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        codes, fused = contracted(onnx_ir.from_proto(proto), values)
    assert fused == 0
    assert np.array_equal(codes, encode_array(values, to, policy))


def test_the_emulation_breaks_what_contraction_breaks():
    proto = sequence_model(ufp_rounding, DataType.FLOAT, 24)
    values = np.random.default_rng(0).uniform(1, 2, 10_000).astype(np.float32)
    rounded, fused = contracted(onnx_ir.from_proto(proto), values)
    assert fused
    assert np.count_nonzero(rounded != np.round(values * 8) / 8) > 1000


@pytest.mark.parametrize("to", FLOAT8_TYPES)
@pytest.mark.parametrize("saturate", [True, False])
def test_openvino_gives_the_codes_of_a_ladder(to: DataType, saturate: bool):
    openvino = pytest.importorskip("openvino", reason="needs the extra `peers`")
    policy = Policy(saturate, 24)
    proto = sequence_model(lambda build, x: encode(build, x, to, policy, Sequence.LADDER), DataType.FLOAT, 24)
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(proto.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    values = patterns.float32_around(to, 500)
    expected = encode_array(values, to, policy)
    positive_nan = encode_array(np.full(1, np.nan, np.float32), to, policy)
    expected = np.where(np.isnan(values), positive_nan, expected)
    codes = np.asarray(compiled([values])[0])
    wrong = np.flatnonzero(codes != expected)
    assert not wrong.size, [(values[i], hex(codes[i]), hex(expected[i])) for i in wrong[:5]]
