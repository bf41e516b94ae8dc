"""Nodes that lower-float8 replaces, with the bits of the reference evaluator, beside those it refuses.

The last model that is rewritten, and the first that is not: by the nodes of inlined calls, by the opset.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import Effect, RewriteResult
from castsmith.lowering.float8.lower import LowerFloat8
from castsmith.lowering.float8.needs import reasons_to_lower
from castsmith.lowering.inlining import obstacle_to_inlining
from castsmith.numerics.errors import OptionError
from castsmith.numerics.types import CODED_TYPES
from castsmith.targets.target import Target
from tests.evaluator import evaluate
from tests.lowering.float8.test_lower import model_of
from tests.sampling import check_all

LACKS = Target("t", "", newest_opset=25, newest_ir_version=12, lacks=frozenset(CODED_TYPES))
Q, DQ = "QuantizeLinear", "DequantizeLinear"
F8 = "float8e4m3fn"
NEITHER, UNKNOWN = "the scale fits neither an axis nor blocks of the input", "the rank of the input is unknown"
DO_NOT_FIT = "do not fit the scale and the input"


def quantized(attributes: str = "", x: str = "float[2,4]", s: str = "float") -> str:
    shape = x.partition("[")[2]
    return f"g ({x} x, {s} s) => ({F8}[{shape} y) {{ y = QuantizeLinear <output_dtype = 17{attributes}> (x, s) }}"


def spread(body: str) -> str:
    return f"g (float[k] x0, float[k] s0, int64[n] h, float[2,4] x1, float[1] s1) => ({F8}[a,b] y) {{ {body} }}"


Row = tuple[str, str]
ROWS: dict[str, Row] = {
    # The type of the division, and the numbers in it.
    "one scale": (quantized(), ""),
    "halves": (quantized(x="float16[2,4]", s="float16"), ""),
    "a stated precision": (quantized(", precision = 16"), ""),
    "a scale of integers": (quantized(s="int32").replace("output", "precision = 1, output"), ""),
    "double": (quantized(x="double[2,4]", s="double"), "division of double in double has no exact replacement"),
    "a precision of double": (quantized(", precision = 11"), "division of float in double has no exact replacement"),
    "numbers that are integers": (quantized(x="int32[2,4]"), "division of int32 in float has no exact replacement"),
    # The granularity of the scale.
    "a scale of one element": (quantized(s="float[1]"), ""),
    "the last axis": (quantized(s="float[4]"), ""),
    "the first axis": (quantized(", axis = 0", s="float[2]"), ""),
    "the first axis from the end": (quantized(", axis = -2", s="float[2]"), ""),
    "the middle axis": (quantized(", axis = 1", x="float[2,3,2]", s="float[3]"), ""),
    "an axis beyond the last": (quantized(", axis = 2", s="float[4]"), NEITHER),
    "an axis before the first": (quantized(", axis = -3", s="float[4]"), NEITHER),
    "a matrix of scales": (quantized(s="float[2,4]"), NEITHER),
    "blocks of the last axis": (quantized(", block_size = 2", s="float[2,2]"), ""),
    "blocks of the first axis, the last one shorter": (
        quantized(", axis = 0, block_size = 2", "float[3,2]", "float[2,2]"),
        "",
    ),
    "blocks of the last axis, from the end": (quantized(", axis = -1, block_size = 4", s="float[2,1]"), ""),
    "a negative block": (quantized(", block_size = -2", s="float[2,2]"), f"blocks of -2 along axis 1 {DO_NOT_FIT}"),
    "blocks and a vector": (quantized(", block_size = 2", s="float[2]"), f"blocks of 2 along axis 1 {DO_NOT_FIT}"),
    "blocks beyond the last axis": (
        quantized(", block_size = 2, axis = 2", s="float[2,2]"),
        f"blocks of 2 along axis 2 {DO_NOT_FIT}",
    ),
    "blocks before the first axis": (
        quantized(", block_size = 2, axis = -3", s="float[2,2]"),
        f"blocks of 2 along axis -1 {DO_NOT_FIT}",
    ),
    "blocks of one scale": (quantized(", axis = 0, block_size = 4", x="float[4]", s="float[1]"), ""),
    "blocks of an unknown length": (
        quantized(", block_size = 2", x="float[2,n]", s="float[2,2]"),
        "the length of the blocked axis is unknown",
    ),
    "a scale of unknown rank": (
        spread("s = Reshape (s0, h) y = QuantizeLinear <output_dtype = 17> (x1, s)"),
        "the rank of the scale is unknown, so its granularity is unknown",
    ),
    "numbers of unknown rank": (spread("x = Reshape (x0, h) y = QuantizeLinear <output_dtype = 17> (x, s0)"), UNKNOWN),
    "blocks of unknown rank": (
        spread("x = Reshape (x0, h) y = QuantizeLinear <output_dtype = 17, block_size = 1> (x, s1)"),
        UNKNOWN,
    ),
    "numbers of unknown rank and one scale": (
        spread("x = Reshape (x0, h) y = QuantizeLinear <output_dtype = 17> (x, s1)"),
        "no numbers",
    ),
    # Products.
    "a product in float": (f"g ({F8}[2] x) => (float[2] y) <float s = {{0.37}}> {{ y = {DQ} (x, s) }}", ""),
    "a product in double": (
        f"g ({F8}[2] x) => (double[2] y) <double s = {{0.5}}> {{ y = {DQ} (x, s) }}",
        f"a product of {F8} in double has no exact replacement",
    ),
    "a product of int32": (
        f"g (int32[2] x, float8e8m0 s) => (float[2] y) {{ y = {DQ} <output_dtype = 1> (x, s) }}",
        "a product of int32 in float has no exact replacement",
    ),
    "a product of int4 less a zero point": (
        f"g (int4[2] x, int4 s) => (float[2] y) <float k = {{0.5}}> {{ y = {DQ} (x, k, s) }}",
        "",
    ),
    "a product of integers that stay": (
        f"g (int16[2] x, float8e8m0 s, int16 z) => (float[2] y) {{ y = {DQ} <output_dtype = 1> (x, s, z) }}",
        "",
    ),
    "a zero point of int32": (
        "g (float[2] x, float8e8m0 s, int32 z) => (int32[2] y) { y = QuantizeLinear <precision = 1> (x, s, z) }",
        "a zero point of int32 has no exact replacement",
    ),
    "a result of int32": (
        "g (float[2] x, float8e8m0 s) => (int32[2] y) <int32 z = {0}> { y = QuantizeLinear <precision = 1> (x, s, z) }",
        "quantization to int32 has no exact replacement",
    ),
    "codes less a zero point": (
        f"g ({F8}[4] x, {F8} z) => (float[4] y, float16[4] h) <float k = {{0.37}}, float16 l = {{14000}}>"
        f" {{ y = {DQ} (x, k, z) h = {DQ} (x, l, z) }}",
        "",
    ),
    "codes of a quotient plus a zero point": (
        f"g (float[6] x, float s, {F8} z) => ({F8}[6] y) {{ y = {Q} (x, s, z) }}",
        "",
    ),
    "integers plus a zero point": (f"g (float[6] x, float s, int4 z) => (int4[6] y) {{ y = {Q} (x, s, z) }}", ""),
    # Casts.
    "a cast to text": (
        f"g ({F8}[2] x) => (string[2] y) {{ y = Cast <to = 8> (x) }}",
        f"a cast from {F8} to string has no exact encoding",
    ),
    "a cast of text": (
        f"g (string[2] x) => ({F8}[2] y) {{ y = Cast <to = 17> (x) }}",
        f"a cast from string to {F8} has no exact encoding",
    ),
    "a cast to its own type": (f"g ({F8}[2] x) => ({F8}[2] y) {{ y = Cast <to = 17> (x) }}", ""),
    "casts like other values": (
        f"g (float[2] x, {F8} k, float s) => ({F8}[2] y, float[2] z, float16[2] h) <float16 w = {{0}}>"
        " { y = CastLike (x, k) z = CastLike (y, s) h = CastLike (x, w) }",
        "",
    ),
    "a cast like codes that are not read": (
        f"g (float[2] x, {F8} k) => (float[2] z, {F8}[2] y) {{ y = CastLike (x, k) n = Neg (x) z = CastLike (n, x) }}",
        "",
    ),
    "NaN": (f"g ({F8}[4] x) => (bool[4] y) {{ y = IsNaN (x) }}", ""),
    "infinity of one sign": (
        "g (float8e5m2[4] x) => (bool[4] y, bool[4] z)"
        " { y = IsInf <detect_negative = 0> (x) z = IsInf <detect_positive = 0> (x) }",
        "",
    ),
    # Moves and what computes.
    "no move": (
        f"g ({F8}[4] x) => ({F8}[4] y) {{ y = local.Foo (x) }}",
        "local.Foo computes with values stored as codes, and has no exact replacement",
    ),
    "a computation": (
        f"g ({F8}[2,2] x) => ({F8}[2,2] y) {{ y = MatMul (x, x) }}",
        "MatMul computes with values stored as codes, and has no exact replacement",
    ),
    **{
        f"{op} {reduction}": (
            f"g ({F8}[4] x, int64[2{'' if op == 'ScatterElements' else ',1'}] i, {F8}[2] u) => ({F8}[4] y)"
            f' {{ y = {op} <reduction = "{reduction}"> (x, i, u) }}',
            "" if reduction == "none" else f"{op} with a reduction computes with values stored as codes",
        )
        for op in ("ScatterElements", "ScatterND")
        for reduction in ("none", "add", "mul", "max", "min")
    },
}


def feeds_of(model: onnx_ir.Model) -> dict[str, np.ndarray[Any, Any]]:
    """Numbers for each input: a positive scale, distinct indices, bytes of codes, and zeros of both signs."""
    found = dict[str, np.ndarray[Any, Any]]()
    for value in model.graph.inputs:
        shape, dtype = value.shape.numpy() if value.shape else (), value.dtype or DataType.FLOAT
        count = int(np.prod(shape))
        if value.name in ("s", "k") and dtype.is_floating_point() and dtype not in CODED_TYPES:
            numbers = np.linspace(0.37, 2.9, count)
        elif value.name == "i":
            numbers = np.arange(3, 3 - count, -1)
        elif dtype in CODED_TYPES and dtype.bitwidth == 8:
            bits = (np.arange(count) * 53 + 49).astype(np.uint8)
            found[value.name or ""] = bits.view(dtype.numpy()).reshape(shape)
            continue
        else:
            numbers = np.resize([-0.0, 3.3, -700.0, 0.001, 17.0, -5.5], count)
            numbers = np.trunc(np.clip(numbers, -7, 7)) if not dtype.is_floating_point() else numbers
        found[value.name or ""] = numbers.astype(dtype.numpy()).reshape(shape)
    return found


@pytest.mark.parametrize("name", ROWS)
def test_a_node_is_replaced_with_the_same_bits_or_refused_with_the_reason(name: str) -> None:
    body, reason = ROWS[name]
    opset = 24 if "e8m0" in body else 23
    model, before = model_of(body, opset), model_of(body, opset)
    result = LowerFloat8(LACKS)(model)
    if reason and reason != "no numbers":
        (refusal,) = result.records.refusals
        assert refusal.reason == reason
        (error,) = result.records.diagnostics
        assert error.code == "float8-not-lowered"
        assert error.message.endswith(f", but {reason}")
        assert not result.modified
        return
    assert result.records.refusals == []
    assert result.modified
    if not reason:
        feeds = feeds_of(before)
        expected = evaluate(before, feeds)
        stored = {name: array.view(np.uint8) if array.dtype.name.startswith("float8") else array
                  for name, array in feeds.items()}  # fmt: skip
        found = evaluate(model, stored)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]


@pytest.mark.parametrize("to", [2, 3, 4, 5])
def test_integers_that_the_target_has_are_clamped(to: int) -> None:
    body = f"""g (float[6] x, float8e8m0 s) => ({DataType(to).name.lower()}[6] y) {{
        y = QuantizeLinear <precision = 1, output_dtype = {to}> (x, s) }}"""
    model = model_of(body, 24)
    target = Target("t", "", newest_opset=25, newest_ir_version=12, lacks=frozenset({DataType.FLOAT8E8M0}))
    assert LowerFloat8(target)(model).records.refusals == []
    x = np.array([-1e9, 1e9, 0.5, 1.5, 2.5, -3.5], np.float32)
    (y,) = evaluate(model, {"x": x, "s": np.array(127, np.uint8)})
    limits = np.iinfo(DataType(to).numpy())
    assert y.tolist() == [limits.min, limits.max, 0, 2, 2, max(-4, limits.min)]


EVERY_KIND = """g (float[4] x, float s, int8[4] i, float8e4m3fn[4] k)
    => (float8e4m3fn[4] c, float[4] y, float8e4m3fn[4] q, float[4] r, bool[4] n, float8e4m3fn[4] m, float8e5m2[4] j,
        float8e8m0[4] e, float[4] p, float16[4] h) {
    c = Cast <to = 17> (x) d = Cast <to = 17> (x) y = Cast <to = 1> (d) q = QuantizeLinear <output_dtype = 17> (x, s)
    r = DequantizeLinear (k, s) n = IsNaN (k) m = Transpose (k) j = Cast <to = 19> (i) e = Cast <to = 24> (x)
    u = QuantizeLinear <output_dtype = 17> (x, s) p = DequantizeLinear (u, s) h = Cast <to = 10> (k) }"""
HOW = {
    "bitcast": "the schema's rounding, as integer arithmetic on the bits",
    "table": "the schema's rounding of every value of the upper 16 bits, the lower ones kept as one sticky bit",
    "ladder": "the schema's rounding, as exact sums, or for a double as products of powers of two and one Round",
    "codec": "a table of the 256 codes, made by the codec",
    "rounded": "the codes are made from floats, so those are rounded in place",
    "decoded": "the codes are only decoded, which is rounding in place",
    "moved": "only moves elements, so it moves their codes in the same way",
    "opset": "this opset introduces BitCast; every other node has the same meaning under it",
}
BIT_CAST = replace(LACKS, newest_opset=26, sequence_operators={"BitCast": 26})
ENCODINGS: list[tuple[Target, str, int, str, bool]] = [
    (BIT_CAST, "auto", 26, "table", False),
    (BIT_CAST, "auto", 25, "table", True),
    (replace(BIT_CAST, newest_opset=25), "auto", 25, "ladder", False),
    (BIT_CAST, "bitcast", 26, "bitcast", False),
    (BIT_CAST, "ladder", 25, "ladder", False),
    (LACKS, "auto", 25, "ladder", False),
    (LACKS, "ladder", 25, "ladder", False),
]


@pytest.mark.parametrize(("target", "asked", "opset", "used", "moved"), ENCODINGS)
def test_each_record_states_the_encoding_and_what_becomes_of_nan(
    target: Target, asked: str, opset: int, used: str, moved: bool
) -> None:
    """Only arithmetic loses the sign of NaN, of a signed type that has one, made from floats."""
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"needs an onnx that knows opset {opset}")
    result = LowerFloat8(target, sequence=asked)(model_of(EVERY_KIND, opset))  # pyright: ignore[reportArgumentType]
    assert isinstance(result, RewriteResult)
    assert result.records.diagnostics == []
    keys = {text: name for name, text in HOW.items()}
    found = [each for each in result.records.rewrites if each.rule != "store-as-codes"]
    told = [f"{each.site.op or each.rule} {keys[each.reason]}" for each in found]
    inside = ("decoded", "rounded") if used != "bitcast" else (used, "codec")
    assert told == [
        "Transpose moved",
        f"Cast {used}",
        f"Cast {inside[0]}",
        f"Cast {inside[1]}",
        f"QuantizeLinear {used}",
        "DequantizeLinear codec",
        "IsNaN codec",
        f"Cast {used}",
        f"Cast {used}",
        f"QuantizeLinear {inside[0]}",
        f"DequantizeLinear {inside[1]}",
        "Cast codec",
        *(["opset opset"] if moved else []),
    ]
    lost = [index for index, each in enumerate(found) if each.effect is Effect.BIT_EXACT_BUT_NAN]
    assert lost == ([1, 2, 3, 4, 9, 10] if used == "ladder" else [])
    assert {each.effect for each in found} <= {Effect.BIT_EXACT, Effect.BIT_EXACT_BUT_NAN}
    stored = [(each.site.node, each.effect, each.reason) for each in result.records.rewrites if each not in found]
    types = {"k": F8, "c": F8, "q": F8, "m": F8, "j": "float8e5m2", "e": "float8e8m0"}
    assert stored == [
        (name, Effect.INTERFACE, f"its codes, a byte each, because t has no {dtype}") for name, dtype in types.items()
    ]


@pytest.mark.parametrize("asked", ["bitcast", "table"])
def test_an_encoding_that_needs_bitcast_is_refused_without_it(asked: str) -> None:
    for target in (LACKS, replace(BIT_CAST, newest_opset=25)):
        with pytest.raises(OptionError) as error:
            LowerFloat8(target, sequence=asked)(model_of(EVERY_KIND, 25))  # pyright: ignore[reportArgumentType]
        assert str(error.value) == f"encoding '{asked}' is impossible: t has no BitCast."
    inputs = "float s, float[1,1,4,4] a, float[1,4] b, int64[1] v,"
    kept = EVERY_KIND.replace("c = Cast", "o = RoiAlign (a, b, v) c = Cast").replace("float s,", inputs)
    dropped = replace(BIT_CAST, dropped={DataType.FLOAT: {"RoiAlign": 26}})
    with pytest.raises(OptionError, match=r"cannot move to opset 26, because"):
        LowerFloat8(dropped, sequence=asked)(model_of(kept, 25))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("more", "refused"), [("y = Identity (t)", True), ("", False)])
def test_calls_are_inlined_up_to_a_number_of_nodes(more: str, refused: bool) -> None:
    """Twelve levels of two calls each are 4096 nodes."""
    levels = [
        f"""<domain: "local", opset_import: ["": 19, "local": 1]>
        f{n} (a) => (b) {{ c = local.f{n - 1} (a) b = local.f{n - 1} (c) }}"""
        for n in range(1, 13)
    ]
    text = f"""<ir_version: 9, opset_import: ["": 19, "local": 1]>
        g (float[3] x) => (float[3] {"y" if more else "t"}) {{ t = local.f12 (x) {more} }}
        <domain: "local", opset_import: ["": 19]> f0 (a) => (b) {{ b = Neg (a) }} {" ".join(levels)}"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    found = obstacle_to_inlining(model, {("local", "f0", "")})
    nodes = 26 + refused
    said = "inlining local::f0, local::f1, local::f10 at each call would turn the"
    assert found == (f"{said} {nodes} nodes of the model into more than 4096" if refused else None)


