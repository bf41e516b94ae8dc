"""Operators of com.microsoft are converted as their schemas and the kernels of the target allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx_ir
import pytest

from castsmith import convert
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.io.protos import to_proto
from castsmith.ir.records import Severity
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.precision.ports import Aim, ports_of
from castsmith.passes.precision.run import SOURCES
from castsmith.targets.target import Target, load_target
from tests.passes.precision.judged import session
from tests.sampling import check_all

_WIDTH, _HEADS, _LENGTH = 32, 2, 4
HALF, BRAIN, FLOAT = "float16", "bfloat16", "float"
CPU = load_target("onnxruntime-cpu")

PORTS: list[tuple[str, int, str, Target | None, str]] = [
    # the last node, the opset, the precision and the target; the inputs that follow, those of any type, the results
    # and the attributes that change, and why the node cannot change
    ("Add (x, x)", 17, HALF, None, "01 | | 0 |"),
    ("Add (d, d)", 17, HALF, None, "01 | | 0 |"),
    ("Add (h, h)", 17, HALF, None, "| | |"),
    ("Add (h, h)", 17, BRAIN, None, "01 | | 0 |"),
    ("Add (i, i)", 17, HALF, None, "| | |"),
    ("Add (u, x)", 17, HALF, None, "1 | | 0 | : the type of u is unknown"),
    ("Add (x, u)", 17, HALF, None, "0 | | 0 | : the type of u is unknown"),
    ("Add (u, u)", 17, HALF, None, "| | |"),
    ("com.acme.Add (x, x)", 17, HALF, None, "| | | : the types that com.acme.Add takes are unknown"),
    ("com.acme.Cast <to = 1> (x)", 17, HALF, None, "| | | : the types that com.acme.Cast takes are unknown"),
    ("ai.onnx.Add (x, x)", 17, HALF, None, "01 | | 0 |"),
    # The operator takes the precision or not, at its opset.
    ("Relu (x)", 12, BRAIN, None, "| | | : Relu of opset 12 does not support bfloat16"),
    ("Relu (x)", 13, BRAIN, None, "0 | | 0 |"),
    ("ai.onnx.ml.Scaler <offset = [1.0], scale = [1.0]> (x)", 17, HALF, None,
     "| | | : Scaler of version 5 of ai.onnx.ml does not support float16"),
    ("Resize (x, r, s)", 18, HALF, None, "01 | | 0 |"),  # the scales are float always
    ("Resize (x, r, s)", 18, BRAIN, None, "0 | | 0 | : Resize of opset 18 does not support bfloat16"),
    ("Resize (x, , s)", 18, BRAIN, None, "0 | | 0 |"),
    ("DynamicQuantizeLinear (x)", 17, HALF, None, "| | | : DynamicQuantizeLinear of opset 17 does not support float16"),
    ("NonMaxSuppression (b, c)", 17, HALF, None, "| | | : NonMaxSuppression of opset 17 does not support float16"),
    ("Clip (x, , k)", 17, HALF, None, "02 | | 0 |"),
    ("Where (i, x, x)", 17, HALF, None, "12 | | 0 |"),
    ("BatchNormalization (x, x, u, w, x)", 17, HALF, None, "014 | | 0 | : the type of u is unknown"),
    # Results of a type variable of their own follow no operand.
    ("y, m = LayerNormalization <stash_type = 1> (x, x)", 17, HALF, None, "01 | | 0 |"),
    ("y, m = LayerNormalization (x, x)", 17, BRAIN, None, "01 | | 0 |"),
    ("y, m = LayerNormalization <stash_type = 1> (d, d)", 17, HALF, None, "01 | | 0 |"),
    ("MaxPool <kernel_shape = [1]> (x)", 17, HALF, None, "0 | | 0 |"),
    ("Less (x, x)", 17, HALF, None, "01 | | |"),
    ("Attention (q, q, q, q)", 24, HALF, None, "0123 | | 0 |"),
    ("Attention (q, q, q, t)", 24, HALF, None, "012 | | 0 |"),
    # Of the shape alone, of what a sequence holds, or of whole tensors.
    ("Shape (x)", 17, HALF, None, "| 0 | |"),
    ("Size (h)", 17, HALF, None, "| | |"),
    ("SequenceLength (z)", 17, HALF, None, "| 0 | |"),
    ("OptionalHasElement (x)", 18, HALF, None, "| 0 | |"),
    ("SequenceConstruct (x, x)", 17, HALF, None, "01 | | 0 |"),
    ("SequenceEmpty ()", 17, HALF, None, "| | 0 | dtype"),
    ("SequenceEmpty <dtype = 7> ()", 17, HALF, None, "| | |"),
    ("SequenceEmpty <dtype = 11> ()", 17, HALF, None, "| | 0 | dtype"),
    # Casts take any type.
    ("Cast <to = 1> (x)", 17, HALF, None, "| 0 | 0 | to"),
    ("Cast <to = 1> (i)", 17, HALF, None, "| 0 | 0 | to"),
    ("Cast <to = 7> (x)", 17, HALF, None, "| 0 | | to"),
    ("CastLike (i, x)", 17, HALF, None, "1 | 0 | 0 |"),
    ("CastLike (x, i)", 17, HALF, None, "| 0 | |"),
    ("CastLike (x, h)", 17, HALF, None, "| 0 | |"),
    ("Cast <to: int = @t> (x)", 17, HALF, None,
     "| 0 | | : a parameter of the enclosing function names its type"),
    # Attributes name the type, or an operand does, or nothing.
    ("EyeLike (x)", 17, HALF, None, "0 | | 0 |"),
    ("EyeLike <dtype = 1> (x)", 17, HALF, None, "0 | | 0 | dtype"),
    ("EyeLike <dtype = 11> (i)", 17, HALF, None, "| | 0 | dtype"),
    ("EyeLike <dtype = 7> (x)", 17, HALF, None, "0 | | |"),
    ("EyeLike <dtype = 1> (i)", 17, BRAIN, None, "| | | dtype"),
    ("EyeLike (x)", 17, BRAIN, None, "| | | dtype: EyeLike of opset 17 does not support bfloat16"),
    ("EyeLike (x)", 22, BRAIN, None, "0 | | 0 |"),
    ("EyeLike (i)", 17, HALF, None, "| | |"),
    ("EyeLike <dtype: int = @t> (x)", 17, HALF, None, "0 | | |"),
    ("RandomNormal <shape = [2], dtype: int = @t> ()", 17, HALF, None, "| | |"),
    ("float y = RandomNormal <shape = [2], dtype: int = @t> ()", 17, HALF, None,
     "| | | : a parameter of the enclosing function names its type"),
    ("float y = EyeLike <dtype: int = @t> (x)", 17, HALF, None,
     "0 | | 0 | : a parameter of the enclosing function names its type"),
    ("RandomNormal <shape = [2]> ()", 17, HALF, None, "| | 0 | dtype"),
    ("RandomNormal <shape = [2]> ()", 17, HALF, CPU,
     "| | 0 | dtype: onnxruntime-cpu has no RandomNormal of float16 at opset 17"),
    ("RandomNormal <shape = [2], dtype = 10> ()", 17, HALF, None, "| | |"),
    ("RandomNormal <shape = [2]> ()", 17, FLOAT, None, "| | |"),
    ("DequantizeLinear (b8, k)", 13, HALF, None,
     "| | | : DequantizeLinear of opset 13 does not support float16"),
    ("DequantizeLinear (b8, k)", 19, HALF, None, "1 | | 0 |"),
    ("DequantizeLinear (b8, k)", 25, HALF, None, "1 | | 0 |"),
    ("DequantizeLinear <output_dtype = 0> (b8, k)", 25, HALF, None, "1 | | 0 |"),
    ("DequantizeLinear <output_dtype = 1> (b8, k)", 25, HALF, None, "1 | | 0 | output_dtype"),
    ("ConstantOfShape <value = float[1] {1}> (i)", 17, HALF, None, "| | 0 |"),
    ("ConstantOfShape (i)", 17, HALF, None, "| | 0 |"),
    ("ConstantOfShape (i)", 19, BRAIN, None, "| | | : ConstantOfShape of opset 19 does not support bfloat16"),
    ("ConstantOfShape (i)", 20, BRAIN, None, "| | 0 |"),
    ("ConstantOfShape <value = int64[1] {1}> (i)", 19, BRAIN, None, "| | |"),
    # Constants in an attribute, operands of any types, and subgraphs.
    ("ai.onnx.ml.TreeEnsemble <n_targets = 1, nodes_splits = float[1] {1}> (x)", 17, HALF, None,
     "| | | : its attribute nodes_splits holds constants of the type of its operands"),
    ("ai.onnx.ml.TreeEnsemble <n_targets = 1, nodes_splits = float16[1] {1}> (x)", 17, HALF, None, "0 | | 0 |"),
    ("ai.onnx.ml.TreeEnsemble <n_targets = 1, nodes_splits: tensor = @t> (x)", 17, HALF, None, "0 | | 0 |"),
    ("y, v = ai.onnx.preview.training.Momentum <alpha = 0.5> (k, l, x, x, x)", 17, FLOAT, None, "| | |"),
    ("y, v = ai.onnx.preview.training.Momentum <alpha = 0.5> (e, l, d, d, d)", 17, FLOAT, None,
     "0 | | | : Momentum takes inputs of any types"),
    ("SequenceMap <body = m (float[2] p) => (float[2] o) { o = Relu (p) }> (z)", 17, HALF, None,
     "| | | : SequenceMap passes values to a subgraph"),
    # The kernels of the target.
    ("Relu (x)", 17, HALF, CPU, "0 | | 0 |"),
    ("Det (x)", 17, HALF, CPU, "0 | | 0 |"),
    ("Relu (x)", 17, BRAIN, CPU, "0 | | 0 | : onnxruntime-cpu has no Relu of bfloat16 at opset 17"),
    ("QuantizeLinear (x, k)", 17, HALF, CPU, "| | | : QuantizeLinear of opset 17 does not support float16"),
    ("QuantizeLinear (x, k)", 19, HALF, CPU, "01 | | |"),
    ("DequantizeLinear (b8, k)", 21, HALF, load_target("tvm"), "1 | | 0 |"),
    ("DequantizeLinear (b8, k, b0)", 21, HALF, None, "1 | | 0 |"),
    ("Mod (x, x)", 13, HALF, None, "01 | | 0 | : with fmod = 0 it is of integers, and fmod = 1 means something else"),
    ("Mod <fmod = 1> (x, x)", 13, HALF, None, "01 | | 0 |"),
    ("com.microsoft.Gelu (x)", 17, HALF, CPU, "0 | | 0 |"),
    ("com.microsoft.Gelu (x)", 17, HALF, load_target("tensorrt-11"),
     "0 | | 0 | : tensorrt-11 has no operators of com.microsoft"),
    ("ConstantOfShape (i)", 17, HALF, replace(CPU, probed=frozenset()), "| | 0 |"),
    ("ConstantOfShape (i)", 17, HALF, replace(CPU, probed=frozenset({"Relu"})),
     "| | 0 | : it is unknown whether onnxruntime-cpu has ConstantOfShape of float16"),
    ("ConstantOfShape (i)", 17, HALF, replace(CPU, probed=frozenset({"ConstantOfShape"})), "| | 0 |"),
    ("Relu (x)", 17, HALF, replace(CPU, probed=frozenset({"RandomNormal"})), "0 | | 0 |"),
]  # fmt: skip


def require_ports(text: str, opset: int, to: str, target: Target | None, expected: str) -> None:
    domains = '"ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "com.microsoft": 1, "com.acme": 1'
    imports, is_declared = f'"": {opset}, "ai.onnx": {opset}, {domains}', text.startswith("float y")
    nodes = text.removeprefix("float ") if text.startswith(("y, ", "float y")) else f"y = {text}"
    function = f'<domain: "local", opset_import: [{imports}]> f <t> (x) => (y) {{ {nodes} }}' if "@t" in text else ""
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["local": 1, {imports}]> g (float[2] x, double[2] d, float16[2] h,'
            " int64[2] i, float[4] r, float[1] s, float k, double e, int64 l, uint8[2] b8, uint8 b0, float[1,5,4] b,"
            f" float[1,2,5] c, float[1,2,2,2] q, bool[2,2] t, seq(float[2]) z) => (y) {{ u = com.acme.Thing (x)"
            f" w = com.acme.Thing (x) {'y = local.f <t = 1> (x)' if function else nodes} }} {function}"
        )
    )
    scope = next(iter(model.functions.values()), model.graph)
    if is_declared:
        list(scope)[-1].outputs[0].type = onnx_ir.TensorType(onnx_ir.DataType.FLOAT)
    types, precision = infer_element_types(model, PromotionRules(promote_unsafe=True)), onnx_ir.DataType[to.upper()]
    aim = Aim(precision, SOURCES[precision], target)
    ports = ports_of(list(scope)[-1], lambda value: value and types.type_of(value), scope.opset_imports, aim)
    sets = ("".join(map(str, sorted(group))) for group in (ports.follows, ports.anything, ports.gives))
    found = " ".join(" | ".join((*sets, ", ".join(ports.attributes))).split())
    assert f"{found}{' : ' if found.endswith('|') else ': '}{ports.why_not}".removesuffix(": ").strip() == expected


def test_the_parts_of_a_node_that_change() -> None:
    check_all(require_ports, PORTS)


def node(op_type: str, inputs: str, outputs: str, domain: str = "com.microsoft", **attributes: Any) -> onnx.NodeProto:
    names = [name.strip() for name in inputs.split(",")]
    return onnx.helper.make_node(op_type, names, outputs.split(), name=op_type, domain=domain, **attributes)


def block() -> onnx.ModelProto:
    """A transformer block of fused operators, as the optimizer of ONNX Runtime writes it."""
    draw = np.random.default_rng(0)
    weights: dict[str, Any] = {
        **{name: draw.normal(0, 0.2, (_WIDTH, _WIDTH)).astype("f4") for name in ("wq", "wo")},
        **{name: draw.normal(0, 0.2, _WIDTH).astype("f4") for name in ("gamma", "beta", "bias")},
        "packed": draw.normal(0, 0.2, (_WIDTH, 3 * _WIDTH)).astype("f4"),
        "packed_bias": draw.normal(0, 0.2, 3 * _WIDTH).astype("f4"),
        "cos": draw.normal(0, 0.5, (8, _WIDTH // _HEADS // 2)).astype("f4"),
        "sin": draw.normal(0, 0.5, (8, _WIDTH // _HEADS // 2)).astype("f4"),
        "places": np.arange(_LENGTH, dtype=np.int64).reshape(1, -1),
        "codes": draw.integers(0, 255, (_WIDTH, 1, 16)).astype(np.uint8),
        "scales": draw.uniform(0.01, 0.05, _WIDTH).astype("f4"),
        "lengths": np.array([_LENGTH - 1], np.int32),
        "total": np.array(_LENGTH, np.int32),
    }
    nodes = [
        node("SkipLayerNormalization", "x, x, gamma, beta, bias", "n"),
        node("Attention", "n, packed, packed_bias", "a", num_heads=_HEADS),
        node("FusedMatMul", "a, wq", "q", transB=1, alpha=0.5),
        node("RotaryEmbedding", "q, places, cos, sin", "r", num_heads=_HEADS),
        node("MultiHeadAttention", "r, n, a", "h", num_heads=_HEADS),
        node("GroupQueryAttention", "h, n, a, , , lengths, total", "g k v", num_heads=_HEADS, kv_num_heads=_HEADS),
        node("MatMulNBits", "g, codes, scales", "b", K=_WIDTH, N=_WIDTH, bits=4, block_size=32),
        node("BiasGelu", "b, bias", "e"),
        node("FastGelu", "e, bias", "f"),
        node("QuickGelu", "f", "u"),
        node("Gelu", "u", "l"),
        node("SkipSimplifiedLayerNormalization", "l, x, gamma", "s"),
        node("MatMul", "s, wo", "y", domain=""),
    ]
    port = [onnx.helper.make_tensor_value_info(name, 1, [1, _LENGTH, _WIDTH]) for name in ("x", "y")]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "block", port[:1], port[1:], tensors)
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(
    "options", [{}, {"lower": "*"}, {"keep": ["Attention", "GroupQueryAttention"]}, {"keep": "FusedMatMul"}]
)
def test_fused_operators_are_converted_and_run(options: dict[str, Any]) -> None:
    before = block()
    result = convert(before, to="float16", **options)
    after = to_proto(result.model)
    kept = options.get("keep", ())
    kept = {kept} if isinstance(kept, str) else set(kept)
    assert {name for name, (dtype, _) in result.precisions.items() if dtype.name == "FLOAT"} == kept
    x = np.random.default_rng(1).normal(0, 1, (1, _LENGTH, _WIDTH)).astype("f4")
    expected, found = (np.asarray(session(each).run(None, {"x": x})[0]) for each in (before, after))
    assert 0 < np.abs(expected - found).max() < 0.02 * np.abs(expected).max()


def test_scales_and_codes_of_quantized_weights() -> None:
    after = to_proto(convert(block(), to="float16").model)
    types = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    assert types["scales"] == onnx.TensorProto.FLOAT16
    assert types["codes"] == onnx.TensorProto.UINT8


def test_bfloat16_goes_by_the_kernels_of_the_target() -> None:
    cpu = load_target("onnxruntime-cpu")
    kernels = {**cpu.kernels, onnx_ir.DataType.BFLOAT16: {**cpu.kernels[onnx_ir.DataType.BFLOAT16], "Add": 13}}
    precisions = convert(block(), to="bfloat16", target=replace(cpu, kernels=kernels)).precisions
    assert (
        precisions["RotaryEmbedding"][1]
        == "onnxruntime-cpu has no com.microsoft.RotaryEmbedding of bfloat16 at opset 17"
    )
    free = convert(block(), to="bfloat16")
    assert {dtype.name for dtype, _ in free.precisions.values()} == {"BFLOAT16"}
    (note,) = free.diagnostics
    assert (note.code, note.severity) == ("target-lacks-kernel", Severity.NOTE)
    assert note.message.startswith("onnxruntime-cpu has no ")


def test_the_target_names_the_operators_with_their_domain() -> None:
    target = load_target("onnxruntime-cpu")
    assert "com.microsoft.GroupQueryAttention" in target.probed
    assert not any(name.startswith("com.microsoft.Gemma") for name in target.probed)


def test_tensorrt_has_none_of_them() -> None:
    """The product of four bits is written as a standard one first, so that it is converted."""
    result = convert(block(), to="float16", target="tensorrt-11")
    fused = {each.op_type for each in block().graph.node if each.domain} - {"MatMulNBits"}
    products = [found for name, found in result.precisions.items() if result.operators[name] == "MatMul"]
    assert {dtype for dtype, _ in products} == {onnx_ir.DataType.FLOAT16}
    kept = {
        result.operators[name]: found for name, found in result.precisions.items() if result.operators[name] in fused
    }
    reason = "tensorrt-11 has no operators of com.microsoft"
    assert {op_type for op_type, found in kept.items() if found == (onnx_ir.DataType.FLOAT, reason)} == fused
    told = [finding for finding in result.diagnostics if finding.code == "unregistered-operator"]
    assert {finding.subject for finding in told} == {
        f"tensorrt-11 has no operator {name} of com.microsoft, which needs a plugin" for name in fused
    }
    assert {each.severity for each in told} == {Severity.WARNING}
    assert not [each for each in convert(block(), to="float16").diagnostics if each.code == "unregistered-operator"]
