"""castsmith.convert: every structure of a model stays valid and loads, whichever nodes are converted."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import onnxruntime
import pytest

from castsmith import cast, check, convert
from castsmith.ir.io.loading import from_proto
from castsmith.ir.io.protos import to_proto
from castsmith.ir.records import Diagnostic, Severity
from castsmith.lowering.results import ConvertResult
from castsmith.numerics.errors import OptionError
from castsmith.passes import ConvertPrecision
from tests.graphs.scoped_graphs import scoped_model
from tests.passes.precision.judged import judged, session
from tests.passes.precision.models import TEXTS, model
from tests.sampling import sampled

_NUMPY = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(bool)": bool,
}
Port = tuple[str, str]


def errors_of(result: ConvertResult) -> list[Diagnostic]:
    """The findings of a conversion, without the note on kernels of ONNX Runtime."""
    return [finding for finding in result.diagnostics if finding.severity is not Severity.NOTE]


def ports(runs: onnxruntime.InferenceSession) -> tuple[list[Port], list[Port]]:
    return [(p.name, p.type) for p in runs.get_inputs()], [(p.name, p.type) for p in runs.get_outputs()]


def feeds(runs: onnxruntime.InferenceSession) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for port in runs.get_inputs():
        shape = [dim if isinstance(dim, int) else 2 for dim in port.shape]
        dtype = _NUMPY[port.type]
        small = np.asarray(draw.integers(0, 2, shape) if shape else 2).astype(dtype)
        arrays[port.name] = small if dtype in (bool, np.int64) else np.asarray(draw.normal(0, 0.5, shape)).astype(dtype)
    return arrays


def flat(results: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(item) for result in results for item in (result if isinstance(result, list) else [result])]


def require_alike(before: onnx.ModelProto, after: onnx.ModelProto, within: float = 0.02) -> None:
    onnx.checker.check_model(after, full_check=True)
    old, new = session(before), session(after)
    assert ports(new) == ports(old)
    arrays = feeds(old)
    for expected, actual in zip(flat(old.run(None, arrays)), flat(new.run(None, arrays)), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        if expected.dtype.kind == "f":
            assert np.isfinite(actual[np.isfinite(expected)]).all()
            np.testing.assert_allclose(actual, expected, atol=within * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("name", TEXTS)
def test_every_structure_stays_valid_and_loads(name: str) -> None:
    before = model(name)
    result = convert(before, to="float16")
    assert not errors_of(result)
    require_alike(before, to_proto(result.model))


@pytest.mark.parametrize(
    ("name", "seed"),
    sampled("random choices of nodes to convert", product(TEXTS, range(4)), 60),
)
def test_any_choice_of_nodes_stays_valid_and_loads(name: str, seed: int) -> None:
    draw, before = random.Random(f"{name} {seed}"), model(name)
    names = [node.name for node in before.graph.node]
    chosen = {node_name: draw.random() < 0.5 for node_name in names}
    result = convert(
        before,
        to="float16",
        lower=[f"name:{node_name}" for node_name in names if chosen[node_name]],
        keep=[f"name:{node_name}" for node_name in names if not chosen[node_name] and draw.random() < 0.7],
    )
    assert not errors_of(result)
    require_alike(before, to_proto(result.model), within=0.05)


@pytest.mark.parametrize("name", TEXTS)
def test_inputs_and_outputs_change_where_asked(name: str) -> None:
    before = model(name)
    after = to_proto(convert(before, to="float16", keep_io_types=False).model)
    onnx.checker.check_model(after, full_check=True)
    session(after)
    weights = {tensor.name for tensor in before.graph.initializer}
    olds, news = (*before.graph.input, *before.graph.output), (*after.graph.input, *after.graph.output)
    for old, new in zip(olds, news, strict=True):
        assert new.name == old.name
        if old.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and old.name not in weights:
            assert new.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("name", "to"),
    sampled("other precisions", product(TEXTS, ["bfloat16", "float"]), 0, cover=lambda case: case[:1]),
)
def test_other_precisions_stay_valid(name: str, to: str) -> None:
    before = model(name)
    try:
        result = convert(before, to=to)
    except OptionError as refused:
        assert "already in" in str(refused) or "bfloat16" in str(refused)  # noqa: PT017
        return
    assert not errors_of(result)
    after = to_proto(result.model)
    onnx.checker.check_model(after, full_check=True)
    if to == "float":
        require_alike(before, after)


def test_names_of_nodes_and_values_stay() -> None:
    before = model("chain")
    after = convert(before, to="float16").model
    names = {node.name for node in after.graph}
    assert names > {node.name for node in before.graph.node}
    assert {"w"} == set(after.graph.initializers)
    assert after.graph.initializers["w"].dtype == onnx_ir.DataType.FLOAT16


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float"])
@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_the_pass_alone_tells_exactly_what_it_did(seed: int, to: str) -> None:
    scoped = from_proto(scoped_model(seed, ir_version=(8, 3)[seed % 4 == 0]))
    before = to_proto(scoped)
    try:
        result = ConvertPrecision(to)(scoped)
    except OptionError as refused:
        assert "bfloat16" in str(refused)  # noqa: PT017
        return
    after = to_proto(result.model)
    assert result.modified == (after != before) == bool(result.records.rewrites)
    onnx.checker.check_model(after, full_check=True)


def test_a_lone_node_is_not_converted_between_two_casts() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4,4] x) => (float[4,4] y) { a = Reciprocal (x) b = Relu (a) y = Reciprocal (b) }"""
    before = onnx.parser.parse_model(text)
    result = convert(before, to="float16")
    assert to_proto(result.model) == to_proto(from_proto(before))
    assert "cost more than" in result.precisions["b"][1]
    asked = convert(before, to="float16", lower="Relu")
    assert [node.op_type for node in asked.model.graph] == ["Reciprocal", "Cast", "Relu", "Cast", "Reciprocal"]


