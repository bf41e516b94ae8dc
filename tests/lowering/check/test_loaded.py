"""What a target loads, asked of OpenVINO."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnxruntime
import pytest

import castsmith
from castsmith.ir.records import Severity
from castsmith.lowering.check.loaded import REFUSED_FORMS
from castsmith.targets.target import load_target
from tests.lowering.check.test_registered import CALL, IMPORTS, errors, filled, openvino_refusal, refusal

pytestmark = pytest.mark.usefixtures("untried")

_LOOP = """g (int64 n, bool c, float[2] s) => (float[2] y) { y = Loop (n, c, s)
    <body = b (int64 i, bool k, float[2] u) => (RESULTS) { r = Identity (k) v = Neg (u) }> }"""

_IF = """g (float[SIZE,2] x, bool c) => (float[n] y) <int64[1] a = {0}, int64 one = {1}, int64 zero = {0}>
    { h = Shape (x) d = Gather (h, zero) k = Equal (d, one) y = If (CONDITION) <then_branch = t () => (BRANCH },
    else_branch = e () => (float[SIZE,2] u) { u = Abs (x) }> }"""

_SCAN = """g (float[2] s, float[3,2] q, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Scan (s, q)
    <num_scan_inputs = 1, body = b (float[2] u, float[2] o) => (float[2] r) { p = Add (u, o) r = Add (p, WEIGHT) }> }"""

_ROWS = "g (uint8[2,3] x, float[SIZE] s) => (float[2,3] y) { y = DequantizeLinear (x, s) }"

_CONV = "g (uint8[1,SIZE,2,2] x, uint8[4,SIZE,1,1] w) => (uint8[1,4,2,2] y) <PARAMETERS> { y = QLinearConv (OPERANDS) }"

_MATMUL = "g (uint8[2,2] x, uint8[2,4] w) => (uint8[2,4] y) <PARAMETERS> { y = QLinearMatMul (OPERANDS) }"

_SAME, _SQUEEZED = "float[SIZE,2] v) { v = Neg (x)", "float[2] v) { v = Squeeze (x, a)"

OPENVINO = [
    *(filled(_LOOP, RESULTS=results) for results in ("bool r, float[2] v", "bool k, float[2] v", "bool r, float[2] u")),
    *(
        filled(_IF, CONDITION=condition, BRANCH=branch, SIZE="1")
        for condition in ("c", "k")
        for branch in (_SAME, _SQUEEZED)
    ),
    filled(_IF, CONDITION="k", BRANCH=_SQUEEZED, SIZE="N"),
    *(filled(CALL, FUNCTION=name, OPERATOR=inner) for name, inner in (("lib.f", "Neg"), ("Abs", "lib.Foo"))),
    *(filled(_SCAN, WEIGHT=weight) for weight in ("w", "s")),
    *(filled(_ROWS, SIZE=size) for size in "123"),
    *(
        filled(_CONV, SIZE=size, OPERANDS=operands)
        for size in "13"
        for operands in ("x, s, z, w, s, z, s, z", "x, s, z, w, s1, z1, s, z", "x, s1, z1, w, s, z, s, z")
    ),
    *(filled(_MATMUL, OPERANDS=f"x, s, z, w, {scale}, z, s, z") for scale in ("s", "s1", "s4")),
]


def test_an_error_is_what_openvino_refuses():
    wrong = []
    for text in OPENVINO:
        model = onnx.parser.parse_model(IMPORTS + text)
        theirs, ours = openvino_refusal(model), errors(model, "openvino-cpu")
        if bool(theirs) != bool(ours):
            wrong.append(f"{text}: {theirs[-200:] or 'loads'}; check: {ours}")
    assert not wrong


def _declared() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield models whose initializers are no inputs, or not read, and inputs without a part of their declaration."""
    abs_x, sum_xk = "{ y = Abs (x) }", "{ y = Add (x, k) }"
    branches = "then_branch = t () => (float[2] u) <float[2] k = {1, 2}> { u = Add (x, k) }, else_branch = e () =>"
    for version in (3, 4):
        for name, text in (
            (
                "an initializer of a branch",
                f"=> (float[2] y) {{ y = If (c) <{branches} (float[2] z) {{ z = Abs (x) }}> }}",
            ),
            ("an initializer that nothing reads", f"=> (float[2] y) <float[2] k = {{1, 2}}> {abs_x}"),
            ("an initializer", f"=> (float[2] y) <float[2] k = {{1, 2}}> {sum_xk}"),
            ("an initializer that is given back", f"=> (float[2] y, float[2] k) <float[2] k = {{1, 2}}> {abs_x}"),
        ):
            head = f'<ir_version: {version}, opset_import: ["": 8]> g (float[2] x, bool c)'
            yield f"{name}, IR version {version}", onnx.parser.parse_model(f"{head} {text}")
    for part in ("shape", "elem_type", "type"):
        for tensors in ([], [onnx.helper.make_tensor("x", 1, [2], [1.0, 2.0])]):
            if (part, bool(tensors)) == ("elem_type", True):  # which OpenVINO loads
                continue
            model = onnx.parser.parse_model(f"{IMPORTS} {_X} {abs_x}")
            model.graph.initializer.extend(tensors)
            (x,) = model.graph.input
            (x if part == "type" else x.type.tensor_type).ClearField(part)
            yield f"{'an input and an initializer' if tensors else 'an input'} without {part}", model


