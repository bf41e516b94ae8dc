"""Findings about types, word for word: the code, the place, the sentence, the fix, and what each follows from."""

from __future__ import annotations

import onnx
import onnx_ir
import pytest

from castsmith import PromotionRules, check, optimize
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.lowering.check.types import undecided_findings

pytestmark = pytest.mark.usefixtures("untried")

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
UNSAFE = (
    "`optimize(promote_unsafe=True)` makes them float; int32 with float could lose precision:"
    " a safe promotion to floating point needs twice the integer's bits"
)
SAFE = "optimize makes them float"
TORCH = "`optimize(promotion='torch')` promotes them as PyTorch does"
DECLARED = "optimize corrects the declaration"
MIXED, OF_ONE_TYPE = "error mixed-operand-types", "needs operands of one type, but has"

MODELS: dict[str, tuple[str, list[str]]] = {
    "two types": (
        "g (float[2] x, int32[2] n) => (float[2] y) { y = Add (x, n) }",
        [f"{MIXED} | g: y (Add) | Add {OF_ONE_TYPE} x (float) and n (int32) | {UNSAFE} | None"],
    ),
    "a lossless pair": (
        "g (float[2] x, float16[2] h) => (float[2] y) { y = Mul (h, x) }",
        [f"{MIXED} | g: y (Mul) | Mul {OF_ONE_TYPE} h (float16) and x (float) | {SAFE} | None"],
    ),
    "a type that the operator lacks": (
        "g (uint16[2] u) => (uint16[2] z) { z = Neg (u) }",
        [
            "error type-not-allowed | g: z (Neg) | Neg does not support u (uint16, an input) at this opset"
            " | optimize computes it in int32 | None"
        ],
    ),
    "an output of another type": (
        "g (float[2] x) => (double[2] y) { y = Abs (x) }",
        [f"error output-type-mismatch | g: y (Abs) | the output y is declared double but is float | {DECLARED} | None"],
    ),
    "a value of another type": (
        "g (float[2] x) => (float[2] y) <int64[2] a> { a = Abs (x) y = Neg (a) }",
        [f"error value-type-mismatch | g: a (Abs) | the value a is declared int64 but is float | {DECLARED} | None"],
    ),
    "a state that widens": (
        """g (int64 n, float16[2] h, float[2] x) => (float[2] y) {
            y = Loop (n, , h) <body = b (int64 i, bool k, float16[2] s) => (bool ko, float[2] r) {
                ko = Identity (k) r = Abs (x) }> }""",
        [
            f"{MIXED} | g: y (Loop) | the state h is widened by the body, so its initial value must be cast to"
            " float | optimize casts it | None"
        ],
    ),
    "branches that disagree": (
        """g (bool c, float16[2] h, float[2] x) => (float[2] y) {
            y = If (c) <then_branch = t () => (float16[2] p) { p = Abs (h) },
                        else_branch = e () => (float[2] q) { q = Abs (x) }> }""",
        [
            f"{MIXED} | t | the output p must be cast to float, which the node around it needs"
            " | optimize casts it | None"
        ],
    ),
    "inside a branch": (
        """g (bool c, int8[2] h, float[2] x) => (float[2] y) {
            y = If (c) <then_branch = t () => (float[2] p) { p = Add (h, x) },
                        else_branch = e () => (float[2] q) { q = Abs (x) }> }""",
        [f"{MIXED} | t: p (Add) | Add {OF_ONE_TYPE} h (int8) and x (float) | {SAFE} | None"],
    ),
    "one cause, three findings": (
        """g (float[2] x, int32[2] n) => (float[2] y, float[2] z) {
            a = Add (x, n) b = Abs (a) y = Mul (b, n) z = Sub (n, y) }""",
        [
            f"{MIXED} | g: a (Add) | Add {OF_ONE_TYPE} x (float) and n (int32) | {UNSAFE} | None",
            f"{MIXED} | g: y (Mul) | Mul {OF_ONE_TYPE} b (float) and n (int32) | {UNSAFE} | 0",
            f"{MIXED} | g: z (Sub) | Sub {OF_ONE_TYPE} n (int32) and y (float) | {UNSAFE} | 0",
        ],
    ),
    "an unknown operator": (
        "g (float[2] x) => (float[2] y) { y = Nonsense (x) }",
        [
            "error unknown-operator | g: y (Nonsense) | opset 21 of ONNX has no operator Nonsense"
            " | correct its name or its domain, or define it as a function in the model | None"
        ],
    ),
}

