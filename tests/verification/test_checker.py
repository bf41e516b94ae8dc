"""The checker of certificates: its codec against Castsmith's, what it must not certify, and what it does."""

from __future__ import annotations

import ast
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.cli.catalogue import all_codes
from castsmith.cli.main import main
from castsmith.ir.codes import Rule
from castsmith.numerics.critical import critical_values
from castsmith.numerics.status import Definedness
from castsmith.verification import checker
from tests.certificates import certificate_between, forged, tampered
from tests.sampling import check_all, sampled
from tests.verification.equal_pairs import EQUAL_PAIRS
from tests.verification.operator_pairs import OPERATOR_PAIRS
from tests.verification.pairs import HEAD, PAIRS


def outcome(before: onnx.ModelProto, after: onnx.ModelProto, certificate: dict[str, Any] | None = None) -> str:
    """What the checker says of a certificate; by default of one whose only step is the whole difference."""
    try:
        report = checker.check(before, after, certificate or certificate_between(before, after))
    except checker.RefusedError:
        return "refused"
    return "certified" if report.certified else "partly"


def outcome_of(texts: tuple[str, str]) -> str:
    """What the checker says of a certificate whose only step is the difference between two models in ONNX text."""
    before, after = map(onnx.parser.parse_model, texts)
    return outcome(before, after)