def test_declarations_are_errors_where_a_runtime_refuses_them():
    for name, model in _declared():
        for target, theirs in (("onnxruntime-cpu", refusal(model)), ("openvino-cpu", openvino_refusal(model))):
            assert bool(errors(model, target)) == bool(theirs), (name, target, theirs)


ATTENTION = [
    *(("x", width, bias, heads) for width in (12, 24) for bias in (width, width - 1) for heads in (2, 3)),
    *(("x", "N", bias, 2) for bias in (12, "M")),
    *(("flat", 12, 12, 2), ("x", 12, None, 2), ("x", 12, None, 3)),
]
"""The operand, the columns of the weights, the length of the bias, and the heads."""


def test_an_attention_is_an_error_where_onnxruntime_refuses_its_sizes():
    for x, width, bias, heads in ATTENTION:
        operands = f"{x}, w{'' if bias is None else ', b'}"
        text = f"""g (float[2,3,4] x, float[3,4] flat, float[4,{width}] w, float[{bias or 12}] b) => (y)
            {{ y = com.microsoft.Attention <num_heads = {heads}> ({operands}) }}"""
        model = onnx.parser.parse_model(IMPORTS + text)
        theirs, ours = refusal(model) or _failure(model), errors(model, "onnxruntime-cpu")
        assert bool(theirs) == bool(ours), (x, width, bias, heads, theirs, ours)


