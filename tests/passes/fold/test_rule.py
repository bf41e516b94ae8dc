"""Each limit of folding at its exact value, and one below it; and the settings of a cast that folds or moves."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.ir.walks import all_nodes
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import parse_type
from castsmith.passes import FoldConstants, PlaceCasts, SimplifyCasts
from castsmith.passes.core.rewrite_pass import RULE, STORE_WEIGHT, RewritePass

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(HEAD + text))


def casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type == "Cast" for node in all_nodes(model))


ONE = "g () => (float[3] y) <float16[3] w = {1, 2, 3}> { y = Cast <to = 1> (w) }"
KEPT = """g () => (float[3] y, float16[3] v) <float16[3] w = {1, 2, 3}> { y = Cast <to = 1> (w) v = Identity (w) }"""
TWO = """g () => (float[3] y, float[2] z) <float16[3] w = {1, 2, 3}, float16[2] v = {4, 5}> {
    y = Cast <to = 1> (w) z = Cast <to = 1> (v) }"""


@pytest.mark.parametrize(
    ("text", "growth"),
    [(ONE, 6), (KEPT, 12), (ONE.replace("float16[3] w", "double[3] w"), 0)],
)
def test_one_node_at_its_exact_growth(text: str, growth: int) -> None:
    for most, left in ((growth, 0), (growth + 1, 0), (growth - 1, growth > 0)):
        if most < 0:
            continue
        model = parsed(text)
        result = FoldConstants(max_growth=most)(model)
        assert casts(model) == left, most
        assert [each.rule for each in result.records.refusals] == ["fold-growth"] * left


def test_all_nodes_at_their_exact_growth() -> None:
    for most, left in ((10, 0), (11, 0), (9, 1), (6, 1), (5, 1), (3, 2)):
        model = parsed(TWO)
        FoldConstants(max_growth=100, max_total_growth=most)(model)
        assert casts(model) == left, most


BIG = """g (int64 i) => (NARROW[N] y) <float[3] w = {1000, -1000, 1}> { c = Cast <to = CODE, saturate = S> (w)
    y = Gather (c, i) }"""


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize(("narrow", "code"), [("float8e4m3fn", 17), ("float8e5m2", 19)])
def test_a_folded_or_moved_cast_keeps_saturate(narrow: str, code: int, saturate: int) -> None:
    text = BIG.replace("NARROW", narrow).replace("CODE", str(code)).replace("S>", f"{saturate}>")
    array = np.array([1000, -1000, 1], np.float32)
    expected = cast(array, narrow, saturate=bool(saturate), opset=21)
    folded = parsed(text.replace("y = Gather (c, i)", "y = Identity (c)"))
    FoldConstants()(folded)
    held = [tensor.const_value for tensor in folded.graph.initializers.values() if tensor.const_value is not None]
    assert expected.tobytes() in [tensor.tobytes() for tensor in held]
    moved = parsed(
        text.replace("float[3] w = {1000, -1000, 1}", "int64[1] k = {0}").replace("int64 i", "int64 i, float[3] w")
    )
    PlaceCasts()(moved)
    (made,) = [node for node in all_nodes(moved) if node.op_type == "Cast"]
    assert made.attributes.get_int("saturate", 1) == saturate


STAYS = {
    "d = Dropout (c, r, t)": "in training mode",
    "d, m = Dropout (c)": "whose mask is read",
    'd = ScatterElements <reduction = "max"> (c, i, u)': "that computes a maximum",
    'd = Resize <mode = "linear"> (c, , s)': "that interpolates",
}
PASSES_ON = {"d = Dropout (c)": "that drops nothing", "d = Transpose (c)": "", "d = Reshape (c, i)": ""}


def around(body: str) -> str:
    """A round trip over float16 around the operators of a body."""
    return f"""g (float16[2,2] x, int64[2] i, float r, bool t, float[2,2] u, float[2] s) => (float16[N,M] y)
        {{ c = Cast <to = 1> (x) {body} y = Cast <to = 10> (d) }}"""


@pytest.mark.parametrize("body", STAYS)
def test_a_cast_does_not_cross_what_computes(body: str) -> None:
    model = parsed(around(body))
    PlaceCasts()(model)
    SimplifyCasts()(model)
    assert casts(model) == 2, STAYS[body]


@pytest.mark.parametrize("body", PASSES_ON)
def test_a_round_trip_around_a_move_goes(body: str) -> None:
    model = parsed(around(body))
    PlaceCasts()(model)
    SimplifyCasts()(model)
    assert casts(model) == 0


def test_twins_with_outputs_of_the_graph_are_not_merged() -> None:
    """Merging them would need an Identity for one output. Nodes ahead of two casts are looked at."""
    text = """g (float[4] x) => (float[2] b, float[2] d, int32[2] e, int32[2] f) {
        a, b = Split <num_outputs = 2> (x) c, d = Split <num_outputs = 2> (x)
        e = Cast <to = 6> (a) f = Cast <to = 6> (c) }"""
    model = parsed(text)
    SimplifyCasts()(model)
    assert sum(node.op_type == "Split" for node in all_nodes(model)) == 2
    model = parsed(text.replace("float[2] b, float[2] d, ", ""))
    SimplifyCasts()(model)
    assert sum(node.op_type == "Split" for node in all_nodes(model)) == 1


COMPARED = (
    """g (int64[2] l, WIDE[2] r) => (bool[2] y) { a = Cast <to = 1> (l) b = Cast <to = 1> (r) y = Equal (a, b) }"""
)


def test_a_comparison_of_two_types_in_float() -> None:
    """Float holds neither every int64 nor every int32, so that the comparison in int64 would be another."""
    for wide in ("int32", "int16", "float16"):
        model = parsed(COMPARED.replace("WIDE", wide))
        before = casts(model)
        SimplifyCasts()(model)
        assert casts(model) == before, wide


@pytest.mark.parametrize(
    ("metadata", "left"), [({}, 0), ({"castsmith.rule": "cast"}, 0), ({RULE: STORE_WEIGHT.code}, 1)]
)
def test_a_weight_that_is_stored_on_purpose_stays(metadata: dict[str, str], left: int) -> None:
    model = parsed(ONE)
    next(iter(model.graph)).metadata_props.update(metadata)
    FoldConstants()(model)
    assert casts(model) == left


@pytest.mark.parametrize("run", [FoldConstants(), PlaceCasts(), SimplifyCasts()])
@pytest.mark.parametrize(
    "node",
    ["Cast <to = 1> ()", 'Cast <to = 1> ("")', "Shape ()", "Gather (x)", "Less ()", "Less (x)", "Transpose ()"],
)
def test_a_node_without_its_operands_is_left_alone(run: RewritePass, node: str) -> None:
    model = parsed(f"g (float[2] x) => (float16[2] c, bool[2] y) {{ c = Cast <to = 10> (x) y = {node} }}")
    assert not run(model).modified


TRUNC = """<ir_version: 10, opset_import: ["" : 21, "qonnx.custom_op.general" : 1]>
g () => (TYPE[2] y) <float[2] x = {7, -5}, float one = {1}, float zero = {0}, float wide = {4}, float narrow = {3}>
{ y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, one, zero, wide, narrow) }"""


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_a_folded_trunc_has_the_type_that_is_declared(dtype: str) -> None:
    """A bit less of 4: 7 is 3, and -5 is -3."""
    model = onnx_ir.from_onnx_text(TRUNC.replace("TYPE", dtype))
    if dtype == "float":
        model.graph.outputs[0].type = None
    FoldConstants()(model)
    (held,) = [value for value in model.graph.initializers.values() if value.name == "y_value"]
    assert held.const_value is not None
    assert held.const_value.numpy().tolist() == [3, -3]
    assert held.const_value.dtype == parse_type(dtype)