def check_move(model: onnx_ir.Model, target: Target, reason: str) -> None:
    """The model moves to the opset of BitCast, or for this reason cannot."""
    if reason:
        with pytest.raises(OptionError, match=reason):
            LowerFloat8(target, sequence="bitcast")(model)
        return
    LowerFloat8(target, sequence="bitcast")(model)
    assert model.opset_imports[""] == 26


@pytest.mark.parametrize(("ceil", "moves"), [(0, True), (1, False)])
def test_bitcast_needs_an_opset_to_which_every_node_can_move(ceil: int, moves: bool) -> None:
    body = f"""g (float[3] x, float[1,1,4,4] a) => (float[3] y, float[b,c,d,e] z)
        {{ q = Cast <to = 17> (x) y = Cast <to = 1> (q)
          z = AveragePool <ceil_mode = {ceil}, kernel_shape = [2, 2]> (a) }}"""
    reason = "cannot move to opset 26, because AveragePool changed in opset 22"
    check_move(model_of(body, 21), BIT_CAST, "" if moves else reason)


@pytest.mark.parametrize(
    ("dtype", "moves"), [(DataType.FLOAT, False), (DataType.INT64, False), (DataType.DOUBLE, True)]
)
def test_bitcast_needs_an_opset_at_which_the_target_has_every_kernel(dtype: DataType, moves: bool) -> None:
    """The types of operands and of results count."""
    body = """g (float[3] x, int64[1] s) => (float[3] y, float[n] z)
        { q = Cast <to = 17> (x) y = Cast <to = 1> (q) z = ConstantOfShape (s) }"""
    target = replace(BIT_CAST, dropped={dtype: {"ConstantOfShape": 26}})
    reason = "because t has ConstantOfShape up to opset 25 only"
    check_move(model_of(body, 25), target, "" if moves else reason)


