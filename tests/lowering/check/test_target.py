"""Findings about a target, word for word, for targets that lack one thing each: no file of a real one is asked."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith import check
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.records import Severity
from castsmith.ir.walks import all_values, imports_by_scope
from castsmith.lowering.check.device import is_prescribed
from castsmith.lowering.check.run import all_findings
from castsmith.lowering.check.target import unreported_errors
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.targets.statements import WrongCast, WrongFusion
from castsmith.targets.target import Target

pytestmark = pytest.mark.usefixtures("untried")

FLOAT8, HALF, FLOAT, INT8, INT64 = (DataType[name] for name in ("FLOAT8E4M3FN", "FLOAT16", "FLOAT", "INT8", "INT64"))
UINT8 = DataType.UINT8
PLAIN = Target("t", "", newest_opset=23, newest_ir_version=11, types=ELEMENT_TYPES, kernels={})
HEAD = '<ir_version: 11, opset_import: ["" : 23, "com.microsoft" : 1, "local" : 1, "qonnx.custom_op.general" : 1]>'
LOWER = "`optimize(target='t')`"

TO_FLOAT8 = "g (float[2] x) => (float8e4m3fn[2] y) { y = Cast <to = 17> (x) }"
TWO_ADDS = "g (float16[2] x) => (float16[2] y) { a = Add (x, x) y = Add (a, x) }"
QUANTIZED = "g (float[2] x, float s, int8 z) => (int8[2] y) { a = Relu (x) y = QuantizeLinear (a, s, z) }"
HALF_SCALE = "g (float16[2] x, float16 s, int8 z) => (int8[2] y) { y = QuantizeLinear (x, s, z) }"
GELUS = """g (float[4] x, bool c) => (float[4] y, float[4] w) {
    a = com.microsoft.FastGelu (x) y = com.microsoft.FastGelu (a)
    w = If (c) <then_branch = t () => (float[4] p) { p = com.microsoft.QuickGelu (x) },
                else_branch = e () => (float[4] q) { q = com.microsoft.FastGelu (a) }> }"""
DEFINED = '<domain: "com.microsoft", opset_import: ["" : 23]> FastGelu (a) => (b) { b = Identity (a) }'
QUANT = """g (float[2] x) => (float[2] y) <float s = {0.5}, float zero = {0}, float bits = {4}> {
    y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, zero, bits) }"""
QUANT_DEFINED = """<domain: "qonnx.custom_op.general", opset_import: ["" : 23]>
    Quant <signed, narrow, rounding_mode> (a, b, c, d) => (e) { e = Identity (a) }"""
MIXED_ADD = "g (float16[2] x, float s) => (float[2] y) { y = RMSNormalization (x, s) }"

NAMED = """g (float[2] x, bool c) => (float[2] y) { [n] a = Abs (x) [n] n = Neg (a) [m] b = Abs (n) [n] d = Sin (b)
    y = If (c) <then_branch = t () => (float[2] p) { [n] o = Abs (x) [n] n = Neg (o) p = Abs (n) },
        else_branch = e () => (float[2] q) { [n] q = Neg (d) }> }"""
OWN_NAME = f"{LOWER} gives each a name of its own"
HALF_CONSTANT = "g () => (float16 y) { a = Constant <value = float16 {1}> () y = Neg (a) }"
UNCHECKED = replace(PLAIN, hazards={"opset-unchecked": ""})
NEGATED = "g (uint8[2] x) => (uint8[2] y) { y = Neg (x) }"
GATHERED = "g (float[2] x, uint8[1] i) => (float[1] y) { y = Gather (x, i) }"
NOT_ALLOWED = (
    "error type-not-allowed | g: y ({0}) | {0} does not support {1} (uint8, an input) at this opset | optimize computes"
    " it in {2}"
)
NEG_ERROR, GATHER_ERROR = NOT_ALLOWED.format("Neg", "x", "int16"), NOT_ALLOWED.format("Gather", "i", "int32")
NOTE = (
    "note target-unknown | g | the facts about t do not include its {}, so these are not checked | state them in a"
    " target file of your own to have them checked"
)
PLUGIN = (
    f"unregistered-operator | {{}} | t has no operator {{}} of com.microsoft, which needs a plugin{{}} | {LOWER}"
    " replaces quantizers; otherwise export without the optimizer of ONNX Runtime"
)
EXACT = f"{LOWER} replaces it if there is an exact replacement"
FP8 = "float8e4m3fn"
VALUE = f"error target-lacks-type | g | t has no {FP8}, which"
WRONG_CAST = WrongCast(frozenset({FLOAT}), frozenset({FLOAT8}), "is late", "", saturate=True, before_opset=24)
WRONG = (
    f"error target-miscomputes-cast | g: y (Cast) | t computes float to {FP8} wrongly: it is late | {LOWER} replaces it"
)
FUSING = replace(PLAIN, probed=frozenset({"QuantizeLinear"}))
FUSED = WrongFusion(frozenset({INT8}), frozenset({"QuantizeLinear"}), "Relu is lost")

CASES: dict[str, tuple[Target, str, list[str]]] = {
    "all that it needs": (PLAIN, TO_FLOAT8, []),
    "an older opset": (
        replace(PLAIN, newest_opset=22),
        TO_FLOAT8,
        [f"error opset-too-new | g | the model is of opset 23 and t accepts at most 22 | {LOWER} lowers it if that"
         " changes nothing"],
    ),
    "an older opset on the device alone": (replace(PLAIN, newest_opset=22, fallback=PLAIN), TWO_ADDS, []),
    "an older IR version": (
        replace(PLAIN, newest_ir_version=10),
        TO_FLOAT8,
        [f"error ir-version-too-new | g | the model is of IR version 11 and t accepts at most 10 | {LOWER} lowers it if"
         " that changes nothing"],
    ),
    "no type of one value": (
        replace(PLAIN, lacks=frozenset({FLOAT8})),
        TO_FLOAT8,
        [f"{VALUE} the value y has | {LOWER} replaces it if it can"],
    ),
    "no type of two values": (
        replace(PLAIN, lacks=frozenset({FLOAT8, INT8})),
        TO_FLOAT8.replace("y = Cast", "a = Cast").replace("}", "y = Identity (a) }"),
        [f"{VALUE} 2 values have; the first is a | {LOWER} replaces it if it can"],
    ),
    "no type of a prescribed value": (
        replace(PLAIN, lacks=frozenset({INT64})),
        "g (float[2] x) => (float[2,1] y) <int64[2] s = {2, 1}> { y = Reshape (x, s) }",
        [],
    ),
    "no kernel, twice": (
        replace(PLAIN, kernels={HALF: {"Mul": 1}}, probed=frozenset({"Add"})),
        TWO_ADDS,
        [f"error target-lacks-kernel | g: a (Add) | t has no Add of float16 at opset 23, in 2 nodes; this is the first"
         f" | {EXACT}"],
    ),
    "no kernel yet": (
        replace(PLAIN, kernels={HALF: {"Add": 24}}, probed=frozenset({"Add"})),
        TWO_ADDS.replace("y = Add", "y = Mul"),
        [f"error target-lacks-kernel | g: a (Add) | t has no Add of float16 at opset 23 | {EXACT}"],
    ),
    "a kernel from this opset on": (
        replace(PLAIN, kernels={HALF: {"Add": 23}}, probed=frozenset({"Add"})), TWO_ADDS, []
    ),
    "a kernel until this opset": (
        replace(PLAIN, dropped={HALF: {"Add": 23}}),
        TWO_ADDS,
        [f"error target-lacks-kernel | g: a (Add) | t has no Add of float16 at opset 23, in 2 nodes; this is the first"
         f" | {EXACT}"],
    ),
    "a kernel until the next opset": (replace(PLAIN, dropped={HALF: {"Add": 24}}), TWO_ADDS, []),
    "kernels that are unknown": (
        replace(PLAIN, unknown=("kernels",)),
        TO_FLOAT8,
        [NOTE.format("operators by type"),
         f"warning target-unknown | g | the operators of t that support {FP8} are unknown | {LOWER} replaces all of"
         " them"],
    ),
    "nothing but the name": (
        Target("t", ""), TO_FLOAT8.replace("float8e4m3fn", "float16").replace("17", "10"),
        [NOTE.format("element types, operators by type, newest opset and newest IR version")],
    ),
    "a fusion that fails": (
        replace(FUSING, wrong_fusions=(FUSED,)),
        QUANTIZED,
        [f"warning target-misfuses | g: y (QuantizeLinear) | t fuses QuantizeLinear of int8 wrongly: Relu is lost"
         f" | {EXACT}"],
    ),
    "a fusion that fails, twice": (
        replace(FUSING, wrong_fusions=(FUSED,)),
        QUANTIZED.replace("y =", "b = QuantizeLinear (x, s, z) y ="),
        [f"warning target-misfuses | g: b (QuantizeLinear) | t fuses QuantizeLinear of int8 wrongly: Relu is lost"
         f", in 2 nodes; this is the first | {EXACT}"],
    ),
    "a fusion of a constant": (
        replace(FUSING, wrong_fusions=(FUSED,)),
        QUANTIZED.replace("y)", "y) <float[2] w = {1, 2}>").replace("(a, s, z)", "(w, s, z)"),
        [],
    ),
    "a fusion of another type": (
        replace(FUSING, wrong_fusions=(replace(FUSED, types=frozenset({FLOAT8})),)), QUANTIZED, []
    ),
    "a cast that is wrong": (replace(PLAIN, wrong_casts=(WRONG_CAST,)), TO_FLOAT8, [WRONG]),
    "a cast that is wrong with another setting": (
        replace(PLAIN, wrong_casts=(WRONG_CAST,)), TO_FLOAT8.replace("to = 17", "to = 17, saturate = 0"), []
    ),
    "a cast that is wrong in older opsets": (
        replace(PLAIN, wrong_casts=(replace(WRONG_CAST, before_opset=23),)), TO_FLOAT8, []
    ),
    "a cast that is wrong elsewhere too": (
        replace(PLAIN, wrong_casts=(replace(WRONG_CAST, disputed=True),)), TO_FLOAT8, []
    ),
    "a cast by the type of another value": (
        replace(PLAIN, wrong_casts=(WRONG_CAST,)),
        f"g (float[2] x, {FP8} k) => ({FP8}[2] y) {{ y = CastLike (x, k) }}",
        [WRONG.replace("(Cast)", "(CastLike)")],
    ),
    "a division that is not rounded": (
        replace(PLAIN, hazards={"quantize-divides-in-float": ""}),
        HALF_SCALE,
        [f"error target-miscomputes-cast | g: y (QuantizeLinear) | t computes QuantizeLinear of float16 wrongly: it"
         f" does not round the quotient | {LOWER} replaces it"],
    ),
    "a division that is rounded from this opset on": (
        replace(PLAIN, hazards={"quantize-divides-in-float-below-23": ""}), HALF_SCALE, []
    ),
    "a division of floats": (replace(PLAIN, hazards={"quantize-divides-in-float": ""}), QUANTIZED, []),
    "no operator of QONNX": (
        PLAIN,
        QUANT,
        [f"error target-lacks-operator | g: y (Quant) | t has no operator Quant of qonnx.custom_op.general | {LOWER}"
         " replaces it if its parameters are constant"],
    ),
    "an operator of QONNX that it does not run": (
        replace(PLAIN, domains=frozenset({"qonnx.custom_op.general"})),
        QUANT.replace("narrow = 0, ", ""),
        [f"error target-lacks-operator | g: y (Quant) | t does not run this Quant of qonnx.custom_op.general | {LOWER}"
         " replaces it if its parameters are constant"],
    ),
    "an operator of QONNX that it runs": (replace(PLAIN, domains=frozenset({"qonnx.custom_op.general"})), QUANT, []),
    "an operator of QONNX that the model defines": (PLAIN, QUANT + QUANT_DEFINED, []),
    "other domains than that of ONNX Runtime": (
        replace(PLAIN, domains=frozenset({"other"})),
        GELUS,
        ["error " + PLUGIN.format("g: a (FastGelu)", "FastGelu", ", in 3 nodes; this is the first"),
         "error " + PLUGIN.format("t: p (QuickGelu)", "QuickGelu", "")],
    ),
    "a function of that domain": (
        replace(PLAIN, domains=frozenset({"other"})),
        GELUS + DEFINED,
        ["error " + PLUGIN.format("t: p (QuickGelu)", "QuickGelu", "")],
    ),
    "the domain of ONNX Runtime": (replace(PLAIN, domains=frozenset({"com.microsoft"})), GELUS, []),
    "domains that are unknown": (PLAIN, GELUS, []),
    "nodes of one name": (
        replace(PLAIN, hazards={"same-node-names": ""}),
        NAMED,
        [f"error same-node-names | {place} | t does not load a graph in which {count} nodes are named 'n' | {OWN_NAME}"
         for place, count in (("g: n (Neg)", 3), ("t: n (Neg)", 2))],
    ),
    "nodes of one name where that is no matter": (PLAIN, NAMED, []),
    "an older IR version that is not checked": (
        replace(PLAIN, newest_ir_version=10, hazards={"ir-version-unchecked": ""}), TO_FLOAT8, []
    ),
    "kernels that were measured at a newer opset": (
        replace(PLAIN, probed_from=24),
        TO_FLOAT8,
        ["note target-unknown | g | operators by type of t were measured at opset 24, not at opset 23 | "],
    ),
    "kernels that were measured at this opset": (replace(PLAIN, probed_from=23), TO_FLOAT8, []),
    "two facts that are unknown": (
        replace(PLAIN, unknown=("newest_ir_version", "types")),
        TO_FLOAT8,
        [NOTE.format("element types and newest IR version")],
    ),
    "kernels that are unknown, of a type that is no code": (
        replace(PLAIN, unknown=("kernels",)), TWO_ADDS, [NOTE.format("operators by type")]
    ),
    "kernels that are unknown, but for this type": (
        replace(PLAIN, unknown=("kernels",), kernels={HALF: {"Mul": 1}}),
        TWO_ADDS.replace("y = Add", "y = Mul"),
        [NOTE.format("operators by type"),
         f"error target-lacks-kernel | g: a (Add) | t has no Add of float16 at opset 23 | {EXACT}"],
    ),
    "a declared type that it lacks": (
        replace(PLAIN, lacks=frozenset({FLOAT8})),
        f"g (float[2] x) => ({FP8}[2] y) {{ y = Abs (x) }}",
        [f"error output-type-mismatch | g: y (Abs) | the output y is declared {FP8} but is float | optimize corrects"
         " the declaration", f"{VALUE} the value y has | {LOWER} replaces it if it can"],
    ),
    "a constant without a kernel": (
        replace(PLAIN, kernels={HALF: {"Neg": 1}}),
        HALF_CONSTANT,
        [f"error target-lacks-kernel | g: a (Constant) | t has no Constant of float16 at opset 23 | {EXACT}"],
    ),
    "a constant that becomes a weight": (
        replace(PLAIN, kernels={HALF: {"Neg": 1}}, hazards={"constants-unchecked": ""}), HALF_CONSTANT, []
    ),
    "a constant and a node without a kernel": (
        replace(PLAIN, kernels={HALF: {}}, hazards={"constants-unchecked": ""}),
        HALF_CONSTANT,
        [f"error target-lacks-kernel | g: y (Neg) | t has no Neg of float16 at opset 23 | {EXACT}"],
    ),
    **{f"a scatter by {how} of {dtype}": (
        replace(PLAIN, hazards={"half-scatter-reductions": ""}),
        f"""g ({dtype}[2] x, int64[{at}] i, {dtype}[1] u) => (y) {{ y = {op} <reduction = "{how}"> (x, i, u) }}""",
        [f"error target-lacks-kernel | g: y ({op}) | t runs no {op} of float16 with a reduction | {EXACT}"] * fails,
    ) for dtype, op, at, how, fails in (
        ("float16", "ScatterElements", "1", "add", True), ("float16", "ScatterElements", "1", "mul", True),
        ("float16", "ScatterElements", "1", "min", False), ("float16", "ScatterElements", "1", "none", False),
        ("float16", "ScatterND", "1,1", "add", True), ("float16", "ScatterND", "1,1", "mul", True),
        ("float16", "ScatterND", "1,1", "min", True), ("float16", "ScatterND", "1,1", "max", True),
        ("float16", "ScatterND", "1,1", "none", False), ("float", "ScatterND", "1,1", "add", False))},
    "no kernel of the type of a scale": (
        replace(PLAIN, probed=frozenset({"QuantizeLinear"}), kernels={HALF: {"Mul": 1}}),
        HALF_SCALE,
        [f"error target-lacks-kernel | g: y (QuantizeLinear) | t has no QuantizeLinear of float16 at opset 23"
         f" | {EXACT}"],
    ),
    "arithmetic in the type of a scale": (
        replace(PLAIN, probed=frozenset({"QuantizeLinear"}), kernels={HALF: {"Add": 1}}), HALF_SCALE, []
    ),
    "a type that the standard does not allow at this opset": (
        replace(UNCHECKED, kernels={UINT8: {"Abs": 1}}),
        NEGATED,
        [NEG_ERROR],
    ),
    "and that the target takes": (
        replace(UNCHECKED, kernels={UINT8: {"Neg": 1}}), NEGATED, [NEG_ERROR.replace("error", "warning")]
    ),
    "and that it takes, but looks at opsets": (replace(PLAIN, kernels={UINT8: {"Neg": 1}}), NEGATED, [NEG_ERROR]),
    "one that it takes, and one that it does not": (
        replace(UNCHECKED, kernels={UINT8: {"Neg": 1}}),
        "g (uint8[2] x, uint8[1] i) => (uint8[2] y, uint8[1] z) { z = Gather (x, i) y = Neg (x) }",
        [GATHER_ERROR.replace("y (", "z ("), NEG_ERROR.replace("error", "warning")],
    ),
    "and that it takes at an operand": (
        replace(UNCHECKED, unchecked_types={UINT8: {"Gather.1": 1}}),
        GATHERED,
        [GATHER_ERROR.replace("error", "warning")],
    ),
    "and that it takes at another operand": (
        replace(UNCHECKED, unchecked_types={UINT8: {"Gather.0": 1}}), GATHERED, [GATHER_ERROR]
    ),
    "and for which it has a kernel, but not of this operand": (
        replace(UNCHECKED, kernels={UINT8: {"Gather": 1}}), GATHERED, [GATHER_ERROR]
    ),
    **{
        f"a result that the standard does not allow at this opset: {place}": (
            replace(target, kernels={DataType.FLOAT8E8M0: {"Cast": 1} if takes else {"Abs": 1}}),
            "g (float[2] x) => (float8e8m0[2] y) { y = Cast <to = 24> (x) }",
            [f"{severity} type-not-allowed | g: y (Cast) | Cast of opset 23 does not support float8e8m0, the type of y"
             " | raise the opset to 24"]
            + ([] if takes else [
                "error target-lacks-kernel | g: y (Cast) | t has no Cast of float8e8m0"
                f" | {LOWER} replaces it if there is an exact replacement"]),
        )
        for place, target, takes, severity in (
            ("taken", UNCHECKED, True, "warning"), ("not taken", UNCHECKED, False, "error"),
            ("taken at its opset", PLAIN, True, "error"))
    },
    "one type of operands": (
        replace(PLAIN, one_type={"RMSNormalization": "the documentation"}),
        MIXED_ADD,
        [f"error target-lacks-form | g: y (RMSNormalization) | t requires one type of the operands of RMSNormalization,"
         f" which are float16 and float | {LOWER} casts them to a type that holds both, if there is one"],
    ),
    "several types of operands": (
        PLAIN,
        MIXED_ADD,
        ["error invalid-model | g: (unnamed) (RMSNormalization) | RMSNormalization: Y has inconsistent type"
         " tensor(float16) | correct the model where it says so, or export it again"],
    ),
}  # fmt: skip


def model_of(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(HEAD + text))


@pytest.mark.parametrize("name", CASES)
def test_a_finding_about_a_target_word_for_word(name: str) -> None:
    target, text, expected = CASES[name]
    found = [
        f"{each.severity.value} {each.code} | {each.site} | {each.message} | {each.help}"
        for each in all_findings(model_of(text), PromotionRules(), target)
    ]
    assert found == expected


SUBJECTS = {
    "no type of one value": ["t float8e4m3fn"],
    "no kernel, twice": ["t has no Add of float16 at opset 23"],
    "nodes of one name": ["n", "n"],
    "one type of operands": ["one-type"],
    "a fusion that fails": ["t fuses QuantizeLinear of int8 wrongly: Relu is lost"],
    "an older opset": [""],
}


def test_a_finding_is_known_by_its_subject() -> None:
    for name, subjects in SUBJECTS.items():
        target, text, _ = CASES[name]
        found = all_findings(model_of(text), PromotionRules(), target)
        assert [each.subject for each in found] == subjects, name


SKIPPED = """k0 = Constant <value = float {1}> () k1 = local.Own (k0) k2 = qonnx.custom_op.general.BipolarQuant (k0, k0)
    k3 = other.Thing (k1)"""
SKIPPED_DEFINED = """<domain: "local", opset_import: ["" : 23]> Own (a) => (b) { b = Identity (a) }
    <domain: "qonnx.custom_op.general", opset_import: ["" : 23]> BipolarQuant (a, c) => (b) { b = Identity (a) }"""


@pytest.mark.parametrize("name", [name for name, (_, _, expected) in CASES.items() if expected])
def test_nodes_that_are_skipped_hide_none_that_follows(name: str) -> None:
    """Calls of functions, constants and operators of other domains stand before each finding."""
    target, text, expected = CASES[name]
    start = re.search(r"[)>] \{", text[text.index("=>") :])
    assert start is not None
    at = text.index("=>") + start.end()
    more = f"{text[:at]} {SKIPPED} {text[at:]} {SKIPPED_DEFINED}"
    found = [
        f"{each.severity.value} {each.code} | {each.site} | {each.message} | {each.help}"
        for each in all_findings(model_of(more), PromotionRules(), target)
        if each.code != "unknown-operator"
    ]
    assert found == expected


OF_ANY_TARGET = ("invalid-model", "type-not-allowed", "output-type-mismatch")
LOADED = ("unregistered-operator", "target-miscomputes-cast")


def test_what_optimize_leaves_is_told_once() -> None:
    """Errors, as warnings where the target loads the model, or may; none that was reported with place and subject."""
    for name, (target, text, expected) in CASES.items():
        model = model_of(text)
        inference = infer_element_types(model, PromotionRules())
        left = unreported_errors(model, inference, target, ())
        of_target = [line for line in expected if not any(code in line for code in OF_ANY_TARGET)]
        told = [line.partition(" | ")[0] for line in of_target if line.startswith("error")]
        told = [line.replace("error", "warning") if line.endswith(LOADED) else line for line in told]
        assert [f"{each.severity.value} {each.code}" for each in left] == told, name
        assert {each.help for each in left} <= {f"`fit(target={str(target)!r})` tries all other ways"}
        assert unreported_errors(model, inference, target, left) == [], name
        assert unreported_errors(model, inference, target, [replace(each, subject="x") for each in left]) == left, name


CPU = Target("cpu", "", newest_opset=23, newest_ir_version=11)
DEVICE = Target("t", "", newest_opset=23, newest_ir_version=11, fallback=CPU, off_device=frozenset({INT64}))
STRICT = "`strict_device` makes the types that the device lacks an error"
NO_INT64 = "nodes run on cpu and not on the device, which has no int64"
AWAY: dict[str, tuple[str, str]] = {
    "nothing": ("g (float[2] x) => (float[2] y) { y = Abs (x) }", ""),
    "both sides of a cast": (
        """g (float[2] x) => (float[2] y) <float[2] a, int64[2] b> {
            a = Abs (x) b = Cast <to = 7> (a) y = Cast <to = 1> (b) }""",
        f"2 of 3 {NO_INT64}: Cast (2); tensors of 8 bytes go",
    ),
    "a tensor of unknown size": (
        """g (float[n] x, int64[2] i) => (float[n] y, float[2] f) <int64[2] j> {
            j = Abs (i) y = Expand (x, j) z = Neg (j) f = Cast <to = 1> (z) }""",
        f"3 of 4 {NO_INT64}: Abs (1), Cast (1), Neg (1); tensors of 16 bytes go",
    ),
    "seven operators and a constant": (
        """g (int64[n] i) => (float[n] y) { k = Constant <value = int64[1] {1}> ()
            a = Abs (i) b = Neg (a) c = Add (b, k) d = Mul (c, a) e = Sub (d, c) f = Add (e, e) z = Max (f, e)
            g = Cast <to = 1> (z) y = Exp (g) }""",
        f"8 of 9 {NO_INT64}: Add (2), Abs (1), Cast (1), Max (1) and 3 other operators; tensors of 0 bytes, and 1 of"
        " unknown size go",
    ),
    "five operators": (
        """g (int64[1] i) => (int64[1] y) {
            a = Abs (i) b = Neg (a) c = Add (b, b) d = Mul (c, a) y = Sub (d, c) }""",
        f"5 of 5 {NO_INT64}: Abs (1), Add (1), Mul (1), Neg (1) and 1 other operator; tensors of 0 bytes go",
    ),
    "four bits each": (
        """g (int64[3] i) => (float[3] y) <int4[3] a, float[3] b> {
            a = Cast <to = 22> (i) b = Cast <to = 1> (a) y = Abs (b) }""",
        f"1 of 3 {NO_INT64}: Cast (1); tensors of 2 bytes go",
    ),
    "the type that a Where selects": (
        "g (bool[2] c, int64[2] x) => (int64[2] y) { y = Where (c, x, x) }",
        f"1 of 1 {NO_INT64}: Where (1); tensors of 0 bytes go",
    ),
    "an operand of CastLike": (
        "g (int64[2] x, float k) => (float[2] y) { y = CastLike (x, k) }",
        f"1 of 1 {NO_INT64}: CastLike (1); tensors of 0 bytes go",
    ),
    "an operator without operands": (
        "g () => (float y) { s = SequenceEmpty <dtype = 7> () n = SequenceLength (s) y = Cast <to = 1> (n) }",
        f"3 of 3 {NO_INT64}: Cast (1), SequenceEmpty (1), SequenceLength (1); tensors of 0 bytes go",
    ),
    "another domain": ("g (int64[2] x) => (int64[2] y) { y = com.microsoft.Own (x) }", ""),
}


@pytest.mark.parametrize("name", AWAY)
def test_what_leaves_the_device_is_counted(name: str) -> None:
    text, expected = AWAY[name]
    assert _leaving(text, DEVICE) == ([f"{expected} between the two"] if expected else [])
    assert _leaving(text, CPU) == []


KERNELS: list[tuple[dict[str, dict[str, int]], str, list[str]]] = [
    # Kernels of the device, a model, and the operators without one, with the bytes that go between the two.
    ({"float": {"Abs": 1}}, "g (float[2] x) => (float[2] y) <float[2] a> { a = Abs (x) y = Neg (a) }",
     ["no Neg of float: Neg (1); tensors of 8 bytes go"]),
    ({"float": {"Abs": 1, "Neg": 1}}, "g (float[2] x) => (float[2] y) { a = Abs (x) y = Neg (a) }", []),
    ({"float": {"Abs": 1, "Neg": 24}}, "g (float[2] x) => (float[2] y) <float[2] a> { a = Abs (x) y = Neg (a) }",
     ["no Neg of float: Neg (1); tensors of 8 bytes go"]),
    ({"float": {"Abs": 1, "Neg": 23}}, "g (float[2] x) => (float[2] y) { a = Abs (x) y = Neg (a) }", []),
    ({"string": {"Identity": 1}},
     "g (string[2] x) => (string[2] y) <string[2] a> { a = StringConcat (x, x) y = Identity (a) }",
     ["no StringConcat of string: StringConcat (1); tensors of 0 bytes, and 1 of unknown size go"]),
]  # fmt: skip


def test_operators_without_a_kernel_leave_the_device() -> None:
    for kernels, text, expected in KERNELS:
        device = replace(DEVICE, off_device=frozenset(), kernels=kernels)
        told = [f"1 of 2 nodes run on cpu and not on the device, which has {each} between the two" for each in expected]
        assert _leaving(text, device) == told, text


_S, _OUT = "float[2] x, float[2,1] v, int64[2] t", "(y)"
PRESCRIBED = [
    (_S, _OUT, "<int64[2] s = {2, 1}> { y = Reshape (x, s) }", True),
    (_S, _OUT, "<int64[2] s = {2, 1}> { y = Neg (x) }", False),
    (_S, _OUT, "<int64[2] s = {2, 1}> { y = Reshape (x, s) z = Expand (x, s) }", True),
    (_S, _OUT, "<int64[2] s = {2, 1}> { y = Reshape (x, s) z = Neg (s) }", False),
    (_S, _OUT, "<int64[2] s = {0, 1}> { y = Gather (x, s) }", False),
    (_S, _OUT, "<int64[2] s = {2, 1}> { y = local.Own (s) }", False),
    (_S, _OUT, "{ s = Constant <value_ints = [2, 1]> () y = Reshape (x, s) }", True),
    (_S, _OUT, "{ s = Shape (v) y = Reshape (x, s) }", True),
    (_S, _OUT, "{ k = Shape (v) s = Abs (k) y = Reshape (x, s) }", False),
    (_S, _OUT, "{ s = Identity (t) y = Reshape (x, s) }", False),
    (_S, _OUT, "{ s = local.Own (x) y = Reshape (x, s) }", False),
    # Not what a caller gives or gets.
    (f"{_S}, int64[2] s", _OUT, "{ y = Reshape (x, s) }", False),
    (_S, "(y, int64[2] s)", "<int64[2] s = {2, 1}> { y = Reshape (x, s) }", False),
    (_S, "(y, int64[2] s)", "{ s = Shape (v) y = Reshape (x, s) }", False),
]


@pytest.mark.parametrize(("inputs", "outputs", "body", "prescribed"), PRESCRIBED)
def test_a_value_whose_type_the_standard_prescribes(inputs: str, outputs: str, body: str, prescribed: bool) -> None:
    model = model_of(f"g ({inputs}) => {outputs} {body}")
    (value,) = (value for value in all_values(model) if value.name == "s")
    assert is_prescribed(value, imports_by_scope(model)) is prescribed


@pytest.mark.parametrize(("newest", "lacks"), [(23, False), (22, True)])
def test_an_operator_that_is_newer_than_the_device_leaves_it(newest: int, lacks: bool) -> None:
    text = """g (float[2,4] x, float[4] s) => (float[2,4] y) <float[2,4] a> {
        a = RMSNormalization (x, s) y = Abs (a) }"""
    assert _leaving(text, replace(DEVICE, newest_opset=newest)) == lacks * [
        "1 of 2 nodes run on cpu and not on the device, which has no RMSNormalization of opset 23: RMSNormalization"
        " (1); tensors of 32 bytes go between the two"
    ]


def _leaving(text: str, target: Target) -> list[str]:
    notes = [each for each in check(model_of(text), target=target) if each.code == "leaves-device"]
    assert {each.help for each in notes} <= {STRICT}
    return [each.message for each in notes]


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("t = Transpose <perm = [1, 0, 2]> (k) c = Cast <to = 1> (t) y = MatMul (c, two)", Severity.ERROR),
        ("t = Transpose <perm = [1, 2, 0]> (k) c = Cast <to = 1> (t) y = MatMul (two, c)", Severity.ERROR),
        (
            "t = Transpose <perm = [1, 0, 2]> (k) c = Cast <to = 11> (t) d = Cast <to = 11> (two) y = MatMul (c, d)",
            Severity.ERROR,
        ),
        (
            "t = Transpose <perm = [1, 0, 2]> (k) c = Cast <to = 1> (t) u = Reshape (two, s) y = MatMul (c, u)",
            Severity.WARNING,
        ),
        ("u = Reshape (k, s) t = Transpose <perm = [1, 0, 2]> (u) y = MatMul (t, k)", Severity.WARNING),
        ("t = Transpose <perm = [1, 0, 2]> (k) c = Cast <to = 1> (t) y = MatMul (c, three)", None),
        ("t = Transpose <perm = [0, 2, 1]> (k) c = Cast <to = 1> (t) y = MatMul (c, two)", None),
        ("t = Transpose <perm = [1, 0, 2]> (k) c = Cast <to = 6> (t) d = Cast <to = 6> (two) y = MatMul (c, d)", None),
        ("t = Transpose <perm = [1, 0, 2]> (three) y = MatMul (t, two)", None),
        *(
            (
                f"t = Transpose <perm = {list(perm)}> (four) c = Cast <to = 1> (t) y = MatMul (c, two)",
                Severity.ERROR if perm in ((1, 2, 0, 3), (1, 2, 3, 0)) else None,
            )
            for perm in permutations(range(4))
        ),
        ("t = Transpose <perm = [1, 0]> (half) c = Cast <to = 1> (t) y = MatMul (c, three)", None),
    ],
)
def test_products_of_transposed_batches_that_end_the_process(body: str, severity: Severity | None) -> None:
    """In ONNX Runtime 1.32; tests.targets.hazards runs one of them."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float16[A,B,C] k, float[A,B] two,
        float[A,B,C] three, int64[L] s, float16[A,B,C,D] four, float16[A,B] half) => (y) {{ {body} }}"""
    )
    for target, expected in (("onnxruntime-cpu", severity), ("tensorrt-10", None)):
        found = [
            each.severity for each in check(model, target=target) if each.subject == "transpose-cast-matmul-crashes"
        ]
        assert found == ([] if expected is None else [expected])
