"""Operators written with those of older opsets: each form beside its refusal, by the reference evaluator's bits."""

from __future__ import annotations

import onnx.defs
import pytest

from tests.lowering.opset.test_adapters import ANY, check_row

Rows = list[tuple[int, int, str, str]]
NEWEST = onnx.defs.onnx_opset_version()
X, Y = "float[2,3,4] x", "float[a,b,c] y"
ALLOWZERO = "Reshape of opset 13 has no attribute allowzero"
PARTS: Rows = [
    # Trilu: both halves, a diagonal that is constant, computed or the main one.
    *((14, 13, f"({X}) => ({Y}) {{ {k} y = Trilu {half} ({operands}) }}", ANY)
      for half in ("", "<upper = 0>", "<upper = 1>")
      for k, operands in (("", "x"), *((f"j = Constant <value_int = {at}> ()", "x, j") for at in (-1, 1, 9)))),
    (14, 13, "(int32[3,3] x, int64 j) => (int32[a,b] y) { y = Trilu (x, j) }", ANY),
    # Shape of some axes.
    *((15, 14, f"({X}) => (int64[a] y) {{ y = Shape {bounds} (x) }}", made) for bounds, made in (
        ("", "Shape ()"), ("<start = 0>", "Shape ()"),
        ("<start = 1>", "Shape () Slice () bound=[1] 1=[9223372036854775807]"),
        ("<end = 2>", "Shape () Slice () bound=[0] 1=[2]"),
        ("<start = -2, end = -1>", "Shape () Slice () bound=[-2] 1=[-1]"))),
    # CumProd: all directions, axes from both ends; lengths that may be 0 need opset 14.
    *((26, 25, f"({X}) => ({Y}) <int64 j = {{{axis}}}> {{ y = CumProd {form} (x, j) }}", ANY)
      for form in ("", "<exclusive = 1>", "<reverse = 1>", "<exclusive = 1, reverse = 1>") for axis in (0, 1, -1)),
    (26, 25, "(int32[2,0] x, int64 k) => (int32[a,b] y) { y = CumProd (x, k) }", ANY),
    (26, 13, "(int32[2,3,4] x) => (int32[d,e,f] y) <int64 j = {1}> { y = CumProd (x, j) }", ANY),
    (26, 13, "(int32[a,b,c] x) => (int32[d,e,f] y) <int64 j = {1}> { y = CumProd (x, j) }", "opset 13 has no CumProd"),
    # Reshape: no zeros among the lengths.
    *((14, 13, f"({X}) => (float[a,b] y) <int64[2] l = {{{lengths}}}> {{ y = Reshape <allowzero = {allows}> (x, l) }}",
       made)
      for lengths, allows, made in (("6, 4", 1, "Reshape ()"), ("-1, 4", 1, "Reshape ()"), ("2, 12", 0, "Reshape ()"),
                                    ("0, 12", 0, "Reshape ()"), ("0, 12", 1, ALLOWZERO))),
    (14, 13, f"({X}, int64[2] p) => (float[a,b] y) {{ y = Reshape <allowzero = 1> (x, p) }}", ALLOWZERO),
]  # fmt: skip
TYPES: Rows = [
    # Narrow floats are looked at, or moved, as float.
    *((20, 19, f"({name}[6] x) => (bool[6] y) {{ y = {op} (x) }}", f"{cast}{op} ()")
      for name, op, cast in (
          ("float16", "IsInf", "Cast (to=1) "), ("bfloat16", "IsInf", "Cast (to=1) "), ("float", "IsInf", ""),
          ("float8e5m2", "IsInf", "Cast (to=1) "), ("double", "IsInf", ""), ("float16", "IsNaN", ""),
          ("float8e4m3fn", "IsNaN", "Cast (to=1) "), ("double", "IsNaN", ""))),
    (28, 27, "(bfloat16[6] x, bool[6] b) => (bfloat16[n] y) { y = Compress (x, b) }",
     "Cast (to=1) Compress () Cast (to=16)"),
    (28, 27, "(int32[6] x, bool[6] b) => (int32[n] y) { y = Compress (x, b) }", "Compress ()"),
    (28, 27, "(bfloat16[4,2] x, int64[2] b) => (bfloat16[n,m] y) { y = ReverseSequence (x, b) }",
     "Cast (to=1) ReverseSequence () Cast (to=16)"),
    (28, 27, "(int64[3] x, bfloat16[2] b) => (bfloat16[n,m] y) <int64 d = {4}> { y = OneHot (x, d, b) }",
     "Cast (to=1) OneHot () Cast (to=16)"),
    (28, 27, "(int64[3] x, float[2] b) => (float[n,m] y) <int64 d = {4}> { y = OneHot (x, d, b) }", "OneHot ()"),
    # bool is reduced as uint8; the axes become an attribute below opset 18.
    *((20, to, f"({name}[2,3] x) => ({name}[n,m] y) <int64[1] j = {{1}}> {{ y = {op} (x, j) }}", made)
      for name, op, to, made in (
          ("bool", "ReduceMax", 19, "Cast (to=2) ReduceMax () Cast (to=9)"), ("float", "ReduceMax", 19, "ReduceMax ()"),
          ("bool", "ReduceMin", 13, "Cast (to=2) ReduceMin (axes=[1]) Cast (to=9)"),
          ("int32", "ReduceMin", 13, "ReduceMin (axes=[1])"))),
    # Saturation and rounding of other types; infinity saturates to the fnuz types.
    *((24, to, f"(float[6] x) => (float[6] y) {{ t = Cast <{form}> (x) y = Cast <to = 1> (t) }}", made)
      for to, form, made in (
          (18, "to = 10, saturate = 0", "Cast (to=10) Cast (to=1)"), (18, "to = 10", "Cast (to=10) Cast (to=1)"),
          (19, "to = 10, saturate = 0", "Cast (saturate=0, to=10) Cast (to=1)"),
          (19, "to = 10, round_mode = \"down\"", "Cast (to=10) Cast (to=1)"),
          (19, "to = 19, saturate = 0", "Cast (saturate=0, to=19) Cast (to=1)"),
          (19, "to = 18, saturate = 0", "Cast (saturate=0, to=18) Cast (to=1)"),
          (19, "to = 18", "Equal () Where () Equal () Where () Cast (to=18) Cast (to=1) constant=inf"
           " 1=3.4028234663852886e+38 2=-inf 3=-3.4028234663852886e+38"))),
    *((24, 23, f"(float16[6] x, {like} k) => (float[6] y) {{ t = CastLike <{form}> (x, k) y = Cast <to = 1> (t) }}",
       made)
      for like, form, made in (
          ("float8e5m2fnuz", "saturate = 1", "Equal () Where () Equal () Where () CastLike (saturate=1) Cast (to=1)"
           " constant=inf 1=65504.0 2=-inf 3=-65504.0"),
          ("float8e5m2fnuz", "saturate = 0", "CastLike (saturate=0) Cast (to=1)"),
          ("float8e5m2", "saturate = 1", "CastLike (saturate=1) Cast (to=1)"))),
    (19, 18, "(float[3] x, float s, uint8 z) => (uint8[3] y) { y = QuantizeLinear <saturate = 0> (x, s, z) }",
     "QuantizeLinear ()"),
    (19, 18, "(float[3] x, float s) => (uint8[3] y) { y = QuantizeLinear <saturate = 0> (x, s) }", "QuantizeLinear ()"),
    (19, 18, "(float[3] x, float s, float8e4m3fn z) => (float8e4m3fn[3] y) { y = QuantizeLinear (x, s, z) }",
     "QuantizeLinear of opset 13 does not support float8e4m3fn as input 2"),
    (21, 18, "(float[3] x, float s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3, saturate = 0> (x, s) }",
     ANY),
]  # fmt: skip
POLICY = "Resize changed in opset 18: a policy of aspect ratio other than stretch is new"
ANTIALIAS = "Resize of opset 13 has no attribute antialias"
SYMMETRIC = "Resize changed in opset 19: the mode half_pixel_symmetric is new"
HALF_PIXEL = "Resize (coordinate_transformation_mode=half_pixel, mode=linear)"
CROP = 'mode = "linear", axes = [2, 1], coordinate_transformation_mode = "tf_crop_and_resize"'
ROI = "float[4] f = {0.1, 0.2, 0.8, 0.7}"


