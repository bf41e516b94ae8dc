"""Types that meet in control flow: which state is converted, to which type, after how many walks of the body."""

from __future__ import annotations

import onnx
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.walks import all_nodes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import type_name

UNSAFE = PromotionRules(promote_unsafe=True)


def joined(text: str) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """The conversions of inputs of nodes and of outputs of graphs, and the types of the outputs of the model."""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    found = infer_element_types(model, UNSAFE)
    inputs = {f"{node.op_type} {index}": type_name(dtype) for (node, index), dtype in found.conversions.items()}
    outputs = {f"{graph.name} {index}": type_name(dtype) for (graph, index), dtype in found.output_conversions.items()}
    types = [found.types.get(value, DataType.UNDEFINED) for value in model.graph.outputs]
    assert all(node.op_type for node in all_nodes(model))
    assert found.to_convert or not (inputs or outputs)
    return inputs, outputs, ["?" if dtype == DataType.UNDEFINED else type_name(dtype) for dtype in types]


def loop(state: str, body: str, more: str = "", scanned: str = "") -> str:
    return f"""<ir_version: 10, opset_import: ["" : 21]>
    g (int64 n, {state} s, float[2] f, double[2] d, float16[2] h{more}) => (float[2] y) {{
      y{scanned} = Loop (n, , s) <body = b (int64 i, bool c, {state} a) => (bool co, float[2] r) {{
        co = Identity (c)
        {body}
      }}>
    }}"""


def test_a_state_that_widens_at_once() -> None:
    assert joined(loop("float16[2]", "r = Mul (f, f)")) == ({"Loop 2": "float"}, {}, ["float"])


def test_a_state_that_keeps_its_type_converts_what_the_body_returns() -> None:
    assert joined(loop("float[2]", "r = Mul (h, h)")) == ({}, {"b 1": "float"}, ["float"])


def test_what_only_an_earlier_walk_has_to_convert_is_forgotten() -> None:
    """With a state of float16 an operand of the body is converted; with one of float none is."""
    for body, noted in (("r = Mul (a, f)", {}), ("r = Mul (f, d)", {"Mul": 1}), ("r = Pow (f, c)", {"Pow": 1})):
        found = infer_element_types(onnx_ir.from_proto(onnx.parser.parse_model(loop("float16[2]", body))), UNSAFE)
        notes = [*found.disagreements.items(), *found.illegal.items()]
        assert {node.op_type: len(each) for node, each in notes} == noted, body


def two_states(inputs: str, states: str, body: str, gives: str) -> str:
    """A Loop over the inputs s and t, whose body returns two floats."""
    return f"""<ir_version: 10, opset_import: ["" : 21]>
    g (int64 n, {inputs}) => ({gives}[2] y, {gives}[2] z) {{
      y, z = Loop (n, , s, t) <body = b (int64 i, bool c, {states}) => (bool co, float[2] r, float[2] q) {{
        co = Identity (c)
        {body}
      }}>
    }}"""


def test_a_state_that_widens_with_each_walk() -> None:
    """The first walk returns float, the second, with a state of float, double: only the last one counts."""
    inputs, states = "float16[2] s, float16[2] t, double[2] d", "float16[2] a, float16[2] e"
    text = two_states(inputs, states, "r = Abs (e) q = Abs (d)", "double")
    assert joined(text) == ({"Loop 2": "double", "Loop 3": "double"}, {}, ["double", "double"])


def test_a_conversion_of_an_earlier_walk_is_forgotten() -> None:
    """In the first walk the state is float16 and the body returns float16 beside it; then both are float."""
    inputs, states = "float16[2] s, float[2] t, float[2] f", "float16[2] a, float[2] e"
    text = two_states(inputs, states, "r = Abs (f) q = Abs (a)", "float")
    assert joined(text) == ({"Loop 2": "float"}, {}, ["float", "float"])


def test_states_and_scanned_values_of_a_scan() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float16[2] s, float[3,2] x) => (float[2] y, float[3,2] z) {
      y, z = Scan <num_scan_inputs = 1, body = b (float16[2] a, float[2] e) => (float[2] r, float[2] q) {
        r = Abs (e)
        q = Abs (a)
      }> (s, x)
    }"""
    assert joined(text) == ({"Scan 0": "float"}, {}, ["float", "float"])


def test_branches_that_disagree_in_one_of_two_outputs() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (bool c, float16[2] h, double[2] d, int64[2] n) => (double[2] y, int64[2] z) {
      y, z = If (c) <then_branch = t () => (float16[2] a, int64[2] b) { a = Abs (h) b = Abs (n) },
                     else_branch = e () => (double[2] p, int64[2] q) { p = Abs (d) q = Neg (n) }>
    }"""
    assert joined(text) == ({}, {"t 0": "double"}, ["double", "int64"])


