"""bfloat16 and float16 where a target lacks their operators, or the types: in ONNX Runtime, against exact rounding."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith import check
from castsmith.ir.io.loading import load
from castsmith.ir.records import Effect, RewriteResult
from castsmith.ir.walks import all_values
from castsmith.lowering.casts import LowerCasts
from castsmith.lowering.encodings.ladder import round_in_place
from castsmith.lowering.formats import NarrowPolicy
from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.widen.run import WidenFloats
from castsmith.lowering.widen.storage import effect_in_float
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import ELEMENT_TYPES, type_name
from castsmith.passes.core.options import Interface
from castsmith.targets.target import Target, load_target
from tests.lowering.encodings import patterns
from tests.lowering.encodings.test_choose import SOURCES
from tests.lowering.float8.test_lower import model_of
from tests.lowering.runtime import LEVELS, Array, run, sequence_model, session
from tests.lowering.widen.in_float import evaluated
from tests.sampling import sampled

MODEL = Path(__file__).with_name("bfloat16_transformer.onnx")
"""Made by models/build_bfloat16.py."""
CPU = load_target("onnxruntime-cpu")
BF16, F16 = DataType.BFLOAT16, DataType.FLOAT16
WITHOUT = {dtype: replace(CPU, name="old", lacks=CPU.lacks | {dtype}) for dtype in (BF16, F16)}
SIGNED = [dtype for dtype, row in ELEMENT_TYPES.items() if 4 <= row.bits <= 16 and row.exponent_bits and row.signed]


@pytest.mark.parametrize(
    ("to", "setting"),
    sampled(
        "types and settings to round in place",
        itertools.product(SIGNED, [(True, 19), (True, 24), (False, 24)]),
        12,
        cover=enumerate,
    ),
)
def test_rounding_in_place(to: DataType, setting: tuple[bool, int]):
    saturate, opset = setting
    policy = NarrowPolicy(saturate, opset)
    around = [patterns.float32_around(to, 20), patterns.float64_around(to)] if to.bitwidth == 8 else []
    for values in (*SOURCES[:2], *around):
        source = DataType.from_numpy(values.dtype)
        codes = cast(values, to, saturate=saturate, opset=28 if to.bitwidth < 8 else opset)
        expected = np.where(np.isnan(values), values, cast(codes, source))
        for doubles, level in itertools.product({False, source == DataType.DOUBLE}, LEVELS):
            model = sequence_model(lambda b, x: round_in_place(b, x, to, policy), source, 24, doubles=doubles)
            (got,) = run(session(model, level), {"x": values})
            bits = f"u{values.itemsize}"
            same = (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
            assert same.all(), values[~same][:5]


def widened_outputs(
    model: onnx_ir.Model, target: Target = CPU, emit_functions: bool = False, /, **feeds: Array
) -> list[Array]:
    widen = WidenFloats(target, emit_functions=emit_functions)
    result = widen(model)
    assert isinstance(result, RewriteResult)
    assert not result.records.diagnostics
    assert not widen(model).modified
    LegalizeVersion(CPU)(model)
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    outputs = [run(session(proto, level), feeds) for level in LEVELS]
    assert [array.tobytes() for array in outputs[0]] == [array.tobytes() for array in outputs[1]]
    return outputs[0]


def operands(dtype: DataType) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    a = cast(rng.normal(0, 30, 40_000).astype(np.float32), dtype)
    b = cast((rng.normal(0, 1, 40_000) * 2.0 ** rng.integers(-9, 9, 40_000)).astype(np.float32), dtype)
    return a, b


EXACT = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}


@pytest.mark.parametrize("op", EXACT)
def test_one_operation_of_bfloat16_is_rounded_once(op: str):
    a, b = operands(BF16)
    (y,) = widened_outputs(
        model_of(f"agraph (bfloat16[N] a, bfloat16[N] b) => (bfloat16[N] y) {{ y = {op} (a, b) }}"), a=a, b=b
    )
    exact = EXACT[op](a.astype(np.float64), b.astype(np.float64))
    assert y.tobytes() == cast(exact, BF16).tobytes()


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("op", EXACT)
def test_a_type_that_is_lacking_is_kept_in_float(dtype: DataType, op: str):
    body = f"""agraph (float[N] a, {type_name(dtype)}[N] b) => (float[N] y, {type_name(dtype)}[N] z) {{
        c = Cast <to = {int(dtype)}> (a) d = {op} (c, b) e = Mul (d, w) z = Neg (e) y = Cast <to = 1> (z) }}"""
    a, b = operands(dtype)
    weight = cast(np.float32(1.7), dtype)
    model = model_of(body, 19, w=weight)
    y, z = widened_outputs(model, WITHOUT[dtype], a=a.astype(np.float32) * np.float32(1.001), b=b.astype(np.float32))
    assert not [value for value in all_values(model) if value.dtype == dtype]
    first = cast(a.astype(np.float32) * np.float32(1.001), dtype).astype(np.float64)
    second = cast(EXACT[op](first, b.astype(np.float64)), dtype).astype(np.float64)
    expected = -cast(second * weight.astype(np.float64), dtype).astype(np.float32)
    assert y.tobytes() == z.tobytes() == expected.tobytes()


def test_moves_and_casts_stay_as_they_are():
    body = """agraph (float[N,2] x) => (bfloat16[M,N] y) { c = Cast <to = 16> (x) y = Transpose (c) }"""
    assert not WidenFloats(CPU)(model_of(body)).modified


def test_matmul_and_softmax_are_computed_in_float():
    body = """agraph (bfloat16[4,8] a, bfloat16[8,3] b) => (bfloat16[4,3] y) { c = MatMul (a, b) y = Softmax (c) }"""
    a, b = (
        cast(np.random.default_rng(n).integers(-8, 8, s).astype(np.float32), BF16)
        for n, s in ((0, (4, 8)), (1, (8, 3)))
    )
    (y,) = widened_outputs(model_of(body), a=a, b=b)
    c = cast(a.astype(np.float32) @ b.astype(np.float32), BF16)
    (e,) = evaluated(model_of("agraph (bfloat16[4,3] c) => (bfloat16[4,3] y) { y = Softmax (c) }"), {"c": c})
    assert y.tobytes() == e.tobytes()


def test_what_stands_in_the_way_is_named():
    body = "agraph (string[N] x) => (float16[N] y) { y = Cast <to = 10> (x) }"
    result = WidenFloats(WITHOUT[F16])(model_of(body))
    assert isinstance(result, RewriteResult)
    assert not result.modified
    assert [diagnostic.code for diagnostic in result.records.diagnostics] == ["type-not-in-target"]


def test_inputs_that_become_floats_are_said_to():
    body = "agraph (float16[N] x) => (float16[N] y) { y = Identity (x) }"
    result = WidenFloats(WITHOUT[F16])(model_of(body))
    assert isinstance(result, RewriteResult)
    assert [rewrite.effect for rewrite in result.records.rewrites] == [Effect.INTERFACE, Effect.INTERFACE]


@pytest.mark.parametrize(
    ("target", "interface"),
    sampled(
        "targets of a transformer in bfloat16",
        itertools.product(["onnxruntime-cpu", "onnxruntime-android", "old", "old, with functions"], ["stored", "wide"]),
        4,
        cover=enumerate,
    ),
)
def test_a_transformer_exported_in_bfloat16(target: str, interface: Interface):
    """Each operator's result is rounded to bfloat16, whatever the target has of the type, as are the outputs."""
    ids = np.array([[3, 1, 15, 0, 7, 7, 2], [9, 4, 4, 11, 12, 13, 14]])
    old, emit = target.startswith("old"), target.endswith("functions")
    chosen = WITHOUT[BF16] if old else load_target(target)
    result = optimize(MODEL, target=chosen, interface=interface, emit_functions=emit)
    assert not result.diagnostics
    assert [name for _, name, _ in result.model.functions] == ["round_to_bfloat16"] * emit
    assert not emit or len(result.model.graph) < 2 * len(load(MODEL).graph)
    proto = onnx_ir.to_proto(result.model)
    onnx.checker.check_model(proto, full_check=True)
    expected = evaluated(load(MODEL), {"ids": ids})
    wide = interface == "wide" or old
    for level in LEVELS:
        outputs = run(session(proto, level), {"ids": ids})
        for got, wanted in zip(outputs, expected, strict=True):
            assert got.tobytes() == (wanted.astype(np.float32) if wide else wanted).tobytes()


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("source", [DataType.DOUBLE, DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64])
def test_casts_round_once(dtype: DataType, lacking: bool, source: DataType):
    body = f"""agraph ({type_name(source)}[N] x) => (float[N] y) {{ c = Cast <to = {int(dtype)}> (x)
        y = Cast <to = 1> (c) }}"""
    x = patterns.float64_around(dtype) if source == DataType.DOUBLE else patterns.integers_around(source, dtype)
    model = model_of(body)
    if not lacking:
        LowerCasts(CPU)(model)
        assert not LowerCasts(CPU)(model).modified
    (y,) = widened_outputs(model, WITHOUT[dtype] if lacking else CPU, x=x)
    with np.errstate(over="ignore"):
        expected = cast(cast(x, dtype), DataType.FLOAT)
    nan = np.isnan(expected)
    assert np.array_equal(nan, np.isnan(y))
    assert y[~nan].tobytes() == expected[~nan].tobytes()