def test_it_imports_nothing_of_castsmith() -> None:
    source = ast.parse(Path(checker.__file__).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    modules = {name.partition(".")[0] for name in names}
    assert modules - sys.stdlib_module_names == {"numpy", "ml_dtypes", "onnx"}


def test_its_codec_is_that_of_castsmith() -> None:
    """Where it says that an element is defined it gives the same bits, and it says so wherever Castsmith does."""

    def compare(source: int, to: int, saturate: bool, opset: int) -> None:
        types = onnx_ir.DataType(source), onnx_ir.DataType(to)
        values = checker.values_of(source)
        values = critical_values(*types) if values is None else values
        array, defined = checker.Conversion(to, saturate, opset >= 24).of(values, source)
        status = castsmith.cast_status(values, types[1], saturate=saturate, opset=opset)
        expected = castsmith.cast(values, types[1], saturate=saturate, opset=opset)
        assert (defined == (status == Definedness.DEFINED)).all()
        assert array.dtype == expected.dtype
        assert checker.agree(array, expected)[defined].all()

    modes = [(True, 25), (True, 21), (False, 25)]
    pairs = itertools.permutations(sorted(checker.NUMBERS), 2)
    cases = [(*pair, *mode) for pair in pairs for mode in modes if mode[0] or pair[1] in checker.FLOAT8]
    late = {onnx_ir.DataType.INT2, onnx_ir.DataType.UINT2, checker.SCALE, checker.FLOAT4}  # of later opsets
    cases = [case for case in cases if case[1] != checker.SCALE]  # which the checker does not convert to
    check_all(compare, [case for case in cases if case[3] == 25 or not late & {*case[:2]}])


def test_two_casts_are_one_where_castsmith_says_so_of_all_values() -> None:
    """But of wide integers, of which float holds those that float16 does not make infinite."""
    small = {dtype for dtype in checker.NUMBERS if checker.NUMPY[dtype].itemsize == 1} - {checker.SCALE}
    wide = sorted(checker.NUMBERS - small - {checker.SCALE})
    missed = set[tuple[int, int, int]]()

    def compare(a: int, b: int, c: int) -> None:
        types = [onnx_ir.DataType(dtype) for dtype in (a, b, c)]
        every = checker.values_of(a)
        values = np.concatenate([critical_values(types[0], to) for to in types[1:]]) if every is None else every
        middle, direct = (castsmith.cast(values, to) for to in types[1:])
        defined = castsmith.cast_status(values, types[2]) == Definedness.DEFINED
        followed = castsmith.cast_status(values, types[1]) == Definedness.DEFINED
        followed &= castsmith.cast_status(middle, types[2]) == Definedness.DEFINED
        same = checker.agree(castsmith.cast(middle, types[2]), direct) & followed
        found = checker.collapses(a, checker.Conversion(b), checker.Conversion(c))
        assert not found or (same | ~defined).all()
        if (same & defined).all() and not found:
            missed.add((a, b, c))

    narrow = [triple for triple in itertools.product(sorted(small), repeat=3) if triple[0] != triple[1]]
    cases = [*itertools.permutations(wide, 3), *sampled("chains of narrow casts", narrow, 300)]
    check_all(compare, cases)
    wide_integers = {dtype for dtype, (_, bits) in checker.INTEGERS.items() if bits > 16}
    half = onnx.TensorProto.FLOAT16
    assert all(a in wide_integers and b in checker.FLOATS and c == half for a, b, c in missed), missed


def test_no_pair_of_models_that_differ_is_certified() -> None:
    pairs = {**PAIRS, **OPERATOR_PAIRS}
    assert [name for name, texts in pairs.items() if outcome_of(texts) == "certified"] == []


_CERTIFIED = (
    *("renamed", "reordered", "constant node", "value_floats", "folded add", "folded transpose", "folded concat shape"),
    *("cast dedup", "cast roundtrip", "identity", "cse matmul", "default attrs", "unused", "function inlined"),
    *("if const", "if names", "cast moved", "loop body cast", "seeded random same"),
)


def test_what_rewrites_do_is_certified() -> None:
    pairs = {name: EQUAL_PAIRS[name] for name in _CERTIFIED}
    assert {name for name, texts in pairs.items() if outcome_of(texts) != "certified"} == set()


def test_codes_shifted_to_another_type_are_certified() -> None:
    texts = [
        f"{HEAD}g (float[N] x) => (float[N] y) <float s = {{0.5}}, {kind} z = {{{zero}}}>"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
        for kind, zero in (("uint8", 128), ("int8", 0))
    ]
    assert outcome_of((texts[0], texts[1])) == "certified"


_QUANTIZED = HEAD + "g (float[N, 3] x) => (uint8[N, 3] y) <float[3] s = {1, 0.5, 3}, uint8[3] z = {7, 0, 255}> { BODY }"
_QUANTIZE = "y = QuantizeLinear <axis = 1> (x, s, z)"
_WRITTEN = """d = Div (x, s) r = Round (d) n = IsNaN (r) o = Constant <value = float {0}> () w = Where (n, o, r)
    f = Cast <to = 1> (z) a = Add (w, f) h = Constant <value = float {255}> () m = Min (a, h) l = Max (m, o)
    y = Cast <to = 2> (l)"""


def test_a_quantizer_is_arithmetic_where_it_is_defined() -> None:
    """NaN, of which the quantizer may give anything, may become the zero point, and not the other way."""
    written, made = (_QUANTIZED.replace("BODY", body) for body in (_WRITTEN, _QUANTIZE))
    assert outcome_of((made, written)) == "certified"
    assert outcome_of((written, made)) == "partly"

    def refuse(old: str, new: str) -> None:
        assert old in written
        assert outcome_of((made, written.replace(old, new))) == "partly"

    changes = [
        ("Round", "Floor"),
        ("{255}>", "{254}>"),
        ("float {0}", "float {1}"),
        ("{7, 0,", "{6, 0,"),
        ("0.5", "0.25"),
    ]
    check_all(refuse, [*changes, ("Cast <to = 2>", "Cast <to = 3>"), ("Div", "Mul"), ("(w, f)", "(r, f)")])


@pytest.mark.parametrize(
    ("table", "expected"), [((0, 1, 2, 3, 4, 5, 6, 7), "certified"), ((0, 1, 2, 3, 4, 5, 7, 6), "partly")]
)
def test_types_below_8_bits_may_become_their_codes(table: tuple[int, ...], expected: str) -> None:
    values = ", ".join(map(str, 16 * (*table, -8, -7, -6, -5, -4, -3, -2, -1)))
    before = f"{HEAD}g (int4[N] x) => (float[N] y) {{ y = Cast <to = 1> (x) }}"
    body = f"<float[256] t = {{{values}}}> {{ i = Cast <to = 6> (x) y = Gather (t, i) }}"
    after = f"{HEAD}g (uint8[N] x) => (float[N] y) {body}"
    assert outcome_of((before, after)) == expected


@pytest.mark.parametrize(("table", "expected"), [("GatherElements", "partly"), ("Gather", "certified")])
def test_gather_elements_takes_no_scalar_places(table: str, expected: str) -> None:
    """Its places have as many axes as the table."""
    before = f"{HEAD}g (int8 x) => (float y) {{ y = Cast <to = 1> (x) }}"
    values = ", ".join(map(str, (*range(128), *range(-128, 0))))
    after = (
        f"{HEAD}g (int8 x) => (float y) <float[256] t = {{{values}}}> {{ i = Cast <to = 6> (x) y = {table} (t, i) }}"
    )
    assert outcome_of((before, after)) == expected


_INVALID = {
    "an axis is out of range": (
        "g (float[2, N] x) => (float[A] y) { a = Constant <value_ints = [1]> () b = Constant <value_ints = [-1]> ()"
        " s = Concat <axis = 0> (a, b) y = Reshape (x, s) }",
        "axis = 0",
        "axis = 1",
    ),
    "places in a table are of a type that they cannot have": (
        "g (uint8[N] x) => (float[N] y) <float[256] t = {VALUES}> { i = Cast <to = 6> (x)"
        " y = GatherElements <axis = 0> (t, i) }",
        "to = 6",
        "to = 12",
    ),
    "a Reshape has another size": (
        "g (float[3, 5] x) => (float[3, 5] y) <int64[1] f = {-1}, int64[2] s = {3, 5}> { a = Reshape (x, f)"
        " y = Reshape (a, s) }",
        "{-1}",
        "{0}",
    ),
    "a Reshape has a size that may be another": (
        "g (float[N] x, float[M] z) => (float[N] y) { f = Shape (x) s = Shape (x) a = Reshape (x, f)"
        " y = Reshape (a, s) }",
        "f = Shape (x)",
        "f = Shape (z)",
    ),
    "operands have mixed types": (
        "g (int32[N] x, float[N] z) => (float[N] y) { a = Cast <to = 1> (x) y = Add (a, z) }",
        "Cast <to = 1>",
        "Identity",
    ),
}


def test_no_model_that_fails_is_certified() -> None:
    """In each pair the second model is invalid, or fails for some inputs, where the first gives a result."""
    values = ", ".join(map(str, range(256)))

    def refuse(right: str, old: str, new: str) -> None:
        assert old in right
        right = HEAD + right.replace("VALUES", values)
        assert outcome_of((right, right)) == "certified"
        assert outcome_of((right, right.replace(old, new))) == "partly"

    check_all(refuse, _INVALID.values())


_FOREIGN = HEAD.replace("]>", ', "l" : 1]>')
_SHAPED = "g (float[N] x, float[2] z) => (int64[1] y) <float[2] a> { BODY }"
_OPSET_26 = HEAD.replace("23", "26")
_BITS = """c = Cast <to = 17> (x) r = BitCast <to = 2> (c) m = Constant <value = uint32 {65535}> ()
    o = Constant <value = uint32 {4660}> () b = BitCast <to = 12> (x) l = BitwiseAnd (b, m) e = Equal (l, o)
    f = Cast <to = 2> (e) y = BitwiseXor (r, f)"""
_LOOP = """g (float[2] x, int64 n) => (float[2] y) { t = Constant <value = bool {1}> ()
    y = Loop (n, t, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w) INITIALIZER
    { k2 = Identity (k) w = Add (v, v) }> }"""
_ATTACKS = {
    "a shape of a foreign operator that only the second model states": (
        _FOREIGN + _SHAPED.replace("BODY", "a = Neg (z) y = Constant <value_ints = [2]> ()"),
        _FOREIGN + _SHAPED.replace("BODY", "a = l.Op (x) y = Shape (a)"),
    ),
    "bits of a float between those at which it is tried": (
        f"{_OPSET_26}g (float[N] x) => (uint8[N] y) {{ {_BITS.replace('Xor (r, f)', 'Or (r, r)')} }}",
        f"{_OPSET_26}g (float[N] x) => (uint8[N] y) {{ {_BITS} }}",
    ),
    "int8 that is computed from a dimension": (
        f"{HEAD}g (float[N] x) => (int64[1] y) {{ s = Shape (x) a = Cast <to = 3> (s) y = Cast <to = 7> (a) }}",
        f"{HEAD}g (float[N] x) => (int64[1] y) {{ y = Shape (x) }}",
    ),
    "a size that may be -1": (
        f"{HEAD}g (float[N] x, float[M] z) => (int64[2] y) {{ a = Shape (x) b = Shape (z) d = Sub (a, b)"
        " one = Constant <value_ints = [1]> () t = Concat <axis = 0> (d, one) r = Reshape (x, t) y = Shape (r) }",
        f"{HEAD}g (float[N] x, float[M] z) => (int64[2] y) {{ a = Shape (x) b = Shape (z) d = Sub (a, b)"
        " one = Constant <value_ints = [1]> () y = Concat <axis = 0> (d, one) }",
    ),
    "a size that may be 0, which copies": (
        f"{HEAD}g (float[N, M] x) => (int64[3] y) {{ s = Shape (x) z = Constant <value_ints = [0]> ()"
        " n = Gather (s, z) two = Constant <value_ints = [2]> () h = Div (n, two) m = Constant <value_ints = [-1]> ()"
        " t = Concat <axis = 0> (h, m, two) r = Reshape (x, t) y = Shape (r) }",
        f"{HEAD}g (float[N, M] x) => (int64[3] y) {{ s = Shape (x) z = Constant <value_ints = [0]> ()"
        " n = Gather (s, z) two = Constant <value_ints = [2]> () h = Div (n, two) one = Constant <value_ints = [1]> ()"
        " q = Gather (s, one) k = Constant <value_ints = [1]> () y = Concat <axis = 0> (h, q, two) }",
    ),
    "an attribute that the version lacks": (
        f"{HEAD.replace('23', '13')}g (float[2, 3] x) => (int64[1] y) {{ y = Constant <value_ints = [3]> () }}",
        f"{HEAD.replace('23', '13')}g (float[2, 3] x) => (int64[1] y) {{ y = Shape <start = 1> (x) }}",
    ),
    "a name of a body that hides an input of it": (
        HEAD + _LOOP.replace("INITIALIZER", "<float[2] c = {1, 2}>").replace("(v, v)", "(c, c)"),
        HEAD + _LOOP.replace("INITIALIZER", "<float[2] v = {1, 2}>"),
    ),
    "branches that are exchanged": (
        f"{HEAD}g (bool c, float[2] x) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] a)"
        " { a = Neg (x) }, else_branch = e () => (float[2] b) { b = Abs (x) }> }",
        f"{HEAD}g (bool c, float[2] x) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] a)"
        " { a = Abs (x) }, else_branch = e () => (float[2] b) { b = Neg (x) }> }",
    ),
    "bfloat16 multiplied in float, whose subnormals are rounded twice": (
        f"{HEAD}g (bfloat16[N] x, bfloat16[N] z) => (bfloat16[N] y) {{ y = Mul (x, z) }}",
        f"{HEAD}g (bfloat16[N] x, bfloat16[N] z) => (bfloat16[N] y) {{ a = Cast <to = 1> (x) b = Cast <to = 1> (z)"
        " c = Mul (a, b) y = Cast <to = 16> (c) }",
    ),
    "two quotients that are exchanged, of which one divides by zero": (
        f"{HEAD}g (uint8[N] x) => (uint8[N] y, uint8[N] z) <uint8 a = {{5}}, uint8 b = {{7}}> {{ y = Div (a, x)"
        " z = Div (b, x) }",
        f"{HEAD}g (uint8[N] x) => (uint8[N] y, uint8[N] z) <uint8 a = {{5}}, uint8 b = {{7}}> {{ y = Div (b, x)"
        " z = Div (a, x) }",
    ),
    "steps of a Slice that are not known": (
        f"{HEAD}g (float[4] x, int64[1] s) => (float[M] y) <int64[1] a = {{0}}, int64[1] b = {{9223372036854775807}},"
        " int64[1] c = {0}> { y = Slice (x, a, b, c, s) }",
        f"{HEAD}g (float[4] x, int64[1] s) => (float[M] y) {{ y = Identity (x) }}",
    ),
    "a sum over no axes": (
        f"{HEAD}g (float[N, M] x) => (int64[K] y) {{ s = Shape (x) y = ReduceSum <noop_with_empty_axes = 1> (s) }}",
        f"{HEAD}g (float[N, M] x) => (int64[K] y) {{ s = Shape (x) y = ReduceSum (s) }}",
    ),
    "a number of elements that may be 0": (
        f"{HEAD}g (float[N] x) => (bool[1] y) <int64[1] z = {{0}}> {{ n = NonZero (x) s = Shape <start = 1> (n)"
        " y = Equal (s, z) }",
        f"{HEAD}g (float[N] x) => (bool[1] y) <bool[1] w = {{0}}> {{ y = Identity (w) }}",
    ),
    "an input without elements": (
        f"{HEAD}g (float[0] x) => (bool[1] y) <int64[1] z = {{0}}> {{ s = Shape (x) y = Equal (s, z) }}",
        f"{HEAD}g (float[0] x) => (bool[1] y) <bool[1] w = {{0}}> {{ y = Identity (w) }}",
    ),
    "an upper bound for a lower one": (
        f"{HEAD}g (uint8[N] x) => (uint8[N] y) <uint8 a = {{5}}> {{ y = Clip (x, a) }}",
        f"{HEAD}g (uint8[N] x) => (uint8[N] y) <uint8 a = {{5}}> {{ y = Clip (x, , a) }}",
    ),
    "results of a Loop of another type than its values": tuple(
        f"{HEAD}g (float[2] x, int64 n) => (float[K] y) {{ t = Constant <value = bool {{1}}> () v, s = Loop (n, t, x)"
        " <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w, int64 j) { k2 = Identity (k)"
        f" w = Add (v, v) j = Identity (i) }}> y = {end} (s) }}"
        for end in ("Cast <to = 1>", "Identity")
    ),
    "an opset that does not exist": tuple(
        f"{HEAD.replace('23', opset)}g (float[2] x) => (float[2] y) {{ y = Neg (x) }}" for opset in ("26", "99")
    ),
    "an opset in which the operator lacks the type": tuple(
        f"{HEAD.replace('23', opset)}g (float16[N] x) => (uint4[N] y) {{ y = Cast <to = 21> (x) }}"
        for opset in ("23", "18")
    ),
    "an IR version that does not exist": tuple(
        f"{HEAD}g (float[2] x) => (float[2] y) {{ y = Neg (x) }}".replace("ir_version: 10", version)
        for version in ("ir_version: 10", "ir_version: 99")
    ),
    "an IR version in which initializers are inputs": tuple(
        f"{HEAD}g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add (x, w) }}".replace(
            "ir_version: 10", old
        )
        for old in ("ir_version: 10", "ir_version: 3")
    ),
    "an operand too many": (
        f"{HEAD}g (float[2] x) => (float[2] y) {{ a = Neg (x) y = Identity (a) }}",
        f"{HEAD}g (float[2] x) => (float[2] y) {{ a = Neg (x) y = Identity (a, x) }}",
    ),
    "zeros of two signs, of which runtimes take either": (
        f"{HEAD}g (float[1] x) => (float[1] y) <float[1] z = {{-0.0}}> {{ w = Relu (z) y = Div (x, w) }}",
        f"{HEAD}g (float[1] x) => (float[1] y) <float[1] z = {{0.0}}> {{ y = Div (x, z) }}",
    ),
    "a quantizer, of which NaN gives anything, for nodes beside it that define what it gives": tuple(
        f"{HEAD}g (float[N] x) => (uint8[N] y, uint8[N] v) <float s = {{0.5}}, float o = {{0}}, float h = {{255}}>"
        f" {{ y = QuantizeLinear (x, s) {body} }}"
        for body in (
            "d = Div (x, s) r = Round (d) n = IsNaN (r) w = Where (n, o, r) m = Min (w, h) l = Max (m, o)"
            " v = Cast <to = 2> (l)",
            "v = QuantizeLinear (x, s)",
        )
    ),
    "an output of another type than it is declared to have": tuple(
        f"{HEAD}g (float16[N] x, {kind}[N] z) => (uint4[N] y, {kind}[N] w) {{ y = CastLike (x, z) w = Identity (z) }}"
        for kind in ("uint4", "uint8")
    ),
    "bits of a NaN that an operator makes": (
        f"{_OPSET_26}g (float16[N] x) => (bool[N] y) <uint32 n = {{2143289344}}> {{ a = Cast <to = 1> (x)"
        " b = BitCast <to = 12> (a) y = Equal (b, n) }",
        f"{_OPSET_26}g (float16[N] x) => (bool[N] y) <uint16 n = {{32256}}> {{ b = BitCast <to = 4> (x)"
        " y = Equal (b, n) }",
    ),
    "codes shifted by another number than the zero point": tuple(
        f"{HEAD}g (float[N] x) => (float[N] y) <float s = {{0.5}}, {kind} z = {{{zero}}}, {kind} w = {{{other}}}>"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, w) }"
        for kind, zero, other in (("uint8", 128, 128), ("int8", 1, 0))
    ),
    "codes shifted to a type with other ends": tuple(
        f"{HEAD}g (float[N] x) => (float[N] y) <float s = {{0.5}}, {kind} z = {{{zero}}}>"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
        for kind, zero in (("uint8", 127), ("int8", 0))
    ),
    "a shift by more than the width": (
        f'{HEAD}g (uint8[2] x) => (uint8[2] y) <uint8 z = {{40}}> {{ y = BitShift <direction = "RIGHT"> (x, z) }}',
        f"{HEAD}g (uint8[2] x) => (uint8[2] y) <uint8 z = {{0}}> {{ y = BitwiseAnd (x, z) }}",
    ),
}


