"""Findings about Trunc of QONNX."""

from __future__ import annotations

import re

import pytest

from tests.lowering.check.test_casts import lines

pytestmark = pytest.mark.usefixtures("untried")

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


ABOUT = {"zero point": "z", "bits in": "io", "out_scale is": "sq", "scale is": "s"}
"""The parameters of which each suspicion needs to know the values."""


@pytest.mark.parametrize(("numbers", "names"), [((0, 1, 8, 9), "szio"), ((3, 1, 7, 2, 8), "sziqo")])
def test_parameters_that_are_computed_or_empty_are_not_judged(numbers: Numbers, names: str) -> None:
    text = of_trunc(numbers, more=", float c")
    suspicions = lines(text)
    assert len(suspicions) == len(names) - (1 if len(names) == 4 else 3)
    for name in names:
        needs = [next(names for about, names in ABOUT.items() if about in line) for line in suspicions]
        rest = [line for line, needed in zip(suspicions, needs, strict=True) if name not in needed]
        assert lines(re.sub(rf", {name}\b(?=[,)])", ", c", text)) == rest
        assert lines(re.sub(rf"float {name} = {{[^}}]*}}", f"float[0] {name} = {{}}", text)) == rest


@pytest.mark.parametrize(("names", "about"), [("szq", "3 bits in"), ("zio", "out_scale is 6 times")])
def test_the_two_parameters_of_a_suspicion_suffice(names: str, about: str) -> None:
    text = of_trunc((0.5, 0, 3, 3, 4), more=", float c")
    (line,) = lines(re.sub(rf", [{names}]\b(?=[,)])", ", c", text))
    assert about in line


def test_ratios_of_float16_are_taken_in_double() -> None:
    bits = 0x1400, 0, 0x4800, 0x6600, 0x4400  # of 2**-10, 0, 8, 1536 and 4
    (line,) = lines(of_trunc(bits).replace("float", "float16"))
    assert "out_scale is 1.57286e+06 times scale, not a power of two: it divides by 2.09715e+06" in line
