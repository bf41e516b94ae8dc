"""Nodes as lowerings write them: the type and shape of each result, constants, and the sequences of several nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir
import pytest
from numpy.typing import NDArray
from onnx_ir import DataType, Shape, TensorType, Value

from castsmith.ir.errors import ModelError
from castsmith.ir.naming import Namer
from castsmith.ir.ops.table import GIVES_BOOL
from castsmith.lowering.builder import (
    Builder,
    ReplacementBuilder,
    as_replacement,
    at_least,
    computed_in,
    dtype_of,
    need_opset,
    new_constants,
    shared_constants,
)
from castsmith.numerics.errors import InternalError
from tests.evaluator import evaluate
from tests.sampling import check_all

Dims = Sequence[int | str | None] | None


def value(name: str, dtype: DataType | None = DataType.FLOAT, dims: Dims = None) -> Value:
    shape = None if dims is None else Shape(dims)
    return Value(name=name, type=None if dtype is None else TensorType(dtype), shape=shape)


def builder(**usable: bool) -> tuple[Builder, list[Value]]:
    constants = list[Value]()
    return Builder(new_constants(constants), **usable), constants


def run(build: Builder, constants: list[Value], y: Value, **feeds: tuple[Value, NDArray[Any]]) -> NDArray[Any]:
    """Execute what was written, from the inputs to y."""
    inputs = [operand for operand, _ in feeds.values()]
    for place, constant in enumerate(constants):
        constant.name = f"{constant.name}_{place}"
    graph = onnx_ir.Graph(inputs, [y], nodes=build.nodes, initializers=constants, opset_imports={"": 18}, name="g")
    model = onnx_ir.Model(graph, ir_version=8)
    for node in build.nodes:
        for output in node.outputs:
            output.name = output.name or f"v{id(output)}"
    (result,) = evaluate(model, {operand.name or "": array for operand, array in feeds.values()})
    return np.asarray(result)


SHAPES: list[tuple[list[Dims], Dims]] = [
    ([[2, 3], [2, 3]], [2, 3]),
    ([[2, 3], [3]], [2, 3]),
    ([[3], [2, 1]], [2, 3]),
    ([[1, 3], [2, 1]], [2, 3]),
    ([["n", 1], [1, "m"]], ["n", "m"]),
    ([[], ["n"]], ["n"]),
    ([[1], [1, 1]], [1, 1]),
    ([[0], [1]], [0]),
    ([[4, 1, 2], [3, 1], [2]], [4, 3, 2]),
    ([None, [3]], None),
    ([None, None], None),
]


def require_shape(shapes: list[Dims], expected: Dims) -> None:
    build, _ = builder()
    y = build.op("Sum", *(value(f"x{place}", dims=dims) for place, dims in enumerate(shapes)))
    assert (None if y.shape is None else list(y.shape)) == (None if expected is None else list(Shape(expected)))


def test_a_result_has_the_shape_to_which_operands_broadcast() -> None:
    check_all(require_shape, SHAPES)
    build, _ = builder()
    x = value("x", dims=[2, 3])
    assert build.op("Add", x, 1).shape == x.shape  # a number has no axes
    assert build.op("Neg", x).shape is not x.shape  # a shape that is changed later would be that of both


def test_a_result_has_the_type_that_the_operator_gives() -> None:
    build, _ = builder()
    x, condition = value("x", DataType.DOUBLE), value("c", DataType.BOOL)
    assert {"Equal", "Less", "Greater", "Not", "And", "Or", "IsNaN"} <= GIVES_BOOL
    for name in GIVES_BOOL:
        assert build.op(name, x, 1).dtype == DataType.BOOL
    assert build.op("Add", 1, x).dtype == DataType.DOUBLE
    for chosen in (
        build.op("Where", condition, x, 2),
        build.op("Where", condition, 2, x),
        build.op("Where", condition, 2, 3, dtype=DataType.DOUBLE),
    ):
        assert chosen.dtype == DataType.DOUBLE
        node = chosen.producer()
        assert node is not None
        assert [operand.dtype for operand in node.inputs[1:] if operand is not None] == [DataType.DOUBLE] * 2
    typed = build.typed("Shape", [x], DataType.INT64, start=1)
    node = typed.producer()
    assert node is not None
    assert (typed.dtype, typed.shape, node.attributes.get_int("start")) == (DataType.INT64, None, 1)
    with pytest.raises(InternalError):
        build.op("Where", condition, 2, 3)
    with pytest.raises(InternalError, match="the value x declares no element type"):
        dtype_of(value("x", None))


def test_a_cast_to_the_type_that_a_value_has_is_no_node() -> None:
    build, _ = builder()
    x = value("x", DataType.FLOAT, [2])
    assert build.cast(x, DataType.FLOAT) is x
    assert build.nodes == []
    for operator in ("Cast", "BitCast"):
        y = build.cast(x, DataType.INT32, operator)
        node = y.producer()
        assert node is not None
        assert (node.op_type, node.attributes.get_int("to"), y.dtype, y.shape) == (operator, 6, DataType.INT32, [2])


def test_codes_become_integers_in_float_whatever_type_they_declare() -> None:
    build, constants = builder()
    codes = value("c", DataType.FLOAT8E4M3FN, [3])
    y = build.cast_codes(codes)
    assert (y.dtype, y.shape) == (DataType.FLOAT, [3])
    codes.type = TensorType(DataType.UINT8)  # as they are stored
    assert run(build, constants, y, c=(codes, np.array([0, 7, 255], np.uint8))).tolist() == [0, 7, 255]


def require_table(flat: bool, dtype: DataType, shape: tuple[int, ...], dims: Dims) -> None:
    build, constants = builder(flat_look_up=flat)
    table = np.array([5, 7, 11, 13], np.float32)
    codes = np.resize(np.array([3, 0, 2, 1], dtype.numpy()), shape)
    index = value("i", dtype, dims)
    y = build.look_up(build.constant(table, "table"), index)
    assert (y.dtype, y.shape) == (DataType.FLOAT, None if dims is None else Shape(dims))
    assert "Gather" not in {node.op_type for node in build.nodes} or not flat
    assert run(build, constants, y, i=(index, codes)).tolist() == table[codes.astype(int)].tolist()


def test_a_table_is_looked_up_by_element() -> None:
    types = DataType.UINT8, DataType.INT32, DataType.INT64
    shapes: list[tuple[tuple[int, ...], Dims]] = [
        ((4,), [4]),
        ((2, 3), [2, 3]),
        ((2, 2), None),
        ((), []),
        ((0, 2), [0, 2]),
    ]
    check_all(require_table, [(flat, t, *shape) for flat in (False, True) for t in types for shape in shapes])
    build, _ = builder(flat_look_up=True)  # codes of a narrow type are held as bytes by then
    build.look_up(value("t", dims=[16]), value("i", DataType.FLOAT8E4M3FN, [2, 2]))
    assert build.nodes[0].outputs[0].dtype == DataType.UINT8


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_number_is_at_least_another(dtype: type[np.floating[Any]]) -> None:
    """By element and to the last bit; NaN is not."""
    for bound in (1.0, 0.0, -2.5, 448.0):
        number = dtype(bound)
        around = [number, np.nextafter(number, dtype(-np.inf)), np.nextafter(number, dtype(np.inf))]
        array = np.array([*around, np.nan, np.inf, -np.inf, -0.0], dtype)
        for is_value in (False, True):
            build, constants = builder()
            x, other = (
                value("x", DataType.from_numpy(np.dtype(dtype))),
                value("b", DataType.from_numpy(np.dtype(dtype))),
            )
            y = at_least(build, x, other if is_value else bound)
            more = {"b": (other, np.array([bound], dtype))} if is_value else {}
            assert run(build, constants, y, x=(x, array), **more).tolist() == (array >= number).tolist()


def test_an_opset_is_needed() -> None:
    need_opset(11, 11, "Round")
    with pytest.raises(ModelError, match="Round needs opset 11: raise the opset from 10"):
        need_opset(10, 11, "Round")


def test_equal_constants_of_the_main_graph_are_one() -> None:
    x = value("x", dims=[2])
    node = onnx_ir.node("Neg", [x])
    node.outputs[0].name = "y"
    model = onnx_ir.Model(onnx_ir.Graph([x], [node.outputs[0]], nodes=[node], opset_imports={"": 18}), ir_version=8)
    home = shared_constants(model, Namer(model), "t_")
    first = home("a", np.array([1, 2], np.float32))
    assert home("b", np.array([1, 2], np.float32)) is first
    others = [np.array([1, 2], np.float64), np.array([[1, 2]], np.float32), np.array([1, 3], np.float32)]
    values = [first, *(home("a", array) for array in others)]
    assert len({id(each) for each in values}) == 4
    assert [each.name for each in values][:1] == ["t_a"]
    assert {each.name for each in values} == set(model.graph.initializers)


def replaced(outputs: int = 1) -> onnx_ir.Node:
    node = onnx_ir.node("Old", [value("x"), None, value("z", DataType.INT64)], num_outputs=outputs)
    for place, output in enumerate(node.outputs):
        output.name, output.type = f"y{place}", TensorType(DataType.BFLOAT16)
        output.shape = Shape([place + 2])
    return node


def test_a_replacement_has_a_value_for_each_output() -> None:
    node = replaced(2)
    build = ReplacementBuilder(node)
    x = node.inputs[0]
    assert x is not None
    total = build.op("Add", x, 1)
    named = build.op("Neg", total)
    named.name = "mine"
    result = as_replacement(build, "rule", "why", total, named)
    assert ([each.name for each in result.outputs or ()], [new.op_type for new in result.nodes]) == (
        ["y0", "mine"],
        ["Add", "Neg"],
    )
    assert [constant.name for constant in result.constants] == ["y0_constant"]
    assert (result.rule, result.reason, result.effect.value) == ("rule", "why", "bit-exact")
    passed = Value(name=None, type=TensorType(DataType.FLOAT))
    as_replacement(build, "rule", "why", passed, named)
    assert passed.name is None  # it is not new, so that its name is not to be changed
    with pytest.raises(ValueError, match="shorter"):
        as_replacement(build, "rule", "why", total)
    bare = onnx_ir.node("Old", [x], num_outputs=0)
    for prefix, name in ((None, "Old_constant"), ("p_", "p_constant")):
        other = ReplacementBuilder(bare, prefix)
        other.constant(np.array(1))
        assert [constant.name for constant in other.constants] == [name]


def test_a_node_is_computed_in_another_type_between_casts() -> None:
    node = replaced(3)
    node.outputs[2].name = ""
    build = ReplacementBuilder(node)
    attributes = [onnx_ir.AttrInt64("axis", 1)]
    seen = list[int]()

    def operand(index: int, given: Value) -> Value:
        seen.append(index)
        return build.cast(given, DataType.FLOAT) if index == 0 else given

    before = [DataType.BFLOAT16, None, DataType.BFLOAT16]
    outputs = computed_in(build, DataType.FLOAT, attributes, operand, lambda old: before[node.outputs.index(old)])
    (inner,) = (new for new in build.nodes if new.op_type == "Old")
    assert (seen, inner.attributes.get_int("axis"), list(inner.inputs)) == ([0, 2], 1, list(node.inputs))
    assert [(each.name, each.dtype, each.shape) for each in inner.outputs] == [
        ("y0_float", DataType.FLOAT, [2]),
        ("y1", DataType.BFLOAT16, [3]),
        ("", DataType.FLOAT, [4]),
    ]
    assert [each.name for each in outputs] == ["y0", "y1", ""]
    assert [new.op_type for new in build.nodes] == ["Old", "Cast"]
    assert outputs[0].dtype == DataType.BFLOAT16