def test_no_attack_on_a_rule_is_certified() -> None:
    def refuse(before: str, after: str) -> None:
        assert outcome_of((before, before)) == "certified"
        assert outcome_of((before, after)) != "certified"

    check_all(refuse, _ATTACKS.values())


_FACTS = HEAD + "g (float[N, 2] x) => (float[N, 2] y) { a = Neg (x) y = Abs (a) }"


@pytest.mark.parametrize(
    ("dtype", "shape", "expected"),
    [
        *((1, ["N", 2], "certified"), (1, ["other", 2], "certified"), (1, ["N", 3], "partly"), (1, [7, 2], "partly")),
        *((10, ["N", 2], "partly"), (1, ["N", "N"], "partly"), (1, ["N"], "partly"), (1, None, "certified")),
        *((1, dims, "certified") for dims in ([None, 2], [None, None])),
    ],
)
def test_what_an_output_model_states_of_its_values_is_so(dtype: int, shape: list[int | str], expected: str) -> None:
    model, other = onnx.parser.parse_model(_FACTS), onnx.parser.parse_model(_FACTS)
    other.graph.value_info.append(onnx.helper.make_tensor_value_info("a", dtype, shape))
    assert outcome(model, other) == expected
    assert outcome(other, other) == "certified"


def test_a_name_that_a_body_makes_after_it_read_it_from_around_is_refused() -> None:
    """ONNX Runtime takes the value of the body, the reference implementation that of around it."""
    text = f"""{HEAD}g (bool c, float[2] x) => (float[2] y) {{ v = Neg (x) y = If (c) <then_branch = t ()
        => (float[2] a) {{ a = Abs (v) v = Exp (x) }}, else_branch = e () => (float[2] b) {{ b = Abs (x) }}> }}"""
    assert outcome_of((text, text)) == "refused"


