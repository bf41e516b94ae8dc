"""`check` has an error exactly where the runtime refuses: models with one thing wrong, each asked of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnx.checker
import onnx.parser
import onnx.shape_inference
import onnx_ir
import onnxruntime
import pytest
from onnx_ir import DataType

import castsmith
from castsmith.ir.records import Severity
from castsmith.lowering.check.run import all_findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.targets.target import Target
from tests.sampling import check_all
from tests.versions import ONNXRUNTIME

pytestmark = pytest.mark.usefixtures("untried")

IMPORTS = '<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3, "com.microsoft" : 1, "lib" : 1]>'

BODIES = {
    "sound": "g (float[2] x) => (float[2] y) { y = Relu (x) }",
    "an operator of a library": "g (float[2] x) => (float[2] y) { y = lib.Foo (x) }",
    "no such operator of com.microsoft": "g (float[2] x) => (float[2] y) { y = com.microsoft.Foo (x) }",
    "no kernel of com.microsoft": "g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.BiasSplitGelu (x, x) }",
    "an operator of com.microsoft": "g (float[4] x) => (float[4] y) { y = com.microsoft.BiasGelu (x, x) }",
    "too few inputs of com.microsoft": "g (float[2,4] x) => (float[2,4] y) { y = com.microsoft.BiasGelu (x) }",
    "too many inputs of com.microsoft": "g (float[4] x) => (float[4] y) { y = com.microsoft.BiasGelu (x, x, x) }",
    "two types in com.microsoft": "g (float[4] x, double[4] b) => (float[4] y) { y = com.microsoft.BiasGelu (x, b) }",
    "a wide value and a narrow bias in com.microsoft": (
        "g (double[3,3] x, float[3,3] b) => (float[3,3] y) { y = com.microsoft.FastGelu (x, b) }"
    ),
    "a narrow value and a wide bias in com.microsoft": (
        "g (float[3,3] x, double[3,3] b) => (float[3,3] y) { y = com.microsoft.FastGelu (x, b) }"
    ),
    "a result of another type of com.microsoft": "g (float[4] x) => (double[4] y) { y = com.microsoft.FastGelu (x) }",
    "a type that com.microsoft lacks": "g (int32[4] x) => (int32[4] y) { y = com.microsoft.FastGelu (x) }",
    "an attribute that com.microsoft lacks": (
        "g (float[4] x) => (float[4] y) { y = com.microsoft.QuickGelu <beta = 1.0> (x) }"
    ),
    "another kind of attribute of com.microsoft": (
        "g (float[4] x) => (float[4] y) { y = com.microsoft.QuickGelu <alpha = 1> (x) }"
    ),
    "an operator of ai.onnx.ml": "g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Binarizer (x) }",
    "no such operator of ai.onnx.ml": "g (float[2] x) => (float[2] y) { y = ai.onnx.ml.Relu (x) }",
    "a standard operator of a later opset": "g (float[2] x) => (float[2] y) { y = Swish (x) }",
    "no such operator": "g (float[2] x) => (float[2] y) { y = Foo (x) }",
    "shapes that contradict": "g (float[2] x, float[3] z) => (float[2] y) { y = Add (x, z) }",
    "ranks that contradict": "g (float[2] x, float[2,2] z) => (float[2] y) { y = Concat <axis = 0> (x, z) }",
    "widths that contradict": "g (float[2,3] x, float[2,3] z) => (float[2,3] y) { y = MatMul (x, z) }",
    "an axis beyond the rank": "g (float[2] x, float[2] z) => (float[4] y) { y = Concat <axis = 3> (x, z) }",
    "a pair of types without a kernel": (
        "g (float[2] x) => (bfloat16[2] y) { y = RandomUniformLike <dtype = 16> (x) }"
    ),
    "a type without a kernel beside one with": (
        "g (uint8[2,2] x, float s, uint8 z, int8[2,2] b, uint16 o) => (uint16[2,2] y)"
        " { y = QLinearMatMul (x, s, z, b, s, z, s, o) }"
    ),
    "a sequence of maps": (
        "g (float[1,2] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (x) }"
    ),
    "an attribute that the operator lacks": "g (float[2] x) => (float[2] y) { y = Relu <alpha = 1.0> (x) }",
}
HEADERS = {
    "a newer opset of ai.onnx.ml": '<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 6]>',
    "a newer opset of com.microsoft": '<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 2]>',
    "any opset of a library": '<ir_version: 10, opset_import: ["" : 20, "lib" : 1000]>',
}
NOT_IMPORTED = {
    **{
        f"{name}, which is not imported": BODIES[name]
        for name in (
            "a wide value and a narrow bias in com.microsoft",
            "a narrow value and a wide bias in com.microsoft",
            "a result of another type of com.microsoft",
            "a type that com.microsoft lacks",
            "an operator of com.microsoft",
        )
    },
    "com.microsoft is not imported": "g (float[4] x) => (float[4] y) { y = com.microsoft.QuickGelu (x) }",
    "a library is not imported": "g (float[4] x) => (float[4] y) { y = lib.Foo (x) }",
}
MODELS = {
    **{name: IMPORTS + body for name, body in BODIES.items()},
    **{name: header + BODIES["sound"] for name, header in HEADERS.items()},
    **{name: '<ir_version: 10, opset_import: ["" : 20]>' + body for name, body in NOT_IMPORTED.items()},
}


def refusal(model: onnx.ModelProto) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:  # of ONNX Runtime, which has many kinds
        return str(error)
    return ""


def invalidity(model: onnx.ModelProto) -> str:
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        return str(error)
    return ""


def openvino_refusal(model: onnx.ModelProto) -> str:
    with TemporaryDirectory() as folder:  # of models in memory it loads more
        (path := Path(folder, "model.onnx")).write_bytes(model.SerializeToString())
        try:
            pytest.importorskip("openvino").Core().compile_model(path, "CPU")
        except RuntimeError as error:
            return str(error)
    return ""


def errors(model: onnx.ModelProto, target: str | None) -> list[str]:
    return [str(each) for each in castsmith.check(model, target=target) if each.severity is Severity.ERROR]


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_an_error_is_what_onnxruntime_refuses():
    wrong = []
    for name, text in MODELS.items():
        model = onnx.parser.parse_model(text)
        theirs, ours = refusal(model), errors(model, "onnxruntime-cpu")
        if bool(theirs) != bool(ours):
            wrong.append(f"{name}: {theirs or 'loads'}; check: {ours}")
    assert not wrong


def test_an_error_without_a_target_is_what_the_checker_refuses():
    wrong = []
    for name, text in MODELS.items():
        if "com.microsoft" in name:  # of which the checker has no schemas
            continue
        model = onnx.parser.parse_model(text)
        theirs = invalidity(model)
        if bool(theirs) != bool(ours := errors(model, None)):
            wrong.append(f"{name}: {theirs or 'valid'}; check: {ours}")
    assert not wrong


def test_an_unknown_domain_is_a_note_without_a_target():
    (found,) = castsmith.check(onnx.parser.parse_model(MODELS["an operator of a library"]))
    assert (found.code, found.severity) == ("unknown-operator", Severity.NOTE)


def test_the_library_is_named_as_the_way_out():
    (found,) = castsmith.check(onnx.parser.parse_model(MODELS["an operator of a library"]), target="onnxruntime-cpu")
    assert found.message == "onnxruntime-cpu has no operator Foo of lib: it needs a custom operator library"
    assert "register_custom_ops_library" in found.help


def test_an_operator_that_openvino_does_not_convert_is_an_error():
    (found,) = castsmith.check(onnx.parser.parse_model(MODELS["an operator of a library"]), target="openvino-cpu")
    assert (found.code, found.severity) == ("unregistered-operator", Severity.ERROR)
    assert found.message == "openvino-cpu has no operator Foo of lib"
    assert castsmith.check(onnx.parser.parse_model(MODELS["sound"]), target="openvino-cpu") == []


def test_optimize_and_fit_leave_operators_of_a_library_alone():
    """The application may register it: what is written before is written after, with a warning."""
    model = onnx.parser.parse_model(MODELS["an operator of a library"])
    result = castsmith.optimize(model, target="onnxruntime-cpu")
    assert [(each.code, each.severity) for each in result.diagnostics] == [("unregistered-operator", Severity.WARNING)]
    assert [step.command for step in castsmith.fit(model, target="onnxruntime-cpu").plan] == ["optimize"]


DECLARED = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2,3] x, float[2,3] w) => (float[2,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}>
    { z = Relu (x) y = Add (z, w) }"""