def test_a_nested_loop_in_a_branch() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (bool c, int64 n, float16[2] h, float[2] f) => (float[2] y) {
      y = If (c) <
        then_branch = t () => (float[2] a) {
          a = Loop (n, , h) <body = b (int64 i, bool k, float16[2] s) => (bool ko, float[2] r) {
            ko = Identity (k)
            r = Add (s, f)
          }>
        },
        else_branch = e () => (float16[2] p) { p = Abs (h) }>
    }"""
    inputs, outputs, types = joined(text)
    assert inputs["Loop 2"] == "float"
    assert outputs == {"e 0": "float"}
    assert types == ["float"]


def test_a_branch_in_a_loop_whose_state_widens_needs_no_conversion() -> None:
    """In the first walk of the body the state is float16 and one branch returns it; in the last it is float."""
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (int64 n, bool c, float16[2] h, float[2] f) => (float[2] y) {
      y = Loop (n, , h) <body = b (int64 i, bool k, float16[2] a) => (bool ko, float[2] r) {
        ko = Identity (k)
        r = If (c) <then_branch = t () => (float[2] p) { p = Abs (a) },
                    else_branch = e () => (float[2] q) { q = Abs (f) }>
      }>
    }"""
    assert joined(text) == ({"Loop 2": "float"}, {}, ["float"])


def test_the_graphs_of_an_operator_that_states_the_type_of_what_it_hands_on() -> None:
    """FlexAttention takes back the type that it hands on; other operators take what their graphs declare."""
    text = """<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview" : 1, "k" : 1]>
    g ({}[1,2,3,8] q, double[1] d, float16[1] h) => (y) {{
      y = {} <{} score_mod = m (s) => ({}t) {{ t = Mul (s, {}) }}> (q, q, q)
    }}"""
    flex = "ai.onnx.preview.FlexAttention"
    for dtype, op_type, attribute, declared, operand, handed_on, converted in (
        ("float16", flex, "", "", "s", "float", {}),
        ("float", flex, "", "", "s", "float", {}),
        ("double", flex, "", "", "s", "double", {}),
        ("float16", flex, "softmax_precision = 10,", "", "s", "float16", {}),
        ("float16", flex, "softmax_precision = 11,", "", "s", "double", {}),
        ("float16", flex, "", "", "d", "float", {"m 0": "float"}),
        ("double", flex, "", "float16[1] ", "d", "double", {}),
        ("float16", "k.FlexAttention", "", "", "h", "undefined", {}),
        ("float16", "k.FlexAttention", "", "float[1] ", "h", "undefined", {"m 0": "float"}),
        ("float16", "k.FlexAttention", "", "double[1] ", "d", "undefined", {}),
    ):
        case = text.format(dtype, op_type, attribute, declared, operand)
        model = onnx_ir.from_proto(onnx.parser.parse_model(case))
        found = infer_element_types(model, UNSAFE)
        (graph,) = model.graph.subgraphs()
        types = found.types.get(graph.inputs[0], DataType.UNDEFINED)
        notes = {f"{graph.name} {index}": type_name(each) for (graph, index), each in found.output_conversions.items()}
        assert (types.name.lower(), notes) == (handed_on, converted), case


def test_a_scan_of_opset_8_takes_lengths_first() -> None:
    text = """<ir_version: 10, opset_import: ["" : {0}]> g (float16[1,2] s, float[1,3,2] x) => (float[1,2] y) {{
      y, z = Scan <num_scan_inputs = 1, body = b (float16[2] a, float[2] e) => (float[2] r, float[2] q)
      {{ r = Abs (e) q = Abs (a) }}> ({1}s, x) }}"""
    for opset, lengths, index in ((8, ", ", 1), (9, "", 0)):
        assert joined(text.format(opset, lengths))[:2] == ({f"Scan {index}": "float"}, {})


def test_where_one_type_is_unknown_nothing_is_converted() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "other" : 1]>
      g (bool c, int64 n, float[2] x, float16[2] h) => (a, y) {
        a = If (c) <then_branch = t () => (p) { p = other.Abs (x) }, else_branch = e () => (q) { q = Abs (h) }>
        u = other.Abs (x)
        y, k = Loop (n, , u, x) <body = b (int64 i, bool b, v, w) => (bool bo, r, s) {
            bo = Identity (b) r = Abs (h) s = other.Abs (h) }> }"""
    assert joined(text) == ({}, {}, ["?", "float16"])


def test_an_operator_of_another_domain_with_a_graph_takes_back_what_that_declares() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "other" : 1]> g (float[2] x) => (float[2] y) {
        y = other.Map (x) <body = b (float[2] v) => ({} r) {{ r = Abs (v) }}> }"""
    for declared, converted in (("", {}), ("float[2]", {}), ("double[2]", {"b 0": "double"})):
        assert joined(text.replace("{}", declared).replace("{{", "{").replace("}}", "}"))[1] == converted
