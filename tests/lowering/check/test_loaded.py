"""What a target loads, asked of OpenVINO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import onnx_ir
import onnxruntime
import pytest

import castsmith
from castsmith.ir.records import Diagnostic, FlawKind, Severity, Site
from castsmith.lowering.check.loaded import REFUSED_FORMS, as_loaded
from castsmith.lowering.check.run import all_findings
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.targets.target import Target, load_target
from tests.lowering.check.test_registered import (
    CALL,
    DECLARATIONS,
    DECLARED,
    IMPORTS,
    errors,
    filled,
    openvino_refusal,
    refusal,
)
from tests.lowering.check.test_target import PLAIN
from tests.sampling import check_all

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

_IF_RANDOM = _IF.replace(
    "h = Shape (x) d = Gather (h, zero) k = Equal (d, one)", "r = RandomUniform <shape = [1]> () k = Less (r, r)"
)  # of no operands

OPENVINO = [
    filled(_IF_RANDOM, CONDITION="k", BRANCH=_SQUEEZED, SIZE="1"),
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


ERROR, WARNING, NONE = "error", "warning", ""
_AXES = "g (float[2] x, int64[1] i, float[2,N] v, int64[L] l, float[2,3] s) => (y) {{ {} y = Unsqueeze (x, a) }}"
_UNKNOWN = "u = Reshape (s, l)"
_DEQUANTIZED = "g (uint8[{}] x, float{} s, int64[L] l) => (y) {{ {} y = DequantizeLinear {} (u, s) }}"
_PARTS = "g (float[2,N,3] x, int64[L] l) => ({}) {{ {} = Split {} (x) }}"
_PLAIN_DEQUANTIZED = _DEQUANTIZED.replace("(u, s)", "(x, s)")
_BIG_CONV = """g (uint8[1,{0},2,2] x, uint8[4,{1},1,1] w, float s, uint8 z, float[4] s4, uint8[4] z4) => (y)
    {{ y = QLinearConv ({2}) }}"""
_BIG_MATMUL = """g (uint8[{0}] x, uint8[{1}] w, float s, uint8 z, float[4] s4, uint8[4] z4, float[1] s1, float[M] sn)
    => (y) {{ y = QLinearMatMul ({2}) }}"""
_OPERANDS = [*"xszwszsz"]


def _with(index: int, operand: str) -> str:
    """The operands of QLinearConv and QLinearMatMul, one of them another."""
    return ", ".join([*_OPERANDS[:index], operand, *_OPERANDS[index + 1 :]])


_SCANNED = """g (float[2] s, float[3,2] q, float[2] w) => (float[2] y) <float[2] k = {1, 2}, float[2] w = {1, 2}> {
    c = Constant <value_floats = [1.0, 2.0]> () n = Neg (s) d = Identity (c)
    y = Scan (s, q) <num_scan_inputs = 1, body = b (float[2] u, float[2] o) => (float[2] r) <float[2] m = {1, 2}>
    { p = Add (u, o) r = Add (p, OTHER) }> }"""
_LOOPED = """g (int64 n, bool c, float[2] s) => (float[2] y) { e = Neg (s) y = Loop (n, c, s)
    <body = b (int64 i, bool k, float[2] u) => (bool r, float[2] OTHER) <float[2] m = {1, 2}>
    { r = Identity (k) v = Neg (u) }> }"""
_BRANCHES = """g (bool c, float[1,2] x, float[A] v, int64[L] l, float[3,2] z) => (y, w) {{ h = Shape (z)
    f = Constant <value_int = 0> () d = Gather (h, f) k = Equal (d, d) t = Reshape (v, l) b = Shape (t)
    g = Gather (b, f) j = Equal (g, g) y, w = If ({}) <then_branch = t () => ({}, float[1,2] o) {{ p = Neg (x)
    o = Neg (x) }}, else_branch = e () => (float[1,2] q, {}) {{ q = Abs (x) m = Abs (x) }}> }}"""
_SIZES = "g (float[{}] x, float[{}] w, float[{}] b) => (y) {{ y = com.microsoft.Attention <{}> (x, w, b) }}"
_SPLIT = "qkv_hidden_sizes = [4, 4, 4]"
CONDITIONS: dict[str, list[tuple[int, str, str]]] = {
    "training-dropout": [
        *((6, f"{_X} {{ y = Dropout {mode} (x) }}", verdict)
          for mode, verdict in (("", ERROR), ("<is_test = 0>", ERROR), ("<is_test = 1>", NONE))),
        (7, f"{_X} {{ y = Dropout (x) }}", NONE),
        (20, "g (float[2] x, float r, bool t) => (float[2] y) { y = Dropout (x, r, t) }", ERROR),
        *((20, f"{_X} <float r = {{0.5}}, bool t = {{{t}}}> {{ y = Dropout (x, {r}, t) }}", t * ERROR)
          for t in (0, 1) for r in ("r", "")),
        (20, f"{_X} <float r = {{0.5}}> {{ y = Dropout (x, r) }}", NONE),
    ],
    "scan-of-outer-values": [
        (20, _SCANNED.replace("OTHER", other), verdict)
        for other, verdict in (
            *((name, NONE) for name in "uopmkwc"),
            *((name, ERROR) for name in "snd"),
        )
    ],
    "loop-of-passed-values": [
        (20, _LOOPED.replace("OTHER", other), verdict)
        for other, verdict in (("v", NONE), ("u", ERROR), ("m", ERROR))
    ],
    "integer-mod-of-floats": [
        *((20, f"g ({dtype}[2] x) => ({dtype}[2] y) {{ y = Mod {mode} (x, x) }}", verdict if floats else NONE)
          for dtype, floats in (("float", True), ("float16", True), ("double", True), ("int32", False))
          for mode, verdict in (("", ERROR), ("<fmod = 0>", ERROR), ("<fmod = 1>", NONE))),
    ],
    "quantized-conv-of-vectors": [
        (20, _BIG_CONV.format(3, 3, ", ".join(_OPERANDS)), NONE),
        *((20, _BIG_CONV.format(3, 3, _with(index, other)), ERROR if index < 6 else NONE)
          for index, other in ((1, "s4"), (2, "z4"), (4, "s4"), (5, "z4"), (6, "s4"), (7, "z4"))),
        *((20, _BIG_CONV.format(x, w, _with(index, other)), verdict)
          for x, w, index, other, verdict in (
              (1, 3, 1, "s4", NONE), (3, 1, 1, "s4", ERROR), ("N", 3, 2, "z4", NONE), (2, "N", 2, "z4", ERROR),
              (3, 1, 4, "s4", NONE), (1, 3, 4, "s4", ERROR), (3, "N", 5, "z4", NONE), ("N", 2, 5, "z4", ERROR))),
    ],
    "quantized-matmul-of-vectors": [
        (20, _BIG_MATMUL.format("2,2", "2,4", ", ".join(_OPERANDS)), NONE),
        (20, _BIG_MATMUL.format("2", "2,4", ", ".join(_OPERANDS)), ERROR),
        (20, _BIG_MATMUL.format("2,2", "2", ", ".join(_OPERANDS)), ERROR),
        *((20, _BIG_MATMUL.format("2,2", "2,4", _with(index, other)), ERROR if index < 6 else NONE)
          for index, other in ((1, "s4"), (2, "z4"), (4, "s4"), (5, "z4"), (6, "s4"), (7, "z4"))),
        *((20, _BIG_MATMUL.format("2,2", "2,4", _with(index, other)), NONE)
          for index in (1, 4) for other in ("s1", "sn")),
    ],
    "scales-unlike-axis": [
        *((20, _PLAIN_DEQUANTIZED.format("2,3", f"[{size}]" if size else "", "", axis and f"<axis = {axis}>"), verdict)
          for size, axis, verdict in (
              ("3", "", NONE), ("2", "", ERROR), ("1", "", NONE), ("N", "", NONE), ("", "", NONE), ("4", "", ERROR),
              ("2", "0", NONE), ("3", "0", ERROR), ("3", "-1", NONE), ("2", "-1", ERROR), ("2", "-2", NONE),
              ("3", "-2", ERROR), ("2", "2", ERROR), ("1", "2", NONE), ("N", "2", NONE), ("2", "-3", ERROR))),
        (20, _PLAIN_DEQUANTIZED.format("2,N", "[2]", "", ""), NONE),
        (20, _PLAIN_DEQUANTIZED.format("2,3", "[2,2]", "", ""), NONE),
        (21, _PLAIN_DEQUANTIZED.format("2,4", "[2]", "", "<block_size = 2>"), NONE),
        (20, _DEQUANTIZED.format("2,3", "[2]", "u = Reshape (x, l)", ""), NONE),
        (20, "g (float[2,3] x, float[2] s) => (y) { y = QuantizeLinear (x, s) }", ERROR),
        (20, "g (float[2,3] x, float[3] s) => (y) { y = QuantizeLinear (x, s) }", NONE),
    ],
    "computed-parameters": [
        (20, _AXES.format(made), verdict)
        for made, verdict in (
            ("a = Neg (i)", ERROR), ("a = Constant <value_ints = [0]> ()", NONE),
            ("k = Constant <value_ints = [0]> () a = Neg (k)", NONE), ("a = Shape (x)", NONE), ("a = Shape (v)", ERROR),
            ("a = Size (s)", NONE), ("a = Size (v)", ERROR), (f"{_UNKNOWN} a = Shape (u)", NONE),
            ("h = Shape (x) a = Add (h, i)", ERROR), (f"{_UNKNOWN} h = Shape (u) a = Add (h, i)", ERROR),
            (f"{_UNKNOWN} h = Shape (u) a = Add (i, h)", ERROR),
            (f"{_UNKNOWN} h = Shape (u) k = Shape (x) a = Add (h, k)", NONE),
            *((f"h = Shape (v) k = Constant <value_ints = [{at}]> () a = Gather (h, k)", verdict)
              for at, verdict in ((0, NONE), (1, ERROR), (-1, ERROR), (-2, NONE), (2, NONE), (-3, NONE))),
            ("h = Shape (v) k = Constant <value_ints = [0, 1]> () a = Gather (h, k)", NONE),
            ("h = Shape (v) a = Gather (h, i)", NONE), ("h = Neg (i) k = Shape (x) a = Gather (h, k)", ERROR),
            (f"{_UNKNOWN} h = Shape (u) k = Constant <value_ints = [0]> () a = Gather (h, k)", NONE))
    ] + [
        (20, "g (float[2] x, int64 i) => (seq(float[n]) y) { y = SplitToSequence (x, i) }", ERROR),
        (20, "g (float[2] x) => (seq(float[n]) y) { y = SplitToSequence (x) }", NONE),
        (12, "g (float[2] x) => (float[1,2] y) { y = Unsqueeze <axes = [0]> (x) }", NONE),
    ],
    "split-into-more": [
        (20, _PARTS.format(results, results, attributes), verdict)
        for results, attributes, verdict in (
            ("a, b, c", "<num_outputs = 3>", ERROR), ("a, b", "<num_outputs = 2>", NONE),
            ("a, b, c", "<num_outputs = 3, axis = 0>", ERROR), ("a, b, c", "<num_outputs = 3, axis = 1>", NONE),
            ("a, b, c", "<num_outputs = 3, axis = 2>", NONE), ("a, b, c, d", "<num_outputs = 4, axis = 2>", ERROR),
            ("a, b, c, d", "<num_outputs = 4, axis = -1>", ERROR), ("a, b, c", "<num_outputs = 3, axis = -3>", ERROR),
            ("a, b, c, d", "<num_outputs = 4, axis = -4>", NONE), ("a, b, c, d", "<num_outputs = 4, axis = 3>", NONE))
    ] + [
        (20, "g (float x, int64[L] l) => (a, b, c) { u = Reshape (x, l) a, b, c = Split <num_outputs = 3> (u) }", NONE),
        (20, "g (float[2] x, int64[2] l) => (a, b) { a, b = Split (x, l) }", NONE),
    ],
    "attention-masks-of-rank-4": [
        (20, _MASKED.replace("MASK", mask) + "<num_heads = 2> (x, w, b, m) }", ERROR if mask == "2,1,4,4" else NONE)
        for mask in ("2,1,4,4", "2,2,2", "2,2", "2")
    ] + [
        (20, _MASKED.replace("MASK", "2,1,4,4") + "<num_heads = 2> (x, w, b) }", NONE),
        (23, "g (float[1,1,2,2] q, float[1,1,2,2] m) => (y) { y = Attention (q, q, q, m) }", NONE),
    ],
    "normalization-beyond-rank": [
        *((20, f"{_Y} {{ y = LayerNormalization {axis and f'<axis = {axis}>'} (x, x) }}", verdict)
          for axis, verdict in (("", NONE), ("0", NONE), ("-1", NONE), ("1", ERROR), ("-2", ERROR))),
        (20, "g (float x) => (y) { y = LayerNormalization (x, x) }", ERROR),
        (20, "g (float[2] x, int64[L] l) => (y) { u = Reshape (x, l) y = LayerNormalization <axis = 9> (u, x) }", NONE),
    ],
    "attention-sizes": [
        *((20, _SIZES.format(x, w, b, attributes), verdict)
          for x, w, b, attributes, verdict in (
              ("2,3,4", "4,12", "12", "num_heads = 2", NONE), ("3,4", "4,12", "12", "num_heads = 2", ERROR),
              ("2,3,4", "1,4,12", "12", "num_heads = 2", ERROR), ("2,3,4", "4,12", "1,12", "num_heads = 2", ERROR),
              ("2,3,4", "4,12", "13", "num_heads = 2", ERROR), ("2,3,4", "4,12", "N", "num_heads = 2", NONE),
              ("2,3,4", "4,N", "13", "num_heads = 2", NONE), ("2,3,4", "4,12", "12", "num_heads = 3", ERROR),
              ("2,3,4", "4,12", "12", "num_heads = 4", NONE), ("2,3,4", "4,24", "24", "num_heads = 3", ERROR),
              ("2,3,4", "4,12", "12", f"num_heads = 3, {_SPLIT}", NONE), ("2,3,4", "4,12", "12", "num_heads = 0", NONE),
              ("2,3,4", "4,12", "13", f"num_heads = 2, {_SPLIT}", ERROR))),
        (20, "g (float[2,3,4] x, float[4,12] w) => (y) { y = com.microsoft.Attention <num_heads = 2> (x, w) }", NONE),
        (20, "g (float[2,3,4] x, float[4,12] w) => (y) { y = com.microsoft.Attention <num_heads = 3> (x, w) }", ERROR),
        (23, "g (float[1,1,2,2] q) => (y) { y = Attention (q, q, q) }", NONE),
    ],
    "embeddings-without-epsilon": [
        (20, f"{_EMBED} {epsilon} (i, , w, w, , v, v) }}", NONE if epsilon else ERROR)
        for epsilon in ("", "<epsilon = 1e-12>", "<epsilon = 0.0>")
    ],
    "keys-of-other-ranks": [
        (20, f"""g (float[1,3,16] q, float k1, float[1] k2, float[1,2] k3, float[1,3,8] k4, float[1,1,3,8] k5,
            int64[L] l, float[1,1,4,4] p, int32[1] s, int32 t) => (y, a, b) {{ k6 = Reshape (k4, l) y, a, b =
            com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, {key}, {key}, p, p, s, t) }}""",
         NONE if key in ("k4", "k6", "") else ERROR)
        for key in ("k1", "k2", "k3", "k4", "k5", "k6", "")
    ],
    "conditions-of-rank-2": [
        (20, f"""g (float[2] x, bool{rank} c) => (y) <bool{rank} d> {{ d = Not (c) y = If (d) <
            then_branch = t () => (float[2] u) {{ u = Abs (x) }}, else_branch = e () => (v) {{ v = Neg (x) }}> }}""",
         verdict)
        for rank, verdict in (("", NONE), ("[1]", NONE), ("[1,1]", ERROR), ("[1,1,1]", ERROR))
    ],
    "branches-of-several-ranks": [
        (20, _BRANCHES.format(condition, then, last), verdict)
        for condition, then, last, verdict in (
            ("c", "float[1] p", "float[1,2] m", ERROR), ("k", "float[1] p", "float[1,2] m", NONE),
            ("j", "float[1] p", "float[1,2] m", WARNING), ("c", "float[3,2] p", "float[1,2] m", NONE),
            ("c", "float[1,2] p", "float m", ERROR), ("c", "float[1,2] p", "m", NONE), ("c", "p", "float[1,2] m", NONE))
    ],
    "grouped-float16-conv": [
        *((20, f"g ({dtype}[1,4,3,3] x, {dtype}[4,{w},1,1] w) => (y) {{ y = {op} {group} (x, w) }}", verdict)
          for dtype, w, op, group, verdict in (
              ("float16", 2, "Conv", "<group = 2>", WARNING), ("float16", 4, "Conv", "<group = 1>", NONE),
              ("float16", 4, "Conv", "", NONE), ("float", 2, "Conv", "<group = 2>", NONE),
              ("float16", 2, "ConvTranspose", "<group = 2>", WARNING),
              ("float16", 2, "com.microsoft.Conv", "<group = 2>", NONE))),
    ],
    "fastgelu-of-other-types": [
        (20, f"g ({dtype}[2] x) => (y) {{ y = com.microsoft.FastGelu (x) }}", verdict)
        for dtype, verdict in (
            ("float", NONE), ("float16", NONE), ("bfloat16", NONE), ("double", ERROR), ("int32", ERROR))
    ],
    "volumetric-gridsample": [
        (20, f"g (float[{','.join('1' * rank)}] x, float[{','.join('1' * rank)}] p) => (y) {{ y = GridSample (x, p) }}",
         ERROR if rank == 5 else NONE)
        for rank in (3, 4, 5, 6)
    ],
}  # fmt: skip
"""By hazard: the opset, a model, and what is found for a target that has only this hazard."""


def _found_for(opset: int, text: str, hazard: str) -> str:
    imports = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    model = onnx_ir.from_proto(onnx.parser.parse_model(imports + text))
    target = replace(PLAIN, hazards={hazard: ""})
    of_hazard = [each for each in all_findings(model, PromotionRules(), target) if each.subject == hazard]
    return " ".join(each.severity.value for each in of_hazard)


def _check_condition(hazard: str, opset: int, text: str, verdict: str) -> None:
    assert _found_for(opset, text, hazard) == verdict


def test_each_condition_of_a_form_that_a_target_refuses() -> None:
    rows = [(hazard, *row) for hazard, rows in CONDITIONS.items() for row in rows]
    check_all(_check_condition, rows)
    assert {*CONDITIONS, "transpose-cast-matmul-crashes"} == {*REFUSED_FORMS}  # of which test_target.py has each case
    assert all({verdict for _, _, verdict in rows} >= {NONE} for rows in CONDITIONS.values())


_POW, _NEG = Site("g", "", "Pow", "y"), Site("g", "", "Neg", "z")
LOADED: list[tuple[str, str, Site, dict[str, Any], bool]] = [
    *((code, subject, _NEG, {"hazards": {hazard: ""}}, True)
      for code, subject, hazard in (
          ("output-type-mismatch", "", "output-types-unchecked"),
          ("malformed-model", "surplus", "surplus-operands-unchecked"),
          ("malformed-model", FlawKind.NEWER, "opset-unchecked"),
          ("malformed-model", "cycle", "cycles-unchecked"),
          ("malformed-model", FlawKind.NUMBER, "number-kinds-unchecked"),
          ("malformed-model", "constant", "constants-unchecked"),
          ("malformed-model", FlawKind.UNVERSIONED, "ir-version-unchecked"),
          ("malformed-model", FlawKind.UNIMPORTED, "imports-unchecked"),
          ("invalid-model", "branch-inputs", "branch-inputs-unchecked"),
          ("malformed-model", "cycle constant", "constants-unchecked"),
          ("malformed-model", "cycle constant", "cycles-unchecked"))),
    ("malformed-model", "surplus", _NEG, {"hazards": {"cycles-unchecked": ""}}, False),
    ("malformed-model", "", _NEG, {"hazards": {"surplus-operands-unchecked": ""}}, False),
    ("invalid-model", "", _NEG, {"hazards": {"branch-inputs-unchecked": ""}}, False),
    ("value-type-mismatch", "", _NEG, {"hazards": {"output-types-unchecked": ""}}, False),
    ("mixed-operand-types", "", _POW, {"hazards": {"mixed-operands-unchecked": ""}, "mixes_operands": {"Pow"}}, True),
    ("mixed-operand-types", "", _NEG, {"hazards": {"mixed-operands-unchecked": ""}, "mixes_operands": {"Pow"}}, False),
    ("type-not-allowed", "", _POW, {"hazards": {"mixed-operands-unchecked": ""}, "mixes_operands": {"Pow"}}, False),
    ("mixed-operand-types", "", _POW, {"mixes_operands": {"Pow"}}, False),
    *(("malformed-model", subject, site,
       {"hazards": {"surplus-operands-unchecked": ""}, "counts_operands": {"Pow"}}, loads)
      for subject, site, loads in (
          ("surplus", _POW, True), (f"{FlawKind.MORE_THAN_EVER} surplus", _NEG, True),
          (f"{FlawKind.MORE_THAN_EVER} surplus", _POW, False))),
]  # fmt: skip
"""A code and a subject, the place, what the target says, and whether it loads the model all the same."""


def _check_loaded(code: str, subject: str, site: Site, statements: dict[str, Any], loads: bool) -> None:
    error = Diagnostic(code, Severity.ERROR, site, "m", subject=subject)
    target = Target("t", **statements)
    expected = Severity.WARNING if loads else Severity.ERROR
    assert [each.severity for each in as_loaded([error], None, target)] == [expected]
    assert [each.severity for each in as_loaded([error], None, None)] == [Severity.ERROR]
    note = replace(error, severity=Severity.NOTE)
    assert list(as_loaded([note, error], None, target)) == [note, replace(error, severity=expected)]


def test_what_a_target_does_not_look_at_is_a_warning() -> None:
    check_all(_check_loaded, LOADED)


def test_what_no_output_depends_on_is_a_warning_where_it_is_not_read() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Neg (x) z = Pow (a, a) b = Neg (x) y = Pow (b, b) }"
    model = onnx_ir.from_proto(onnx.parser.parse_model(IMPORTS + text))
    sites = [Site("g", "", op, name) for op, name in (("Neg", "a"), ("Pow", "z"), ("Neg", "b"), ("Pow", "y"))]
    errors_ = [Diagnostic("invalid-model", Severity.ERROR, site, "m") for site in sites]
    for hazards, warnings in (({"unused-nodes-unread": ""}, 2), ({}, 0)):
        found = as_loaded(errors_, model, Target("t", hazards=hazards))
        expected = [Severity.WARNING] * warnings + [Severity.ERROR] * (4 - warnings)
        assert [each.severity for each in found] == expected


_TYPE_0 = "value {}, which is declared with the element type 0 | declare its type, or remove the declaration"
_UNLIKE = "initializer w, whose input is declared with another type or shape | declare the input as the initializer is"
_NO_TYPE, _RAISE = "input {}, whose type is not declared | declare its type", "raise the IR version to 4"
_NO_RANK = "input x, whose rank is not declared | declare its shape, with a name for each unknown size"
SAID = {
    "an input without a type": _NO_TYPE.format("x"),
    "an unused input without a type": _NO_TYPE.format("q"),
    "an input without type": _NO_TYPE.format("x"),
    "an input of type 0": _TYPE_0.format("x"),
    "an output of type 0": _TYPE_0.format("y"),
    "a value of type 0": _TYPE_0.format("z"),
    "an initializer of type 0": _TYPE_0.format("w"),
    "an initializer of another type": _UNLIKE,
    "an initializer of another shape": _UNLIKE,
    "an initializer of another rank": _UNLIKE,
    "an input without shape": _NO_RANK,
    "an input without elem_type": _NO_RANK,
    "two equal nodes": (
        "model, which has this node twice, with one result: z = Relu (x) | `optimize(target='t')` writes it otherwise"
    ),
    "an initializer of a branch, IR version 3": (
        f"initializer k of a subgraph, which is no input of it, at IR version 3 | {_RAISE}"
    ),
    "an initializer that nothing reads, IR version 3": (
        f"initializer k, which is no input and is not read, at IR version 3 | {_RAISE}"
    ),
}
"""What is found of the models of `DECLARATIONS` and `_declared`; of the others nothing."""
OF_DECLARATIONS = (
    *("inputs-without-type", "inputs-without-rank", "initializers-unlike-inputs", "undefined-types", "repeated-nodes"),
    *("subgraph-initializers-below-4", "unread-initializers-below-4"),
)


def _check_declared(name: str, model: onnx.ModelProto) -> None:
    hazards = replace(PLAIN, hazards=dict.fromkeys(OF_DECLARATIONS, ""))
    for target, expected in ((hazards, [f"t does not load the {SAID[name]}"] if name in SAID else []), (PLAIN, [])):
        found = [each for each in castsmith.check(model, target=target) if each.code == "target-lacks-form"]
        assert [f"{each.message} | {each.help}" for each in found] == expected
        assert {each.severity for each in found} <= {Severity.ERROR}


def test_what_is_said_of_a_declaration() -> None:
    models = {name: onnx.parser.parse_model(DECLARED) for name in DECLARATIONS}
    for name, model in models.items():
        DECLARATIONS[name](model.graph)
    check_all(_check_declared, [*models.items(), *_declared()])
