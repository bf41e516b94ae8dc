"""convert(weights_only=True): weights in 16 bits, nodes that compute as before, and casts that stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import numpy_helper

import castsmith
from castsmith.ir.io.loading import from_proto
from castsmith.ir.records import RewriteResult
from castsmith.ir.walks import all_nodes
from castsmith.numerics.errors import OptionError
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.rewrite_pass import RULE
from castsmith.passes.core.session import Session
from castsmith.passes.precision.run import ConvertPrecision
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("engines_here")

_TEXT = """<ir_version: {}, opset_import: ["" : 17]>
g (float[2,64] x, bool c) => (float[2,32] y, float[64,32] p) {{
    a = MatMul (x, w)
    n = Add (a, b)
    y = If (c) <then_branch = t () => (float[2,32] u) {{ u = Mul (n, v) }},
                else_branch = e () => (float[2,32] z) {{ k = Relu (n) z = Add (k, v) }}>
    p = Identity (q)
}}"""


def given(ir_version: int = 8, **others: Any) -> onnx.ModelProto:
    """A model with two large weights, one of which only subgraphs use, a small one, and one that is an output."""
    rng, model = np.random.default_rng(0), onnx.parser.parse_model(_TEXT.format(ir_version))
    arrays = {"w": rng.normal(size=(64, 32)), "b": rng.normal(size=32), "v": rng.normal(size=(2, 32)) * 3,
              "q": rng.normal(size=(64, 32)), **others}  # fmt: skip
    arrays["v"] = np.resize(arrays["v"], (2, 32)) if arrays["v"].size < 128 else arrays["v"]
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return model


def stored(model: onnx.ModelProto, name: str) -> Any:
    return onnx_ir.from_proto(next(tensor for tensor in model.graph.initializer if tensor.name == name)).numpy()


def rounded_by_hand(model: onnx.ModelProto, names: tuple[str, ...], dtype: Any) -> onnx.ModelProto:
    """The model with these weights rounded, in float."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model)
    for tensor in proto.graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(
                numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype).astype(np.float32), tensor.name)
            )
    return proto


@pytest.mark.parametrize("ir_version", [8, 10])
@pytest.mark.parametrize(("to", "dtype"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_weights_are_rounded_once_and_nodes_compute_as_before(to: str, dtype: Any, ir_version: int) -> None:
    model = given(ir_version)
    result = castsmith.convert(model, to=to, weights_only=True)
    proto = result.proto
    onnx.checker.check_model(proto, full_check=True)
    for name in ("w", "q"):
        np.testing.assert_array_equal(stored(proto, name), numpy_helper.to_array(
            next(each for each in model.graph.initializer if each.name == name)).astype(dtype))  # fmt: skip
    assert {tensor.name for tensor in proto.graph.initializer if tensor.data_type == 1} == {"b", "v"}
    assert castsmith.verify(rounded_by_hand(model, ("w", "q"), dtype), proto, allow_unreached=True).equal
    assert [rewrite.rule for rewrite in result.rewrites] == ["store-weight"] * 2
    casts = [node for node in proto.graph.node if node.op_type == "Cast"]
    assert [node.input[0] for node in casts] == ["w", "q"]
    assert {name: dtype for name, (dtype, _) in result.precisions.items()} == dict.fromkeys(
        result.precisions, onnx_ir.DataType.FLOAT
    )


@pytest.mark.parametrize("ir_version", [8, 10])
def test_nothing_folds_the_casts_again(ir_version: int, tmp_path: Path) -> None:
    """Not with any budget, and not behind a file: the mark is in it, at every version of the IR."""
    castsmith.convert(given(ir_version), to="float16", weights_only=True).save(tmp_path / "half.onnx")
    kept = onnx.load(tmp_path / "half.onnx")
    for target in (None, "onnxruntime-cpu", "openvino-cpu", "tensorrt-11"):
        again = castsmith.optimize(kept, max_growth=1 << 40, max_total_growth=1 << 40, target=target).proto
        assert {each.name: each.data_type for each in again.graph.initializer} == {"w": 10, "q": 10, "b": 1, "v": 1}
        assert sum(node.op_type == "Cast" for node in again.graph.node) == 2
    assert not castsmith.convert(kept, to="float16", weights_only=True).rewrites
    whole = castsmith.convert(kept, to="float16").proto
    assert all(tensor.data_type == 10 for tensor in whole.graph.initializer)
    for node in kept.graph.node:
        del node.metadata_props[:]
    folded = castsmith.optimize(kept, max_growth=1 << 40, max_total_growth=1 << 40).proto
    assert all(each.data_type == 1 for each in folded.graph.initializer)


def test_a_subgraph_and_a_function_and_a_constant_node() -> None:
    rows = ", ".join(["0.1"] * 256)
    text = f"""<ir_version: 10, opset_import: ["" : 21, "f" : 1]>
    g (float[256] x) => (float[256] y) {{
        k = Constant <value = float[256] {{{rows}}}> () a = Add (x, k) y = f.inner (a) }}
    <domain: "f", opset_import: ["" : 21]>
    inner (a) => (y) {{ w = Constant <value = float[256] {{{rows}}}> () y = Mul (a, w) }}"""
    model = onnx.parser.parse_model(text)
    result = castsmith.convert(model, to="float16", weights_only=True)
    assert len(result.rewrites) == 2
    onnx.checker.check_model(result.proto, full_check=True)
    by_hand = onnx.parser.parse_model(text.replace("0.1", repr(float(np.float16(0.1)))))
    assert castsmith.verify(by_hand, result.model).equal
    large = castsmith.convert(given(v=np.ones((4, 2, 32))), to="float16", weights_only=True).proto
    assert {tensor.name: tensor.data_type for tensor in large.graph.initializer} == {"w": 10, "q": 10, "b": 1, "v": 10}


def test_what_does_not_fit_stays_and_says_why() -> None:
    big = np.full((64, 32), 1e6)
    result = castsmith.convert(given(w=big), to="float16", weights_only=True)
    assert [(refusal.site.node, refusal.reason) for refusal in result.refusals] == [
        ("w", "2048 of 2048 elements of w exceed float16")
    ]
    assert result.precisions["a"][1] == "2048 of 2048 elements of w exceed float16"
    assert not castsmith.convert(given(w=big), to="bfloat16", weights_only=True).refusals
    kept = castsmith.convert(given(), to="float16", weights_only=True, keep="MatMul")
    assert [each.reason for each in kept.refusals] == ["as requested by MatMul"]
    assert stored(kept.proto, "w").dtype == np.float32


def test_scales_stay() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[2,256] x, int8[2,256] q) => (float[2,256] y, float[2,256] z) {
        y = LayerNormalization (x, s) z = DequantizeLinear <axis = 1> (q, s) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(256, np.float32) / 3, "s"))
    assert not castsmith.convert(model, to="float16", weights_only=True).rewrites


