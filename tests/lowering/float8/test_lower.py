"""LowerFloat8 on whole models, run in ONNX Runtime against the codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx_ir import DataType
from onnxruntime.capi import onnxruntime_pybind11_state  # pyright: ignore[reportAttributeAccessIssue]

from castsmith.ir.records import Effect, RewriteResult
from castsmith.ir.walks import all_values
from castsmith.lowering.float8.lower import LowerFloat8
from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import OptionError
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import FLOAT8_TYPES
from castsmith.targets.target import load_target
from tests.lowering.runtime import LEVELS, Array, run, session

ANDROID, CPU = load_target("onnxruntime-android"), load_target("onnxruntime-cpu")
E4M3, E5M2, FNUZ = DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2, DataType.FLOAT8E4M3FNUZ
X = np.array([0.0, -0.0, 1.0, -1.1, 17.3, 448.0, 464.0, 465.0, 490.0, 1e9, -np.inf, 2.0**-10, 3 * 2.0**-10], np.float32)


def model_of(body: str, opset: int = 19, more: str = "", **weights: Array) -> onnx_ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]>\n{body}\n{more}'
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    for name, array in weights.items():
        tensor = onnx_ir.tensor(array, name=name)
        for value in {v for node in model.graph.all_nodes() for v in node.inputs if v is not None and v.name == name}:
            value.const_value, value.type = tensor, onnx_ir.TensorType(tensor.dtype)
            value.shape = onnx_ir.Shape(array.shape)
            model.graph.register_initializer(value)
    return model


def lower(model: onnx_ir.Model, target: Any = ANDROID, **options: Any) -> RewriteResult:
    result = LowerFloat8(target, **options)(model)
    assert isinstance(result, RewriteResult)
    return result


def lowered_outputs(model: onnx_ir.Model, target: Any = ANDROID, always: bool = False, **feeds: Array) -> list[Array]:
    """Lower, check that no codes are left and that the checker and a second run agree, run at both levels."""
    result = lower(model, target, always=always)
    assert not result.records.diagnostics
    assert not [value for value in all_values(model) if value.dtype in FLOAT8_TYPES]
    assert not lower(model, target).modified
    LegalizeVersion(target)(model)
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    outputs = [run(session(proto, level), feeds) for level in LEVELS]
    for first, second in zip(*outputs, strict=True):
        assert first.tobytes() == second.tobytes()
    return outputs[0]


def codes(array: Array, to: DataType, **options: Any) -> Array:
    return cast(array, to, **options).view(np.uint8)


@pytest.mark.parametrize("opset", [19, 23, 24, 26, 28])
@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("to", FLOAT8_TYPES)
def test_a_cast_there_and_back(opset: int, saturate: int, to: DataType):
    model = model_of(
        f"""agraph (float[N] x) => ({to.name.lower()}[N] c, float[N] y) {{
        c = Cast <to = {int(to)}, saturate = {saturate}> (x)
        y = Cast <to = 1> (c) }}""",
        opset,
    )
    c, y = lowered_outputs(model, x=X)
    expected = cast(X, to, saturate=bool(saturate), opset=opset)
    assert c.tolist() == expected.view(np.uint8).tolist()
    assert y.tobytes() == cast(expected, DataType.FLOAT).tobytes()


def test_names_and_records():
    model = model_of("agraph (float[N] x) => (float8e4m3fn[N] c) { c = Cast <to = 17> (x) }")
    result = lower(model)
    assert [value.name for value in (*model.graph.inputs, *model.graph.outputs)] == ["x", "c"]
    assert model.graph.outputs[0].dtype == DataType.UINT8
    assert model.opset_imports[""] == 26
    rules = [(rewrite.rule, rewrite.effect) for rewrite in result.records.rewrites]
    exact = Effect.BIT_EXACT
    assert rules == [("store-as-codes", Effect.INTERFACE), ("lower-Cast", exact), ("opset", exact)]
    assert result.records.rewrites[1].before.startswith("c = Cast <to = float8e4m3fn> (x)")
    assert "BitCast" in result.records.rewrites[1].after


def test_a_ladder_says_what_becomes_of_nan_and_keeps_the_opset():
    model = model_of("agraph (float[N] x) => (float8e4m3fn[N] c) { c = Cast <to = 17> (x) }")
    result = lower(model, sequence="ladder")
    assert model.opset_imports[""] == 19
    assert result.records.rewrites[1].effect is Effect.BIT_EXACT_BUT_NAN
    (c,) = run(session(onnx_ir.to_proto(model)), {"x": X})
    assert c.tolist() == codes(X, E4M3).tolist()


def test_a_table_is_one_for_each_type_and_serves_all_casts():
    body = """agraph (float[N] x, float16[N] h) => (float8e4m3fn[N] c, float8e4m3fn[N] d) {
        c = Cast <to = 17> (x) d = Cast <to = 17> (h) }"""
    model = model_of(body, 24)
    lower(model, sequence="table")
    large = [value for value in model.graph.initializers.values() if value.shape and value.shape[0] == 2**14]
    assert len(large) == 1
    c, d = run(session(onnx_ir.to_proto(model)), {"x": X, "h": cast(X, DataType.FLOAT16)})
    assert c.tolist() == codes(X, E4M3).tolist()
    assert d.tolist() == codes(cast(X, DataType.FLOAT16), E4M3).tolist()


@pytest.mark.parametrize(
    ("target", "opset", "has", "lacks"),
    [
        ("onnxruntime-android", 19, {"BitCast", "GatherElements"}, {"Log", "Gather"}),
        ("onnxruntime-cpu", 14, {"BitCast", "GatherElements"}, {"Log", "Gather"}),
        ("onnxruntime-cpu", 13, {"BitCast", "Gather"}, {"Log", "GatherElements"}),
        ("openvino-cpu", 19, {"Log", "Gather"}, {"BitCast", "GatherElements"}),
        ("tensorrt-10", 19, {"Log", "Gather"}, {"BitCast", "GatherElements"}),
    ],
)
def test_the_target_decides_the_sequence(target: str, opset: int, has: set[str], lacks: set[str]):
    body = """agraph (float[N,M] x) => (float8e5m2fnuz[N,M] c, float16[N,M] y) {
        c = Cast <to = 20> (x) y = Cast <to = 10> (c) }"""
    model = model_of(body, opset)
    lower(model, load_target(target))
    operators = {node.op_type for node in model.graph}
    assert has <= operators
    assert not lacks & operators


def test_a_node_that_cannot_move_up_leaves_arithmetic():
    body = """agraph (float[1,1,4] x) => (float8e4m3fn[1,1,M] c) {
        p = MaxPool <kernel_shape = [2], ceil_mode = 1> (x) c = Cast <to = 17> (p) }"""
    model = model_of(body, 20)
    lower(model)
    assert model.opset_imports[""] == 20
    assert "Log" in {node.op_type for node in model.graph}
    with pytest.raises(OptionError, match=r"encoding 'bitcast' is impossible: .*MaxPool.*right padding"):
        lower(model_of(body, 20), sequence="bitcast")


@pytest.mark.parametrize("source", ["double", "float16", "bfloat16", "int64", "uint64", "int32", "int8", "bool"])
def test_every_source_there_and_back(source: str):
    dtype = DataType[source.upper()]
    x = np.arange(-3, 700).astype(np.int64).astype(dtype.numpy())
    body = f"""agraph ({source}[N] x) => ({source}[N] y) {{
        c = Cast <to = {int(E5M2)}> (x) d = CastLike (c, x) y = Identity (d) }}"""
    (y,) = lowered_outputs(model_of(body, 19), x=x)
    assert y.tobytes() == cast(cast(x, E5M2), dtype).tobytes()


def test_between_float8_types_keeps_the_opsets_own_rule_for_infinity():
    body = """agraph (float[N] x) => (float[N] y) {
        c = Cast <to = 19> (x) d = Cast <to = 18> (c) y = Cast <to = 1> (d) }"""
    infinities = np.array([np.inf, -np.inf, 1.0], np.float32)
    for opset in (19, 24):
        model = model_of(body.replace("to = 19", "to = 19, saturate = 0"), opset)
        (y,) = lowered_outputs(model, x=infinities)
        middle = cast(infinities, E5M2, saturate=False)
        assert y.tobytes() == cast(cast(middle, FNUZ, opset=opset), DataType.FLOAT).tobytes()


def test_weights_are_the_same_bytes_and_shared_tables_are_one():
    weight = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    model = model_of(
        """agraph (float[N] x) => (float[256] y, float[256] z) {
        y = Cast <to = 1> (w) z = Cast <to = 1> (w) }""",
        w=weight,
    )
    before = model.graph.initializers["w"].const_value
    assert before is not None
    lower(model)
    after = model.graph.initializers["w"].const_value
    assert after is not None
    assert np.shares_memory(after.numpy(), before.numpy())
    assert len(model.graph.initializers) == 2


def test_an_external_weight_stays_where_it_is(tmp_path: Path):
    (tmp_path / "w.bin").write_bytes(bytes(range(64)))
    tensor = onnx_ir.ExternalTensor("w.bin", 16, 8, E4M3, shape=onnx_ir.Shape([8]), name="w", base_dir=tmp_path)
    model = model_of("agraph (float[8] x) => (float[8] y) { v = Cast <to = 1> (w) y = Add (v, x) }", w=X[:1])
    value = model.graph.initializers["w"]
    value.const_value, value.type, value.shape = tensor, onnx_ir.TensorType(E4M3), onnx_ir.Shape([8])
    lower(model)
    codes_tensor = model.graph.initializers["w"].const_value
    assert isinstance(codes_tensor, onnx_ir.ExternalTensor)
    assert (codes_tensor.dtype, codes_tensor.offset, codes_tensor.location) == (DataType.UINT8, 16, "w.bin")
    assert codes_tensor.numpy().tolist() == list(range(16, 24))


def test_moves_act_on_codes():
    body = """agraph (float[2,3] x, bool[2,3] m, int64[1] i) => (float[A,B] y, int64[2] s) {
        c = Cast <to = 17> (x)
        minus = Constant <value = float8e4m3fn[1] {192}> ()
        t = Transpose <perm = [1, 0]> (c)
        u = Transpose (t)
        w = Where (m, u, minus)
        g = Gather <axis = 0> (w, i)
        k = Concat <axis = 0> (w, g)
        p = Constant <value = int64[4] {0, 1, 0, 0}> ()
        q = Pad (k, p)
        fill = ConstantOfShape <value = float8e4m3fn[1] {60}> (i)
        e = Expand (fill, i)
        s = Shape (q)
        y = Cast <to = 1> (q) }"""
    x = np.array([[1.0, -0.0, 3.3], [500.0, -7.0, 0.1]], np.float32)
    mask = np.array([[True, True, False], [True, False, True]])
    model = model_of(body, 21)
    y, s = lowered_outputs(model, x=x, m=mask, i=np.array([1]))
    w = np.where(mask, cast(x, E4M3).astype(np.float32), np.float32(-2))
    expected = np.pad(np.concatenate([w, w[1:]]), ((0, 0), (1, 0)))
    assert y.tobytes() == expected.tobytes()
    assert s.tolist() == [3, 4]


def test_subgraphs_and_functions():
    body = """agraph (bool b, float[N] x) => (float[N] y) {
        c = Cast <to = 17> (x)
        d = If (b) <then_branch = t () => (float8e4m3fn[N] p) { p = local.back (c) },
                    else_branch = e () => (float8e4m3fn[N] q) { h = Cast <to = 1> (c) q = CastLike (h, c) }>
        n = Constant <value = int64 {3}> ()
        yes = Constant <value = bool {1}> ()
        f, z = Loop (n, yes, d) <body = l (int64 k, bool g, float8e4m3fn[N] v) => (
                bool o, float8e4m3fn[N] r, float8e4m3fn[N] scan) {
                o = Identity (g) r = Identity (v) scan = Identity (v) }>
        y = Cast <to = 1> (f) }"""
    function = """<domain: "local", opset_import: ["" : 19]> back (u) => (v) {
        a = Cast <to = 1> (u) v = Cast <to = 17> (a) }"""
    for chosen in (True, False):
        (y,) = lowered_outputs(model_of(body, 19, function), b=np.array(chosen), x=X)
        assert y.tobytes() == cast(cast(X, E4M3), DataType.FLOAT).tobytes()


@pytest.mark.parametrize("precision", ["float", "float16", "bfloat16"])
def test_quantize_rounds_the_quotient_to_its_precision_first(precision: str):
    dtype = DataType[precision.upper()]
    rng = np.random.default_rng(0)
    x = cast(rng.normal(0, 30, 20_000).astype(np.float32), dtype)
    scale = cast(np.float32(0.37), dtype)
    body = f"""agraph ({precision}[N] x, {precision} s) => (float8e4m3fn[N] q) {{ q = QuantizeLinear (x, s, z) }}"""
    (q,) = lowered_outputs(model_of(body, 19, z=np.zeros((), ml_dtypes.float8_e4m3fn)), x=x, s=scale)
    exact = x.astype(np.float64) / scale.astype(np.float64)
    assert q.tolist() == codes(cast(exact, dtype), E4M3).tolist()


@pytest.mark.parametrize("gives", ["float", "float16", "bfloat16"])
def test_dequantize_multiplies_in_the_type_of_its_output(gives: str):
    dtype = DataType[gives.upper()]
    x = np.arange(256, dtype=np.uint8)
    scale = cast(np.float32(0.0377), dtype)
    body = f"agraph (float8e5m2[N] x, {gives} s) => ({gives}[N] y) {{ y = DequantizeLinear (x, s) }}"
    (y,) = lowered_outputs(model_of(body, 19), x=x, s=scale)
    with np.errstate(all="ignore"):
        exact = x.view(ml_dtypes.float8_e5m2).astype(np.float64) * scale.astype(np.float64)
    expected = cast(exact, dtype)
    numbers = ~np.isnan(exact)
    assert y[numbers].tobytes() == expected[numbers].tobytes()
    assert np.isnan(y[~numbers].astype(np.float32)).all()


def test_per_axis_and_blocked():
    x = np.random.default_rng(1).normal(0, 5, (2, 6, 3)).astype(np.float32)
    per_axis = np.array([0.5, 0.3, 0.7, 1.1, 0.9, 2.3], np.float32)
    blocked = np.random.default_rng(2).uniform(0.1, 2, (2, 2, 3)).astype(np.float32)
    body = """agraph (float[2,6,3] x, float[6] s, float[2,2,3] t) => (float[2,6,3] a, float[2,6,3] b) {
        q = QuantizeLinear <axis = 1, output_dtype = 17> (x, s)
        a = DequantizeLinear <axis = -2> (q, s)
        r = QuantizeLinear <axis = 1, block_size = 3, output_dtype = 17, saturate = 0> (x, t)
        b = DequantizeLinear <axis = 1, block_size = 3> (r, t) }"""
    a, b = lowered_outputs(model_of(body, 21), x=x, s=per_axis, t=blocked)
    for got, scale in ((a, per_axis[:, None]), (b, np.repeat(blocked, 3, axis=1))):
        expected = cast(x / scale, E4M3, saturate=got is a).astype(np.float32) * scale
        assert got.tobytes() == expected.tobytes()


FUSED = {
    "Relu": "e = Relu (d)",
    "Sigmoid": "e = Sigmoid (d)",
    "MatMul": "e = MatMul (d, d)",
    "Add": "e = Add (d, d)",
}


@pytest.mark.parametrize("middle", FUSED)
def test_quantized_graphs_that_onnxruntime_fuses_wrongly(middle: str):
    body = f"""agraph (float[2,2] x) => (float[2,2] y) {{
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) {FUSED[middle]}
        r = QuantizeLinear (e, s, z) y = DequantizeLinear (r, s, z) }}"""
    x = np.array([[-2.0, -0.5], [0.5, 2.0]], np.float32)

    def model() -> onnx_ir.Model:
        return model_of(body, 21, s=np.array(0.5, np.float32), z=np.zeros((), ml_dtypes.float8_e4m3fn))

    native = onnx_ir.to_proto(model())
    (right,) = run(session(native, LEVELS[0]), {"x": x})
    if onnxruntime.__version__.startswith("1.31."):  # 1.32 fuses them no longer
        assert _fused(native, x) != right.tolist()
    (y,) = lowered_outputs(model(), CPU, x=x)
    assert y.tolist() == right.tolist()


def _fused(native: onnx.ModelProto, x: Array) -> list[float] | None:
    """Return the result of the default optimization level for the model; None if it cannot be loaded."""
    try:
        return run(session(native, LEVELS[1]), {"x": x})[0].tolist()
    except (onnxruntime_pybind11_state.InvalidGraph, onnxruntime_pybind11_state.NotImplemented):
        return None


def test_nan_and_infinity_tests():
    body = """agraph (float8e5m2[N] x) => (bool[N] n, bool[N] i, bool[N] b) {
        n = IsNaN (x) i = IsInf <detect_negative = 0> (x) b = Cast <to = 9> (x) }"""
    x = np.arange(256, dtype=np.uint8)
    n, i, b = lowered_outputs(model_of(body, 20), x=x)
    values = x.view(ml_dtypes.float8_e5m2).astype(np.float32)
    assert n.tolist() == np.isnan(values).tolist()
    assert i.tolist() == (values == np.inf).tolist()
    assert b.tolist() == (values != 0).tolist()


def test_a_cast_to_the_same_type_and_values_used_twice():
    body = """agraph (float[N] x, float8e4m3fn[N] i) => (float8e4m3fn[N] i, float8e4m3fn[N] d, float[N] y) {
        c = Cast <to = 17> (x) d = Cast <to = 17> (c) e = CastLike (d, x) f = Cast <to = 20> (e) y = Cast <to = 1> (f)
        unused = Cast <to = 18> (d) }"""
    model = model_of(body, 21)
    i, d, y = lowered_outputs(model, x=X, i=np.arange(13, dtype=np.uint8))
    assert i.tolist() == list(range(13))
    assert d.tolist() == codes(X, E4M3).tolist()
    assert y.tobytes() == cast(cast(cast(X, E4M3), DataType.FLOAT8E5M2FNUZ, opset=21), DataType.FLOAT).tobytes()


def test_a_function_whose_argument_is_the_type():
    body = "agraph (float[N] x) => (float[N] y) { c = local.f <t = 17> (x) y = local.g (c) }"
    functions = """<domain: "local", opset_import: ["" : 21]> f <t> (u) => (v) { v = Cast <to : int = @t> (u) }
        <domain: "local", opset_import: ["" : 21]> g (u) => (v) { v = Cast <to = 1> (u) }"""
    (y,) = lowered_outputs(model_of(body, 21, functions), x=X)
    assert y.tobytes() == cast(cast(X, E4M3), DataType.FLOAT).tobytes()


def test_other_types_that_the_target_lacks_are_named():
    model = model_of("agraph (complex64[N] x) => (complex64[N] y) { y = Identity (x) }", 24)
    (diagnostic,) = lower(model).records.diagnostics
    assert diagnostic.code == "type-not-in-target"
    assert "x is complex64" in diagnostic.message


REFUSED = [
    ("agraph (float8e4m3fn[4] x) => (seq(float8e4m3fn[1]) y) { y = SplitToSequence (x) }",
     "must be cast to float16 first"),
    ("agraph (float8e4m3fn[N] x) => (float8e4m3fn[N] y) { y = Relu (x) }", "Relu computes with values stored as codes"),
    ("agraph (string[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17> (x) }", "cast from string"),
    ("agraph (float8e4m3fn[N] x) => (string[N] y) { y = Cast <to = 8> (x) }", "to string"),
    ("agraph (float[N] x) => (float8e4m3fn[N] y) { c = Cast <to = 17> (x) y = Relu (c) }",
     "Relu computes with values stored as codes"),
    ("agraph (float8e4m3fn[4] x, int64[2] i, float8e4m3fn[2] u) => (float8e4m3fn[4] y)"
     "{ y = ScatterElements <axis = 0, reduction = \"add\"> (x, i, u) }", "reduction"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), REFUSED)
def test_what_cannot_be_lowered_is_named_and_the_model_stays(body: str, says: str):
    model = model_of(body, 19)
    before = onnx_ir.to_proto(model).SerializeToString()
    result = lower(model)
    assert not result.modified
    assert says in result.records.refusals[0].reason
    assert result.records.diagnostics[0].code == "float8-not-lowered"
    assert onnx_ir.to_proto(model).SerializeToString() == before
    assert {user.graph for value in all_values(model) for user, _ in value.uses()} == {model.graph}


@pytest.mark.parametrize(
    ("body", "lowers"),
    [
        ("agraph (float[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17> (x) }", False),
        ("agraph (float[N] x) => (float8e4m3fn[N] y) { y = Cast <to = 17, saturate = 0> (x) }", True),
        ("agraph (double[N] x) => (float8e5m2[N] y) { y = Cast <to = 19> (x) }", True),
        ("agraph (float8e5m2[N] x) => (bool[N] y) { y = Cast <to = 9> (x) }", True),
        ("agraph (float8e5m2[N] x, int64[M] i) => (float8e5m2[M] y) { y = Gather (x, i) }", True),
        ("agraph (float8e5m2[N] x) => (float[N] y) { y = Cast <to = 1> (x) }", False),
        ("agraph (float[N] x, float s) => (float8e5m2[N] y) { y = QuantizeLinear <output_dtype = 19> (x, s) }", True),
        ("agraph (float[N] x) => (float[N] y) { y = Relu (x) }", False),
    ],
)
def test_onnxruntime_on_a_cpu_needs_only_what_it_gets_wrong_or_lacks(body: str, lowers: bool):
    assert lower(model_of(body, 21), CPU).modified == lowers
    assert lower(model_of(body, 21), CPU, always=True).modified == (lowers or "float8" in body)


@pytest.mark.parametrize(
    ("sequence", "opset"),
    [("table", 26), ("ladder", 23), ("ladder", 19), ("bitcast", 26)],
)
@pytest.mark.parametrize("to", [E4M3, E5M2, FNUZ])
def test_codes_that_are_only_decoded_are_rounding_in_place(sequence: str, opset: int, to: DataType):
    body = f"""agraph (float[N] x, float s) => (float[N] y, float[N] z) {{
        c = Cast <to = {int(to)}> (x) y = Cast <to = 1> (c)
        q = QuantizeLinear (x, s, zero) z = DequantizeLinear (q, s, zero) }}"""
    model = model_of(body, opset, zero=np.zeros((), to.numpy()))
    lower(model, sequence=sequence)
    assert any(node.op_type == "Cast" and node.outputs[0].dtype == DataType.UINT8 for node in model.graph) == (
        sequence == "bitcast"
    )
    LegalizeVersion(ANDROID)(model)
    x, s = np.concatenate([X, [np.nan, 3.7]]).astype(np.float32), np.array(0.3, np.float32)
    for level in LEVELS:
        y, z = run(session(onnx_ir.to_proto(model), level), {"x": x, "s": s})
        expected = cast(cast(x, to, opset=opset), DataType.FLOAT)
        assert np.array_equal(y, expected, equal_nan=True)
        numbers = ~np.isnan(expected)
        assert y[numbers].tobytes() == expected[numbers].tobytes()
        quotient = cast(cast(x / s, to, opset=opset), DataType.FLOAT)
        assert np.array_equal(z, quotient * s, equal_nan=True)


def test_sequences_of_codes_wait_for_their_conversion():
    """No opset has sequences of float8: insert-promote-types makes float16 of the operands, and then all is legal."""
    body = """agraph (float[4,2] x) => (float[2] y) { c = Cast <to = 17> (x) s = SequenceConstruct (c, c)
        i = Constant <value = int64 {1}> () a = SequenceAt (s, i) k = Constant <value = int64 {2}> ()
        r = Gather <axis = 0> (a, k) y = Cast <to = 1> (r) }"""
    result = lower(model_of(body))
    assert not result.modified
    assert "run insert-promote-types" in result.records.refusals[0].reason
    done = optimize(model_of(body), target=ANDROID)
    assert not done.diagnostics
    x = X[:8].reshape(4, 2)
    (y,) = run(session(onnx_ir.to_proto(done.model)), {"x": x})
    assert y.tobytes() == cast(cast(x, E4M3), DataType.FLOAT)[2].tobytes()


def test_optional_values_of_codes():
    body = """agraph (float[4,2] x) => (float[4,2] y) { c = Cast <to = 17> (x) o = Optional (c)
        a = OptionalGetElement (o) y = Cast <to = 1> (a) }"""
    x = X[:8].reshape(4, 2)
    (y,) = lowered_outputs(model_of(body, 28), x=x)
    assert y.tobytes() == cast(cast(x, E4M3), DataType.FLOAT).tobytes()