def resize(now: int, shape: str, attributes: str, sizes: str, made: str, given: str = "") -> tuple[int, int, str, str]:
    """Return the row of a Resize: integers are sizes, others scales."""
    numbers, count = sizes.replace(" ", ""), sizes.count(",") + 1
    kind, operands = ("int64", "x, , , n") if "." not in numbers else ("float", "x, , n")
    operands = operands.replace("x, ", "x, f", 1) if given else operands
    constants = ", ".join([f"{kind}[{count}] n = {{{numbers}}}", *([given] if given else [])])
    return now, 17, f"(float[{shape}] x) => ({Y}) <{constants}> {{ y = Resize <{attributes}> ({operands}) }}", made


def policy(name: str, sizes: str, made: str, shape: str = "3,4,5", axes: str = "") -> tuple[int, int, str, str]:
    return resize(18, shape, f'keep_aspect_ratio_policy = "{name}"{axes and f", axes = [{axes}]"}', sizes, made)


def antialias(
    sizes: str, made: str, more: str = ', mode = "linear"', shape: str = "3,4,5"
) -> tuple[int, int, str, str]:
    return resize(18, shape, f"axes = [1, 2], antialias = 1{more}", sizes, made)


def symmetric(sizes: str, made: str, shape: str = "3,4,5", more: str = "") -> tuple[int, int, str, str]:
    return resize(
        19, shape, f'coordinate_transformation_mode = "half_pixel_symmetric", mode = "linear"{more}', sizes, made
    )


