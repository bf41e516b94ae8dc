"""merge-equal-nodes: nodes that the standard does not fix stay apart, and so do those of models without two casts."""

from __future__ import annotations

import onnx_ir
import pytest

from castsmith.ir.walks import all_nodes
from castsmith.passes import SimplifyCasts
from castsmith.passes.simplify.merge_equal_nodes import nodes_before

_HEADER = '<ir_version: 10, opset_import: ["": 21, "com.acme": 1]> g (float[4] x) => (float16[4] y)'
_CONSTANTS = "<float half = {0.5}, bool train = {1}>"


def _count(op_type: str, node: str, casts: str) -> int:
    body = f"{{ a = {node} b = {node} {casts} }}"
    model = onnx_ir.from_onnx_text(f"{_HEADER} {_CONSTANTS} {body}")
    SimplifyCasts()(model)
    return sum(each.op_type == op_type for each in all_nodes(model))


@pytest.mark.parametrize(
    ("node", "left"),
    [
        ("Dropout (x)", 1),
        ("Dropout (x, half, train)", 2),
        ("Dropout <seed = 1> (x, half, train)", 2),
        ("RandomNormalLike (x)", 2),
        ("RandomNormalLike <seed = 1.0> (x)", 2),
        ("com.acme.Sqrt (x)", 2),
        ("Sqrt (x)", 1),
    ],
)
def test_only_nodes_of_one_result_are_merged(node: str, left: int) -> None:
    op_type = node.partition(" ")[0].rpartition(".")[2]
    casts = "c = Cast <to = 10> (a) d = Cast <to = 10> (b) y = Add (c, d)"
    assert _count(op_type, node, casts) == left


def test_nodes_that_leave_an_operand_out_are_merged() -> None:
    assert _count("Clip", "Clip (x, , half)", "c = Cast <to = 10> (a) d = Cast <to = 10> (b) y = Add (c, d)") == 1


@pytest.mark.parametrize(("elements", "left"), [(127, 1), (128, 1), (129, 2)])
def test_tensors_of_at_most_1024_bytes_in_attributes_are_compared_by_their_bits(elements: int, left: int) -> None:
    numbers = ", ".join(map(str, range(elements)))
    table = f"keys_tensor = int64[{elements}] {{{numbers}}}, values_tensor = int64[{elements}] {{{numbers}}}"
    model = onnx_ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4]>
        g (int64[4] x) => (float16[4] y, int32[4] z) {{
        a = ai.onnx.ml.LabelEncoder <{table}> (x) b = ai.onnx.ml.LabelEncoder <{table}> (x)
        y = Cast <to = 10> (a) z = Cast <to = 6> (b) }}"""
    )
    SimplifyCasts()(model)
    assert sum(node.op_type == "LabelEncoder" for node in model.graph) == left


def test_nodes_that_no_two_casts_read_stay() -> None:
    assert _count("Sqrt", "Sqrt (x)", "s = Add (a, b) y = Cast <to = 10> (s)") == 2


def test_a_node_that_is_read_twice_is_visited_once() -> None:
    """Each of 64 nodes reads the one before it twice: there are 2**64 ways from the last to the first."""
    x = onnx_ir.Value(name="x")
    chain = [onnx_ir.node("Add", [x, x])]
    while len(chain) < 64:
        chain.append(onnx_ir.node("Add", [chain[-1].outputs[0]] * 2))
    casts = [onnx_ir.node("Cast", [chain[-1].outputs[0]], {"to": to}) for to in (1, 10)]
    assert nodes_before(casts) == set(chain)
    assert nodes_before(casts[:1]) == set()


@pytest.mark.parametrize(("elements", "left"), [(255, 1), (256, 1), (257, 2)])
def test_constants_of_at_most_1024_bytes_are_compared_by_their_bits(elements: int, left: int) -> None:
    constants = ", ".join(f"float[{elements}] {name} = {{{', '.join(['1'] * elements)}}}" for name in "kl")
    model = onnx_ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 21]> g (float[{elements}] x) => (float16[N] y, int32[N] z) <{constants}>
        {{ a = Add (x, k) b = Add (x, l) y = Cast <to = 10> (a) z = Cast <to = 6> (b) }}"""
    )
    SimplifyCasts()(model)
    assert sum(node.op_type == "Add" for node in model.graph) == left


def test_a_tensor_that_each_call_of_a_function_gives_is_compared_by_its_name() -> None:
    for names, left in (("ff", 1), ("fg", 2)):
        a, b = (f"ai.onnx.ml.LabelEncoder <keys_tensor: tensor = @{name}> (x)" for name in names)
        model = onnx_ir.from_onnx_text(
            f"""<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 4, "own": 1]>
            g (int64[4] x) => (float16[4] y, int32[4] z) {{ y, z = own.F (x) }}
            <domain: "own", opset_import: ["": 21, "ai.onnx.ml": 4]> F <f, g> (x) => (y, z)
            {{ a = {a} b = {b} y = Cast <to = 10> (a) z = Cast <to = 6> (b) }}"""
        )
        SimplifyCasts()(model)
        assert sum(node.op_type == "LabelEncoder" for node in all_nodes(model)) == left
