"""The shapes that onnx infers for a model that is given to it without its large weights."""

from __future__ import annotations

import numpy as np
import onnx_ir

from castsmith.ir.walks import all_nodes
from castsmith.verification.evaluate.shapes import inferred_shapes


def shapes(body: str, *, opset: int = 21, from_declared: bool = False, weight: int = 0) -> dict[str, list[object]]:
    """The inferred shapes by the names of values; weight: the size of a constant w."""
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]> {body}')
    if weight:
        value = onnx_ir.Value(name="w", const_value=onnx_ir.tensor(np.full(weight, 2, np.int64), name="another"))
        model.graph.initializers.add(value)
        for node in model.graph:
            for index, each in enumerate(node.inputs):
                if each is not None and each.name == "w_":
                    node.replace_input_with(index, value)
    found = inferred_shapes(model, from_declared=from_declared)
    names = {value: value.name or "" for node in all_nodes(model) for value in node.outputs}
    return {
        names[value]: [dim if isinstance(dim, int) else dim.value for dim in shape] for value, shape in found.items()
    }


def test_a_constant_is_read_as_a_shape_up_to_a_size() -> None:
    text = "g (float[N] x, int64[K] w_) => (y) { a = Expand (x, w_) y = Neg (a) }"
    assert shapes(text, weight=3)["a"][:2] == [2, 2]
    assert len(shapes(text, weight=128)["a"]) == 128
    assert len(shapes(text, weight=129)["a"]) == 129
    assert 2 not in shapes(text, weight=129)["a"]
    assert shapes("g (int64[K] w_) => (y) { a = Neg (w_) y = Neg (a) }", weight=129)["a"] == [129]


def test_each_constant_has_the_name_of_its_value() -> None:
    model = onnx_ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 21]> g (float[9] x) => (y)
        <int64[1] s = {2}, int64[1] e = {7}> { y = Slice (x, s, e) }""")
    for value in model.graph.initializers.values():
        tensor = value.const_value
        assert tensor is not None
        tensor.name = f"of {value.name}"
    (shape,) = inferred_shapes(model).values()
    assert shape == [5]


def test_declared_shapes_are_used_if_asked_for() -> None:
    text = "g (float[2] x) => (y) <float[7] a> { a = f.Nothing (x) b = Neg (a) y = Neg (b) }"
    assert "b" not in shapes(text)
    assert shapes(text, from_declared=True)["b"] == [7]


def test_a_model_that_crashes_onnx_has_no_shapes() -> None:
    """The operand of LabelEncoder has no type, which it reads."""
    text = """<ir_version: 9, opset_import: ["" : 19, "ai.onnx.ml" : 4]> g (float[2] x) => (y) {
        a = other.Op (x) y = ai.onnx.ml.LabelEncoder <keys_int64s = [1, 2, 3]> (a) }"""
    model = onnx_ir.from_onnx_text(text)
    assert inferred_shapes(model) == {}
    assert shapes("g (float[2] x) => (y) { y = Neg (x) }")["y"] == [2]


def test_shapes_within_nodes_are_those_of_their_own_names() -> None:
    text = """g (bool c, float[2] x, float[3, N] z) => (y) {
        a = Neg (x)
        y = If (c) <then_branch = t () => (p) { b = Neg (z) p = Abs (b) },
                    else_branch = e () => (q) { q = Neg (a) }> }"""
    found = shapes(text)
    assert (found["a"], found["b"]) == ([2], [3, "N"])


def test_a_negative_size_is_unknown_and_a_refused_model_has_no_shapes() -> None:
    model = onnx_ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (y) { y = Neg (x) }')
    (shape,) = inferred_shapes(model).values()
    assert shape == [2]
    model.graph.inputs[0].shape = onnx_ir.Shape([-1])
    (shape,) = inferred_shapes(model).values()
    assert not isinstance(shape[0], int)
    model.graph.inputs[0].dtype = onnx_ir.DataType.STRING
    model.graph[0].op_type = "MatMul"
    assert inferred_shapes(model) == {}