def _declare(value: onnx.ValueInfoProto, dtype: int = 1, *sizes: int | str | None) -> None:
    value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, dtype, sizes or (2, 3)))


DECLARATIONS: dict[str, Callable[[onnx.GraphProto], object]] = {
    "as they are": lambda _: None,
    "an input without a type": lambda graph: graph.input[0].ClearField("type"),
    "an input of type 0": lambda graph: _declare(graph.input[0], 0),
    "an unused input without a type": lambda graph: graph.input.add(name="q"),
    "an output without a type": lambda graph: graph.output[0].ClearField("type"),
    "an output of type 0": lambda graph: _declare(graph.output[0], 0),
    "a value without a type": lambda graph: graph.value_info.add(name="z"),
    "a value of type 0": lambda graph: _declare(graph.value_info.add(name="z"), 0),
    "an initializer of another type": lambda graph: _declare(graph.input[1], 7),
    "an initializer of another shape": lambda graph: _declare(graph.input[1], 1, 3, 3),
    "an initializer of another rank": lambda graph: _declare(graph.input[1], 1, 6),
    "an initializer of type 0": lambda graph: _declare(graph.input[1], 0),
    "an initializer of unknown sizes": lambda graph: _declare(graph.input[1], 1, "N", None),
    "an initializer of a size below 0": lambda graph: _declare(graph.input[1], 1, -1, 3),
    "an initializer whose input has no type": lambda graph: graph.input[1].ClearField("type"),
    "two equal initializers": lambda graph: graph.initializer.append(graph.initializer[0]),
    "two initializers of one name and type": lambda graph: graph.initializer.append(_tensor(1, 2, 3)),
    "two initializers of several types": lambda graph: graph.initializer.append(_tensor(7, 2, 3)),
    "two initializers of several shapes": lambda graph: graph.initializer.append(_tensor(1, 1, 3)),
    "two equal inputs": lambda graph: graph.input.append(graph.input[0]),
    "two equal outputs": lambda graph: graph.output.append(graph.output[0]),
    "two equal values": lambda graph: [_declare(graph.value_info.add(name="z")) for _ in "ab"],
    "two equal nodes": lambda graph: graph.node.insert(0, graph.node[0]),
    "nodes out of order": lambda graph: graph.node.append(graph.node.pop(0)),
}


