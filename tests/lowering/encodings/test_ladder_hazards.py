"""Hazards of runtimes for the encodings: contraction to FMA, emulated; OpenVINO, if it is installed."""

from __future__ import annotations

import itertools
import math
import typing
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_ir import DataType

from castsmith.lowering.encodings.choose import Encoding, encode
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.formats import NarrowPolicy, encode_array
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import FLOAT8_TYPES, HALF_TYPES, element_type
from castsmith.targets.target import load_target
from tests.lowering.encodings import patterns
from tests.lowering.encodings.adversarial import RUNTIMES, adversarial_floats, differences, openvino_cpu
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session
from tests.sampling import sampled
from tests.versions import ONNXRUNTIME

ORDINARY: dict[str, Any] = {
    "Abs": np.abs, "Min": np.fmin, "Max": np.fmax, "Mul": np.multiply, "Add": np.add, "Sub": np.subtract,
    "Round": np.round, "Where": np.where, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less,
    "Equal": np.equal, "IsNaN": np.isnan, "Or": np.logical_or, "And": np.logical_and, "Reciprocal": np.reciprocal,
    "Clip": np.clip, "Div": np.divide, "Log": np.log,
}  # fmt: skip


def contracted(model: onnx_ir.Model, x: Array, log: Any = np.log) -> tuple[Array, int]:
    """The output where every product that is added to something is not rounded in between; and how many there were.

    Exact products of floats fit a double; the sum in double is rounded once more, which only makes it milder.
    """
    computed = {**ORDINARY, "Log": log}
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
            result = computed[node.op_type](*wide).astype(np.float32)
        elif node.op_type == "Cast":
            result = operands[0].astype(DataType(node.attributes.get_int("to")).numpy())
        else:
            result = computed[node.op_type](*operands)
        values[node.outputs[0]] = np.asarray(result)
    return values[model.graph.outputs[0]], fused


@pytest.mark.parametrize("to", FLOAT8_TYPES)
@pytest.mark.parametrize("saturate", [True, False])
def test_contraction_does_not_change_codes(to: DataType, saturate: bool):
    """One product is added to something: the logarithm, which need not be exact."""
    codes, fused, values = emulated_codes(to, saturate, np.log)
    assert fused == 1
    assert np.array_equal(codes, encode_array(values, to, NarrowPolicy(saturate, 24)))


@pytest.mark.parametrize("to", FLOAT8_TYPES)
def test_codes_need_a_logarithm_of_limited_precision(to: DataType):
    """0.0135 is enough for three mantissa bits, 0.0568 for two; a hundredth more is too much for some number."""
    margin = math.log(2) * (2.0 ** -element_type(to).mantissa_bits - 0.08607133) / 2
    wrong: list[int] = []
    for error in (0.99 * margin, -0.99 * margin, -1.01 * margin):

        def inexact(x: Array, error: float = error) -> Array:
            return np.log(x) + np.float32(error)

        codes, _, values = emulated_codes(to, True, inexact)
        wrong.append(int(np.count_nonzero(codes != encode_array(values, to, NarrowPolicy(True, 24)))))
    assert wrong[:2] == [0, 0]
    assert wrong[2]


@pytest.mark.parametrize("to", [*FLOAT8_TYPES, *HALF_TYPES])
def test_contraction_does_not_change_what_is_rounded_in_place(to: DataType):
    """The product that feeds a sum, for the range of bfloat16, is by a power of two, so exact."""
    model, values = onnx_ir.from_proto(in_place(to)), adversarial_floats()
    with np.errstate(all="ignore"):
        rounded, fused = contracted(model, values)
    assert fused == (1 if to == DataType.BFLOAT16 else 0)
    wanted, nan = cast(cast(values, to, opset=24), DataType.FLOAT), np.isnan(values)
    assert np.array_equal(rounded.view(np.uint32)[~nan], wanted.view(np.uint32)[~nan])


@pytest.mark.parametrize("to", [*FLOAT8_TYPES, *HALF_TYPES])
def test_no_sum_meets_another_that_would_cancel_it(to: DataType):
    """A compiler that cancels (s - x) against s finds another operator between the two."""
    for node in onnx_ir.from_proto(in_place(to)).graph:
        makers = [None if value is None else value.producer() for value in node.inputs]
        sums = {maker.op_type for maker in makers if maker is not None} & {"Add", "Sub"}
        assert node.op_type not in ("Add", "Sub") or not sums


