"""Casts of large constants: judged and computed in pieces, with the same result as at once."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_ir import DataType

import castsmith
from castsmith.ir.io import streaming as pieces
from castsmith.ir.io.streaming import is_large
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.quantize.linear import dequantize_linear, quantize_linear
from castsmith.numerics.types import FLOAT8_TYPES
from castsmith.passes.fold.conversions import BitCastTo, CastTo, Conversion, constant_of, tensor_of
from tests.sampling import sampled

COUNT = 1000
TARGETS = [DataType.FLOAT16, DataType.FLOAT8E4M3FN, DataType.INT4, DataType.DOUBLE, DataType.UINT8]


@pytest.fixture(autouse=True)
def pieces_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 64)


def cast_model(array: np.ndarray, to: DataType) -> onnx.ModelProto:
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=int(to)), helper.make_node("Shape", ["x"], ["s"])]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"]),
        helper.make_tensor_value_info("y", int(to), list(array.shape)),
        helper.make_tensor_value_info("s", TensorProto.INT64, [1]),
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(array, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


@pytest.mark.parametrize("to", TARGETS)
def test_a_cast_in_pieces_is_the_cast(tmp_path: Path, to: DataType) -> None:
    array = (np.arange(COUNT, dtype=np.float32) % 7).reshape(50, 20)
    result = castsmith.optimize(cast_model(array, to), max_growth=1 << 20)
    assert [rewrite.rule for rewrite in result.rewrites] == ["fold-constant"]
    castsmith.save(result.model, tmp_path / "m.onnx")
    folded = only_constant(castsmith.load(tmp_path / "m.onnx"))
    assert folded.numpy().tobytes() == castsmith.cast(array, to).tobytes()


def only_constant(model: onnx_ir.Model) -> onnx_ir.TensorProtocol:
    """The one constant: an initializer, or a Constant node where the runtime has no Identity for the type."""
    (tensor,) = [
        *(value.const_value for value in model.graph.initializers.values()),
        *(node.attributes["value"].as_tensor() for node in model.graph if node.op_type == "Constant"),
    ]
    assert tensor is not None
    return tensor


SHAPE = (4, 30, 10)
GRANULARITIES = [  # axis, block size and the shape of the scale
    (1, 0, ()),
    (0, 0, (4,)),
    (1, 0, (30,)),
    (-1, 0, (10,)),
    (1, 7, (4, 5, 10)),
    (0, 3, (2, 30, 10)),
    (2, 4, (4, 30, 3)),
]
QUANTIZED = [DataType.UINT8, DataType.INT4, DataType.FLOAT8E4M3FN]


@pytest.mark.parametrize(
    ("to", "granularity", "piece"),
    sampled(
        "pieces of quantized tensors", itertools.product(QUANTIZED, GRANULARITIES, [8, 64, 320]), 10, cover=enumerate
    ),
)
def test_quantizing_in_pieces_is_quantizing(
    to: DataType, granularity: tuple[int, int, tuple[int, ...]], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    axis, block, scales = granularity
    monkeypatch.setattr(pieces, "PIECE", piece)
    random = np.random.default_rng(0)
    x = random.standard_normal(SHAPE, np.float32)
    scale = random.uniform(0.1, 2, scales).astype(np.float32)
    zero = cast(random.integers(0, 1 if to in FLOAT8_TYPES else 3, scales).astype(np.float32), to)
    quantized = _folded("QuantizeLinear", [x, scale, zero], to, axis, block)
    assert quantized.tobytes() == quantize_linear(x, scale, zero, axis=axis, block_size=block, opset=25).tobytes()
    back = _folded("DequantizeLinear", [quantized, scale, zero], DataType.FLOAT, axis, block)
    expected = dequantize_linear(quantized, scale, zero, axis=axis, block_size=block, opset=25)
    assert back.tobytes() == expected.tobytes()


def _folded(op_type: str, operands: list[np.ndarray], to: DataType, axis: int, block: int) -> np.ndarray:
    """Return the operator's results for constants, folded in pieces."""
    values = [
        onnx_ir.Value(name=name, const_value=onnx_ir.tensor(array, name=name), shape=onnx_ir.Shape(array.shape))
        for name, array in zip("xsz", operands, strict=True)
    ]
    node = onnx_ir.node(op_type, values, {"axis": axis, "block_size": block}, name="n")
    node.outputs[0].name, node.outputs[0].dtype = "y", to
    graph = onnx_ir.Graph([], node.outputs, nodes=[node], initializers=values, opset_imports={"": 25}, name="g")
    assert is_large(onnx_ir.tensor(operands[0]))
    result = castsmith.optimize(onnx_ir.Model(graph, ir_version=13), max_growth=1 << 20)
    assert [rewrite.rule for rewrite in result.rewrites] == ["fold-constant"]
    made = only_constant(result.model)
    assert isinstance(made, onnx_ir.LazyTensor)
    assert {array.size % 8 for array in list(pieces.pieces(made))[:-1]} <= {0}
    return made.numpy()


