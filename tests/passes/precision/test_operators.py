"""Operators that keep a type of their own in another precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnx_ir
import pytest

from castsmith import convert
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.io.protos import to_proto
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.operators import SENSITIVE, SENSITIVE_CONTRIB, sensitive_reason, stash_attribute
from tests.passes.precision.judged import session
from tests.sampling import check_all


def asked(text: str, opset: int) -> tuple[onnx_ir.Node, Sizes]:
    """The last node of the text, and the sizes of its operands."""
    imports = f'"": {opset}, "com.microsoft": 1, "com.acme": 1, "local": 1'
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(
            f"<ir_version: 10, opset_import: [{imports}]> g (float[1,4,15,17] x, float[2,128] w, float[N,4] v, float u,"
            f" int64[1] k) => (y) <int64[2] i = {{1, -1}}, int64[0] e = {{}}, int64[1] m = {{-2}}> {{ {text} }}"
        )
    )
    inference = Session(model).inference(PromotionRules(promote_unsafe=True))
    return list(model.graph)[-1], Sizes(Shapes(model, inference), 64, {})


MEANS: list[tuple[str, int, bool]] = [
    # a mean or a sum, the opset, and if it adds up 256 elements or more, or perhaps so many
    ("GlobalAveragePool (x)", 13, False),  # 255
    ('ReduceMean ("")', 13, True),  # of nothing that is known
    ("GlobalAveragePool (w)", 13, False),  # of no axes
    ("ReduceMean (x)", 13, True),
    ("ReduceMean (w)", 13, True),  # 256
    ("ReduceMean (u)", 13, False),
    ("ReduceMean (v)", 13, True),  # N may be anything
    ("ReduceMean <axes = [0]> (w)", 13, False),
    ("ReduceMean <axes = [1]> (w)", 13, False),
    ("ReduceMean <axes = [0, 1]> (w)", 13, True),
    ("ReduceMean <axes = [2, 3]> (x)", 13, False),
    ("ReduceMean <axes = [1, -1, 2]> (x)", 13, True),
    ("ReduceMean <axes = [1]> (v)", 13, False),
    ("ReduceMean <axes = [0]> (v)", 13, True),
    ("ReduceMean <axes = [-4]> (x)", 13, False),
    ("ReduceMean <axes = [-5]> (x)", 13, True),  # there is no such axis
    ("ReduceMean <axes = [4]> (x)", 13, True),
    ("ReduceMean (x, i)", 18, False),  # 4 times 17
    ("ReduceMean (w, m)", 18, False),
    ("ReduceMean (w, k)", 18, True),  # any axis
    ("ReduceMean (w, e)", 18, True),  # of no axes: all
    ("ReduceMean <noop_with_empty_axes = 1> (w, e)", 18, False),  # of no axes: none
    ("ReduceMean (w)", 18, True),
    ("ReduceSum (x, i)", 13, False),
    ("ReduceSum (w)", 13, True),
    ("ReduceSum <axes = [1]> (w)", 11, False),
]


def require_mean(text: str, opset: int, is_long: bool) -> None:
    node, sizes = asked(f"y = {text}", opset)
    assert bool(sensitive_reason(node, opset, sizes)) == is_long


def test_a_sum_is_sensitive_if_it_may_be_long() -> None:
    check_all(require_mean, MEANS)
    for axes, is_long in (([1], False), ([0, 1], True)):  # as exporters write them
        node, sizes = asked(f"c = Constant <value_ints = {axes}> () y = ReduceMean (w, c)", 18)
        assert bool(sensitive_reason(node, 18, sizes)) == is_long
    parameter = '<domain: "local", opset_import: ["": 13]> f <a> (p) => (q) { q = ReduceMean <axes: ints = @a> (p) }'
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 13, "local": 1]> g (float[2,2] x) => (y)'
            f" {{ y = local.f <a = [0]> (x) }} {parameter}"
        )
    )
    (node,) = next(iter(model.functions.values()))
    sizes = Sizes(Shapes(model, Session(model).inference(PromotionRules())), 64, {})
    assert sensitive_reason(node, 13, sizes)


INSIDE: list[tuple[str, int, str | None]] = [
    ("LayerNormalization (w, v)", 17, "stash_type"),
    ("LayerNormalization <stash_type = 1> (w, v)", 17, "stash_type"),
    ("LayerNormalization <stash_type = 10> (w, v)", 17, None),
    ("LayerNormalization <stash_type = 0> (w, v)", 17, "stash_type"),
    ("RMSNormalization (w, v)", 23, "stash_type"),
    ("GroupNormalization <num_groups = 1> (w, v, v)", 20, None),
    ("GroupNormalization <num_groups = 1> (w, v, v)", 21, "stash_type"),
    ("Attention (x, x, x)", 23, "softmax_precision"),
    ("Attention <softmax_precision = 1> (x, x, x)", 23, "softmax_precision"),
    ("Attention <softmax_precision = 10> (x, x, x)", 23, None),
    ("com.acme.LayerNormalization (w, v)", 17, None),
    ("Softmax (w)", 17, None),
]


def require_inside(text: str, opset: int, attribute: str | None) -> None:
    node, sizes = asked(f"y = {text}", opset)
    assert stash_attribute(node, opset) == attribute
    if node.domain == "":
        stays = attribute is None and node.op_type != "Attention"  # which has no reason of its own
        assert bool(sensitive_reason(node, opset, sizes)) == stays


def test_what_computes_in_float_inside_by_an_attribute() -> None:
    check_all(require_inside, INSIDE)


def test_operators_have_their_reasons_in_their_domains_alone() -> None:
    normal = "BatchNormalization{} (x, k, k, k, k)"
    for text, reason in (
        *((f"y = {name} (x, x)", why) for name, why in SENSITIVE.items() if stash_free(name)),
        *((f"y = com.microsoft.{name} (x, x)", why) for name, why in SENSITIVE_CONTRIB.items()),
        ("y = com.microsoft.Exp (x)", ""),
        ("y = com.acme.Range (x)", ""),
        ("y = com.acme.Softmax (x)", ""),
        ("y = Relu (x)", ""),
        (f"y = {normal.format('')}", ""),
        (f"y, a, b = {normal.format(' <training_mode = 1>')}", SENSITIVE["LRN"]),
        (f"y = {normal.format(' <training_mode = 1>')}", SENSITIVE["LRN"]),
        (f"y, a, b = {normal.format('')}", SENSITIVE["LRN"]),
    ):
        node, sizes = asked(text, 15)
        assert sensitive_reason(node, 15, sizes) == reason, text


def stash_free(name: str) -> bool:
    return name not in ("LayerNormalization", "RMSNormalization", "ReduceSum")


@pytest.mark.parametrize("opset", [19, 21, 23, 25])
def test_the_result_of_dequantize_linear_follows_its_scale(opset: int) -> None:
    """From opset 23 on its type is a variable of its own, and the scale's without the attribute output_dtype."""
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (uint8[4,4] q, float[4,4] x) => (float[4,4] d, float[4,4] y) <float s = {{0.5}}, uint8 z = {{128}}> {{
      d = DequantizeLinear (q, s, z) e = MatMul (d, x) y = Exp (d)
    }}"""
    before = onnx.parser.parse_model(text)
    wide: dict[str, Any] = {"lower": "*"}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("float16", {}),
        ("bfloat16", wide),
        ("bfloat16", {**wide, "io": "convert"}),
    ]
    for to, options in cases:
        if to == "bfloat16" and opset < 23:
            continue
        after = to_proto(convert(before, to=to, **options).model)
        onnx.checker.check_model(after, full_check=True)
        node = next(each for each in after.graph.node if each.op_type == "DequantizeLinear")
        scale = next(tensor for tensor in after.graph.initializer if tensor.name == node.input[1])
        types = {port.name: port.type.tensor_type.elem_type for port in (*after.graph.output, *after.graph.value_info)}
        assert types.get(node.output[0], scale.data_type) == scale.data_type
        assert to == "float16" or scale.data_type == onnx.TensorProto.BFLOAT16


@pytest.mark.parametrize("target", [None, "onnxruntime-cpu", "openvino-cpu", "tensorrt-11"])
def test_quantized_operators_take_scales_in_the_precision(target: str | None) -> None:
    """The kernels of QuantizeLinear and its inverse are known by the type of the codes."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2,4] x) => (float[2,4] y)
    <float s = {0.5}, int8 z = {0}, int8[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}> {
      q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) b = DequantizeLinear (w, s, z) y = MatMul (a, b)
    }"""
    result = convert(onnx.parser.parse_model(text), to="float16", target=target)
    types = {name: dtype.name for name, (dtype, _) in result.precisions.items()}
    assert types.items() >= {"a": "FLOAT16", "b": "FLOAT16", "y": "FLOAT16"}.items()
    assert not result.diagnostics
    after = to_proto(result.model)
    assert sum(node.op_type == "Cast" for node in after.graph.node) == (1 if types["q"] == "FLOAT" else 2)
    x = np.linspace(-4, 4, 8, dtype=np.float32).reshape(2, 4)
    expected, found = (session(each).run(None, {"x": x})[0] for each in (onnx.parser.parse_model(text), after))
    np.testing.assert_array_equal(expected, found)  # all numbers are exact in float16