def test_mask_values_become_the_lowest_number() -> None:
    result = convert(model("mask"), to="float16")
    masks = [record for record in result.rewrites if record.rule == "mask-constant"]
    assert len(masks) == 2
    assert all("-65504" in record.reason for record in masks)


def test_mask_values_that_a_loop_of_no_turns_gives_are_lowered() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,4] x, int64 n, bool c) => (float[4,4] y)
    <float[4,4] low = {LOW}, float[4,4] w = {WEIGHTS}> {
      m = MatMul (x, w) r = Loop (n, c, low) <body = b (int64 i, bool k, float[4,4] s) => (bool g, float[4,4] t)
        { g = Identity (k) t = Abs (x) }>
      a = Add (m, r) y = MatMul (a, w) }"""
    text = text.replace("LOW", ", ".join(["-1e9"] * 16)).replace("WEIGHTS", ", ".join(["0.5"] * 16))
    result = convert(onnx.parser.parse_model(text), to="float16", keep="Loop")
    lowered = result.model.graph.initializers["low"].const_value
    assert result.precisions["a"][0] == onnx_ir.DataType.FLOAT16
    assert lowered is not None
    assert lowered.numpy().min() == -65504


@pytest.mark.parametrize(("name", "node"), [("epsilon", "Add"), ("large constant", "Mul")])
def test_a_constant_that_does_not_fit_keeps_its_node_in_float(name: str, node: str) -> None:
    result = convert(model(name), to="float16")
    (precision,) = [value for key, value in result.precisions.items() if key.startswith(f"{node}_")]
    assert precision[0] == onnx_ir.DataType.FLOAT
    assert "1 of 1 elements" in precision[1]


def test_integers_that_the_precision_skips_stay_in_float() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64[4] i, float[4,4] x) => (float[4,4] y, int64[4] z) <float k = {0.5}, float[4,4] w = {WEIGHTS}> {
      f = Cast <to = 1> (i) a = Mul (f, k) b = Add (a, k) c = Floor (b) z = Cast <to = 7> (c)
      m = MatMul (x, w) y = Add (m, c)
    }""".replace("WEIGHTS", ", ".join(["0.5"] * 16))
    result = convert(onnx.parser.parse_model(text), to="float16")
    kept = [name for name, (dtype, _) in result.precisions.items() if dtype == onnx_ir.DataType.FLOAT]
    assert {"f", "a", "b", "c"} <= set(kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to": "int8"}, "cannot be converted to int8; expected one of float16, bfloat16, float"),
        ({"to": "float"}, "already in float"),
        ({"to": "bfloat16", "target": "onnxruntime-directml"}, "onnxruntime-directml has no bfloat16"),
        ({"to": "bfloat16", "target": "onnxruntime-android"}, "onnxruntime-android has no arithmetic in bfloat16"),
        ({"to": "float16", "keep": "nothing*"}, "`keep=` 'nothing*' matches no node"),
        ({"to": "float16", "lower": "op:Nothing"}, "`lower=` 'op:Nothing' matches no node"),
        ({"to": "float16", "keep": "op:Matmul"}, "`keep=` 'op:Matmul' matches no node; did you mean 'MatMul'"),
        ({"to": "float16", "keep": "Relu_2"}, "`keep=` 'Relu_2' matches no node; did you mean 'Relu_1'"),
        ({"to": "float16", "io": "yy"}, "'yy', which is not an input or output; did you mean 'y'?"),
        ({"to": "float16", "inputs": {"q": np.ones(1)}}, "the inputs are for 'q'; expected x"),
        ({"to": "float16", "inputs": [{}]}, "the inputs of set 1 lack 'x'"),
        ({"to": "float16", "keep_io_types": ["q"]}, "'q', which is not an input or output"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        convert(model("chain"), **options)
    assert message in str(refused.value)
    assert str(refused.value).count(". ") == 0


def test_an_opset_without_the_precision_is_refused_with_the_way_out() -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 12, "own": 1]> g (float[n] x) => (float[n] y) { y = own.f (x) }'
        ' <domain: "own", opset_import: ["": 12]> f (a) => (b) { b = Relu (a) }'
    )
    with pytest.raises(OptionError) as refused:
        convert(onnx.parser.parse_model(text), to="bfloat16")
    assert str(refused.value) == (
        "the model cannot be converted to bfloat16: Cast of opset 12 does not support bfloat16 "
        "(opset 13 allows it); onnx.version_converter raises it."
    )
    assert convert(onnx.parser.parse_model(text.replace("12", "13")), to="bfloat16").precisions
    text = '<ir_version: 7, opset_import: ["": 9]> g (float[1, 2] x) => (float[1, 2] y) { y, m = Dropout (x) }'
    with pytest.raises(OptionError) as refused:
        convert(onnx.parser.parse_model(text), to="bfloat16")
    assert str(refused.value) == (
        "bfloat16 needs opset 13, and Dropout has a mask as its second output; export the model at opset 13."
    )