def test_integers_that_fit_in_float_are_left_to_the_target():
    body = """agraph (float[N] x) => (bfloat16[1] y) { n = Shape (x) m = Clip (n, low, high)
        y = Cast <to = 16> (m) }"""
    model = model_of(body, low=np.array(0), high=np.array(4096))
    assert not LowerCasts(CPU)(model).modified


QUANTIZED = """agraph (bfloat16[3,N] x, bfloat16[3] s) => ({to}[3,N] q, bfloat16[3,N] y) {{
    q = QuantizeLinear <axis = 0> (x, s, z) y = DequantizeLinear <axis = 0> (q, s, z) }}"""


@pytest.mark.parametrize("to", [DataType.INT8, DataType.UINT8, DataType.INT16])
@pytest.mark.parametrize("lacking", [False, True])
@pytest.mark.parametrize("zero", [0, 5])
def test_quantization_divides_in_bfloat16(to: DataType, lacking: bool, zero: int):
    rng = np.random.default_rng(0)
    x = cast(rng.normal(0, 40, (3, 3000)).astype(np.float32), BF16)
    scale = cast(np.array([0.3, 1.0, 0.0725], np.float32), BF16)
    model = model_of(QUANTIZED.format(to=type_name(to)), 23, z=np.full(3, zero, to.numpy()))
    feeds = {"x": x, "s": scale}
    if lacking:
        feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    q, y = widened_outputs(model, WITHOUT[BF16] if lacking else CPU, **feeds)
    by = scale.astype(np.float32)[:, None]
    quotient = cast(x.astype(np.float32) / by, BF16).astype(np.float32)
    info = np.iinfo(to.numpy())
    codes = np.clip(np.rint(quotient) + zero, info.min, info.max).astype(to.numpy())
    assert np.array_equal(q, codes)
    expected = cast((codes.astype(np.float32) - zero) * by, BF16)
    assert y.astype(np.float32).tobytes() == expected.astype(np.float32).tobytes()