LOADED_BY_OPENVINO = ("two initializers of several shapes", "two equal inputs")
"""Which have no meaning by the standard: an error all the same."""


def _tensor(dtype: int, *dims: int) -> onnx.TensorProto:
    return onnx.helper.make_tensor("w", dtype, dims, [7] * (dims[0] * dims[1]))


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_declarations_are_errors_where_a_runtime_or_the_checker_refuses_them():
    wrong = []
    for name, change in DECLARATIONS.items():
        model = onnx.parser.parse_model(DECLARED)
        change(model.graph)
        verdicts = {"onnxruntime-cpu": refusal(model), None: invalidity(model), "openvino-cpu": openvino_refusal(model)}
        for target, theirs in verdicts.items():
            loads_all_the_same = target == "openvino-cpu" and name in LOADED_BY_OPENVINO
            if bool(theirs) != bool(ours := errors(model, target)) and not loads_all_the_same:
                wrong.append(f"{name}, {target or 'checker'}: {theirs or 'loads'}; check: {ours}")
    assert not wrong


CALL = """g (float[2] x) => (float[2] y) { y = FUNCTION (x) }
    <domain: "lib", opset_import: ["" : 20, "lib" : 1]> f (p) => (q) { q = OPERATOR (p) }"""
_PARAMETERS = "float s = {1}, uint8 z = {0}, float[1] s1 = {1}, uint8[1] z1 = {0}, float[4] s4 = {1, 1, 1, 1}"


def filled(text: str, **words: str) -> str:
    for name, word in {"PARAMETERS": _PARAMETERS, **words}.items():
        text = text.replace(name, word)
    return text


_ODD_IF = """g (float[2] x, bool c) => (float[n] y) { y = If (c)
    <then_branch = t () => (float[n] u) { BRANCH }, else_branch = e () => (float[2] v) { v = Neg (x) }> }"""