WITHOUT_TYPES = [
    f"{MIXED} | g | g: y (If): output 0 of the branches: p (string, made by Identity) and q (float, made by"
    " Abs): string with float have no common type [rule kind] |  | None"
]
OF_ALL = "the result of this cast is"
IMPORTS = '<ir_version: 10, opset_import: ["" : 21, "other" : 1, "lib" : 1, "qonnx.custom_op.general" : 1]>'
OLD, UNCHECKED = (
    '<ir_version: 9, opset_import: ["" : {}]>',
    "note unknown-operator | g: {} | the operators of the domain",
)
NAME_IT = "name the runtime: `check(target=...)` says whether it has them | None"
BRANCHES = """{{ y = If (c) <then_branch = t () => ({}[2] p) {{ p = Abs (x) }},
                               else_branch = e () => (float[2] q) {{ q = Abs (x) }}> }}"""
IN_FUNCTION = '<domain: "lib", opset_import: ["" : 21]> f (c, x) => (y) ' + BRANCHES.format("int32")
OF_BRANCH = "error output-type-mismatch | t: p (Abs) | the output p is declared int32 but is float"
TRUNC = "g (float[2] x, float s) => (float[2] y) { y = qonnx.custom_op.general.Trunc (x, s, s, s, s) }"
OTHERS: dict[str, tuple[str, list[str]]] = {
    "branches without a common type": (
        """g (bool c, string[2] s, float[2] x) => (float[2] y) {
            y = If (c) <then_branch = t () => (string[2] p) { p = Identity (s) },
                        else_branch = e () => (float[2] q) { q = Abs (x) }> }""",
        WITHOUT_TYPES,
    ),
    "operands without a common type": (
        "g (string[2] s, float[2] x) => (float[2] y) { y = Add (s, x) }",
        [f"{MIXED} | g: y (Add) | Add {OF_ONE_TYPE} s (string) and x (float) | string with float have no common"
         " type | None"],
    ),
    "an operand that nothing holds": (
        "g (uint8[2] u, bool[2] b) => (bool[2] y) { y = And (u, b) }",
        ["error type-not-allowed | g: y (And) | u (uint8, an input): And of opset 21 supports neither uint8 nor"
         " a type that holds it (no opset does) | cast the operand in the model | None"],
    ),
    "constants whose casts are undefined and disputed": (
        """g () => (int8[2] y, int8[2] z, float8e4m3fnuz[2] q) <float[2] w = {1000, 1}, float[2] v = {inf, 1}> {
            y = Cast <to = 3> (w) z = Cast <to = 3> (v) q = Cast <to = 18> (v) }""",
        [
            f"warning undefined-constant-cast | g: y (Cast) | {OF_ALL} undefined: element [0] of w is"
            " UNDEFINED: the number is out of range for int8, which holds -128 to 127 | change the constant | None",
            f"warning undefined-constant-cast | g: z (Cast) | {OF_ALL} undefined: element [0] of v is"
            " UNDEFINED: infinity is out of range for int8 | change the constant | None",
            f"warning disputed-constant-cast | g: q (Cast) | {OF_ALL} disputed: element [0] of v is DISPUTED:"
            " before opset 24 the schema makes infinity NaN in float8e4m3fnuz, and runtimes make it the maximum"
            " | `fold_disputed` folds it by the schema's own table | None",
        ],
    ),
    "a power that is declared with the type of its exponent": (
        "g (float[2] x, double[2] e) => (double[2] y) { y = Pow (x, e) }",
        [f"{MIXED} | g: y (Pow) | Pow is declared with their common type, but has x (float) and e (double) | optimize"
         " makes them double | None"],
    ),
    "a result that no opset allows": (
        "g (float[2] x) => (complex64[2] y) { y = Cast <to = 14> (x) }",
        ["error type-not-allowed | g: y (Cast) | Cast of opset 21 does not support complex64, the type of y | choose"
         " another type in the model | None"],
    ),
    "a function that imports no standard operators": (
        """g (float[2] x) => (float[2] y) { y = lib.f (x) }
            <domain: "lib", opset_import: ["lib" : 1]> f (a) => (b) { b = Relu (a) }""",
        ["error unknown-operator | (unnamed): b (Relu) | opset 0 of ONNX has no operator Relu | import opset 1, which"
         " has it | None"],
    ),
    "a domain that is not imported": (
        "g (float[2] x) => (float[2] y) { y = other.Thing (x) }",
        ["error unknown-operator | g: y (Thing) | the domain other of Thing is not imported | import it"
         " | None"],
    ),
    "an operator of a domain that nobody knows": (
        IMPORTS + "g (float[2] x) => (float[2] y) { y = other.Thing (x) }",
        [f"{UNCHECKED.format('y (Thing)')} other are not checked | {NAME_IT}"],
    ),
    "two of them, and what computes with a result of no type": (
        IMPORTS
        + "g (float[2] x) => (float[2] y) { a = other.Thing (x) b = other.More (a) c = Add (b, b) y = Abs (c) }",
        [f"{UNCHECKED.format('a (Thing)')} other are not checked, in 2 nodes; this is the first | {NAME_IT}"],
    ),
    "operators of QONNX": (
        IMPORTS + "g (float[2] x, float s) => (float[2] y) { y = qonnx.custom_op.general.Quant (x, s, s, s) }",
        [],
    ),
    "a Trunc": (IMPORTS + TRUNC, []),
    "a Trunc that is not imported": (
        TRUNC,
        ["warning trunc-version-guessed | g: y (Trunc) | qonnx.custom_op.general is not imported, so version 1 of Trunc"
         " is inferred from its inputs | import the domain | None",
         "error invalid-model | g | No opset import for domain 'qonnx.custom_op.general' | correct the model where it"
         " says so, or export it again | None"],
    ),
    "an operator of a later opset": (
        OLD.format(19) + "g (float[2] x) => (float[2] y) { y = Gelu (x) }",
        ["error unknown-operator | g: y (Gelu) | opset 19 of ONNX has no operator Gelu | import opset 20, which has it"
         " | None"],
    ),
    "a result that no version of another domain allows": (
        IMPORTS.replace("other", "ai.onnx.ml").replace(': 1, "lib"', ': 4, "lib"')
        + """g (string[2] s) => (int8[2] y) {
            y = ai.onnx.ml.LabelEncoder <keys_strings = ["a"], values_tensor = int8[1] {1}> (s) }""",
        ["error type-not-allowed | g: y (LabelEncoder) | LabelEncoder of version 4 of ai.onnx.ml does not support int8,"
         " the type of y | choose another type in the model | None"],
    ),
    "arithmetic of bool": (
        "g (bool[2] b) => (bool[2] y) { y = Add (b, b) }",
        ["error type-not-allowed | g: y (Add) | Add does not support b (bool, an input) at this opset | optimize makes"
         " it Or | None"],
    ),
    "a type that control flow does not pass on": (
        OLD.format(12) + """g (bool c, bfloat16[2] x) => (y) {
            y = If (c) <then_branch = t () => (p) { p = Neg (x) }, else_branch = e () => (q) { q = Neg (x) }> }""",
        ["error type-not-allowed | g: y (If) | bfloat16: If of opset 12 does not pass on bfloat16 (opset 16 allows it)"
         " | cast the operand in the model | None"]
        + [f"error type-not-allowed | {place} (Neg) | x (bfloat16, an input): Neg needs a cast of its operands here,"
           " and Cast of opset 12 does not support bfloat16 (opset 13 allows it) | cast the operand in the model | None"
           for place in ("t: p", "e: q")],
    ),
    "a state of a type that loops of the opset lack, which is widened to one that they have": (
        """<ir_version: 8, opset_import: ["" : 14]> g (int64 n, bfloat16[2] h, float[2] x) => (float[2] y) {
            y = Loop (n, , h) <body = b (int64 i, bool k, bfloat16[2] s) => (bool ko, float[2] r) {
                ko = Identity (k) r = Abs (x) }> }""",
        [f"{MIXED} | g: y (Loop) | the state h is widened by the body, so its initial value must be cast to"
         " float | optimize casts it | None"],
    ),
    "control flow of a domain of its own": (
        IMPORTS + """g (bool c, float[2] x) => (float[2] y) {
            y = other.If (c) <then_branch = t () => (float[2] p) { p = Abs (x) }> }""",
        [f"{UNCHECKED.format('y (If)')} other are not checked | {NAME_IT}"],
    ),
    "control flow that is not imported": (
        '<ir_version: 10, opset_import: ["other" : 1]> g (bool c, float[2] x) => (float[2] y) '
        + BRANCHES.format("float").replace("{{", "{").replace("}}", "}").replace("Abs", "other.Abs"),
        ["error unknown-operator | g: y (If) | opset 0 of ONNX has no operator If | import opset 1, which has it"
         " | None",
         f"{UNCHECKED.replace('g:', 't:').format('p (Abs)')} other are not checked, in 2 nodes; this is the first"
         f" | {NAME_IT}"],
    ),
    "a condition that is a number": (
        "g (float c, float[2] x) => (float[2] y) " + BRANCHES.format("float").replace("{{", "{").replace("}}", "}"),
        ["error type-not-allowed | g: y (If) | float: If of opset 21 needs bool, not float | cast the operand in the"
         " model | None"],
    ),
    "a declaration in a function": (
        IMPORTS + "g (bool c, float[2] x) => (float[2] y) { y = lib.f (c, x) }" + IN_FUNCTION,
        [f"{OF_BRANCH} | {DECLARED} | None"],
    ),
    "a declaration in a function that is called twice with one type": (
        IMPORTS + "g (bool c, float[2] x) => (float[2] y) { a = lib.f (c, x) y = lib.f (c, a) }" + IN_FUNCTION,
        [f"{OF_BRANCH} | {DECLARED} | None"],
    ),
    "a result of another type than the declared, and what follows": (
        "g (float16[2] h, float16 k) => (float[2] y) <float[2] a> { a = Add (h, k) y = Neg (a) }",
        ["error value-type-mismatch | g: a (Add) | the value a is declared float but is float16 | optimize"
         " corrects the declaration | None",
         "error output-type-mismatch | g: y (Neg) | the output y is declared float but is float16 | optimize"
         " corrects the declaration | 0"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_finding_word_for_word(name: str) -> None:
    text, expected = OTHERS[name]
    assert findings(text) == expected


def test_a_result_that_the_opset_lacks() -> None:
    """At the opset that has the type nothing is told; of equal nodes each is told."""
    text = "g (float[2] x) => (float8e4m3fn[2] y, float8e4m3fn[2] z) { y = Cast <to = 17> (x) z = Cast <to = 17> (x) }"
    assert findings(text, head='<ir_version: 9, opset_import: ["" : 19]>') == []
    assert findings(text, head='<ir_version: 9, opset_import: ["" : 18]>') == [
        f"error type-not-allowed | g: {name} (Cast) | Cast of opset 18 does not support float8e4m3fn, the type of"
        f" {name} | raise the opset to 19 | None"
        for name in ("y", "z")
    ]


@pytest.mark.parametrize(
    ("operands", "way_out"),
    [
        ("h, k", "optimize makes them float16"),
        ("k, h", "optimize makes them float16"),
        ("h, c", "optimize makes them float16"),
        ("h, v", "optimize makes them float"),
        ("h, u", "their ranks are unknown, and the result depends on which of them are scalars: declare their shapes"),
    ],
)
def test_the_way_out_under_a_rule_that_depends_on_ranks(operands: str, way_out: str) -> None:
    """PyTorch: a float scalar leaves float16 as it is, a vector does not; `u` has an unknown rank."""
    text = f"""g (float16[2] h, float[2] v, int64[1] n) => (float16[2] y) <float k = {{2}}> {{
        u = Reshape (v, n) c = Constant <value_float = 2.0> () y = Add ({operands}) }}"""
    mixed = [line for line in findings(text, promotion="torch") if line.startswith(MIXED)]
    assert [line.split(" | ")[3] for line in mixed] == [way_out]


def findings(
    text: str, producer: str = "", promotion: PromotionRules | str | None = None, head: str = HEAD
) -> list[str]:
    model = onnx_ir.from_proto(onnx.parser.parse_model(text if text.startswith("<") else head + text))
    model.producer_name = producer
    found = check(model) if promotion is None else check(model, promotion=promotion)
    fields = [
        (f"{each.severity.value} {each.code}", each.site, each.message, each.help, each.follows) for each in found
    ]
    return [" | ".join(map(str, line)) for line in fields]


@pytest.mark.parametrize("name", MODELS)
def test_a_finding_word_for_word(name: str) -> None:
    text, expected = MODELS[name]
    assert findings(text) == expected


@pytest.mark.parametrize("producer", ["pytorch", "PyTorch", "torch"])
def test_operands_of_a_model_of_pytorch(producer: str) -> None:
    for name, (text, expected) in MODELS.items():
        own = [line.replace(UNSAFE, TORCH).replace(SAFE, TORCH) for line in expected]
        assert findings(text, producer) == own, name
    for name in ("operands without a common type", "branches without a common type"):
        assert findings(OTHERS[name][0], producer) == OTHERS[name][1]
    # A constant has a rank, also if it has no shape; without it the rules of PyTorch decide nothing.
    text = "g (float16[2] h) => (float16[2] y) { c = Constant <value_float = 2.0> () y = Add (h, c) }"
    assert (
        findings(text, producer)[0]
        == f"{MIXED} | g: y (Add) | Add {OF_ONE_TYPE} h (float16) and c (float) | {TORCH} | None"
    )
    text = "g (float16[2] h, float[N] v, int64[1] n) => (float16[2] y) { u = Reshape (v, n) y = Add (h, u) }"
    assert findings(text, producer)[0].split(" | ")[3] == SAFE
    text, expected = MODELS["two types"]
    safe = PromotionRules(promote_unsafe=True)
    assert findings(text, producer, safe) == [expected[0].replace(UNSAFE, SAFE)]
    assert findings(text, "tensorflow") == expected


def test_a_function_called_with_several_types_declares_none() -> None:
    calls = "g (bool c, float[2] x, double[2] d) => (float[2] y, double[2] z) { y = lib.f (c, x) z = lib.f (c, d) }"
    assert not [line for line in findings(IMPORTS + calls + IN_FUNCTION) if "mismatch" in line]


def test_with_a_target_unknown_operators_are_warnings_and_domains_its_own() -> None:
    text = "g (float[2] x) => (float[2] y) { a = other.Thing (x) b = Nonsense (a) y = none.More (b) }"
    found = check(onnx.parser.parse_model(IMPORTS + text), target="qonnx")
    assert [(each.severity.value, str(each.site)) for each in found if each.code == "unknown-operator"] == [
        ("warning", "g: b (Nonsense)"),
        ("warning", "g: y (More)"),
    ]


def test_undecided_is_what_has_no_common_type_and_no_reason() -> None:
    text = """g (float16[N] h, float[N] x, string[N] s, int64[1] n) => (float[N] y) {
        u = Reshape (x, n) a = Add (h, u) b = Add (h, x) y = Add (s, x) }"""
    inference = infer_element_types(onnx_ir.from_onnx_text(HEAD + text), PromotionRules.preset("torch"))
    found = undecided_findings(inference, PromotionRules.preset("torch"))
    assert [str(each.site) for each in found] == ["g: a (Add)"]


def test_what_optimize_leaves_undecided_is_an_error_of_the_result() -> None:
    text = "g (float16[N] x, float z) => (float16[N] y) { u = ReduceMax (z) y = Add (x, u) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}')
    result = optimize(model, promotion="torch")
    assert [str(finding) for finding in result.diagnostics] == [
        "g: y (Add): mixed-operand-types Add needs operands of one type, but has x (float16) and u (float) (their ranks"
        " are unknown, and the result depends on which of them are scalars: declare their shapes)"
    ]