def test_patterns_name_nodes_operators_and_modules() -> None:
    before = model("chain")
    for node, scope in zip(before.graph.node, ("enc/layer.0", "enc/layer.1", "dec"), strict=True):
        node.name = f"/{scope}/{node.op_type}"
    for pattern, kept in (
        ("enc.layer.0", 1),
        ("enc", 2),
        ("op:Relu", 1),
        ("*", 3),
        ("/dec/*", 1),
        ("path:enc.layer.*", 2),
    ):
        precisions = convert(before, to="float16", keep=pattern, lower="name:*").precisions
        assert sum(reason == f"as requested by {pattern}" for _, reason in precisions.values()) == kept


def test_weights_are_rounded_once_by_the_codec() -> None:
    before = model("chain")
    after = convert(before, to="float16").model
    expected = cast(onnx.numpy_helper.to_array(before.graph.initializer[0]), "float16")
    weight = after.graph.initializers["w"].const_value
    assert weight is not None
    assert weight.numpy().tobytes() == expected.tobytes()


def test_a_subgraph_of_an_unknown_operator_is_left_alone() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]>
    g (float[4,4] x) => (float[4,4] y) <float[4,4] w = {WEIGHTS}> {
      m = MatMul (x, w)
      s = com.acme.Search <body = b (float[4,4] e) => (float[4,4] logits) { k = MatMul (e, w) logits = Add (k, m) }> (m)
      y = MatMul (s, w)
    }""".replace("WEIGHTS", ", ".join(["0.5"] * 16))
    before = onnx.parser.parse_model(text)
    before.graph.value_info.append(onnx.helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [4, 4]))
    after = to_proto(convert(before, to="float16").model)
    (old,) = (node for node in before.graph.node if node.op_type == "Search")
    (new,) = (node for node in after.graph.node if node.op_type == "Search")
    inside = new.attribute[0].g
    assert [value.name for value in inside.output] == ["logits"]
    assert [node.op_type for node in inside.node] == [node.op_type for node in old.attribute[0].g.node]
    types = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    assert types[inside.node[0].input[1]] == onnx.TensorProto.FLOAT


def test_a_model_without_the_standard_is_left_and_casts_import_it() -> None:
    text = """<ir_version: 8, opset_import: ["ai.onnx.ml" : 3]>
    g (float[4,4] x) => (float[4,4] y) { y = ai.onnx.ml.Scaler <offset = [0.5], scale = [2.0]> (x) }"""
    before = onnx.parser.parse_model(text)
    assert to_proto(convert(before, to="float16").model) == to_proto(from_proto(before))
    after = to_proto(convert(before, to="float16", keep_io_types=False).model)
    onnx.checker.check_model(after, full_check=True)
    assert session(after).get_inputs()[0].type == "tensor(float16)"


def classifier(opset: int) -> onnx.ModelProto:
    """A classifier as scikit-learn and LightGBM are exported: trees, then a sequence of maps."""
    tree: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_values": [0.3, 0.0, 0.0],
        "class_treeids": [0, 0],
        "class_nodeids": [1, 2],
        "class_ids": [0, 1],
        "class_weights": [1.0, 1.0],
        "classlabels_int64s": [0, 1],
        "post_transform": "NONE",
    }
    node, trees = onnx.helper.make_node, "ai.onnx.ml"
    nodes = [
        node("Add", ["x", "x"], ["twice"]),
        node("TreeEnsembleClassifier", ["twice"], ["label", "share"], domain=trees, **tree),
        node("ZipMap", ["share"], ["maps"], domain=trees, classlabels_int64s=[0, 1]),
    ]
    kind, value = onnx.TensorProto, onnx.helper.make_tensor_value_info
    maps = onnx.helper.make_map_type_proto(kind.INT64, onnx.helper.make_tensor_type_proto(kind.FLOAT, []))
    outputs = [
        value("label", kind.INT64, [None]),
        onnx.helper.make_value_info("maps", onnx.helper.make_sequence_type_proto(maps)),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", kind.FLOAT, [None, 1])], outputs)
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(trees, 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("target", [None, "tensorrt-11", "onnxruntime-cpu"])
@pytest.mark.parametrize("keep_io_types", [True, False])
def test_an_ensemble_of_trees_and_its_maps_stay_valid(opset: int, target: str | None, keep_io_types: bool) -> None:
    before = classifier(opset)
    after = to_proto(convert(before, to="float16", target=target, keep_io_types=keep_io_types).model)
    onnx.checker.check_model(after, full_check=True)
    assert after.graph.output == before.graph.output
    x = np.array([[0.1], [0.2], [0.5]], np.float32)
    wanted: Any = session(before).run(None, {"x": x})
    runs = session(after)
    outputs: Any = runs.run(None, {"x": x.astype(_NUMPY[runs.get_inputs()[0].type])})
    assert np.array_equal(outputs[0], wanted[0])
    assert outputs[1] == wanted[1]


@pytest.mark.parametrize("opset", sampled("opsets to convert", range(1, onnx.defs.onnx_opset_version() + 1), 28))
def test_every_opset_stays_valid(opset: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[4,4] x) => (float[4,4] y, float[4,4] z) <float[4,4] w = {{{", ".join(["0.5"] * 16)}}}> {{
      a = MatMul (x, w) b = Exp (a) c = Relu (a) y = MatMul (b, w) z = Transpose (c)
    }}"""
    before = onnx.parser.parse_model(text)
    after = to_proto(convert(before, to="float16", target="tensorrt-10").model)
    onnx.checker.check_model(after, full_check=True)
    assert [node.op_type for node in after.graph.node].count("Cast") == 5