def _with_function(model: onnx.ModelProto, operator: str, domain: str = "l") -> None:
    function = onnx.helper.make_function(
        domain, "F", ["a"], ["b"], [onnx.helper.make_node(operator, ["a"], ["b"])], model.opset_import[:1]
    )
    model.functions.append(function)


def _twice_a_function(model: onnx.ModelProto) -> None:
    _with_function(model, "Neg")


def _twice_an_opset(model: onnx.ModelProto) -> None:
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx", 13))


def _twice_a_constant(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))


def _twice_a_node(model: onnx.ModelProto) -> None:
    model.graph.node.append(onnx.helper.make_node("Neg", ["x"], ["z"]))


def _sparse(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add().values.name = "s"


def _elements_elsewhere(model: onnx.ModelProto) -> None:
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["unused"], value=tensor))


def _standard_operator_by_a_function(model: onnx.ModelProto) -> None:
    _with_function(model, "Abs", "ai.onnx")
    model.functions[-1].name = "Neg"


@pytest.mark.parametrize(
    "change",
    [
        *(_twice_a_function, _twice_an_opset, _twice_a_constant, _twice_a_node, _sparse, _elements_elsewhere),
        _standard_operator_by_a_function,
    ],
)
def test_no_ambiguous_model_is_certified(change: Callable[[onnx.ModelProto], None]) -> None:
    """Parsers and runtimes may take the first or the last of two, and look for functions first or last."""
    text = (
        f"{_FOREIGN}g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ z = Neg (x) v = l.F (z) y = Add (v, w) }}"
    )
    model = onnx.parser.parse_model(text)
    _with_function(model, "Abs")
    other = onnx.ModelProto.FromString(model.SerializeToString())
    change(other)
    try:
        certificate = certificate_between(model, other)
    except checker.RefusedError:
        return
    assert outcome(model, model, certificate_between(model, model)) == "certified"
    assert outcome(model, other, certificate) != "certified"