def test_a_search_keeps_the_weights_that_cost_most() -> None:
    rough = np.full((64, 32), 1 + 2.0**-12)
    error = castsmith.convert(
        given(w=rough, v=np.ones((4, 2, 32))), to="float16", weights_only=True, measure=True
    ).error
    assert error is not None
    assert error.worst > 0
    least = castsmith.convert(given(w=rough, q=np.ones((64, 32))), to="float16", weights_only=True, max_error=1e-12)
    assert least.error is not None
    assert least.error.worst == 0
    assert {tensor.name: tensor.data_type for tensor in least.proto.graph.initializer} == {
        "w": 1,
        "q": 10,
        "b": 1,
        "v": 1,
    }


_128, _127 = ("{" + ", ".join(["0.1"] * count) + "}" for count in (128, 127))
_FLOATS = "[" + ", ".join(["0.1"] * 128) + "]"
STORED: list[tuple[str, str]] = [
    # the rest of a model, and the types of the casts behind weights that are stored in 16 bits, with who reads them
    (f"=> (float[128] y) <float[128] w = {_128}> {{ y = Add (x, w) }}", "float for Add"),
    (f"=> (float[127] y) <float[127] w = {_127}> {{ y = Add (z, w) }}", ""),
    (f"=> (double[128] y) <double[128] w = {_128}> {{ y = Add (d, w) }}", "double for Add"),
    (f"=> (float16[128] y) <float16[128] w = {_128.replace('0.1', '14336')}> {{ y = Add (h, w) }}", ""),
    (f"=> (float[128] y) <float[128] w = {_128}> {{ [castsmith_w_to_float] a = Relu (x) y = Add (a, w) }}",
     "float for Add"),
    (f"=> (float[128] y) <float[128] w = {_128}> {{ y = Relu (x) }}", ""),
    (f"=> (float[128] y, float[128] w) <float[128] w = {_128}> {{ y = Add (x, w) }}", ""),
    (f"=> (float[128] y, float[128] k) {{ k = Constant <value_floats = {_FLOATS}> () y = Add (x, k) }}", ""),
    (f"=> (float[128] y) {{ k = Constant <value_floats = {_FLOATS}> () y = Add (x, k) }}", "float for Add"),
    (f"=> (float[128] y) {{ k = com.acme.Constant <value_floats = {_FLOATS}> () y = Add (x, k) }}", ""),
    (f"=> (float[128] y) <float[128] w = {_128}> {{ a = LayerNormalization (x, w) y = Add (a, w) }}", ""),
    (f"=> (float[128] y) <float[128] w = {_128}> {{ a = Relu (x) b = Add (x, w) y = Mul (b, w) }}",
     "float for Add Mul"),
    (f"=> (float[128] y) <float[128] w = {_128}> {{ a = Relu (x) y = If (c) <then_branch = t () => (float[128] p)"
     f" {{ p = Add (a, w) }}, else_branch = e () => (float[128] q) {{ q = Mul (a, w) }}> }}", "float for Add Mul"),
    (f"=> (float[128] y) {{ y = If (c) <then_branch = t () => (float[128] p) <float[128] w = {_128}>"
     f" {{ p = Add (x, w) }}, else_branch = e () => (float[128] q) {{ q = Relu (x) }}> }}", "float for Add"),
]  # fmt: skip


