"""Findings about casts and Trunc, word for word, each beside what is one step from it and not reported."""

from __future__ import annotations

import onnx.parser
import pytest
from onnx_ir import DataType

from castsmith import check

pytestmark = pytest.mark.usefixtures("untried")

CLIPPED = """g (float[2] x) => (float16[2] y) <float lo = {-65504}, float hi = {65504}> {
    c = Clip (x, lo, hi) y = Cast <to = 10> (c) }"""
MOST = "{-65504}, float hi = {65504}"
SATURATES = [
    "warning nan-lost-by-clip | g: y (Cast) | {} saturates before a cast to float16, and some runtimes turn NaN"
    " into a bound there | leave saturation to the cast if it saturates, or restore NaN after it with IsNaN and Where"
]
BOUNDS: dict[str, tuple[str, str]] = {
    "at the largest number": (CLIPPED, "Clip"),
    "at half of it": (CLIPPED.replace("65504", "32752"), "Clip"),
    "below half of it": (CLIPPED.replace("65504", "32751"), ""),
    "at twice of it": (CLIPPED.replace("65504", "131008"), "Clip"),
    "beyond twice of it": (CLIPPED.replace("65504", "131009"), ""),
    "one bound near it, before a move": (CLIPPED.replace(MOST, "{0}, float hi = {65504}"), "Clip"),
    "moved": (CLIPPED.replace("(c)", "(t)").replace("y =", "t = Transpose (c) y ="), "Clip"),
    "Min": (CLIPPED.replace("Clip (x, lo, hi)", "Min (x, hi)"), "Min"),
    "Max": (CLIPPED.replace("Clip (x, lo, hi)", "Max (lo, x)"), "Max"),
    "another operator": (CLIPPED.replace("Clip (x, lo, hi)", "Mul (x, hi)"), ""),
    "one of another domain": (CLIPPED.replace("Clip", "other.Clip").replace("<float", "<float[2] c, float"), ""),
    "several bounds": (CLIPPED.replace(MOST, "{0}, float[2] hi = {65504, 65504}").replace("Clip (x, lo", "Min (x"), ""),
    "a bound that is computed": (CLIPPED.replace("x, lo, hi", "x, , hi").replace("{65504}", "{1}"), ""),
    "to an integer": (CLIPPED.replace("float16", "int8").replace("10", "3"), ""),
    "of integers": (CLIPPED.replace("float[2]", "int32[2]").replace("float ", "int32 "), ""),
    "to a type without NaN": (CLIPPED.replace("float16", "float4e2m1").replace("10", "23").replace("65504", "6"), ""),
    "to a wider type": (
        """g (bfloat16[2] x) => (float[2] y) <bfloat16 hi = {32639}> { c = Min (x, hi) y = Cast <to = 1> (c) }""",
        "",
    ),
}  # fmt: skip
HEAD = '<ir_version: 11, opset_import: ["" : 23, "other": 1]>'


def lines(text: str) -> list[str]:
    fields = [
        (f"{each.severity.value} {each.code}", each.site, each.message, each.help)
        for each in check(onnx.parser.parse_model(text))
        if each.code not in ("unknown-operator", "invalid-model")  # of operators that onnx does not know
    ]
    return [" | ".join(map(str, each)) for each in fields]


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_near_the_largest_number_of_the_type_is_told(name: str) -> None:
    text, operator = BOUNDS[name]
    expected = [line.format(operator) for line in SATURATES] if operator else []
    assert lines(HEAD + text) == expected


def test_bounds_that_are_attributes_count() -> None:
    text = "g (float[2] x) => (float16[2] y) { c = Clip <min = -65504.0, max = 1.0> (x) y = Cast <to = 10> (c) }"
    old = '<ir_version: 4, opset_import: ["" : 10]>'
    assert lines(old + text) == [line.format("Clip") for line in SATURATES]
    assert lines(old + text.replace("-65504.0", "-1.0")) == []
    assert lines(old + text.replace("min = -65504.0, max = 1.0", "max = 65504.0")) == [SATURATES[0].format("Clip")]


