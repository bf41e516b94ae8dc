"""Findings about casts and Trunc, word for word, each beside what is one step from it and not reported."""

from __future__ import annotations

import onnx.parser
import pytest

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
    "an operator of another domain": (CLIPPED.replace("Clip", "other.Clip"), ""),
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


NUMBERS = {"float": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float16": 10, "bfloat16": 16, "float4e2m1": 23}
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
    numbers = {**NUMBERS, "complex64": 14, "double": 11}
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


GENERAL, FINN = "qonnx.custom_op.general", "finn.custom_op.general"
AGAIN, REMOVE = "export the model again", "swap the widths, or remove the node"
NOT_OF_TWO = "make out_scale a power of two times scale"
ROUNDS = "remove the node, or correct the widths"
Numbers = tuple[float, ...]
"""Scale, zero point, bits in, scale of the result (version 2 alone), bits out."""
SUSPICIONS: dict[Numbers, list[str]] = {
    (0.5, 0, 8, 4): [],
    (0, 0, 8, 4): [f"scale is 0, expected a positive finite number | {AGAIN}"],
    (-0.5, 0, 8, 4): [f"scale is -0.5, expected a positive finite number | {AGAIN}"],
    (0.5, 1, 8, 4): [
        "version 1 subtracts the zero point unscaled, after the division by 2**(in_bitwidth - out_bitwidth)"
        " | use version 2, which divides it too"
    ],
    (0.5, 0, 0, 0): [
        f"in_bitwidth is 0, expected a number of bits | {AGAIN}",
        f"out_bitwidth is 0, expected a number of bits | {AGAIN}",
        f"0 bits in and out: it only rounds | {ROUNDS}",
    ],
    (0.5, 0, 8, 1.5): [f"out_bitwidth is 1.5, expected a number of bits | {AGAIN}"],
    (0.5, 0, 4, 8): [f"4 bits in and 8 out: nothing is truncated | {REMOVE}"],
    (0.5, 0, 8, 8): [f"8 bits in and out: it only rounds | {ROUNDS}"],
    (0.5, 0, 2, 1): [],
    (0.5, 1, 8, 8, 4): [],
    (0.5, 0, 8, 0.5, 8): [],
    (0.5, 0, 7, 8, 8): [f"7 bits in and 8 out: nothing is truncated | {REMOVE}"],
    (0.5, 0, 8, 3, 4): [f"out_scale is 6 times scale, not a power of two: it divides by 8 | {NOT_OF_TWO}"],
    (0.5, 0, 8, 0.25, 4): ["out_scale is 0.5 times scale, so nothing is truncated | make out_scale the larger"],
    (0.5, 0, 8, 8.0001, 4): [f"out_scale is 16.0002 times scale, not a power of two: it divides by 16 | {NOT_OF_TWO}"],
    (0.5, 0, 8, 8.00004, 4): [],
    (0.5, 0, 8, 0, 4): [],
    (0.5, 0, 8, -1, 4): [],
}


def of_trunc(numbers: Numbers, domain: str = GENERAL, mode: str = "FLOOR", more: str = "") -> str:
    names = ["s", "z", "i", "o"] if len(numbers) == 4 else ["s", "z", "i", "q", "o"]
    constants = ", ".join(f"float {name} = {{{number}}}" for name, number in zip(names, numbers, strict=True))
    version = f', "{domain}" : {1 if len(numbers) == 4 else 2}'
    return f"""<ir_version: 10, opset_import: ["" : 21{version}]> g (float[2] x{more}) => (float[2] y) <{constants}> {{
        y = {domain}.Trunc <rounding_mode = "{mode}"> (x, {", ".join(names)}) }}"""


@pytest.mark.parametrize("numbers", SUSPICIONS, ids=str)
def test_a_suspicious_trunc_is_told(numbers: Numbers) -> None:
    place = "warning trunc-suspicious | g: y (Trunc)"
    assert lines(of_trunc(numbers)) == [f"{place} | {line}" for line in SUSPICIONS[numbers]]


def test_widths_and_scales_of_each_channel_are_judged() -> None:
    """Each of them: the least of the bits in, the most of the bits out, the first ratio that is wrong."""
    text = of_trunc((0.5, 0, 8, 8, 4))
    for old, new, message in (
        (
            "float q = {8}",
            "float[3] q = {8, 3, 0.25}",
            "out_scale is 6 times scale, not a power of two: it divides by 8",
        ),
        ("float q = {8}", "float[2] q = {8, 0.25}", "out_scale is 0.5 times scale, so nothing is truncated"),
        ("float i = {8}", "float[2] i = {8, 3}", "3 bits in and 4 out: nothing is truncated"),
        ("float o = {4}", "float[2] o = {4, 9}", "8 bits in and 9 out: nothing is truncated"),
        ("float o = {4}", "float[2] o = {4, 3.5}", "out_bitwidth is 3.5, expected a number of bits"),
        ("float s = {0.5}", "float[2] s = {0.5, 0}", "scale is 0, expected a positive finite number"),
    ):
        assert [line.split(" | ")[2] for line in lines(text.replace(old, new))] == [message]


def test_a_trunc_of_no_version_or_a_guessed_one_is_told() -> None:
    place, change = "g: y (Trunc)", "change the node in the model"
    modes = "ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, HALF_UP, HALF_DOWN"
    assert lines(of_trunc((0.5, 0, 8, 4), mode="nonsense")) == [
        f"error trunc-malformed | {place} | unknown QONNX rounding mode 'nonsense'; expected {modes} | {change}"
    ]
    assert lines(of_trunc((0.5, 0, 8, 4)).replace(", i, o)", ")")) == [
        f"error trunc-malformed | {place} | Trunc has 3 inputs, which fits no version of it in {GENERAL} 1 | {change}"
    ]
    for numbers in ((0.5, 0, 8, 4), (0.5, 0, 8, 4, 4)):
        version = len(numbers) - 3
        assert lines(of_trunc(numbers).replace(f', "{GENERAL}" : {version}', "")) == [
            f"warning trunc-version-guessed | {place} | {GENERAL} is not imported, so version {version} of Trunc is"
            " inferred from its inputs | import the domain"
        ]
    assert lines(of_trunc((0.5, 0, 8, 4, 4), FINN)) == [
        f"warning trunc-suspicious | {place} | QONNX runs Trunc of {FINN} as version 1 for every import | use {GENERAL}"
    ]
    assert lines(of_trunc((0.5, 0, 8, 4), FINN)) == []
    assert lines(of_trunc((0.5, 0, 8, 4), more=", float bits").replace("i, o)", "bits, o)")) == []