@pytest.mark.parametrize("to", ["float16", "float"])
def test_a_model_left_mixed_is_repaired_and_keeps_its_interface(to: str) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float16[4,4] x, float[4,4] z) => (float16[4,4] y, float[4,4] q) <float[4] w = {1, 2, 3, 0.1},
      float e = {1e-12}> {
      a = Add (x, w) b = Add (a, e) y = Relu (b) c = MatMul (z, x) q = Relu (c)
    }"""
    before = onnx.parser.parse_model(text)
    result = convert(before, to=to)
    after = to_proto(result.model)
    onnx.checker.check_model(after, full_check=True)
    assert not errors_of(result)
    assert list(after.graph.input) == list(before.graph.input)
    assert list(after.graph.output) == list(before.graph.output)
    session(after)


ONE = {"float16": "15360", "bfloat16": "16256"}
"""The codes of 1, by which ONNX text states 16-bit floats."""


@pytest.mark.parametrize(("source", "to"), [("bfloat16", "float16"), ("float16", "bfloat16")])
def test_between_the_16_bit_types_sensitive_nodes_become_float(source: str, to: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g ({source}[4,4] x) => ({source}[4,4] y)
    <{source}[4,4] w = {{{", ".join([ONE[source]] * 16)}}}, int64 axis = {{0}}> {{
      a = MatMul (x, w) s = CumSum (a, axis) y = MatMul (s, w)
    }}"""
    result = convert(onnx.parser.parse_model(text), to=to)
    after = to_proto(result.model)
    onnx.checker.check_model(after, full_check=True)
    assert {name: dtype.name.lower() for name, (dtype, _) in result.precisions.items()} == {
        "a": to,
        "s": "float",
        "y": to,
    }
    assert after.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DataType.Value(source.upper())
    assert after.graph.initializer[0].data_type == onnx.TensorProto.DataType.Value(to.upper())