E4M3, E5M2 = DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2
NO_TRANSPOSE, SHARED = "t has no Transpose of float8e4m3fn at opset 21", "it shares a node with float8e4m3fn, and "
SHARED_BY_E5M2 = "it shares a node with float8e5m2, and "
NEEDS: list[tuple[str, dict[DataType, str]]] = [
    ("y = Transpose (x)", {E4M3: NO_TRANSPOSE}),
    ("y = Cast <to = 17> (x)", {}),
    ("y = local.F (x)", {}),  # what another domain computes is not known
    ("a = local.F (x) y = Transpose (x)", {E4M3: NO_TRANSPOSE}),
    ("a = Transpose (z) y = Cast <to = 17> (a)", {}),  # of a type that the target takes
    ("a = local.F (x, z) y = Transpose (x)", {E4M3: NO_TRANSPOSE, E5M2: SHARED + NO_TRANSPOSE}),
    ("a = Cast <to = 19> (x) y = Transpose (x)", {E4M3: NO_TRANSPOSE}),
    (  # the first node is reached by way of the second
        "a = local.F (z, v) b = local.F (x, z) y = Transpose (x)",
        {E4M3: NO_TRANSPOSE, E5M2: SHARED + NO_TRANSPOSE, DataType.UINT4: SHARED_BY_E5M2 + SHARED + NO_TRANSPOSE},
    ),
    ("y = Cast <to = 17> (w)", {DataType.INT4: "t has no int4", E4M3: "it shares a node with int4, and t has no int4"}),
]


def require_needs(body: str, expected: dict[DataType, str]) -> None:
    model = model_of(f"g ({F8}[2,2] x, float8e5m2[2,2] z, uint4[2,2] v, int4[2,2] w) => ({F8}[2,2] y) {{ {body} }}", 21)
    if "(w)" not in body:
        model.graph.inputs.pop()
    lacks, kernels = frozenset({DataType.INT4}), {E4M3: {"Cast": 19}}
    target = Target("t", "", newest_opset=25, newest_ir_version=12, lacks=lacks, kernels=kernels)
    assert reasons_to_lower(model, target, {}, 21) == expected


def test_a_type_becomes_codes_for_one_node_that_the_target_cannot_run() -> None:
    check_all(require_needs, NEEDS)