@pytest.mark.parametrize("lacking", [False, True])
def test_every_result_is_rounded(lacking: bool):
    """LayerNormalization gives the mean in float by stash_type; TopK gives indices; Dropout a mask."""
    body = """agraph (bfloat16[4,8] x, bfloat16[8] s) =>
        (bfloat16[4,8] y, bfloat16[4,2] top, int64[4,2] at, float[4] m) {
        n, mean = LayerNormalization (x, s) y, mask = Dropout (n) k = Constant <value = int64[1] {2}> ()
        top, at = TopK (y, k) m = Squeeze (mean, axis) }"""
    x = cast(np.random.default_rng(0).normal(0, 3, (4, 8)).astype(np.float32), BF16)
    scale = cast(np.linspace(0.7, 1.3, 8, dtype=np.float32), BF16)
    feeds = {"x": x, "s": scale}
    expected = evaluated(model_of(body, axis=np.array([1])), feeds)
    if lacking:
        feeds = {name: array.astype(np.float32) for name, array in feeds.items()}
    got = widened_outputs(model_of(body, axis=np.array([1])), WITHOUT[BF16] if lacking else CPU, **feeds)
    for mine, wanted in zip(got, expected, strict=True):
        assert np.array_equal(mine.astype(np.float64), wanted.astype(np.float64))


FUNCTION = """<domain: "local", opset_import: ["" : 19]> f (a) => (b) { c = Add (a, a) b = Mul (c, a) }"""


@pytest.mark.parametrize("lacking", [False, True])
def test_functions_called_with_several_types(lacking: bool):
    body = """agraph (float[N] x, bfloat16[N] h) => (float[N] y, bfloat16[N] z, float[N] v) {
        y = local.f (x) z = local.f (h) v = local.f (x) }"""
    x = np.random.default_rng(0).normal(0, 3, 300).astype(np.float32)
    h = cast(x, BF16)
    fed = h.astype(np.float32) if lacking else h
    y, z, v = widened_outputs(model_of(body, 19, FUNCTION), WITHOUT[BF16] if lacking else CPU, x=x, h=fed)
    assert y.tobytes() == v.tobytes() == ((x + x) * x).tobytes()
    twice = cast(h.astype(np.float64) * 2, BF16).astype(np.float64)
    assert z.astype(np.float32).tobytes() == cast(twice * h.astype(np.float64), BF16).astype(np.float32).tobytes()