def test_a_target_without_double_gets_what_stays_wide_in_float() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (double[4,4] x, float[4,4] z) => (float[4,4] y) <double[4,4] w = {WEIGHTS}> {
      a = MatMul (x, w) e = Exp (a) n = MatMul (e, w) f = Cast <to = 1> (n) y = Add (f, z)
    }""".replace("WEIGHTS", ", ".join(["0.1"] * 16))
    result = convert(onnx.parser.parse_model(text), to="float16", target="tensorrt-11")
    assert result.precisions["e"] == (onnx_ir.DataType.FLOAT, "tensorrt-11 has no double")
    assert result.precisions["a"][0] == onnx_ir.DataType.FLOAT16
    weight = result.model.graph.initializers["w"].const_value
    assert weight is not None
    assert weight.numpy().tobytes() == cast(np.full((4, 4), 0.1), "float16").tobytes()
    (finding,) = result.diagnostics
    assert (finding.code, finding.severity.value) == ("target-lacks-type", "warning")
    assert "tensorrt-11 has no double, which the value x has" in finding.message


@pytest.mark.usefixtures("untried")
def test_the_rules_of_tensorrt_11_hold_after_a_conversion() -> None:
    """Its data refuses sequences, unsigned quantization and operators of ONNX Runtime, and takes everything else."""
    unsupported = ("Sequence", "Optional", "quantized", "old weights", "contrib")
    for name in sampled("models for TensorRT 11", TEXTS, 90):
        result = convert(model(name), to="float16", target="tensorrt-11")
        left = [finding for finding in check(result.model, target="tensorrt-11") if finding.severity.value == "error"]
        assert not left or any(each.lower() in name.lower() for each in unsupported), (name, left)
        assert {each.message for each in left} <= {each.message for each in result.diagnostics}


def test_what_is_proven_to_fit_needs_no_data() -> None:
    """A range of an input bounds what follows: Exp is converted, and what may exceed the precision is said."""
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[2,4] x) => (float[2,1] y) <float[4,1] v = {1, 1, 1, 1}, float[1,1] w = {9}>
        { m = MatMul (x, v) e = Exp (m) y = MatMul (e, w) }""")
    precisions = convert(proto, to="float16", ranges={"x": (-0.25, 0.25)}).precisions
    reasons = {name: (onnx_ir.DataType(dtype).name, why) for name, (dtype, why) in precisions.items()}
    assert {dtype for dtype, _ in reasons.values()} == {"FLOAT16"}
    assert all("proven to fit" in why for _, why in reasons.values())
    assert onnx_ir.DataType.FLOAT in {dtype for dtype, _ in convert(proto, to="float16").precisions.values()}
    precisions = convert(proto, to="float16", ranges={"x": (-1, 2.5)}).precisions
    assert any("may reach 198" in why for _, why in precisions.values())