_ODD_CALL = 'g (float[2] x) => (y) { y = lib.f (x) } <domain: "lib", opset_import: ["" : 20]> f (a) => (b) { BODY }'
_SQUEEZE = "i = Constant <value_ints = [0]> () b = Unsqueeze (a, i)"
WRITTEN: dict[str, tuple[int, str]] = {
    "the domain of a node in words": (20, "y = ai.onnx.Neg (x)"),
    "that of one in a branch": (20, filled(_ODD_IF, BRANCH="u = ai.onnx.Neg (x)")),
    "that of one in a function": (20, filled(_ODD_CALL, BODY="b = ai.onnx.Neg (a)")),
    "a Constant of another domain": (20, "c = d.Constant <value_float = 1.0> () y = Add (x, c)"),
    "an unused one": (20, "c = d.Constant <value_float = 1.0> () y = Neg (x)"),
    "one in a branch": (20, filled(_ODD_IF, BRANCH="u = d.Constant <value_floats = [1.0, 2.0]> ()")),
    "one in a function": (20, filled(_ODD_CALL, BODY="c = d.Constant <value_float = 1.0> () b = Add (a, c)")),
    "a Constant with an input": (20, "c = Constant <value_float = 1.0> (x) y = Add (x, c)"),
    "a Constant with another attribute": (
        20,
        filled(_ODD_IF, BRANCH="u = Constant <value_floats = [1.0], axis = 1> ()"),
    ),
    "a function of a newer opset": (9, filled(_ODD_CALL, BODY=_SQUEEZE)),
    "a function of a newer opset with the same operators": (13, filled(_ODD_CALL, BODY=_SQUEEZE)),
    "a call without an operand": (20, filled(_ODD_CALL, BODY="b = Neg (a)").replace("f (x)", "f ()")),
    "a call without an operand that may be left out": (
        20,
        filled(_ODD_CALL, BODY="b = Clip (a, c)").replace("f (a)", "f (a, c)"),
    ),
    "no first operand of a list": (20, "y = Sum (, x)"),
    "no second one": (20, "y = Sum (x, )"),
    "a surplus operand": (20, "y = Neg (x, x)"),
    "a surplus operand that is counted": (20, "y = Pow (x, x, x)"),
    "a surplus result": (20, "y, z = Pow (x, x)"),
    "a surplus result that an output depends on": (
        20,
        "g (float[2] x) => (float[2] y, float[2] w) { y, z = Neg (x) w = Abs (z) }",
    ),
    "a surplus result that is an output": (20, "g (float[2] x) => (float[2] y, float[2] z) { y, z = Neg (x) }"),
    "a surplus result that is used": (20, "y, z = Neg (x) w = Abs (z)"),
    "surplus, and shapes that contradict": (
        20,
        "g (float[2] x, float[3] w) => (float[2] y) { z = Neg (x, x) y = Add (z, w) }",
    ),
    "a Cast without operand": (20, "y = Cast <to = 1> ()"),
    "a type of a later opset": (11, "z = Cast <to = 17> (x) y = Cast <to = 1> (z)"),
    "an operand of a type that the standard does not allow": (
        20,
        "g (float[2] x, uint8[1] i) => (float[1] y) { y = Gather (x, i) }",
    ),
    "operators on a type that the standard does not allow": (20, "g (uint8[2] x) => (uint8[2] y) { y = Tan (x) }"),
    "an unused node": (20, "z = lib.Foo (x) y = Neg (x)"),
    "an unused node, and a used one": (20, "z = lib.Foo (x) y = lib.Foo (x)"),
    "a number of another kind": (20, "y = Softmax <axis = 0.0> (x)"),
    "numbers instead of one": (20, "y = Softmax <axis = [0]> (x)"),
    "a zero point of another type": (
        20,
        "g (uint8[2] x, float s, int8 z) => (float[2] y) { y = DequantizeLinear (x, s, z) }",
    ),
    "a number more than at opset 1": (1, "g (float[2] x, int64[1] s) => (float[2] y) { y = Reshape (x, s) }"),
    "a Constant with a second result": (20, "c, d = Constant <value_float = 1.0> () y = Add (x, c)"),
    "a Constant of text": (20, 'c = Constant <value_string = "1"> () d = Cast <to = 1> (c) y = Add (x, d)'),
    "an attribute that a LayerNormalization lacks": (20, "y = LayerNormalization <axes = 1> (x, x)"),
    "nodes that form a cycle": (20, "z = Add (x, y) y = Neg (z)"),
    "no imports": (0, "y = Neg (x)"),
    "no imports, and an operator of opset 13": (0, f"g (float[2] a) => (float[1,2] b) {{ {_SQUEEZE} }}"),
    "a newer opset than any": (99, "y = Neg (x)"),
    "a newer opset than any, and no such operator": (99, "y = Foo (x)"),
}
"""Opsets, 0 for no imports, and graphs, or the nodes of one of an operand x and a result y."""
LOADED = {("a type of a later opset", "openvino-cpu")}
"""And computes it otherwise, which is an error too."""


REMOVED = ("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh")


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_experimental_operators_end_at_opset_10():
    for name in REMOVED:
        for opset in (9, 10, 20):
            model = onnx.parser.parse_model(
                f'<ir_version: 10, opset_import: ["" : {opset}]> g (float[2] x) => (float[2] y) {{ y = {name} (x) }}'
            )
            is_known = "is not a registered" not in refusal(model)
            assert (is_known, errors(model, "onnxruntime-cpu") == []) == (opset < 10, opset < 10), (name, opset)


