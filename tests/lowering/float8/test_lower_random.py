"""Random graphs over float8: where ONNX Runtime computes them rightly itself, the lowered graph gives the same bits."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest
from hypothesis import given, settings, strategies as st
from onnx_ir import DataType

from castsmith.ir.walks import all_values
from castsmith.lowering.float8.lower import LowerFloat8
from castsmith.numerics.types import FLOAT8_TYPES
from castsmith.passes.core.options import Encoding
from castsmith.targets.target import load_target
from tests.lowering.encodings.patterns import float32_around
from tests.lowering.runtime import LEVELS, Array, run, session
from tests.sampling import shortened

CPU = load_target("onnxruntime-cpu")
STEPS = ("cast", "cast", "back", "like", "transpose", "reshape", "identity", "quantize")


class GraphMaker:
    """Grows a graph by random steps; every value stays a [2, K, 2] tensor of float or of a float8 type."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.x = onnx_ir.val("x", DataType.FLOAT, [2, 60, 2])
        self.values, self.nodes, self.constants = [self.x], list[onnx_ir.Node](), list[onnx_ir.Value]()

    def constant(self, array: Array) -> onnx_ir.Value:
        name = f"k{len(self.constants)}"
        tensor = onnx_ir.tensor(array, name=name)
        kind = onnx_ir.TensorType(tensor.dtype)
        self.constants.append(onnx_ir.Value(name=name, type=kind, shape=onnx_ir.Shape(array.shape), const_value=tensor))
        return self.constants[-1]

    def add(self, op_type: str, inputs: list[onnx_ir.Value], dtype: DataType, **attributes: object) -> None:
        node = onnx_ir.node(op_type, inputs, attributes)  # pyright: ignore[reportArgumentType]
        output = node.outputs[0]
        output.name, output.type = f"v{len(self.values)}", onnx_ir.TensorType(dtype)
        output.shape = onnx_ir.Shape([2, 60, 2])
        self.nodes.append(node)
        self.values.append(output)

    def step(self) -> None:
        kind = self.data.draw(st.sampled_from(STEPS))
        value = self.data.draw(st.sampled_from(self.values))
        to = self.data.draw(st.sampled_from(FLOAT8_TYPES))
        assert value.dtype is not None
        if kind == "cast":
            self.add("Cast", [value], to, to=int(to))
        elif kind == "back":
            self.add("Cast", [value], DataType.FLOAT, to=int(DataType.FLOAT))
        elif kind == "like":
            other = self.data.draw(st.sampled_from(self.values))
            self.add("CastLike", [value, other], other.dtype or to)
        elif kind == "transpose":
            self.add("Transpose", [value], value.dtype, perm=[2, 1, 0])
        elif kind == "reshape":
            self.add("Reshape", [value, self.constant(np.array([2, -1, 2]))], value.dtype)
        elif kind == "quantize" and value.dtype is DataType.FLOAT:
            scale = self.constant(np.linspace(0.3, 2, 60, dtype=np.float32))
            self.add("QuantizeLinear", [value, scale], to, axis=-2, output_dtype=int(to))
            self.add("DequantizeLinear", [self.values[-1], scale], DataType.FLOAT, axis=1)
        else:
            self.add("Identity", [value], value.dtype)

    def model(self) -> onnx_ir.Model:
        outputs = [value for value in self.values[1:] if not value.uses()]
        graph = onnx_ir.Graph(
            [self.x], outputs, nodes=self.nodes, initializers=self.constants, opset_imports={"": 24}, name="random"
        )
        return onnx_ir.Model(graph, ir_version=11)


@pytest.mark.parametrize("sequence", ["bitcast", "table", "ladder"])
@settings(max_examples=shortened("random graphs to lower", 40, 12), deadline=None)
@given(data=st.data())
def test_lowered_graphs_give_the_native_bits(sequence: Encoding, data: st.DataObject):
    maker = GraphMaker(data)
    for _ in range(data.draw(st.integers(1, 10))):
        maker.step()
    model = maker.model()
    samples = float32_around(DataType.FLOAT8E4M3FN, 3)
    numbers = samples[~np.isnan(samples)]
    x = np.random.default_rng(data.draw(st.integers(0, 99))).choice(numbers, 240).reshape(2, 60, 2)
    native = run(session(onnx_ir.to_proto(model), LEVELS[0]), {"x": x})
    has_float8 = any(value.dtype in FLOAT8_TYPES for value in maker.values)
    result = LowerFloat8(CPU, sequence, always=True)(model)
    assert result.modified == has_float8
    assert not [value for value in all_values(model) if value.dtype in FLOAT8_TYPES]
    for level in LEVELS:
        lowered = run(session(onnx_ir.to_proto(model), level), {"x": x})
        for theirs, ours in zip(native, lowered, strict=True):
            assert _same_numbers(theirs, ours)


def _same_numbers(theirs: Array, ours: Array) -> bool:
    """The same bits, any NaN for any NaN: ONNX Runtime writes another one for float8e5m2."""
    ours = ours.view(theirs.dtype)
    as_float = theirs.astype(np.float32), ours.astype(np.float32)
    unsigned = f"u{theirs.dtype.itemsize}"
    return bool(
        np.all((theirs.view(unsigned) == ours.view(unsigned)) | (np.isnan(as_float[0]) & np.isnan(as_float[1])))
    )