def _failure(model: onnx.ModelProto) -> str:
    """Return why ONNX Runtime does not run the model on zeros, for 12 columns and heads where they are not stated."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    shapes = {
        each.name: [size if isinstance(size, int) else 12 for size in each.shape] for each in session.get_inputs()
    }
    try:
        session.run(None, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    except Exception as error:  # of the runtime, which has several
        return str(error)
    return ""


_X, _Y = "g (float[2] x) => (float[2] y)", "g (float[2] x) => (y)"
_MASKED = "g (float[2,2,4] x, float[4,12] w, float[12] b, int32[MASK] m) => (y) { y = com.microsoft.Attention "
_EMBED = "g (int32[1,3] i, float[9,4] w, float[4] v) => (y, m) { y, m = com.microsoft.EmbedLayerNormalization "
_UNFOLDED = (
    "p = DequantizeLinear (x, s, z) q = DequantizeLinear (w, s, z) r = OPERATOR (p, q) y = QuantizeLinear (r, s, z)"
)
HINTS: dict[str, tuple[str, str]] = {
    "training-dropout": (
        "g (float[2] x, float r, bool t) => (float[2] y) { y = Dropout (x, r, t) }",
        "g (float[2] x, float r) => (float[2] y) { y = Dropout (x, r) }",
    ),
    "scan-of-outer-values": (
        filled(_SCAN, WEIGHT="s"),
        filled(_SCAN, WEIGHT="t")
        .replace("float[2] w) =>", "float[2] k) =>")
        .replace("y = Scan (s, q)", "y, z = Scan (s, k, q)")
        .replace(
            "(float[2] u, float[2] o) => (float[2] r)",
            "(float[2] u, float[2] t, float[2] o) => (float[2] r, float[2] e)",
        )
        .replace("r = Add (p, t)", "r = Add (p, t) e = Identity (t)"),
    ),
    "loop-of-passed-values": (
        filled(_LOOP, RESULTS="bool k, float[2] v"),
        filled(_LOOP, RESULTS="bool r, float[2] v"),
    ),
    "quantized-conv-of-vectors": (
        filled(_CONV, SIZE="3", OPERANDS="x, s4, z, w, s, z, s, z"),
        filled(_CONV, SIZE="3").replace("y = QLinearConv (OPERANDS)", _UNFOLDED.replace("OPERATOR", "Conv")),
    ),
    "quantized-matmul-of-vectors": (
        filled(_MATMUL, OPERANDS="x, s, z, w, s4, z, s, z"),
        filled(_MATMUL).replace("y = QLinearMatMul (OPERANDS)", _UNFOLDED.replace("OPERATOR", "MatMul")),
    ),
    "scales-unlike-axis": (filled(_ROWS, SIZE="2"), filled(_ROWS, SIZE="2").replace("(x, s)", "<axis = 0> (x, s)")),
    "integer-mod-of-floats": (f"{_X} {{ y = Mod (x, x) }}", f"{_X} {{ y = Mod <fmod = 1> (x, x) }}"),
    "computed-parameters": (
        "g (float[2] x, int64[1] a) => (y) { y = Unsqueeze (x, a) }",
        f"{_Y} <int64[1] a = {{0}}> {{ y = Unsqueeze (x, a) }}",
    ),
    "split-into-more": (
        f"{_X} {{ y, z, w = Split <num_outputs = 3> (x) }}".replace("float[2] y", "y"),
        f"{_X} {{ y, z = Split <num_outputs = 2> (x) }}".replace("float[2] y", "y"),
    ),
    "attention-masks-of-rank-4": tuple(
        _MASKED.replace("MASK", mask) + "<num_heads = 2> (x, w, b, m) }" for mask in ("2,1,4,4", "2,2")
    ),
    "normalization-beyond-rank": tuple(f"{_X} {{ y = LayerNormalization <axis = {axis}> (x, x) }}" for axis in (1, 0)),
    "embeddings-without-epsilon": tuple(
        f"{_EMBED} {epsilon} (i, , w, w, , v, v) }}" for epsilon in ("", "<epsilon = 1e-12>")
    ),
    "keys-of-other-ranks": tuple(
        "g (float[1,3,16] q, float[1] k, float[1,1,4,4] p, int32[1] s, int32 t) => (y, a, b)"
        f" {{ y, a, b = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, {keys}, p, p, s, t) }}"
        for keys in ("k, k", ", ")
    ),
    "conditions-of-rank-2": tuple(
        f"g (float[2] x, bool{rank} c) => (float[2] y) {{ y = If (c) <then_branch = t () => (float[2] u)"
        " { u = Abs (x) }, else_branch = e () => (float[2] v) { v = Neg (x) }> }"
        for rank in ("[1,1]", "")
    ),
    "branches-of-several-ranks": tuple(
        f"g (float[1,2] x, bool c) => (float y) {{ y = If (c) <then_branch = t () => (float[1,2] u) {{ u = Abs (x) }},"
        f" else_branch = e () => ({declared} v) {{ a = Constant <value_ints = [0]> () v = {body} }}> }}"
        for declared, body in (("float[2]", "Squeeze (x, a)"), ("float[1,2]", "Neg (x)"))
    ),
    "fastgelu-of-other-types": (
        "g (double[2] x) => (y) { y = com.microsoft.FastGelu (x) }",
        "g (double[2] x) => (y) { f = Cast <to = 1> (x) y = com.microsoft.FastGelu (f) }",
    ),
    "volumetric-gridsample": (
        "g (float[1,1,2,2,2] x, float[1,2,2,2,3] p) => (y) { y = GridSample (x, p) }",
        "g (float[1,1,2,2] x, float[1,2,2,2] p) => (y) { y = GridSample (x, p) }",
    ),
}  # pyright: ignore[reportAssignmentType]  # of pairs
"""By hazard: a model that OpenVINO does not load, and the model after what the hint says."""


def test_what_a_hint_says_makes_the_model_load_in_openvino():
    wrong = []
    for hazard, texts in HINTS.items():
        before, after = (onnx.parser.parse_model(IMPORTS + text) for text in texts)
        told = [
            each.subject for each in castsmith.check(before, target="openvino-cpu") if each.severity is Severity.ERROR
        ]
        refusals = openvino_refusal(before), openvino_refusal(after), errors(after, "openvino-cpu")
        if told != [hazard] or not refusals[0] or any(refusals[1:]):
            wrong.append(f"{hazard}: {told} {refusals}")
    assert not wrong
    assert set(HINTS) == set(load_target("openvino-cpu").hazards) & set(REFUSED_FORMS)