_MODEL = """g (float[N, 4] x, int64[K] i) => (float16[A, B] y, int64[2] z) <float[4] w = {1, 2.5, 3, -4}> {
    s = Shape (x) one = Constant <value_int = 1> () d = Gather (s, one) e = Cast <to = 6> (d) n = Cast <to = 7> (e)
    axes = Constant <value_ints = [0]> () u = Unsqueeze (n, axes) minus = Constant <value_ints = [-1]> ()
    t = Concat <axis = 0> (minus, u) a = Add (x, w) h = Cast <to = 11> (a) b = Cast <to = 1> (h)
    r = Reshape (b, t) c = Cast <to = 10> (r) c2 = Cast <to = 10> (r)
    q = Sub (c, c2) m = Transpose (q) k = Transpose (m)
    y = Add (k, c) z = Concat <axis = 0> (u, u) }"""


@pytest.fixture(scope="module")
def run() -> tuple[onnx.ModelProto, onnx.ModelProto, dict[str, Any]]:
    """A model, what optimize makes of it, and the certificate."""
    model = onnx.parser.parse_model(HEAD + _MODEL)
    result = castsmith.optimize(model, certificate=True)
    assert result.certificate is not None
    return model, result.proto, json.loads(json.dumps(result.certificate))


def test_a_run_of_optimize_is_certified(run: tuple[onnx.ModelProto, onnx.ModelProto, dict[str, Any]]) -> None:
    model, made, certificate = run
    assert outcome(model, made, certificate) == "certified"
    assert {step["pass"] for step in certificate["steps"]} >= {"fold-shapes", "simplify-casts"}
    assert outcome(made, made, certificate) == outcome(model, model, certificate) == "refused"


