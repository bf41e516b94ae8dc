"""Findings about casts and types of a target, word for word, each beside what is one step from it and not reported."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.lowering.check.run import all_findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.statements import WrongCast
from castsmith.targets.target import Target
from tests.lowering.check.test_target import FLOAT8, FP8, HALF, INT8, INT64, LOWER, PLAIN, TO_FLOAT8, model_of
from tests.sampling import check_all

pytestmark = pytest.mark.usefixtures("untried")

FLOAT, DOUBLE, INT32, UINT64 = (DataType[name] for name in ("FLOAT", "DOUBLE", "INT32", "UINT64"))
LEFT = "check that your values are not among those, or that their last bits do not matter"
LATE = WrongCast(frozenset({FLOAT, INT64}), frozenset({FLOAT8, HALF, INT32}), "is late", "")
INHERENT = replace(LATE, inherent=True, wrong="is early")
WRONG, DIFFERENT = replace(PLAIN, wrong_casts=(LATE,)), replace(PLAIN, wrong_casts=(INHERENT,))
ONE_WAY = replace(PLAIN, casts={FLOAT: frozenset({HALF}), FLOAT8: frozenset({FLOAT})})
BYTES, HALVES = replace(PLAIN, held={INT8: INT32}), replace(PLAIN, held={HALF: FLOAT})
SMALL, SMALLER = replace(PLAIN, held={INT64: INT32}), replace(PLAIN, held={INT64: INT32, DOUBLE: FLOAT})
MERGING = replace(PLAIN, hazards={"casts-are-merged": ""})
DIVIDING = replace(PLAIN, hazards={"quantize-divides-in-float": ""})
NUMBERS = {"float": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "float16": 10, "double": 11, "uint32": 12,
           "uint64": 13, "bfloat16": 16, FP8: 17, "int4": 22}  # fmt: skip


def cast(source: str, *types: str) -> str:
    """Casts to each type, one after the other."""
    names = ["x", *"abc"[: len(types) - 1], "y"]
    nodes = (f"{y} = Cast <to = {NUMBERS[to]}> ({x})" for x, y, to in zip(names, names[1:], types, strict=False))
    return f"g ({source}[2] x) => ({types[-1]}[2] y) {{ {' '.join(nodes)} }}"


def no_cast(pair: str, node: str = "y", more: str = "") -> str:
    way_out = f"{LOWER} replaces it if there is an exact replacement"
    return f"error target-lacks-kernel | g: {node} (Cast) | t has no Cast of {pair}{more} | {way_out}"


def wrong(pair: str, how: str, node: str = "y") -> str:
    message = f"t computes {pair} wrongly: it {how}"
    return f"error target-miscomputes-cast | g: {node} (Cast) | {message} | {LOWER} replaces it"


def note(message: str, place: str = "g: y (Cast)") -> str:
    return f"note target-miscomputes-cast | {place} | t {message} | {LEFT}"


def held(wide: str, small: str, first: str) -> str:
    return note(f"holds {wide} in {small}: numbers that {small} lacks change, first in {first}", "g")


UNDIVIDED = (
    "error target-miscomputes-cast | g: y (QuantizeLinear) | t computes QuantizeLinear of {} wrongly: it does not round"
    f" the quotient | {LOWER} replaces it"
)
WIDER = "holds int8 in a wider type, and does not wrap"
UNROUNDED = note("holds float16 in a wider type, so this cast does not round")
MERGED = note("merges this cast with the one before it, so numbers beyond int32 change")
TWICE = ", in 2 nodes; this is the first"
DIVIDES = "g (float16[2] x, float16 s) => (uint8[2] y) { y = QuantizeLinear (x, s) }"
OF_OPSET, UNIMPORTED = '<ir_version: 11, opset_import: ["" : {}]>', '<ir_version: 11, opset_import: ["local" : 1]>'
OLD = replace(LATE, before_opset=23)
BEFORE_23 = (
    *((23, OF_OPSET.format(22), True), (23, OF_OPSET.format(23), False)),
    *((22, UNIMPORTED, True), (23, UNIMPORTED, False)),
)
"""The newest opset of a target, the imports of a model, and whether its nodes are of an opset before 23."""
SIZES = "g (float[{}] x) => (int32[1] y) {{ a = Shape (x) y = Cast <to = 6> (a) }}"
CASES: list[tuple[Target, str, list[str]]] = [
    (ONE_WAY, TO_FLOAT8, [no_cast(f"float to {FP8}")]),
    (ONE_WAY, cast(FP8, "float"), []),
    (ONE_WAY, cast("float", "float16"), []),
    (ONE_WAY, cast("float16", FP8), []),
    (ONE_WAY, cast("float", "float"), []),
    (replace(ONE_WAY, wrong_casts=(LATE,)), TO_FLOAT8, [no_cast(f"float to {FP8}")]),
    (ONE_WAY, cast("float", FP8, "float", FP8), [no_cast(f"float to {FP8}", "a", TWICE)]),
    (WRONG, SIZES.format("2"), []),
    (WRONG, SIZES.format("N"), [wrong("int64 to int32", "is late")]),
    (WRONG, cast("float16", "float", "float16"), []),
    (WRONG, cast("bfloat16", "float", "float16"), [wrong("float to float16", "is late")]),
    (WRONG, cast("double", "float", "float16"), [wrong("float to float16", "is late")]),
    (WRONG, cast("float", "float16", "float16"), [wrong("float to float16", "is late", "a")]),
    (DIFFERENT, cast("float", "float16"), [note("casts float to float16 differently: it is early")]),
    (replace(WRONG, wrong_casts=(INHERENT, LATE)), cast("float", "float16"), [wrong("float to float16", "is late")]),
    (BYTES, cast("int32", "int8"), [wrong("int32 to int8", WIDER)]),
    (BYTES, cast("uint8", "int8"), [wrong("uint8 to int8", WIDER)]),
    (BYTES, cast("int4", "int8"), []),
    (BYTES, cast("float", "int8"), []),
    (BYTES, cast("int32", "uint8"), []),
    (HALVES, cast("float", "float16"), [UNROUNDED]),
    (HALVES, cast("bfloat16", "float16"), [UNROUNDED]),
    (HALVES, cast("int64", "float16"), [UNROUNDED]),
    (HALVES, cast("uint8", "float16"), []),
    (HALVES, cast("float16", "float"), []),
    *((MERGING, cast("float", middle, last), [MERGED] * merges)
      for middle, last, merges in (
          ("int64", "int32", True), ("int64", "uint64", True), ("uint32", "int32", True), ("uint64", "int64", True),
          ("uint32", "int64", False), ("int32", "int8", False), ("int64", "float", False), ("int64", "float16", False),
          ("int64", "int64", False))),
    (MERGING, cast("uint64", "int64", "int32"), []),
    (PLAIN, cast("float", "int64", "int32"), []),
    *((DIVIDING, f"g ({x}[2] x, {scale} s) => (uint8[2] y) {{ y = QuantizeLinear {precision} (x, s) }}",
       [UNDIVIDED.format(half)] if half else [])
      for x, scale, precision, half in (
          ("float16", "float16", "", "float16"), ("float", "float", "", ""), ("float16", "float", "", ""),
          ("float", "float", "<precision = 10>", "float16"), ("float", "float", "<precision = 16>", "bfloat16"),
          ("float16", "float16", "<precision = 1>", ""), ("float16", "bfloat16", "", "bfloat16"))),
    (DIVIDING, "g (float16[2] x, float16 s) => (float16[2] y) { y = Div (x, s) }", []),
    (DIVIDING, "g (float16[2] x, float16 s, uint8 z) => (y) { y = com.microsoft.QuantizeLinear (x, s, z) }", []),
    *((replace(PLAIN, newest_opset=newest, hazards={"quantize-divides-in-float-below-23": ""}), opset + DIVIDES,
       [UNDIVIDED.format("float16")] if divides else [])
      for newest, opset, divides in BEFORE_23),
    *((replace(PLAIN, newest_opset=newest, wrong_casts=(OLD,)), opset + cast("float", "float16"),
       [wrong("float to float16", "is late")] if late else [])
      for newest, opset, late in BEFORE_23),
    (PLAIN, "g (float16[2] x, float16 s) => (uint8[2] y) { y = QuantizeLinear (x, s) }", []),
    (SMALL, cast("float", "int64"), [held("int64", "int32", "y")]),
    (SMALL, "g (int64[2] x) => (int64[2] y) { a = Abs (x) y = Abs (a) }", [held("int64", "int32", "x")]),
    (SMALL, "g (float[2] x) => (int64[2] y) { y = local.Unknown (x) }", [held("int64", "int32", "y")]),
    (SMALL, "g (float[2] x) => (y) { y = local.Unknown (x) }", []),
    (SMALL, "g (float[2,3] x) => (int64[2] y) { y = Shape (x) }", []),
    (SMALL, "g (float[N] x) => (int64[1] y) { y = Shape (x) }", [held("int64", "int32", "y")]),
    (SMALL, "g (float[4] x, float[N] z) => (y) { s = Shape (z) y = Reshape (x, s) }", []),
    (SMALL, "g (float[4] x, float[N] z) => (y) { s = Shape (z) k = Add (s, s) y = Reshape (x, k) }",
     [held("int64", "int32", "s")]),
    (SMALLER, "g (double[2] v, int64[2] x) => (int64[2] y) { y = Cast <to = 7> (v) }",
     [held("double", "float", "v"), held("int64", "int32", "x")]),
    (replace(PLAIN, held={INT8: INT32}), "g (int8[2] x) => (int8[2] y) { y = Abs (x) }", []),
]  # fmt: skip


_OTHERS = ("lossy-cast-chain", "nan-lost-in-chain", "double-rounding", "unknown-operator")
"""Findings about any target."""


def check_case(target: Target, text: str, expected: list[str]) -> None:
    model = onnx_ir.from_onnx_text(text) if text.startswith("<") else model_of(text)
    found = [
        f"{each.severity.value} {each.code} | {each.site} | {each.message} | {each.help}"
        for each in all_findings(model, PromotionRules(), target)
        if each.code not in _OTHERS
    ]
    assert found == expected


def test_casts_and_types_that_are_held_in_others() -> None:
    check_all(check_case, CASES)


def test_findings_say_what_they_are_about() -> None:
    """A baseline knows findings by it: the types that are held, domains, the output that a node around it needs."""
    newer = '<ir_version: 11, opset_import: ["" : 20, "ai.onnx.ml" : 3]>'
    listed = replace(PLAIN, registry="onnxruntime-cpu", opsets={"ai.onnx.ml": 2})
    branches = """<ir_version: 11, opset_import: ["" : 20]> g (bool c, float16[2] h, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float16[2] p) { p = Abs (h) },
                    else_branch = e () => (float[2] q) { q = Abs (x) }> }"""
    for target, text, subjects in (
        (SMALLER, "g (double[2] v, int64[2] x) => (int64[2] y) { y = Cast <to = 7> (v) }", ["double", "int64"]),
        (listed, f"{newer} g (float[2] x) => (float[2] y) {{ y = Neg (x) }}", ["ai.onnx.ml"]),
        (None, "g (float[2] x) => (float[2] y) { y = local.Thing (x) }", ["local"]),
        (replace(listed, opsets={}), "g (float[2] x) => (float[2] y) { y = local.Thing (x) }", ["Thing"]),
        (None, branches, ["output p"]),
    ):
        model = onnx_ir.from_onnx_text(text) if text.startswith("<") else model_of(text)
        assert [each.subject for each in all_findings(model, PromotionRules(), target)] == subjects