NUMBERS = {
    name: int(DataType[name.upper()])
    for name in (
        *("float", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "double", "float4e2m1"),
        *("float8e4m3fn", "float8e5m2", "string"),
    )
}
FLOOR = "round in the floating-point type, for example with Floor or Round, to keep NaN"
INTENDED = "remove both unless the rounding is intended"
CHAINS: dict[tuple[str, str, str], str] = {
    ("float", "int8", "float"): f"note nan-lost-in-chain | loses NaN, which int8 does not have | {FLOOR}",
    ("float", "float4e2m1", "float16"): f"note nan-lost-in-chain | loses NaN, which float4e2m1 does not have | {FLOOR}",
    ("float", "int8", "int32"): "",
    ("float", "float16", "float"): "note lossy-cast-chain | loses values that float holds: 0.1 becomes 0.099975586"
    f" | {INTENDED}",
    ("int32", "int8", "int64"): "note lossy-cast-chain | loses values that int64 holds: 100000 becomes -96"
    f" | {INTENDED}",
    ("uint8", "int8", "uint8"): "",
    ("float", "bfloat16", "float16"): "warning double-rounding | rounds twice: 0.1 becomes 0.1001, and by one cast 0.1"
    " | cast from float to float16 directly if one rounding is intended",
    ("float16", "float", "bfloat16"): "",
    ("float16", "float", "float16"): "",
    ("int8", "float16", "int8"): "",
    ("int64", "float", "float16"): "",
    ("float4e2m1", "int8", "float"): "note lossy-cast-chain | loses values that float holds: 0.5 becomes 0.0"
    f" | {INTENDED}",
    ("float", "int8", "float4e2m1"): "",
    ("float", "float4e2m1", "int32"): "",
    ("int32", "float16", "int8"): "",
    ("int64", "float16", "bfloat16"): "",
    ("int64", "double", "int64"): "note lossy-cast-chain | loses values that int64 holds: 9007199254740993 becomes"
    f" 9007199254740992 | {INTENDED}",
    ("float", "float16", "float16"): "",
    ("float", "string", "float"): "",  # which writes NaN as text
    ("float", "string", "int32"): "",
    # Numbers that are easy to follow, where there is one.
    **{(a, b, c): f"note lossy-cast-chain | loses values that {c} holds: {numbers} | {INTENDED}"
       for a, b, c, numbers in (
        ("int16", "uint8", "int16", "300 becomes 44"),
        ("int32", "float", "int32", "16777217 becomes 16777216"),
        ("int64", "int32", "int64", "2147483653 becomes -2147483643"),
        ("int8", "uint8", "int16", "-1 becomes 255"),
        ("int16", "float16", "double", "-32767 becomes -32768.0"))},
    **{("double", b, c): f"warning double-rounding | rounds twice: {numbers}"
       f" | cast from double to {c} directly if one rounding is intended" for b, c, numbers in (
        ("float8e4m3fn", "float8e5m2", "0.3333333333333333 becomes 0.375, and by one cast 0.3125"),
        ("float", "float16", "1.0004882812509095 becomes 1.0, and by one cast 1.001"),
        ("float16", "float8e5m2", "7.629394531250002e-06 becomes 0, and by one cast 1.52588e-05"))},
}  # fmt: skip


@pytest.mark.parametrize("types", CHAINS, ids=" ".join)
def test_a_chain_is_told_in_the_main_graph_and_in_a_branch(types: tuple[str, str, str]) -> None:
    """By Cast and CastLike, and over an operator that moves elements; never where one value is all there is."""
    source, middle, last = types
    head, _, rest = CHAINS[types].partition(" | ")
    for second, like in ((f"Cast <to = {NUMBERS[last]}> (t)", ""), ("CastLike (t, k)", f", {last} k")):
        op = second.split()[0]
        body = f"a = Cast <to = {NUMBERS[middle]}> (x) t = Transpose (a)"
        text = f"g ({source}[2] x{like}) => ({last}[2] y) {{ {body} y = {second} }}"
        branched = f"""g (bool c, {source}[2] x{like}, {last}[2] z) => ({last}[2] y) {{ y = If (c) <
            then_branch = yes () => ({last}[2] p) {{ {body} p = {second} }},
            else_branch = no () => ({last}[2] q) {{ q = Identity (z) }}> }}"""
        for place, model in (("g: y", text), ("yes: p", branched)):
            chain = " to ".join(types)
            assert lines(HEAD + model) == ([f"{head} | {place} ({op}) | {chain} {rest}"] if head else [])


@pytest.mark.parametrize("types", [("float", "complex64", "float"), ("complex64", "float", "double")])
def test_a_chain_of_types_that_cast_does_not_support_is_another_finding(types: tuple[str, str, str]) -> None:
    numbers = {**NUMBERS, "complex64": 14}
    source, middle, last = types
    text = f"""g ({source}[2] x) => ({last}[2] y) {{
        a = Cast <to = {numbers[middle]}> (x) y = Cast <to = {numbers[last]}> (a) }}"""
    found = lines(HEAD + text)
    assert found
    assert {line.partition(" | ")[0] for line in found} == {"error type-not-allowed"}