@pytest.mark.parametrize(("lacking", "emit"), [(False, False), (True, False), (True, True)])
def test_in_functions_branches_and_loops(lacking: bool, emit: bool):
    body = """agraph (bfloat16[4] h, bool p, int64 n) => (bfloat16[4] y, bfloat16[K,4] all) {
        g = local.f (h)
        b = If (p) <then_branch = yes () => (bfloat16[4] t) { t = Mul (g, h) },
                    else_branch = no () => (bfloat16[4] e) { e = Sub (g, h) }>
        y, all = Loop (n, , b) <body = turn (int64 i, bool go, bfloat16[4] s) =>
            (bool more, bfloat16[4] next, bfloat16[4] seen)
            { more = Identity (go) next = Add (s, h) seen = Mul (s, h) }>
    }"""
    h = cast(np.array([0.3, -1.7, 5.1, 0.01], np.float32), BF16)
    wide = h.astype(np.float64)
    fed = h.astype(np.float32) if lacking else h

    def rounded(array: Array) -> Array:
        return cast(array, BF16).astype(np.float64)

    for p in (True, False):
        y, seen = widened_outputs(
            model_of(body, 19, FUNCTION), WITHOUT[BF16] if lacking else CPU, emit, h=fed, p=np.array(p), n=np.array(3)
        )
        g = rounded(rounded(wide + wide) * wide)
        s, expected = rounded(g * wide if p else g - wide), list[Array]()
        for _ in range(3):
            expected.append(rounded(s * wide))
            s = rounded(s + wide)
        assert np.array_equal(y.astype(np.float64), s)
        assert np.array_equal(seen.astype(np.float64), np.array(expected))


def test_tensors_in_attributes():
    body = """agraph (bfloat16[3,3] x) => (bfloat16[3,3] y) {
        c = ConstantOfShape <value = bfloat16[1] {16257}> (k) e = Constant <value = bfloat16[1] {16258}> ()
        s = Add (c, e) y = Mul (s, x) }"""
    x = cast(np.linspace(-3, 3, 9, dtype=np.float32).reshape(3, 3), BF16)
    expected = evaluated(model_of(body, 22, k=np.array([3, 3])), {"x": x})
    (y,) = widened_outputs(model_of(body, 22, k=np.array([3, 3])), WITHOUT[BF16], x=x.astype(np.float32))
    assert y.tobytes() == expected[0].astype(np.float32).tobytes()


def test_transpose_cast_matmul_does_not_crash():
    """ONNX Runtime 1.32.0 ends the process when it loads the model as it is."""
    body = """agraph (int8[2,3,4] x, float[4,5] w) => (float[3,2,5] y) {
        t = Transpose <perm = [1, 0, 2]> (x) c = Cast <to = 1> (t) y = MatMul (c, w) }"""
    x, w = np.arange(24, dtype=np.int8).reshape(2, 3, 4), np.ones((4, 5), np.float32)
    (y,) = widened_outputs(model_of(body), x=x, w=w)
    assert np.array_equal(y, x.transpose(1, 0, 2) @ w)


@pytest.mark.parametrize("lacks", [frozenset[DataType](), frozenset({BF16})])
def test_the_record_claims_no_more_than_is_so(lacks: frozenset[DataType]):
    """Div is one rounding by definition; for Softmax the standard leaves the last bit to the implementation."""
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (bfloat16[2,2] x) => (bfloat16[2,2] y) { a = Div (x, x) y = Softmax (a) }"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    records = WidenFloats(replace(CPU, lacks=CPU.lacks | lacks))(model).records
    found = {rewrite.site.op: rewrite.effect for rewrite in records.rewrites if rewrite.site.op}
    assert found == {"Div": Effect.BIT_EXACT, "Softmax": Effect.IN_WIDER_TYPE}