@pytest.mark.parametrize(("to", "saturate"), list(itertools.product(FLOAT8_TYPES, (True, False))))
def test_no_constant_meets_one_of_the_model(to: DataType, saturate: bool):
    """After y = x + k, a compiler may combine k with a constant that is added to y, and so round once less."""
    policy = NarrowPolicy(saturate, 24)
    codes = sequence_model(lambda build, x: encode(build, x, to, policy, Encoding.LADDER), DataType.FLOAT, 24)
    rounded = sequence_model(lambda build, x: round_in_place(build, x, to, policy), DataType.FLOAT, 24)
    for model in (codes, rounded, in_place(DataType.FLOAT16), in_place(DataType.BFLOAT16)):
        users = {user.op_type for user, _ in onnx_ir.from_proto(model).graph.inputs[0].uses()}
        assert users <= {"Abs", "Clip", "IsNaN", "Where"}


@pytest.mark.parametrize("to", HALF_TYPES)
@pytest.mark.parametrize("runtime", ["openvino-cpu", "onnxruntime-cpu"])
def test_halves_are_rounded_in_place_in_each_runtime(to: DataType, runtime: str):
    if runtime == "openvino-cpu":
        pytest.importorskip("openvino", reason="needs the extra `peers`")
    values = adversarial_floats()
    wanted, nan = cast(cast(values, to), DataType.FLOAT), np.isnan(values)
    for rounded in RUNTIMES[runtime](in_place(to), values):
        assert np.array_equal(rounded.view(np.uint32)[~nan], wanted.view(np.uint32)[~nan])
        assert np.isnan(rounded[nan]).all()


@pytest.mark.parametrize("to", HALF_TYPES)
def test_halves_are_rounded_in_place_by_the_reference(to: DataType):
    values = adversarial_floats()
    with np.errstate(all="ignore"):
        (rounded,) = typing.cast("list[Array]", ReferenceEvaluator(in_place(to)).run(None, {"x": values}))
    wanted, nan = cast(cast(values, to), DataType.FLOAT), np.isnan(values)
    assert np.array_equal(rounded.view(np.uint32)[~nan], wanted.view(np.uint32)[~nan])


def in_place(to: DataType) -> onnx.ModelProto:
    policy = NarrowPolicy(True, 24)
    return sequence_model(lambda build, x: round_in_place(build, x, to, policy), DataType.FLOAT, 24)


@pytest.mark.parametrize(
    ("to", "saturate"),
    sampled("encodings in OpenVINO", itertools.product(FLOAT8_TYPES, (True, False)), 4, cover=enumerate),
)
def test_openvino_gives_the_codes_and_rounds_in_place(to: DataType, saturate: bool):
    pytest.importorskip("openvino", reason="needs the extra `peers`")
    assert [wrong for *_, wrong in differences(openvino_cpu, to, saturate)] == [0] * 5


@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("runs", ["openvino-cpu", "onnxruntime-cpu"])
def test_scales_in_each_runtime(round_mode: str, runs: str):
    """The smallest scale is subnormal in float, where OpenVINO compares numbers as zeros."""
    if runs == "openvino-cpu":
        pytest.importorskip("openvino", reason="needs the extra `peers`")
    to, policy, values = DataType.FLOAT8E8M0, NarrowPolicy(False, 24, round_mode), adversarial_floats()
    model = sequence_model(lambda build, x: encode(build, x, to, policy, Encoding.LADDER), DataType.FLOAT, 24)
    for codes in RUNTIMES[runs](model, values):
        assert np.array_equal(codes, encode_array(values, to, policy))


def emulated_codes(to: DataType, saturate: bool, log: Any) -> tuple[Array, int, Array]:
    """The codes of floats around each value and tie, how many products were contracted, and the floats."""
    policy = NarrowPolicy(saturate, 24)
    proto = sequence_model(lambda build, x: encode(build, x, to, policy, Encoding.LADDER), DataType.FLOAT, 24)
    values = patterns.float32_around(to, 100)
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        codes, fused = contracted(onnx_ir.from_proto(proto), values, log)
    return codes, fused, values


@pytest.mark.skipif(ONNXRUNTIME != (1, 32), reason="what the target's file says is of 1.32")
@pytest.mark.parametrize(("operator", "constant"), [("Mul", 1 + 1e-9), ("Div", 1 - 2.0**-53), ("Add", 1e-50)])
def test_onnxruntime_looks_at_double_constants_as_floats(operator: str, constant: float):
    """For this reason no encoding has such a constant for a double."""
    assert "double-constant-seen-as-float" in load_target("onnxruntime-cpu").hazards
    model = sequence_model(lambda b, x: b.op("Neg", b.op(operator, b.op("Neg", x), constant)), DataType.DOUBLE, 21)
    x = np.array([3.0, 1e-49])
    (as_written,), (optimized,) = (run(session(model, level), {"x": x}) for level in LEVELS)
    assert as_written.tolist() == (-ORDINARY[operator](-x, constant)).tolist()
    assert optimized.tolist() == x.tolist() != as_written.tolist()