def require_stored(rest: str, expected: str) -> None:
    text = '<ir_version: 10, opset_import: ["": 21, "com.acme": 1]> g (float[128] x, float[127] z, double[128] d,'
    before = onnx_ir.from_proto(onnx.parser.parse_model(f"{text} float16[128] h, bool c) {rest}"))
    result = ConvertPrecision(weights_only=True)(before)
    casts = [node for node in all_nodes(result.model) if node.metadata_props.get(RULE) == "store-weight"]
    said = [
        f"{onnx_ir.DataType(node.attributes['to'].as_int()).name.lower()} for"
        f" {' '.join(user.op_type for user, _ in node.outputs[0].uses())}"
        for node in casts
    ]
    assert "".join(said) == expected
    names = [node.name for node in all_nodes(result.model) if node.name]
    assert len(set(names)) == len(names)
    assert bool(result.modified) == bool(expected)
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)


def test_which_weights_are_stored_and_who_reads_them() -> None:
    check_all(require_stored, STORED)


def test_the_record_of_a_constant_node_shows_its_elements() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[128] x) => (float[128] y) {{ {} y = Add (x, k) }}'
    for node in (f"k = Constant <value_floats = {_FLOATS}> ()", f"k = Constant <value = float[128] {_128}> ()"):
        result = ConvertPrecision(weights_only=True)(from_proto(onnx.parser.parse_model(text.format(node))))
        assert isinstance(result, RewriteResult)
        (record,) = result.records.rewrites
        assert [item.code for item in (*record.removed, *record.made)] == [
            "float[128] k = {... 128 elements ...}",
            "float16[128] k = {... 128 elements ...}",
            "k_float = Cast <to = float> (k)",
        ]
        assert (str(record.site), record.saved_bytes) == ("g: k (Constant)", 256)


def test_what_was_known_of_a_model_is_forgotten_only_if_it_changes() -> None:
    for weight, modified in ((_128, True), (_127, False)):
        size = weight.count("0.1")
        text = f"g (float[{size}] x) => (float[{size}] y) <float[{size}] w = {weight}> {{ y = Add (x, w) }}"
        session = Session(from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')))
        known = session.inference(PromotionRules())
        ConvertPrecision(weights_only=True).rewrite(session)
        assert (session.inference(PromotionRules()) is not known) == modified


def test_the_pass_alone_refuses_what_it_cannot_store() -> None:
    model = from_proto(given())
    lacks = "onnxruntime-coreml has no bfloat16; name another precision or target."
    refused: list[tuple[str, str | None, str]] = [
        ("float", None, "`weights_only` stores weights in float16 or bfloat16, not in float."),
        ("bfloat16", "onnxruntime-coreml", lacks),
    ]
    for to, target, text in refused:
        with pytest.raises(OptionError) as error:
            ConvertPrecision(to, weights_only=True, target=target)(model)
        assert str(error.value) == text
    assert ConvertPrecision(weights_only=True, target="onnxruntime-coreml")(model).modified


def test_options_that_contradict_it() -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"to": "float"}, "in float"),
        ({"to": "float16", "lower": "MatMul"}, "without `lower`"),
        ({"to": "float16", "io": "convert"}, "without `io`"),
        ({"to": "float16", "keep_io_types": False}, "without `keep_io_types`"),
        ({"to": "float16", "keep": "Nothing"}, "matches no node"),
        ({"to": "bfloat16", "target": "openvino-npu-nothing"}, "unknown target"),
    ]
    for options, text in refused:
        with pytest.raises(castsmith.CastsmithError, match=text):
            castsmith.convert(given(), weights_only=True, **options)
    old = onnx.parser.parse_model(
        '<ir_version: 4, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { y, m = Dropout (x) }'
    )
    with pytest.raises(OptionError, match="bfloat16 needs opset 13"):
        castsmith.convert(old, to="bfloat16", weights_only=True)


def test_a_node_of_several_weights_has_a_reason_to_stay_if_all_of_them_have_one() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[8,16] x) => (float[8,16] y) { y = Sum (x, p, q) }'
    large, fits = np.full((8, 16), 1e6, np.float32), np.ones((8, 16), np.float32)
    said = "128 of 128 elements of {} exceed float16"
    for first, second, why in (
        (large, fits, "its weights are float16"),
        (fits, large, "its weights are float16"),
        (large, large, said.format("q")),
        (fits, fits, "its weights are float16"),
    ):
        model = onnx.parser.parse_model(text)
        model.graph.initializer.extend(numpy_helper.from_array(a, n) for a, n in ((first, "p"), (second, "q")))
        result = castsmith.convert(model, to="float16", weights_only=True)
        assert result.precisions["y"] == (onnx_ir.DataType.FLOAT, why)
        stored = sum(array is fits for array in (first, second))
        assert [rewrite.saved_bytes for rewrite in result.rewrites] == [128 * 2] * stored