def test_the_element_that_cannot_be_quantized_is_named() -> None:
    x = np.ones(SHAPE, np.float32)
    x[2, 20, 5] = np.nan
    zero, scale = np.zeros(30, np.uint8), np.ones(30, np.float32)
    names = [helper.make_tensor_value_info("y", TensorProto.UINT8, SHAPE)]
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], "n", axis=1)
    weights = [numpy_helper.from_array(array, name) for array, name in ((x, "x"), (scale, "s"), (zero, "z"))]
    graph = helper.make_graph([node], "g", [], names, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    (refusal,) = castsmith.optimize(proto).refusals
    assert "element [2, 20, 5] of x" in refusal.reason


@pytest.mark.parametrize(("place", "bad"), [(0, np.nan), (64, 1e9), (999, -1.0), (500, np.inf)])
def test_one_element_without_meaning_is_found(place: int, bad: float) -> None:
    array = np.ones(COUNT, np.float32)
    array[place] = bad
    result = castsmith.optimize(cast_model(array.reshape(50, 20), DataType.UINT8))
    (refusal,) = result.refusals
    assert f"element {[place // 20, place % 20]} of w" in refusal.reason
    assert not result.rewrites


def test_the_worst_element_is_named_not_the_first() -> None:
    array = np.ones((50, 20), np.float32)
    array[3, 3], array[49, 19] = -1.0, np.nan
    whole = castsmith.optimize(cast_model(array[:3], DataType.UINT8)).refusals
    assert not whole
    reasons = [castsmith.optimize(cast_model(part, DataType.UINT8)).refusals[0].reason for part in (array, array[3:])]
    assert reasons[0].partition(": ")[2] == reasons[1].partition(": ")[2]


def test_a_large_constant_is_converted_in_pieces_where_its_elements_are_numbers() -> None:
    x, text = np.arange(130, dtype=np.float32), np.array(["1"] * 130, object)
    conversions: list[tuple[Conversion, np.ndarray, DataType, bool]] = [
        (CastTo(DataType.FLOAT16, 24), x, DataType.FLOAT16, True),
        (CastTo(DataType.FLOAT16, 24), x[:64], DataType.FLOAT16, False),
        (CastTo(DataType.STRING, 24), x, DataType.STRING, False),
        (CastTo(DataType.FLOAT, 24), text, DataType.FLOAT, False),
        (BitCastTo(DataType.INT32, 26), x, DataType.INT32, False),
    ]
    for conversion, array, dtype, in_pieces in conversions:
        made = tensor_of(conversion, onnx_ir.tensor(array), [array], dtype)
        assert isinstance(made, onnx_ir.LazyTensor) == in_pieces
        assert made.numpy().tolist() == constant_of(conversion.compute([array]), dtype).numpy().tolist()
    assert not isinstance(tensor_of(conversions[0][0], None, [x], DataType.FLOAT16), onnx_ir.LazyTensor)
