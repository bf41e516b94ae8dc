"""Bounds of products with rounded weights, which follow from those of the weights: never less than reading gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.analysis.bounds import reading, weights
from castsmith.analysis.bounds.interval import Ball
from castsmith.analysis.bounds.reading import interval_of_tensor
from castsmith.analysis.bounds.remembered import Remembered
from castsmith.analysis.bounds.sums import Layout, Operand
from castsmith.analysis.bounds.weights import Weights, weights_of
from castsmith.ir.io.streaming import computed, is_computed, rounded_from

K, N = 512, 256
"""More elements than are followed one by one."""


def product(weights: Weights, operand: Operand) -> Any:
    return weights.ball(operand) if isinstance(operand, Ball) else weights.box(*operand)


def bounds(weights: Weights, operand: Operand) -> list[Any]:
    """Return the least, the most and the size of each sum."""
    result = product(weights, operand)
    least, most, size = (*result[0], result[1]) if isinstance(operand, Ball) else result
    return [least, most, size]


def boxes(random: np.random.Generator) -> tuple[Operand, Operand]:
    middle, half = random.normal(size=(3, K)), random.uniform(0.01, 2, (3, K))
    low, high = middle - half, middle + half
    wider = np.abs([low, high]).max(axis=0) * random.uniform(0, 2.0**-9)
    return (low, high), (low - wider * random.uniform(0, 1, low.shape), high + wider * random.uniform(0, 1, low.shape))


def even(random: np.random.Generator) -> tuple[Operand, Operand]:
    low, high = np.array([[-random.uniform(1, 2)]]), np.array([[random.uniform(1, 2)]])
    return (low, high), (low * (1 + 2.0**-10), high * (1 + 2.0**-11))


def balls(random: np.random.Generator) -> tuple[Operand, Operand]:
    scale, offset = random.normal(size=K), random.normal(size=K) * random.integers(0, 2, K)
    near = 1 + random.uniform(-1, 1, (2, K)) * 2.0**-10
    larger = 1 + random.uniform(-1, 1) * 2.0**-10
    return Ball(20.0, scale, offset, 1e-6), Ball(20.0 * larger, scale * near[0], offset * near[1], 1e-6)


@pytest.mark.parametrize("operands", [boxes, even, balls])
@pytest.mark.parametrize("to", [DataType.FLOAT16, DataType.BFLOAT16])
@pytest.mark.parametrize("turned", [False, True])
def test_they_hold_what_reading_the_copy_gives(
    operands: Callable[[np.random.Generator], tuple[Operand, Operand]], to: DataType, turned: bool
) -> None:
    for seed in range(12):
        random = np.random.default_rng(seed)
        scale = random.choice([1e-7, 0.01, 1.0, 100.0])  # with the first, all weights are subnormal in float16
        array = (random.normal(size=(N, K) if turned else (K, N)) * scale).astype(np.float32)
        source = onnx_ir.tensor(array, name="w")
        copy = rounded_from(computed(source, to, lambda part: castsmith.cast(part, to), "w"), source)
        before, now = operands(random)
        remembered, layout = Remembered(), Layout(K, N, turned=turned)
        remembered.keep_interval(source, interval_of_tensor(source))
        stored = weights_of(array.T if turned else array)
        remembered.keep_product(source, layout, before, product(stored, before))
        elements = copy.numpy().astype(np.float64)
        least, most, size = bounds(weights_of(elements.T if turned else elements), now)
        found = remembered.product(copy, layout, now)
        assert found is not None
        found_least, found_most, found_size = (*found[0], found[1]) if isinstance(now, Ball) else found
        assert (found_least <= least).all()
        assert (found_most >= most).all()
        assert (found_size >= size).all()
        interval = remembered.interval(copy)
        assert interval is not None
        ends = elements.min(axis=0), elements.max(axis=0)
        assert (interval.low.reshape(-1) == ends[0]).all()
        assert (interval.high.reshape(-1) == ends[1]).all()


def test_what_is_far_from_what_was_read_is_read() -> None:
    random, layout, remembered = np.random.default_rng(0), Layout(K, N), Remembered()
    source = onnx_ir.tensor(random.normal(size=(K, N)).astype(np.float32), name="w")
    copy = rounded_from(computed(source, DataType.FLOAT16, lambda part: part.astype(np.float16), "w"), source)
    low, high = -np.abs(random.normal(size=(3, K))), np.abs(random.normal(size=(3, K)))
    remembered.keep_product(source, layout, (low, high), weights_of(source.numpy()).box(low, high))
    assert remembered.product(copy, layout, (low, high)) is None  # nothing is known of the elements
    remembered.keep_interval(source, interval_of_tensor(source))
    assert remembered.product(copy, layout, (low, high)) is not None
    for near, far in (((1.24, 1), (1.26, 1)), ((1, 1.24), (1, 1.26)), ((0.1, 0.1), (2, 2))):  # a quarter, or within
        assert remembered.product(copy, layout, (near[0] * low, near[1] * high)) is not None
        assert remembered.product(copy, layout, (far[0] * low, far[1] * high)) is None
    assert remembered.product(copy, layout, (low[:1], high[:1])) is None
    assert remembered.product(copy, Layout(K, N, turned=True), (low, high)) is None
    assert remembered.product(source, layout, (low, high)) is None
    for size in (1e6, -1e6):
        array = np.ones((K, N), np.float32)
        array[0, 0] = size
        huge = onnx_ir.tensor(array, name="w")
        remembered.keep_interval(huge, interval_of_tensor(huge))
        assert remembered.interval(rounded_from(computed(huge, DataType.FLOAT16, cast_to_half, "w"), huge)) is None


def cast_to_half(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return castsmith.cast(part, "float16")


def test_convert_reads_no_weight_again_for_the_bounds_of_its_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, random, read = 320, np.random.default_rng(0), list[onnx_ir.TensorProtocol]()
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        layers (float[1, 320] x) => (float[1, 320] y) {
            a = LayerNormalization (x, s) b = MatMul (a, v) c = LayerNormalization (b, s) y = MatMul (c, w)
        }""")
    for name in ("v", "w"):
        weight = random.normal(size=(side, side)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, name))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(side, np.float32), "s"))
    onnx.save(model, tmp_path / "a.onnx", save_as_external_data=True, location="a.data", size_threshold=1024)
    whole = reading.read

    def counted(tensor: onnx_ir.TensorProtocol, *arguments: Any, **named: Any) -> Any:
        read.append(tensor)
        return whole(tensor, *arguments, **named)

    for module in (reading, weights):
        monkeypatch.setattr(module, "read", counted)
    result = castsmith.convert(tmp_path / "a.onnx", to="float16")
    assert {tensor.name for tensor in read} == {"v", "w"}
    assert not any(map(is_computed, read))
    assert {dtype for dtype, _ in result.precisions.values()} == {DataType.FLOAT16}