@pytest.mark.parametrize("seed", sampled("random models to convert", range(11000, 11032), 32))
def test_a_random_model_is_converted_right(seed: int) -> None:
    """Valid, strongly typed, loaded, with the interface and near the values of before."""
    verdict = judged(seed)
    if verdict.startswith("skipped"):
        pytest.skip(verdict)
    assert not verdict


@pytest.mark.parametrize(
    ("integer", "before", "to", "converted"),
    [
        ("int64", "bfloat16", "float", True),  # float holds what bfloat16 does of an int64, and more
        ("int64", "bfloat16", "float16", False),  # 1e6 is finite in bfloat16
        ("int64", "float", "bfloat16", False),
        ("int64", "float16", "float", True),
        ("uint8", "float", "bfloat16", True),
    ],
)
def test_a_cast_of_integers_gets_a_type_that_holds_as_much_of_them(
    integer: str, before: str, to: str, converted: bool
) -> None:
    number = onnx.TensorProto.DataType.Value
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g ({integer}[4] n, {before}[4] x) => ({before}[4] y) {{
      a = Cast <to = {number(before.upper())}> (n) b = Mul (a, x) y = Exp (b)
    }}"""
    after = to_proto(convert(onnx.parser.parse_model(text), to=to).model)
    onnx.checker.check_model(after, full_check=True)
    (cast_of_integers,) = (node for node in after.graph.node if list(node.input) == ["n"])
    assert (cast_of_integers.attribute[0].i == number(to.upper())) is converted


def test_a_sequence_that_enters_a_subgraph_of_an_unknown_operator_stays() -> None:
    """Its members are of a type that could be converted, but nothing says where they come from."""
    text = """<ir_version: 10, opset_import: ["": 21, "com.acme": 1]> g (float[4,4] x) => (float[4,4] y) {
      r = Relu (x)
      y = com.acme.Search <body = b (seq(float[4,4]) p) => (float[4,4] q) <int64 i = {0}> { q = SequenceAt (p, i) }> (r)
    }"""
    result = convert(onnx.parser.parse_model(text), to="float16")
    assert result.precisions["q"][1] == "it is in a subgraph of an operator whose rules are unknown"