@pytest.mark.skipif(ONNXRUNTIME < (1, 32), reason="the target is ONNX Runtime 1.32")
def test_what_is_written_unusually_is_an_error_where_a_runtime_refuses_it():
    wrong = []
    for name, (opset, text) in WRITTEN.items():
        graph = text if text.startswith("g (") else f"g (float[2] x) => (float[2] y) {{ {text} }}"
        header = '<ir_version: 10, opset_import: ["" : 20, "lib" : 1], producer_name: "p">'
        model = onnx.parser.parse_model(header + graph)
        model.opset_import[0].version = opset
        if not opset:
            del model.opset_import[:]
        for target, ask in {"onnxruntime-cpu": refusal, "openvino-cpu": openvino_refusal}.items():
            theirs, ours = ask(model), errors(model, target)
            if bool(theirs) != bool(ours) and (name, target) not in LOADED:
                wrong.append(f"{name}, {target}: {theirs[-200:] or 'loads'}; check: {ours}")
    assert not wrong


def test_a_domain_in_words_and_sparse_weights_load_after_optimize():
    text = "g (float[2] x) => (float[2] y) { z = ai.onnx.Neg (x) y = Add (z, s) }"
    model = onnx.parser.parse_model(IMPORTS + text)
    values, indices = onnx.helper.make_tensor("s", 1, [1], [1.0]), onnx.helper.make_tensor("", 7, [1], [0])
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2]))
    found = castsmith.check(model, target="openvino-cpu")
    assert [(each.subject, each.help) for each in found] == [
        (subject, "`optimize(target='openvino-cpu')` writes it otherwise")
        for subject in ("sparse-initializers", "spelled-domain")
    ]
    result = castsmith.optimize(model, target="openvino-cpu")
    assert (openvino_refusal(result.proto), castsmith.check(result.model, target="openvino-cpu")) == ("", [])


def test_optimize_inlines_functions_for_openvino():
    model = onnx.parser.parse_model(IMPORTS + filled(CALL, FUNCTION="lib.f", OPERATOR="Neg"))
    (found,) = castsmith.check(model, target="openvino-cpu")
    assert found.help == "`optimize(target='openvino-cpu')` inlines them"
    result = castsmith.optimize(model, target="openvino-cpu")
    assert "openvino-cpu does not load calls of functions" in [rewrite.reason for rewrite in result.rewrites]
    assert (openvino_refusal(result.proto), errors(result.proto, "openvino-cpu")) == ("", [])
    assert len(castsmith.optimize(model, target="onnxruntime-cpu").model.functions) == 1


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3)])
@pytest.mark.parametrize("dtype", ["float", "double"])
def test_a_recurrent_operator_of_double_is_listed_and_fails_when_it_runs(op_type: str, gates: int, dtype: str) -> None:
    operands = f"{dtype}[2, 1, 3] x, {dtype}[1, {gates}, 3] w, {dtype}[1, {gates}, 1] r"
    text = f"g ({operands}) => ({dtype}[2, 1, 1, 1] y) {{ y = {op_type} <hidden_size = 1> (x, w, r) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    found = castsmith.check(model, target="onnxruntime-cpu")
    lacking = [f"onnxruntime-cpu has no {op_type} of double at opset 21"]
    assert [each.message for each in found] == (lacking if dtype == "double" else [])


X = "g (float[2] x) => (float[2] y)"
OPERATORS = Target(
    "t",
    newest_opset=23,
    newest_ir_version=11,
    types=ELEMENT_TYPES,
    kernels={},
    operators={"": {"Add", "Neg", "Softmax", "Sum", "Identity"}, "com.microsoft": {"BiasGelu"}},
    attributes={"Softmax": {"axis": (0, -1)}},
    extension="load(path)",
)
LISTED = replace(OPERATORS, operators={}, attributes={}, registry="onnxruntime-cpu", opsets={"ai.onnx.ml": 3})
CALLING = replace(OPERATORS, hazards={"functions-unconverted": ""})
UNCOUNTED = replace(OPERATORS, hazards={"surplus-operands-unchecked": ""})
NO_KERNEL = replace(OPERATORS, kernels={DataType.FLOAT16: {"Add": 1}}, probed={"Abs", "Neg", "Softmax"})
F = '<domain: "lib", opset_import: ["" : 20]> f (a, c) => (b) {{ b = {} }}'
_INLINES, _CORRECT = "`optimize(target='t')` inlines them", "correct the node, or export the model again"
_REGISTER = "register the library that has it: `load(path)`"
_NOWHERE = "correct its name or its domain, or define it as a function in the model"
_EXACT = "`optimize(target='t')` replaces it if there is an exact replacement"