@pytest.mark.parametrize(
    ("node", "effect"),
    [
        ("PRelu (x, w)", Effect.BIT_EXACT),  # a product of two numbers of the type
        (
            "LeakyRelu <alpha = 0.1> (x)",
            Effect.IN_WIDER_TYPE,
        ),  # alpha has more digits, and its product is rounded twice
        ("Sum (x, w, x)", Effect.IN_WIDER_TYPE),
        ("Mean (x, w)", Effect.IN_WIDER_TYPE),
        ("ScatterElements (x, i, w)", Effect.BIT_EXACT),
        ('ScatterElements <reduction = "max"> (x, i, w)', Effect.BIT_EXACT),
        ('ScatterElements <reduction = "add"> (x, i, w)', Effect.IN_WIDER_TYPE),
    ],
)
def test_the_effect_of_a_computation_in_float(node: str, effect: Effect):
    text = f"""<ir_version: 10, opset_import: ["": 21]>
        g (bfloat16[2,2] x, bfloat16[2,2] w, int64[2,2] i) => (bfloat16[2,2] y) {{ y = {node} }}"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    assert effect_in_float(model.graph[0]) is effect


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_small_quotients_and_products_are_rounded_once(dtype: DataType):
    """By way of float, at and below the smallest normal numbers, where a second rounding would show."""
    bits = ELEMENT_TYPES[dtype].precision
    ulp = float(ELEMENT_TYPES[dtype].quantum)
    a, b = np.arange(2 ** (bits - 1), 2**bits, 8 * bits // 11 + 1)[:, None], np.arange(1, 2**bits)
    for values in (a / b, (a * b).astype(np.float64)):
        for shift in range(-2 * bits - 3, bits + 3):
            exact = values * ulp * 2.0**shift
            once, twice = cast(exact, dtype), cast(exact.astype(np.float32), dtype)
            np.testing.assert_array_equal(once.view(np.uint16), twice.view(np.uint16))


def test_a_reverse_sequence_is_of_tensors_whatever_its_name_says():
    """ONNX Runtime has no kernel of it for bfloat16, so it is computed in float."""
    text = "agraph (bfloat16[2,2] x) => (bfloat16[2,2] y) <int64[2] n = {1, 2}> { y = ReverseSequence (x, n) }"
    result = optimize(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'), target=CPU.name)
    assert [node.op_type for node in result.model.graph] == ["Cast", "ReverseSequence", "Cast"]
    session(onnx_ir.to_proto(result.model))


@pytest.mark.parametrize(
    ("op_type", "indices", "reduction", "fails"),
    [
        ("ScatterElements", "2", "none", False),
        ("ScatterElements", "2", "max", False),
        ("ScatterElements", "2", "add", True),
        ("ScatterND", "2,1", "none", False),
        ("ScatterND", "2,1", "max", True),
    ],
)
def test_a_scatter_that_fails_when_it_runs_is_found_and_computed_in_float(
    op_type: str, indices: str, reduction: str, fails: bool
) -> None:
    made = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float16[3] x, int64[{indices}] i, float16[2] u) => (float16[3] y) {{
            y = {op_type} <reduction = "{reduction}"> (x, i, u) }}""")
    found = [each.message for each in check(made, target=CPU)]
    assert found == ([f"onnxruntime-cpu runs no {op_type} of float16 with a reduction"] if fails else [])
    result = optimize(made, target=CPU)
    assert [rewrite.rule for rewrite in result.rewrites] == (["widen"] if fails else [])
    shape = [int(size) for size in indices.split(",")]
    feeds = {
        "x": np.array([1, 2, 3], np.float16),
        "i": np.array([0, 2]).reshape(shape),
        "u": np.array([4, 1], np.float16),
    }
    (y,) = run(session(result.proto, LEVELS[-1]), feeds)
    assert y.tolist() == {"none": [4, 2, 1], "max": [4, 2, 3], "add": [5, 2, 4]}[reduction]


def test_a_quantizer_of_a_newer_opset_is_written_out_only_where_it_has_blocks() -> None:
    target = replace(CPU, newest_opset=20)
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (int8[4] y)'
    constants = "<float s = {0.5}, int8 z = {1}, float[2] t = {0.5, 1}, int8[2] o = {1, 2}>"
    for body, made in (("(x, s, z)", []), ("<axis = 0, block_size = 2> (x, t, o)", ["widen"])):
        model = onnx_ir.from_onnx_text(f"{text} {constants} {{ y = QuantizeLinear {body} }}")
        assert [each.rule for each in rewritten(WidenFloats(target)(model)).records.rewrites] == made


def rewritten(result: object) -> RewriteResult:
    assert isinstance(result, RewriteResult)
    return result
