"""Nodes, values and places as readers see them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.notebook import folded
from castsmith.ir.records import Site, item_text
from castsmith.ir.text import (
    attribute_text,
    constant_text,
    located,
    node_text,
    operands_text,
    origin,
    site_of,
    type_text,
    value_item,
)
from castsmith.numerics.errors import PromotionError

TEXT = """<ir_version: 10, opset_import: ["": 21, "d": 1]> g (float[N, 2] x, int64 n, float[3] i) => (y, z)
<float[3] i = {1, 2, 3}, float w = {2.5}, int64[8] eight = {1, 2, 3, 4, 5, 6, 7, 8},
 int64[9] nine = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[?, 2] partly> {
  k = Constant <value = float[1] {7.5}> ()
  [named] a = Add (x, w)
  b = Clip (a, , k)
  c = d.Op <to = 10, axes = [1, 2], text = "t", value = float[2] {1, 2}> (n)
  partly = Cast <to = 10> (x)
  , z = Split (b)
  y = If (n) <then_branch = t () => (p) { p = Identity (b) }, else_branch = e () => (r) { r = Identity (b) }>
}"""


@pytest.fixture
def model() -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(TEXT))


def test_each_node_as_a_line(model: onnx_ir.Model) -> None:
    assert [node_text(node, {model.graph[2].outputs[0]: DataType.FLOAT}) for node in model.graph] == LINES


LINES = [
    "k = Constant <value = float[1] {7.5}> ()  # () -> ?",
    "a = Add (x, w {2.5})  # (float[N, 2], float[]) -> ?",
    "b = Clip (a, , k)  # (?, ?) -> float",
    "c = d.Op <to = float16, axes = (1, 2), text = t, value = float[2] {1.0, 2.0}> (n)  # (int64[]) -> ?",
    "partly = Cast <to = float16> (x)  # (float[N, 2]) -> float[?, 2]",
    "?, z = Split (b)  # (float) -> ?, ?",
    "y = If <then_branch = {...}, else_branch = {...}> (n)  # (int64[]) -> ?",
]


def test_each_place(model: onnx_ir.Model) -> None:
    nodes = list(model.graph)
    assert site_of(nodes[1]) == Site("g", "named", "Add", "a")
    assert site_of(nodes[5]) == Site("g", "", "Split", "z")
    assert site_of(onnx_ir.node("Abs", [])).output == ""
    assert site_of(onnx_ir.node("Abs", [])).graph == ""


def test_each_origin(model: onnx_ir.Model) -> None:
    values = {value.name: value for value in (*model.graph.inputs, *model.graph.initializers.values())}
    values |= {value.name: value for node in model.graph for value in node.outputs}
    found = {name: origin(values[name]) for name in ("x", "i", "w", "k", "a", "b")}
    assert found == {
        "x": "an input",
        "i": "an initializer and input",
        "w": "an initializer",
        "k": "a Constant",
        "a": "made by named (Add)",
        "b": "made by Clip",
    }
    operands = [(values["x"], DataType.FLOAT), (None, DataType.INT64)]
    assert operands_text(operands) == "x (float, an input) and int64"
    error = PromotionError("no rule.", lhs=DataType.FLOAT, rhs=DataType.INT64, rule="r", option="o")
    told = located(Site("g", "named", "Add", "a"), "operands", operands, error)
    assert str(told) == "g: named (Add): operands x (float, an input) and int64: no rule [rule r]."
    assert (told.lhs, told.rhs, told.rule, told.option) == (DataType.FLOAT, DataType.INT64, "r", "o")
    plain = PromotionError("no rule", lhs=DataType.FLOAT, rhs=DataType.INT64)
    assert str(located(Site("g"), "operands", operands, plain)).endswith(": no rule.")


def test_each_type(model: onnx_ir.Model) -> None:
    x, n, i = model.graph.inputs
    assert [type_text(value) for value in (x, n, i)] == ["float[N, 2]", "int64[]", "float[3]"]
    assert type_text(onnx_ir.Value(name="v")) == "?"
    assert item_text(value_item(x)) == "float[N, 2] x"
    eight, nine = (model.graph.initializers[name] for name in ("eight", "nine"))
    assert constant_text(eight) == "int64[8] eight = {1, 2, 3, 4, 5, 6, 7, 8}"
    assert constant_text(nine) == "int64[9] nine = {... 9 elements ...}"
    assert constant_text(x) == "float[N, 2] x"


def test_long_attributes_are_cut_and_references_named() -> None:
    for length, shown in ((60, "a" * 60), (61, "a" * 57 + "...")):
        node = onnx_ir.node("Op", [], {"text": "a" * length}, domain="d")
        assert f"<text = {shown}>" in node_text(node)
    reference = onnx_ir.RefAttr("to", "given", onnx_ir.AttributeType.INT)
    assert attribute_text(reference) == "@given"
    assert attribute_text(onnx_ir.AttrFloat32("to", 1.0)) == "1.0"
    assert attribute_text(onnx_ir.AttrInt64("axis", 1)) == "1"
    for name, number, shown in (("to", 10, "float16"), ("to", 999, "999"), ("axis", 10, "10")):
        assert attribute_text(onnx_ir.AttrInt64(name, number)) == shown


def test_an_element_of_a_data_file_is_not_read(tmp_path: Path) -> None:
    np.array([3.0], np.float32).tofile(tmp_path / "data")
    tensor = onnx_ir.ExternalTensor(
        "data", 0, 4, DataType.FLOAT, shape=onnx_ir.Shape([1]), name="w", base_dir=str(tmp_path)
    )
    value = onnx_ir.Value(name="w", shape=tensor.shape, type=onnx_ir.TensorType(tensor.dtype), const_value=tensor)
    assert "Abs (w)  # (float[1])" in node_text(onnx_ir.node("Abs", [value]))


def test_a_table_of_a_notebook_says_how_many_rows_it_leaves_out() -> None:
    for count, more in ((1, ""), (200, ""), (201, "<p>and 1 more</p>"), (203, "<p>and 3 more</p>")):
        html = folded("t", (("a",), [(f"r{index}",) for index in range(count)]))
        assert html.count("<td>") == min(count, 200)
        assert html.endswith(f"</table>{more}</div></details>")
