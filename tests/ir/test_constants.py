"""Which values are constant, what leaves with a node, and what is left of a limit."""

from __future__ import annotations

import numpy as np
import onnx.helper
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.constants import (
    bytes_of_dropped,
    constant_nodes,
    constant_tensor,
    constant_types,
    drop_if_unused,
    growth_reason,
    new_constant,
)
from castsmith.ir.errors import ModelError

TEXT = """<ir_version: 10, opset_import: ["": 21, "d": 1]> g (float[2] x, float[2] default) => (y, z, out, shown)
<float[2] default = {1, 2}, float[3] w = {1, 2, 3}, float[4] shared = {1, 2, 3, 4}, float[5] out = {1, 2, 3, 4, 5}> {
  tensor = Constant <value = int8[2] {1, 2}> ()
  number = Constant <value_float = 1.5> ()
  numbers = Constant <value_floats = [1.5, 2.5]> ()
  whole = Constant <value_int = 3> ()
  wholes = Constant <value_ints = [3, 4]> ()
  word = Constant <value_string = "a"> ()
  words = Constant <value_strings = ["a", "b"]> ()
  foreign = d.Constant <value = float[1] {1}> ()
  two = Constant <value_int = 3, other = 1> ()
  cast = Cast <to = 10> (w)
  back = Cast <to = 1> (cast)
  kept = d.op (shared)
  left, right = Split <num_outputs = 2> (shared)
  shown = Identity (numbers)
  y = Add (x, back)
  z = Sum (left, right, kept, shown, default, out, tensor)
}"""
EXPECTED = {
    "tensor": ("int8", [1, 2]),
    "number": ("float32", 1.5),
    "numbers": ("float32", [1.5, 2.5]),
    "whole": ("int64", 3),
    "wholes": ("int64", [3, 4]),
    "word": ("|S1", b"a"),
    "words": ("|S1", [b"a", b"b"]),
    "w": ("float32", [1, 2, 3]),
    **dict.fromkeys(("x", "default", "foreign", "two", "cast", "y")),
}


@pytest.fixture
def model() -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(TEXT))


def values_of(model: onnx_ir.Model) -> dict[str | None, onnx_ir.Value]:
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    return {value.name: value for value in (*values, *(value for node in model.graph for value in node.outputs))}


def test_which_values_are_constant(model: onnx_ir.Model) -> None:
    values = values_of(model)
    for name, expected in EXPECTED.items():
        tensor = constant_tensor(values[name])
        found = None if tensor is None else (str(tensor.numpy().dtype), tensor.numpy().tolist())
        assert found == expected, name
    assert constant_tensor(None) is None


def test_what_is_dropped_and_its_bytes(model: onnx_ir.Model) -> None:
    values = values_of(model)
    y, z = (values[name].producer() for name in "yz")
    assert y is not None
    assert z is not None
    assert bytes_of_dropped([y]) == 12  # w, through two casts
    assert bytes_of_dropped([y, y]) == 12
    assert bytes_of_dropped([y], [values["cast"]]) == 0
    assert bytes_of_dropped([z]) == 2  # shared has another reader, shown and out are outputs, default is an input
    kept = values["kept"].producer()
    assert kept is not None
    assert bytes_of_dropped([z, kept]) == 2 + 16
    for node, inputs in ((y, 2), (z, 7)):
        model.graph.outputs.remove(node.outputs[0])
        model.graph.remove(node, safe=True)
        assert len(node.inputs) == inputs
    for name in ("back", "tensor", "left", "right", "shown", "default", "out", "kept"):
        drop_if_unused(values[name])
    names = {node.outputs[0].name for node in model.graph}
    assert {"back", "cast", "tensor", "left"}.isdisjoint(names)
    assert {"shown", "numbers", "kept"} <= names
    assert [*model.graph.initializers] == ["default", "shared", "out"]


def test_what_stays_with_what_is_dropped() -> None:
    """An operator of another domain is not the one of its name, and a node stays whose other result is shown."""
    model = onnx_ir.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "d": 1]>
g (float[4] x) => (float[4] y, float[2] shown) <float[4] c = {1, 2, 3, 4}, float[4] d = {1, 2, 3, 4}> {
  foreign = d.Cast <to = 10> (c)
  left, shown = Split <num_outputs = 2> (d)
  y = Clip (x, , foreign)
  z = d.op (left)
}""")
    )
    values = values_of(model)
    for name in "yz":
        node = values[name].producer()
        assert node is not None
        assert bytes_of_dropped([node]) == 0
        node.replace_input_with(len(node.inputs) - 1, None)
    for name in ("foreign", "left"):
        drop_if_unused(values[name])
        assert values[name].producer() in [*model.graph]
    assert [*model.graph.initializers] == ["c", "d"]


def test_a_sparse_constant_has_no_tensor() -> None:
    sparse = onnx.helper.make_sparse_tensor(
        onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [1.0]),
        onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [1], [0]),
        [2],
    )
    attribute = onnx_ir.Attr("sparse_value", onnx_ir.AttributeType.SPARSE_TENSOR, sparse)
    node = onnx_ir.Node("", "Constant", [], [attribute])
    assert constant_tensor(node.outputs[0]) is None


@pytest.mark.parametrize(
    ("growth", "largest", "left", "expected"),
    [
        (5, 5, 5, ""),
        (-1, 0, 0, ""),
        (1, 0, 9, "the file would grow by 1 byte, and max_growth is 0"),
        (6, 5, 5, "the file would grow by 6 bytes, and max_growth is 5"),
        (5, 5, 4, "the file would grow by 5 bytes, and 4 of max_total_growth are left"),
    ],
)
def test_growth_beyond_a_limit(growth: int, largest: int, left: int, expected: str) -> None:
    assert growth_reason(growth, largest, left) == expected


def test_the_nodes_of_a_constant() -> None:
    assert constant_types(0) == frozenset()
    assert constant_types(8) == {DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE}
    for dtype, numbers, opset, expected in (
        (DataType.INT8, [1, -2], 9, ["Constant"]),
        (DataType.INT8, [1, -2], 8, ["Constant", "Cast"]),
        (DataType.INT32, [2**24 + 1], 8, ["Constant", "Cast"]),
        (DataType.INT64, [2**53 + 1], 8, None),
        (DataType.INT64, [2**53], 8, ["Constant", "Cast"]),
        (DataType.BOOL, [True], 8, ["Constant", "Cast"]),
    ):
        value = new_constant("c", onnx_ir.tensor(np.array(numbers, dtype.numpy()), name="c"))
        if expected is None:
            with pytest.raises(ModelError, match="opset 8 cannot express the constant c of int64"):
                constant_nodes(value, opset)
            continue
        nodes = constant_nodes(value, opset)
        assert [node.op_type for node in nodes] == expected
        assert nodes[-1].outputs[0] is value
        held = nodes[0].attributes["value"].as_tensor()
        wide = DataType.DOUBLE if numbers[0] == 2**24 + 1 else DataType.FLOAT
        assert held.dtype == (dtype if len(expected) == 1 else wide), numbers
        assert held.numpy().tolist() == numbers