_EXTEND = "register an extension that has it: `load(path)`"


def has_no(what: str, place: str = "g: y", way_out: str = _EXTEND) -> list[str]:
    op_type = what.split()[0].rstrip(",")
    return [f"error unregistered-operator | {place} ({op_type}) | t has no operator {what} | {way_out}"]


def malformed(what: str, fault: str, way_out: str = _CORRECT) -> list[str]:
    op_type = what.removeprefix("this call of ").split()[0]
    return [f"error malformed-operator | g: y ({op_type}) | t does not load {what}: {fault} | {way_out}"]


_FOO = "Constant <value_float = 1.0, foo = 1> ()"
_IN_BRANCH = """g (float x, bool c) => (float y) {{ y = If (c) <
    then_branch = t () => (float p) {{ k = {} p = Neg (k) }},
    else_branch = e () => (float q) {{ q = Abs (x) }}> }}"""
_UNSQUEEZE = """<ir_version: 10, opset_import: ["" : 20, "lib" : 1]>
    g (float[2] x) => (float[1,2] y) {{ y = lib.f (x) }}
    <domain: "lib", opset_import: ["" : {}]> f (a) => (b) {{ b = Unsqueeze <axes = [0]> (a) }}"""
_OTHER_OPSET = (
    "error malformed-operator | (unnamed): b (Unsqueeze) | t reads f at the opsets of the model: Unsqueeze has 1 input,"
    " expected 2 | import the same opsets in the function and the model"
)
_NO_BIPOLAR = (
    "error target-lacks-operator | g: y (BipolarQuant) | t has no operator BipolarQuant of qonnx.custom_op.general |"
    " `optimize(target='t')` replaces it if its parameters are constant"
)
WORDS: list[tuple[Target, str, list[str]]] = [
    (OPERATORS, f"{X} {{ y = Add (x, x) }}", []),
    (OPERATORS, f"{X} {{ y = ai.onnx.Add (x, x) }}", []),
    (OPERATORS, f"{X} {{ y = lib.Foo (x) }}", has_no("Foo of lib")),
    (OPERATORS, f"{X} {{ a = Abs (x) y = Abs (a) }}", has_no("Abs, in 2 nodes; this is the first", "g: a")),
    (OPERATORS, f"{X} {{ y = com.microsoft.FastGelu (x) }}", has_no("FastGelu of com.microsoft")),
    (OPERATORS, f"{X} {{ y = Softmax <axis = 2> (x) }}", malformed("Softmax", "its axis is 2, expected 0 or -1")),
    (OPERATORS, f"{X} {{ y = Softmax <axis = 0> (x) }}", []),
    (OPERATORS, f"{X} {{ y = Softmax (x) }}", []),
    (OPERATORS, f"{X} {{ y = Sum ( , x) }}", malformed("Sum", "it lacks the input 0")),
    (OPERATORS, f"{X} {{ y = Sum (x, , x) }}", malformed("Sum", "it lacks the input 1")),
    *((target, f"{X} {{ {results} = com.microsoft.BiasGelu ({operands}) }}",
       malformed("BiasGelu of com.microsoft", fault) if fault else [])
      for target, results, operands, fault in (
          *((each, results, operands, fault) for each in (OPERATORS, LISTED) for results, operands, fault in (
              ("y", "x, x", ""), ("y", "x", "it has 1 inputs, expected 2 to 2"),
              ("y", "x, x, x", "it has 3 inputs, expected 2 to 2"), ("y", "x, ", "it has 1 inputs, expected 2 to 2"),
              ("y", ", x", "it lacks the required input 0"), ("y, z", "x, x", "it has 2 outputs, expected 1 to 1"))),
          (UNCOUNTED, "y", "x, x, x", ""), (UNCOUNTED, "y", "x", "it has 1 inputs, expected 2 to 2"),
          (UNCOUNTED, "y, z", "x, x", ""))),
    (OPERATORS, f"{X} {{ y = lib.f (x, x) }} {F.format('Abs (a)')}",
     [line.replace("g: b", "(unnamed): b") for line in has_no("Abs", "g: b")]),
    (CALLING, f"{X} {{ y = lib.f (x, x) }} {F.format('Abs (a)')}",
     ["error unregistered-operator | g: y (f) | t does not load calls of functions of the model, as of f |"
      f" {_INLINES}"]),
    (CALLING, f"{X} {{ a = lib.f (x, x) y = lib.f (a, x) }} {F.format('Neg (a)')}",
     ["error unregistered-operator | g: a (f) | t does not load calls of functions of the model, as of f, in 2 nodes;"
      f" this is the first | {_INLINES}"]),
    (replace(CALLING, operators={**OPERATORS.operators, "lib": {"f"}}),
     f"{X} {{ y = lib.f (x, x) }} {F.format('Neg (a)')}", []),
    (OPERATORS, f"{X} {{ z = lib.Foo (x) y = lib.Foo (x) }}",
     has_no("Foo of lib, in 2 nodes; this is the first", "g: z")),
    (replace(OPERATORS, hazards={"unused-nodes-unread": ""}), f"{X} {{ z = lib.Foo (x) y = lib.Foo (x) }}",
     has_no("Foo of lib, in 2 nodes; this is the first")),
    (NO_KERNEL, f"{X} {{ y = Abs (x) }}".replace("float", "float16"), has_no("Abs")),
    (NO_KERNEL, f"{X} {{ y = Softmax <axis = 2> (x) }}".replace("float", "float16"),
     [f"error target-lacks-kernel | g: y (Softmax) | t has no Softmax of float16 at opset 20 | {_EXACT}",
      *malformed("Softmax", "its axis is 2, expected 0 or -1")]),
    (LISTED, f"{X} {{ y = lib.Foo (x) }}", has_no("Foo of lib: it needs a custom operator library", way_out=_REGISTER)),
    (LISTED, f"{X} {{ y = other.Foo (x) }}",
     ["error unregistered-operator | g: y (Foo) | t does not load Foo: the model does not import its domain other |"
      f" import it, and {_REGISTER}"]),
    (LISTED, f"{X} {{ y = Swish (x) }}", has_no("Swish at opset 20", way_out="import opset 24, which has it")),
    (LISTED, f"{X} {{ a = Foo (x) y = Foo (a) }}",
     [line for at in "ay" for line in has_no("Foo at opset 20", f"g: {at}", _NOWHERE)]),
    (LISTED, f"{X} {{ y = lib.f (x) }} {F.format('Add (a, c)')}",
     malformed("this call of f", "it lacks the input c", "pass the input")),
    (LISTED, f"{X} {{ y = lib.f ( , x) }} {F.format('Add (a, c)')}",
     malformed("this call of f", "it lacks the input a", "pass the input")),
    (LISTED, f"{X} {{ y = lib.f (x) }} {F.format('Clip (a, c)')}", []),
    (LISTED, f"{X} {{ y = lib.f (x) }} {F.format('Neg (a)')}", []),
    (LISTED, f"{X} {{ y = lib.f (x, x) }} {F.format('Add (a, c)')}", []),
    *((LISTED, f"{X} {{ y = com.microsoft.QuickGelu <{attribute}> (x) }}",
       malformed("QuickGelu of com.microsoft", fault) if fault else [])
      for attribute, fault in (
          ("alpha = 1.0", ""), ("__beta = 1.0", ""), ("beta = 1.0", "it has no attribute beta"),
          ("alpha = 1", "its attribute alpha is INT, expected FLOAT"))),
    (LISTED, "g (float[2,4] x, uint8[4,1,8] w, float[4] s) => (float[2,4] y)"
     " { y = com.microsoft.MatMulNBits <K = 4, N = 4, bits = 4> (x, w, s) }",
     malformed("MatMulNBits of com.microsoft", "it lacks the required attribute block_size")),
    (LISTED, f"{X} {{ y = Relu <alpha = 1.0> (x) }}", malformed("Relu", "it has no attribute alpha")),
    (LISTED, f"{X} {{ y = Relu <__alpha = 1.0> (x) }}", []),
    (LISTED, f"{X} {{ y = Sum ( , x) }}", malformed("Sum", "it lacks the input 0")),
    (LISTED, f"{X} {{ y = Sum (x, , x) }}", []),
    (LISTED, f"{X} {{ y = ai.onnx.ml.Binarizer (x) }}", []),
    (LISTED, f"{X} {{ y = ai.onnx.ml.Relu (x) }}",
     has_no("Relu of ai.onnx.ml: it needs a custom operator library", way_out=_REGISTER)),
    (replace(LISTED, opsets={"ai.onnx.ml": 2}), f"{X} {{ y = Neg (x) }}",
     ["error unregistered-operator | g | the model is of version 3 of ai.onnx.ml and t accepts at most 2 | import"
      " version 2 of ai.onnx.ml"]),
    (LISTED, f"{X} {{ a = com.microsoft.BiasSplitGelu (x, x) y = com.microsoft.BiasSplitGelu (a, x) }}",
     ["error target-lacks-kernel | g: a (BiasSplitGelu) | t has no kernel for BiasSplitGelu of float at opset 1, in 2"
      " nodes; this is the first | choose types that it has a kernel for, or keep the node out of the model"]),
    (LISTED, f"{X} {{ y = com.microsoft.nchwc.Conv (x, x) }}", []),
    (LISTED, f"{X} {{ c = d.Constant <value_float = 1.0> () y = Add (x, c) }}", []),
    (LISTED, f"{X} {{ y = com.ms.internal.nhwc.Conv (x, x) }}", []),
    (LISTED, f"{X} {{ a = com.microsoft.BiasGelu (x, x) y = com.microsoft.BiasGelu (a, x) }}", []),
    (LISTED, f"{X} {{ y = com.microsoft.FastGelu (x) }}", []),
    (LISTED, "g (float[2,3,4] x, float[4] k) => (float[2,3,4] y)"
     " { y = com.microsoft.SkipLayerNormalization (x, x, k, , k) }", []),
    (CALLING, f"{X} {{ y = Abs (x) }}", has_no("Abs")),
    (OPERATORS, f"{X} {{ y = qonnx.custom_op.general.BipolarQuant (x, x) }}", [_NO_BIPOLAR]),
    (replace(OPERATORS, operators={"": {"Add"}}), f"{X} {{ y = Softmax <axis = 2> (x) }}", has_no("Softmax")),
    (replace(OPERATORS, operators={"": {"Unique"}}), f"{X} {{ y, i, j, n = Unique (x) }}", []),
    (LISTED, f"{X} {{ y = com.microsoft.Foo (x) }}",
     has_no("Foo of com.microsoft: it needs a custom operator library", way_out=_REGISTER)),
    (LISTED, "g (uint8[2] u, bool[2] b) => (bool[2] y) { y = And (u, b) }",
     ["error type-not-allowed | g: y (And) | u (uint8, an input): And of opset 20 supports neither uint8 nor a type"
      " that holds it (no opset does) | cast the operand in the model"]),
    (LISTED, f"{X} {{ y = other.f (x) }} {F.format('Neg (a)').replace('lib', 'other')}",
     ["error unregistered-operator | g: y (f) | t does not load f: the model does not import its domain other |"
      f" import it, and {_REGISTER}"]),
    # A Constant may have any attributes in a function, as it is no weight there, and in no branch.
    (LISTED, f"{X} {{ y = lib.f (x) }} {F.format('Add (a, d)').replace('b = ', f'd = {_FOO} b = ')}", []),
    (LISTED, f"{X} {{ y = lib.f (x) }} {F.format('Relu <foo = 1> (a)')}",
     [line.replace("g: y", "(unnamed): b") for line in malformed("Relu", "it has no attribute foo")]),
    (LISTED, _IN_BRANCH.format(_FOO.replace(", foo = 1", "")), []),
    (LISTED, _IN_BRANCH.format(_FOO),
     [line.replace("g: y", "t: k") for line in malformed("Constant", "it has no attribute foo")]),
    *((replace(LISTED, hazards=dict.fromkeys(hazards, "")), _UNSQUEEZE.format(opset), expected)
      for hazards, opset, expected in (
          (["bodies-of-model-opset"], 12, [_OTHER_OPSET]),
          ([], 12, []))),
    (LISTED, f"<ir_version: 10, opset_import: [\"lib\" : 1]> {X} {{ y = Neg (x) }}", []),
    (LISTED, f"<ir_version: 10, opset_import: [\"\" : 20]> {X} {{ y = ai.onnx.ml.Binarizer (x) }}", []),
    (LISTED, f"{X} {{ y = qonnx.custom_op.general.BipolarQuant (x, x) }}", [_NO_BIPOLAR]),
]  # fmt: skip


def _check_words(target: Target, text: str, expected: list[str]) -> None:
    imports = IMPORTS.replace('"lib"', '"qonnx.custom_op.general" : 1, "lib"')
    model = onnx_ir.from_proto(onnx.parser.parse_model(text if text.startswith("<") else imports + text))
    found = [
        f"{each.severity.value} {each.code} | {each.site} | {each.message} | {each.help}"
        for each in all_findings(model, PromotionRules(), target)
    ]
    assert found == expected


def test_what_a_target_does_not_register_word_for_word() -> None:
    check_all(_check_words, WORDS)