@pytest.mark.parametrize(("size", "told"), [(127, 0), (128, 1)])
def test_what_a_proof_of_the_values_excludes_is_no_chain(size: int, told: int) -> None:
    """Sizes of a shape are known numbers, and a constant is folded; of an input every number counts."""
    text = f"""g (float[{size}] x, int64[2] n) => (int64[1] y, int64[2] z, int64[2] k) <int64[2] w = {{1, 5000000}}> {{
        s = Shape (x) a = Cast <to = 3> (s) y = Cast <to = 7> (a)
        b = Cast <to = 3> (n) z = Cast <to = 7> (b) c = Cast <to = 3> (w) k = Cast <to = 7> (c) }}"""
    found = [line for line in lines(HEAD + text) if "lossy-cast-chain" in line]
    assert len(found) == 1 + told


TWICE = (
    "warning double-rounding | g: y (Cast) | {0} to {1} to {2} rounds twice: {3} | cast from {0} to {2} directly if"
    " one rounding is intended"
)
F = """<domain: "other", opset_import: ["" : 23]> f (u) => (w) { a = Cast <to = 10> (u) w = Cast <to = 1> (a) }"""
LOSES = "note lossy-cast-chain | {} (Cast) | {} loses values that {} holds: {} | " + INTENDED
OTHERS: dict[str, tuple[str, list[str]]] = {
    "a value of two": (
        """g (float[2] x, float16[2] h) => (float[4] y) {
            a = Cast <to = 10> (x) t = Concat <axis = 0> (a, h) y = Cast <to = 1> (t) }""", [],
    ),
    "a first cast that saturates": (
        "g (int32[2] x) => (int64[2] y) { a = Cast <to = 17> (x) y = Cast <to = 7> (a) }",
        [LOSES.format("g: y", "int32 to float8e4m3fn to int64", "int64", "100000 becomes 448")],
    ),
    "a first cast that does not": (
        "g (int32[2] x) => (int64[2] y) { a = Cast <to = 17, saturate = 0> (x) y = Cast <to = 7> (a) }",
        [LOSES.format("g: y", "int32 to float8e4m3fn to int64", "int64", "100000 becomes 0")],
    ),
    "a last cast that does not: NaN is no loss where one cast gives it too": (
        "g (float[2] x) => (float8e4m3fn[2] y) { a = Cast <to = 10> (x) y = Cast <to = 17, saturate = 0> (a) }",
        [TWICE.format("float", "float16", "float8e4m3fn", "0.0009765626 becomes 0, and by one cast 0.00195312")],
    ),
    "a first cast that rounds down": (
        '<ir_version: 11, opset_import: ["" : 24]> g (int32[2] x) => (int32[2] y)'
        ' { a = Cast <to = 24, round_mode = "down"> (x) y = Cast <to = 6> (a) }',
        [LOSES.format("g: y", "int32 to float8e8m0 to int32", "int32", "3 becomes 2")],
    ),
    "a last cast of an opset in which infinity is no number": (
        '<ir_version: 11, opset_import: ["" : 19]> g (float[2] x) => (float8e4m3fnuz[2] y)'
        ' { a = Cast <to = 16> (x) y = Cast <to = 18> (a) }',
        [TWICE.format("float", "bfloat16", "float8e4m3fnuz", "3.3961775e+38 becomes nan, and by one cast 240")],
    ),
    "a middle that the last type holds, as it does not the first": (
        "g (float16[2] x) => (bfloat16[2] y) { a = Cast <to = 19> (x) y = Cast <to = 16> (a) }", [],
    ),
    "a function of one type": (
        f"g (float[2] x) => (float[2] y) {{ y = other.f (x) }} {F}",
        [LOSES.format("other.f: w", "float to float16 to float", "float", "0.1 becomes 0.099975586")],
    ),
    **{
        f"a function of several types: {calls}": (
            f"g (float[2] x, double[2] v) => (float[2] y, float[2] z) {{ {calls} }} {F}", [],
        )
        for calls in ("y = other.f (x) z = other.f (v)", "z = other.f (v) y = other.f (x)")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_chain(name: str) -> None:
    text, expected = OTHERS[name]
    assert lines(text if text.startswith("<") else HEAD + text) == expected