def test_tampered_models_and_certificates_are_not_accepted(
    run: tuple[onnx.ModelProto, onnx.ModelProto, dict[str, Any]],
) -> None:
    """Neither with the certificate of the run, nor with one that says what was done."""
    model, made, certificate = run
    random, first, last = Random(5), checker.state_of(model, {}), checker.state_of(made, {})
    for _ in range(30):
        change = tampered(made, random)
        assert change is not None
        kind, other = change
        assert outcome(model, other, certificate) == "refused", kind
        if outcome(model, other) == "certified":  # as a Reshape to [0, 4] for [-1, 4]
            assert castsmith.verify(model, other).outcome != "different", kind
        kind, forgery = forged(certificate, random, first, last)
        if kind != "fact":  # a detour that comes back is a proof all the same
            assert outcome(model, made, forgery) != "certified", kind


@pytest.mark.parametrize(
    "certificate",
    [
        [],
        1,
        None,
        {},
        {"format": checker.FORMAT},
        {"format": checker.FORMAT, "constants": {}, "steps": [1], "sha256": ""},
    ],
    ids=str,
)
def test_what_is_no_certificate_is_refused(certificate: Any) -> None:
    model = onnx.parser.parse_model(HEAD + _MODEL)
    with pytest.raises(checker.RefusedError, match="no certificate"):
        checker.check(model, model, certificate)