RESIZED: Rows = [
    policy("not_larger", "6, 8, 11", "Resize () sizes=[6, 8, 10]"),
    policy("not_smaller", "6, 7, 9", "Resize () sizes=[6, 8, 10]"),
    policy("not_larger", "3, 4, 5", "Resize () sizes=[3, 4, 5]"),
    policy("not_larger", "8, 11", ANY, axes="1, 2"), policy("not_smaller", "8, 3", ANY, axes="1, 2"),
    policy("not_larger", "11, 8", ANY, axes="2, 1"), policy("stretch", "8, 3", ANY, axes="1, 2"),
    policy("not_larger", "7, 7", ANY, "1,10,10", "1, 2"), policy("not_larger", "6", ANY, "3,b,5", "0"),
    # 5 * 5 / 4 is 6 in both roundings; 5 * 7 / 4 is not, and 4 * 9 / 5 has another scale in float.
    policy("not_larger", "5, 9", ANY, axes="1, 2"), policy("not_smaller", "5, 9", POLICY, axes="1, 2"),
    policy("not_larger", "7, 9", POLICY, axes="1, 2"), policy("not_larger", "7, 7", POLICY, "1,10,11", "1, 2"),
    policy("not_larger", "6, 8, 11", POLICY, "3,b,5"), policy("not_larger", "6", POLICY, "3,0,5", "1"),
    antialias("5, 9", ANY), antialias("4, 5", ANY), antialias("1.0, 2.0", ANY), antialias("1.5, 1.0", ANY),
    antialias("8, 10", ANY, ', mode = "linear", keep_aspect_ratio_policy = "not_smaller"'),
    antialias("5, 9", ANTIALIAS, ""), antialias("3, 5", ANTIALIAS), antialias("0.5, 2.0", ANTIALIAS),
    antialias("5, 9", ANTIALIAS, shape="3,b,5"), antialias("4, 4", ANTIALIAS),
    symmetric("1.0, 1.5, 2.0", HALF_PIXEL), symmetric("1.0, 2.0, 2.0", HALF_PIXEL, "3,b,5"),
    symmetric("3, 7, 6", HALF_PIXEL), symmetric("1.5", ANY, more=", axes = [1]"),
    symmetric("1.0, 1.3, 2.0", SYMMETRIC), symmetric("1.0, 2.5, 2.0", SYMMETRIC, "3,b,5"),
    symmetric("1.5", SYMMETRIC, "3,5,4", ", axes = [1]"),
    symmetric("3, 7, 6", POLICY, more=', keep_aspect_ratio_policy = "not_larger"'),
    resize(18, "3,4,5", 'mode = "linear"', "1.0, 1.5, 2.0", "Resize (mode=linear)"),
    resize(18, "3,4,5", CROP, "2.0, 1.5", ANY, ROI), resize(18, "3,4,5", CROP, "7, 3", ANY, ROI),
    resize(18, "3,4,5", 'mode = "linear", axes = [2, 1]', "2.0, 1.5", ANY, ROI),
]  # fmt: skip


@pytest.mark.parametrize(("now", "to", "body", "expected"), [*PARTS, *TYPES, *RESIZED])
def test_an_operator_with_those_of_an_older_opset(now: int, to: int, body: str, expected: str) -> None:
    if now > NEWEST:
        pytest.skip(f"the installed onnx has no opset {now}")
    check_row(now, to, body, expected)