def test_a_model_whose_functions_unfold_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 40 functions calls the next twice: 2**40 nodes."""
    monkeypatch.setattr(checker, "MOST_NODES", 1000)
    calls = [
        f'<domain: "l", opset_import: ["" : 23, "l" : 1]> f{n} (a) => (c) {{ b = l.f{n + 1} (a) c = l.f{n + 1} (b) }}'
        for n in range(40)
    ]
    head = HEAD.replace("]>", ', "l" : 1]>')
    text = f"{head}g (float[2] x) => (float[2] y) {{ y = l.f0 (x) }} {' '.join(calls)}"
    text += ' <domain: "l", opset_import: ["" : 23]> f40 (a) => (b) { b = Neg (a) }'
    model = onnx.parser.parse_model(text)
    with pytest.raises(checker.RefusedError, match="too many nodes"):
        checker.check(model, model, certificate_between(model, model))


@pytest.mark.parametrize(("start", "end"), [("float[1] v0 = {1}", "Neg"), ("int8[1] v0 = {1}", "Neg")])
def test_a_constant_is_not_grown_beyond_memory(start: str, end: str) -> None:
    """60 Concats of a value with itself: 2**60 elements."""
    doublings = " ".join(f"v{n + 1} = Concat <axis = 0> (v{n}, v{n})" for n in range(60))
    kind = start.partition("[")[0]
    model = onnx.parser.parse_model(f"{HEAD}g () => ({kind}[N] y) <{start}> {{ {doublings} y = {end} (v60) }}")
    assert outcome(model, model) == "certified"


@pytest.mark.parametrize("end", ["Cast <to = 16>", "Cast <to = 1>", "Not"])
def test_a_cast_of_many_paths_is_moved_once(end: str) -> None:
    """60 Concats of an input with itself: 2**60 paths from the cast to the input."""
    doublings = " ".join(f"v{n + 1} = Concat <axis = 0> (v{n}, v{n})" for n in range(60))
    kinds = ("bool", "bool") if end == "Not" else ("float16", "bfloat16" if "16" in end else "float")
    text = f"{HEAD}g ({kinds[0]}[1] v0) => ({kinds[1]}[N] y) {{ {doublings} y = {end} (v60) }}"
    model = onnx.parser.parse_model(text)
    assert outcome(model, model) == "certified"


def test_verify_takes_a_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out, file = tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "c.json"
    onnx.save(onnx.parser.parse_model(HEAD + _MODEL), model)
    assert main(["optimize", str(model), "-o", str(out), "--certificate", str(file), "-q"]) == 0
    assert main(["verify", str(model), str(out), "--certificate", str(file)]) == 0
    assert capsys.readouterr().out == "equal, proven for all inputs by certificate\n"
    assert main(["verify", str(out), str(out), "--certificate", str(file)]) == 2


@pytest.mark.parametrize("target", [None, "onnxruntime-android"])
def test_most_golden_models_are_certified(target: str | None) -> None:
    from tests.passes.test_golden import CASES

    counts = {"certified": 0, "partly": 0, "refused": 0}
    rules = {code.code: code.is_certified for code in all_codes() if isinstance(code, Rule)}
    for case in sampled(f"certified golden models ({target})", CASES, 60):
        before = onnx_ir.to_proto(case.model())
        result = castsmith.optimize(before, target=target, promote_unsafe=True, certificate=True)
        found = outcome(before, result.proto, result.certificate)
        counts[found] += 1
        claims = {rules.get(rewrite.rule) for rewrite in result.rewrites}
        assert found == "certified" or claims != {True}, case.path.name
        assert found != "certified" or claims != {False}, case.path.name
    assert counts["refused"] == 0
    assert counts["certified"] > counts["partly"]
