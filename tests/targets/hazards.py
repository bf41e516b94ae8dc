"""The hazards and wrong fusions that the files of targets state, each shown by a small model in the installed runtime.

python -m tests.targets.hazards            all, each in a process of its own: there, or gone
python -m tests.targets.hazards NAME ...   these

Run it with a new release of ONNX Runtime or OpenVINO, and change the files by what it prints. A model has a Neg
before and behind what is looked at, since runtimes do not fuse what is an input or output.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser

Array = np.ndarray[Any, Any]
FLOAT8, INT2, INT4 = onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.INT2, onnx.TensorProto.INT4
_ONE = np.ones((), np.float32)
_REDUCTIONS = ("add", "mul", "min", "max")


def model(body: str, opset: int = 21, **weights: Array | onnx.TensorProto) -> onnx.ModelProto:
    """Return the model of a graph, with tensors as initializers."""
    ir_version = 13 if opset > 23 else 10
    made = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> g {body}')
    for name, given in weights.items():
        tensor = given if isinstance(given, onnx.TensorProto) else onnx.numpy_helper.from_array(given, name)
        tensor.name = name
        made.graph.initializer.append(tensor)
    return made


def _zero(dtype: int) -> onnx.TensorProto:
    return onnx.helper.make_tensor("z", dtype, [], bytes([0]), raw=True)


def in_onnxruntime(made: onnx.ModelProto, *, level: str = "ALL", **feeds: Array) -> list[Array]:
    """Run at an optimization level: ALL, BASIC, or none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = {
        "ALL": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
        "BASIC": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "none": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    }[level]
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, feeds)]


def in_openvino(made: onnx.ModelProto, *, hint: str = "f32", **feeds: Array) -> list[Array]:
    """Run in the CPU plugin; hint: its INFERENCE_PRECISION_HINT, or empty for its default."""
    import openvino

    core = openvino.Core()
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": hint} if hint else {}
    compiled = core.compile_model(core.read_model(made.SerializeToString()), "CPU", options)
    results = compiled(feeds)
    return [np.array(results[index]) for index in range(len(compiled.outputs))]


def _one(body: str, x: list[float], dtype: str = "float", k: Array | None = None) -> tuple[onnx.ModelProto, Array]:
    """Return a model of one vector, between two Neg: `body` makes t of n."""
    text = f"({dtype}[N] x) => ({dtype}[N] y) {{ n = Neg (x) {body} y = Neg (t) }}"
    kinds: dict[str, Any] = {"float": np.float32, "float16": np.float16, "double": np.float64}
    made = model(text) if k is None else model(text, k=k)
    return made, -np.array(x, kinds[dtype])


def _f(first: float, *others: float) -> Array:
    """Return a vector of floats, or one float without a dimension."""
    return np.array([first, *others] if others else first, np.float32)


# ONNX Runtime.


def same_node_names() -> bool:
    made = model("(float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }")
    for node in made.graph.node:
        node.name = "n"
    return _refused(made, x=_f(1, 2))


def _is_refused_with(change: Callable[[onnx.GraphProto], object]) -> bool:
    """True if a model does not load after a change of its declarations."""
    made = model("(float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }", w=_f(1, 2))
    change(made.graph)
    return _refused(made, x=_f(1, 2))


def subgraph_initializers() -> bool:
    branch = "b () => (float[2] r) <float[2] k = {1, 2}> { r = Add (x, k) }"
    made = model(
        f"(float[2] x, bool c) => (float[2] y) {{ y = If <then_branch = {branch}, else_branch = {branch}> (c) }}", 10
    )
    made.ir_version = 4
    loads = not _refused(made, x=_f(1, 2), c=np.array(True))
    made.ir_version = 3
    return loads and _refused(made, x=_f(1, 2), c=np.array(True))


def spelled_inside() -> bool:
    def refused(neg: str) -> bool:
        branch = f"b () => (float[2] r) {{ r = {neg} (x) }}"
        made = model(
            f"(float[2] x, bool c) => (float[2] y) {{ y = If <then_branch = {branch}, else_branch = {branch}> (c) }}"
        )
        return _refused(made, x=_f(1, 2), c=np.array(True))

    return refused("ai.onnx.Neg") and not refused("Neg")


def constants_unchecked() -> bool:
    made = model("(float[2] x) => (float[2] y) { c = d.Constant <value_float = 1.0, axis = 0> (x) y = Add (x, c) }", 9)
    return not _refused(made, x=_f(1, 2))


def bodies_of_model_opset() -> bool:
    def refused(opset: int) -> bool:
        body = "f (a) => (b) { i = Constant <value_ints = [0]> () b = Unsqueeze (a, i) }"
        made = model(f'(float[2] x) => (float[1,2] y) {{ y = d.f (x) }} <domain: "d", opset_import: ["": 21]> {body}')
        made.opset_import[0].version = opset
        made.opset_import.add(domain="d", version=1)
        return _refused(made, x=_f(1, 2))

    return refused(9) and not refused(13)


def _loads_attention(heads: int, bias: int) -> bool:
    made = model(
        "(float[2,2,4] x, float[4,12] w) => (float[2,2,4] y) { y = com.microsoft.Attention <num_heads = 2> (x, w, b) }",
        b=np.zeros(bias, np.float32),
        w=np.zeros((4, 12), np.float32),
    )
    made.graph.node[0].attribute[0].i = heads
    made.opset_import.add(domain="com.microsoft", version=1)
    return not _refused(made, x=np.zeros((2, 2, 4), np.float32))


def unread_initializers() -> bool:
    made = model("(float[2] x) => (float[2] y) { y = Neg (x) }", 13, w=_f(1, 2))
    made.ir_version = 4
    loads = not _refused(made, x=_f(1, 2))
    made.ir_version = 3
    return loads and _refused(made, x=_f(1, 2))


def _stated(value: onnx.ValueInfoProto, elem_type: int) -> None:
    value.type.tensor_type.elem_type = elem_type


def _refused(made: onnx.ModelProto, x: Array, **others: Array) -> bool:
    try:
        in_onnxruntime(made, level="ALL", x=x, **others)
    except Exception:  # a class of the runtime's own
        return True
    return False


def idle_attributes() -> bool:
    return _refused(model("(float[2] x) => (float16[2] y) { y = Cast <to = 10, saturate = 0> (x) }"), x=_f(1, 2))


def transpose_cast_matmul() -> bool:
    """The process ends, which the other one sees."""
    made = model("""(int8[2,3,4] x, float[4,5] w) => (float[3,2,5] y) {
        t = Transpose <perm = [1, 0, 2]> (x) c = Cast <to = 1> (t) y = MatMul (c, w) }""")
    in_onnxruntime(made, x=np.ones((2, 3, 4), np.int8), w=np.ones((4, 5), np.float32))
    return False


def where_loses_negative_zero() -> bool:
    made = model("(bool[2] c, float[2] x, float[2] z) => (float[2] y) { y = Where (c, x, z) }")
    (y,) = in_onnxruntime(made, c=np.array([True, False]), x=_f(-0.0, 1), z=_f(1, 1))
    return not np.signbit(y[0])


def double_constant_seen_as_float() -> bool:
    made, x = _one("t = Mul (n, k)", [3.0], "double", k=np.array(1 + 1e-9))
    return bool(in_onnxruntime(made, x=x)[0] == x != in_onnxruntime(made, level="none", x=x)[0])


def casts_are_merged() -> bool:
    made = model("(float[2] x) => (int32[2] y) { c = Cast <to = 7> (x) y = Cast <to = 6> (c) }")
    return bool(in_onnxruntime(made, level="none", x=_f(1e10, 3))[0][0] != 1410065408)


def half_scatter_reductions() -> bool:
    kinds = {
        "ScatterElements": ("2", ("none", "min", "max"), ("add", "mul")),
        "ScatterND": ("2,1", ("none",), _REDUCTIONS),
    }
    x, wrong = np.ones(2, np.float16), list[str]()
    for op_type, (indices, right, refused) in kinds.items():
        i = np.zeros([int(size) for size in indices.split(",")], np.int64)
        for reduction in (*right, *refused):
            node = f'y = {op_type} <reduction = "{reduction}"> (x, i, x)'
            made = model(f"(float16[2] x, int64[{indices}] i) => (float16[2] y) {{ {node} }}")
            wrong += [node] if _refused(made, x=x, i=i) != (reduction in refused) else []
    return not wrong


def nan_bound_is_ignored() -> bool:
    made, x = _one("t = Clip (n, k)", [1.0], k=_f(np.nan))
    return not np.isnan(in_onnxruntime(made, x=x)[0]).any()


def float_to_int4_rounds_away() -> bool:
    made, x = _one("q = Cast <to = 22> (n) t = Cast <to = 1> (q)", [0.5, -1.5])
    return bool((in_onnxruntime(made, x=x)[0] == [-1, 2]).all())


def weight_only_matmul() -> bool:
    rng = np.random.default_rng(0)
    w, x = rng.integers(-127, 127, (64, 32)).astype(np.int8), rng.normal(0, 1, (4, 64)).astype(np.float32)
    made = model("(float[4,64] x) => (float[4,32] y) { d = DequantizeLinear (w, s) y = MatMul (x, d) }", w=w, s=_f(0.5))
    got, wanted = (in_onnxruntime(made, level=level, x=x)[0] for level in ("ALL", "none"))
    return bool(np.abs(got - wanted).max() > 1e-3 * np.abs(wanted).max())


def _quotients_differ(run: Callable[..., list[Array]], opset: int) -> bool:
    """True if QuantizeLinear of float16 to int8 does not round the quotient to float16."""
    made = model(
        "(float16[N] x) => (int8[N] y) { y = QuantizeLinear (x, s, z) }",
        opset,
        s=np.array(0.3, np.float16),
        z=np.zeros((), np.int8),
    )
    x = np.random.default_rng(0).normal(0, 20, 20000).astype(np.float16)
    wanted = np.clip(np.rint(x / np.float16(0.3)), -128, 127).astype(np.int8)
    return bool((run(made, x=x)[0] != wanted).any())


def float8_after_relu() -> bool:
    made = model(
        "(float[2] x) => (float[2] y) { c = Relu (x) q = QuantizeLinear (c, s, z) y = DequantizeLinear (q, s, z) }",
        s=_ONE,
        z=_zero(FLOAT8),
    )
    return bool(in_onnxruntime(made, x=_f(-2, 1))[0][0] != 0)


def float8_after_clip() -> bool:
    made = model(
        """(float[2] x) => (float[2] y) { n = Neg (x) c = Clip (n, low, high) q = QuantizeLinear (c, s, z)
            d = DequantizeLinear (q, s, z) y = Neg (d) }""",
        s=_ONE,
        z=_zero(FLOAT8),
        low=_f(0),
        high=_f(6),
    )
    return _refused(made, x=_f(-2, 1))


def _pairs_around(op_type: str, dtype: int) -> bool:
    made = model(
        f"""(float[4,4] x, float[4,4] w) => (float[4,4] y) {{ q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z) r = QuantizeLinear (w, s, z) e = DequantizeLinear (r, s, z)
            a = {op_type} (d, e) t = QuantizeLinear (a, s, z) y = DequantizeLinear (t, s, z) }}""",
        25,
        s=_ONE,
        z=_zero(dtype),
    )
    return _refused(made, x=np.eye(4, dtype=np.float32), w=np.eye(4, dtype=np.float32))


def weights_of_2_bits() -> bool:
    rng = np.random.default_rng(0)
    w, x = rng.integers(-2, 2, (32, 6)), rng.integers(-4, 4, (3, 32)).astype(np.float32)
    held = onnx.helper.make_tensor("w", INT2, [32, 6], w.reshape(-1).tolist())
    made = model(
        "(float[3,32] x) => (float[3,6] y) { d = DequantizeLinear (w, s) y = MatMul (x, d) }", 25, w=held, s=_ONE
    )
    return bool(np.abs(in_onnxruntime(made, x=x)[0] - x @ w).max() > 1)


# OpenVINO.


def float_mod() -> bool:
    made = model("(float[1] a, float[1] b) => (float[1] y) { y = Mod <fmod = 1> (a, b) }")
    a, b = np.array([1e4], np.float32), np.array([0.3], np.float32)
    return bool(in_openvino(made, a=a, b=b)[0] != np.fmod(a, b))


def reassociates() -> bool:
    made, x = _one("a = Add (n, k) t = Sub (a, k)", [0.3, 1.7], k=_f(1.5 * 2**23))
    return bool((in_openvino(made, x=x)[0] == x).all())


def reciprocal() -> bool:
    numbers = np.arange(1, 1000, dtype=np.float32)
    made, x = _one("t = Div (n, k)", numbers.tolist(), k=_f(3))
    return bool((in_openvino(made, x=x)[0] != x / np.float32(3)).any())


def negative_zero_lost() -> bool:
    made = model("(float[2] x) => (float[2] y) { y = Sub (k, x) }", k=_f(0))
    return bool(np.signbit(in_openvino(made, x=_f(0, 1))[0][0]))


def nan_swallowed() -> bool:
    made, x = _one("t = Max (n, k)", [np.nan, 1.0], k=_f(0))
    return not np.isnan(in_openvino(made, x=x)[0][0])


def greater_of_nan() -> bool:
    """True on some processors alone: on one of two x86-64 ones that were tried."""
    made = model("(float[2] x) => (float[2] y) { g = Greater (x, k) y = Cast <to = 1> (g) }", k=_f(0))
    return bool(in_openvino(made, x=_f(np.nan, -1))[0][0] == 1)


def float16_round_trip() -> bool:
    made, x = _one("h = Cast <to = 10> (n) t = Cast <to = 1> (h)", [1 + 2.0**-12, 3.0])
    return bool(in_openvino(made, x=x)[0][0] == x[0])


def double_is_float() -> bool:
    made, x = _one("t = Add (n, k)", [1.0, 2.0], "double", k=np.array(1e-12))
    return bool((in_openvino(made, x=x)[0] == x).all())


def float_is_bfloat16() -> bool:
    """True on a processor with instructions for bfloat16 alone."""
    x = np.random.default_rng(0).normal(0, 1, (64, 64)).astype(np.float32)
    made = model("(float[64,64] x) => (float[64,64] y) { y = MatMul (x, x) }")
    return bool(np.abs(in_openvino(made, hint="", x=x)[0] - x @ x).max() > 1e-2)


def integers_divided_in_float() -> bool:
    made = model("(int32[2] x, int32[2] z) => (int32[2] y) { y = Div (x, z) }")
    x, z = np.array([100000001, 6], np.int32), np.array([3, 3], np.int32)
    return bool(in_openvino(made, x=x, z=z)[0][0] != 33333333)


def float8_nan_is_lost() -> bool:
    made = model(
        "(float[2] x) => (float[2] y) { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }",
        s=_ONE,
        z=_zero(FLOAT8),
    )
    return not np.isnan(in_openvino(made, x=_f(np.nan, 1))[0][0])


def _loads(
    body: str, *, ir_version: int = 10, opset: int = 21, typed: bool = True, producer: str = "", sparse: bool = False
) -> bool:
    """True if OpenVINO compiles the file: it loads more of bytes in memory.

    Args:
        opset: 0 for a model that imports none.
        typed: With a type of its first input.
        sparse: With a sparse initializer s.
    """
    import openvino

    made = model(body)
    made.ir_version = ir_version
    made.opset_import[0].version = opset
    made.opset_import.add(domain="com.microsoft", version=1)
    if not opset:
        del made.opset_import[:]
    if producer:
        made.producer_name = producer
    if sparse:
        values, indices = onnx.helper.make_tensor("s", 1, [1], [1.0]), onnx.helper.make_tensor("", 7, [1], [0])
        made.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2]))
    if not typed:
        made.graph.input[0].ClearField("type")
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder, "model.onnx")).write_bytes(made.SerializeToString())
        try:
            openvino.Core().compile_model(path, "CPU")
        except RuntimeError:
            return False
    return True


_SCAN = "(float[2] x, float z) => (float[2] y) { y = Scan <num_scan_inputs = 1, body = b (float u) => (float r)"
_LOOP = """(int64 n, bool c, float[2] s) => (float[2] y) {{ y = Loop (n, c, s)
    <body = b (int64 i, bool k, float[2] u) => ({}) {{ r = Identity (k) v = Neg (u) }}> }}"""
_ATTENTION = """(float[2,2,4] x, float[4,12] w, float[12] b, int32[MASK] m) => (float[2,2,4] y)
    { y = com.microsoft.Attention <num_heads = 2> (x, w, b, m) }"""
_IF = """(float[1,2] x, bool c) => (float[n] y) <int64[1] a = {{0}}> {{ y = If (c)
    <then_branch = t () => ({}) {{ v = {} }}, else_branch = e () => (float[1,2] u) {{ u = Abs (x) }}> }}"""
_PARAMETERS = "float s = {{1}}, uint8 z = {{0}}, float[4] v = {{1, 1, 1, 1}}, uint8[4] u = {{0, 0, 0, 0}}"
_CONV = f"(uint8[1,3,2,2] x, uint8[4,3,1,1] w) => (uint8[1,4,2,2] y) <{_PARAMETERS}> {{{{ y = QLinearConv ({{}}) }}}}"
_MATMUL = (
    f"(uint8[2,2] x, uint8[2,4] w) => (uint8[2,4] y) <{_PARAMETERS}>"
    " {{ y = QLinearMatMul (x, s, z, w, {}, s, z) }}"
)
_MIXED = (
    "(uint8[2,3] x, float s, int8 z) => (float[2,3] y) { y = DequantizeLinear (x, s, z) }",
    "(float[2,3] x, float16 s, uint8 z) => (uint8[2,3] y) { y = QuantizeLinear (x, s, z) }",
    "(uint8[2,2] x, int8[2,2] w, int8 z) => (int32[2,2] y) { y = MatMulInteger (x, w, z) }",
    "(float[3] x, int64[1] a, int32[1] b) => (float[n] y) { y = Slice (x, a, b) }",
)
_KEYS = """(float[1,3,16] q, float[1] k, float[1,1,4,4] p, int32[1] s, int32 t)
    => (float[1,3,8] y, float[1,1,7,4] a, float[1,1,7,4] b)
    { y, a, b = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, KEYS, p, p, s, t) }"""
_NORMALIZATION = "(float[2] x) => (float[2] y) { y = LayerNormalization <axis = 1> (x, x) }"
_EMBEDDINGS = """(int32[1,3] i, float[9,4] w, float[4] g, float[4] b) => (float[1,3,4] y, int32[1] m)
    { y, m = com.microsoft.EmbedLayerNormalization EPSILON (i, , w, w, , g, b) }"""
_FASTGELU = "(TYPE[2] x) => (TYPE[2] y) { y = com.microsoft.FastGelu (x) }"
_LOADED: Mapping[str, Callable[[], bool]] = {
    "output-types-unchecked": lambda: _loads("(float[2] x) => (int64[2] y) { y = Neg (x) }"),
    "surplus-operands-unchecked": lambda: _loads("(float[2] x) => (float[2] y) { y = Neg (x, x) }"),
    "ir-version-unchecked": lambda: _loads("(float[2] x) => (float[2] y) { y = Neg (x) }", ir_version=99),
    "imports-unchecked": lambda: (
        _loads("(float[2] x) => (float[2] y) { y = Neg (x) }", opset=0, producer="p")
        and not _loads(
            "(float[2] x) => (float[1,2] y) <int64[1] a = {0}> { y = Unsqueeze (x, a) }", opset=0, producer="p"
        )
    ),
    "few-fields": lambda: not _loads("(float[2] x) => (float[2] y) { y = Neg (x) }", opset=0),
    "spelled-domain": lambda: not _loads("(float[2] x) => (float[2] y) { y = ai.onnx.Neg (x) }"),
    "unused-nodes-unread": lambda: _loads("(float[2] x) => (float[2] y) { z = d.F (x) y = Neg (x) }"),
    "surplus-operands-counted": lambda: not _loads("(float[2] x) => (float[2] y) { y = Pow (x, x, x) }"),
    "sparse-initializers": lambda: not _loads("(float[2] x) => (float[2] y) { y = Add (x, s) }", sparse=True),
    "opset-unchecked": lambda: _loads("(float[2] x) => (float[2] y) { y = Neg (x) }", opset=99),
    "training-dropout": lambda: (
        not _loads("(float[2] x) => (float[2] y) { y = Dropout (x) }", opset=6)
        and not _loads("(float[2] x, float r, bool t) => (float[2] y) { y = Dropout (x, r, t) }")
    ),
    "scan-of-outer-values": lambda: (
        _loads(f"{_SCAN} {{ r = Neg (u) }}> (x) }}") and not _loads(f"{_SCAN} {{ r = Add (u, z) }}> (x) }}")
    ),
    "integer-mod-of-floats": lambda: not _loads("(float[2] x) => (float[2] y) { y = Mod (x, x) }"),
    "branch-inputs-unchecked": lambda: _loads(
        _IF.replace("t ()", "t (float[1,2] x)").format("float[1,2] v", "Neg (x)")
    ),
    "branches-of-several-ranks": lambda: (
        _loads(_IF.format("float[1,2] v", "Neg (x)")) and not _loads(_IF.format("float[2] v", "Squeeze (x, a)"))
    ),
    "quantized-conv-of-vectors": lambda: (
        _loads(_CONV.format("x, s, z, w, s, z, s, z")) and not _loads(_CONV.format("x, s, z, w, v, u, s, z"))
    ),
    "quantized-matmul-of-vectors": lambda: _loads(_MATMUL.format("s, z")) and not _loads(_MATMUL.format("v, u")),
    "scales-unlike-axis": lambda: (
        _loads("(uint8[2,3] x, float[3] s) => (float[2,3] y) { y = DequantizeLinear (x, s) }")
        and not _loads("(uint8[2,3] x, float[2] s) => (float[2,3] y) { y = DequantizeLinear (x, s) }")
    ),
    "computed-parameters": lambda: not _loads("(float[2] x, int64[1] a) => (float[m,n] y) { y = Unsqueeze (x, a) }"),
    "split-into-more": lambda: (
        not _loads("(float[2] x) => (float[n] y, float[m] z, float[k] w) { y, z, w = Split <num_outputs = 3> (x) }")
    ),
    "attention-masks-of-rank-4": lambda: (
        _loads(_ATTENTION.replace("MASK", "2,2")) and not _loads(_ATTENTION.replace("MASK", "2,1,4,4"))
    ),
    "volumetric-gridsample": lambda: (
        not _loads("(float[1,1,2,2,2] x, float[1,2,2,2,3] g) => (float[1,1,2,2,2] y) { y = GridSample (x, g) }")
    ),
    "functions-unconverted": lambda: (
        not _loads(
            "(float[2] x) => (float[2] y) { y = d.f (x) }"
            ' <domain: "d", opset_import: ["": 21]> f (a) => (b) { b = Neg (a) }'
        )
    ),
    "loop-of-passed-values": lambda: (
        _loads(_LOOP.format("bool r, float[2] v")) and not _loads(_LOOP.format("bool k, float[2] v"))
    ),
    "normalization-beyond-rank": lambda: not _loads(_NORMALIZATION) and _loads(_NORMALIZATION.replace("1", "0")),
    "number-kinds-unchecked": lambda: _loads("(float[2] x) => (float[1] y) { y = ReduceMax <keepdims = 1.0> (x) }"),
    "mixed-operands-unchecked": lambda: all(map(_loads, _MIXED)),
    "cycles-unchecked": lambda: _loads("(float[2] x) => (float[2] y) { z = Add (x, y) y = Neg (z) }"),
    "keys-of-other-ranks": lambda: not _loads(_KEYS.replace("KEYS", "k, k")) and _loads(_KEYS.replace("KEYS", ", ")),
    "conditions-of-rank-2": lambda: (
        _loads(_IF.format("float[1,2] v", "Neg (x)"))
        and not _loads(_IF.replace("bool c", "bool[1,1] c").format("float[1,2] v", "Neg (x)"))
    ),
    "embeddings-without-epsilon": lambda: (
        not _loads(_EMBEDDINGS.replace("EPSILON", "")) and _loads(_EMBEDDINGS.replace("EPSILON", "<epsilon = 1e-5>"))
    ),
    "fastgelu-of-other-types": lambda: (
        _loads(_FASTGELU.replace("TYPE", "float16")) and not _loads(_FASTGELU.replace("TYPE", "double"))
    ),
    "inputs-without-type": lambda: not _loads("(float[2] x) => (float[2] y) { y = Neg (x) }", typed=False),
    "inputs-without-rank": lambda: not _loads("(float[] x) => (float[] y) { y = Neg (x) }"),
}


ONNXRUNTIME: Mapping[str, Callable[[], bool]] = {
    "same-node-names": same_node_names,
    "inputs-without-type": lambda: _is_refused_with(lambda graph: graph.input[0].ClearField("type")),
    "repeated-nodes": lambda: _is_refused_with(lambda graph: graph.node.append(graph.node[0])),
    "subgraph-initializers-below-4": subgraph_initializers,
    "normalization-beyond-rank": lambda: (
        _refused(model(_NORMALIZATION), x=_f(1, 2))
        and not _refused(model(_NORMALIZATION.replace("1", "0")), x=_f(1, 2))
    ),
    "attention-sizes": lambda: _loads_attention(2, 12) and not (_loads_attention(3, 12) or _loads_attention(2, 9)),
    "spelled-domain-inside": spelled_inside,
    "constants-unchecked": constants_unchecked,
    "bodies-of-model-opset": bodies_of_model_opset,
    "unread-initializers-below-4": unread_initializers,
    "undefined-types": lambda: _is_refused_with(lambda graph: _stated(graph.output[0], 0)),
    "initializers-unlike-inputs": lambda: _is_refused_with(lambda graph: _stated(graph.input[1], 7)),
    "attributes-without-effect": idle_attributes,
    "transpose-cast-matmul-crashes": transpose_cast_matmul,
    "where-loses-negative-zero": where_loses_negative_zero,
    "double-constant-seen-as-float": double_constant_seen_as_float,
    "casts-are-merged": casts_are_merged,
    "half-scatter-reductions": half_scatter_reductions,
    "nan-bound-is-ignored": nan_bound_is_ignored,
    "float-to-int4-rounds-away": float_to_int4_rounds_away,
    "weight-only-dequantize-matmul": weight_only_matmul,
    "quantize-divides-in-float-below-23": lambda: _quotients_differ(in_onnxruntime, 21),
    "float8e4m3fn: QuantizeLinear, Relu": float8_after_relu,
    "float8e4m3fn: QuantizeLinear, Clip": float8_after_clip,
    "int2: QuantizeLinear, MatMul": lambda: _pairs_around("MatMul", INT2),
    "int2: DequantizeLinear, Add": lambda: _pairs_around("Add", INT2),
    "int2: DequantizeLinear, weights": weights_of_2_bits,
    "gone since 1.32.0: qdq-float8-fusion": lambda: _pairs_around("MatMul", FLOAT8),
}
OPENVINO: Mapping[str, Callable[[], bool]] = {
    "float-mod-by-quotient": float_mod,
    "reassociates-constants": reassociates,
    "division-by-constant-is-reciprocal": reciprocal,
    "constant-mul-loses-negative-zero": negative_zero_lost,
    "minmax-swallows-nan": nan_swallowed,
    "greater-of-nan-is-true": greater_of_nan,
    "deletes-float16-round-trip": float16_round_trip,
    "double-is-float": double_is_float,
    "float32-is-bfloat16": float_is_bfloat16,
    "quantize-divides-in-float": lambda: _quotients_differ(in_openvino, 21),
    "integers-divided-in-float": integers_divided_in_float,
    "float8e4m3fn: QuantizeLinear": float8_nan_is_lost,
    **_LOADED,
}
PROBES: Mapping[str, Mapping[str, Callable[[], bool]]] = {"onnxruntime-cpu": ONNXRUNTIME, "openvino-cpu": OPENVINO}
"""By target: the hazards of its file by name, and its wrong fusions, by a type and an operator."""


def found(target: str, name: str, seconds: float = 120) -> str:
    """Return `there` or `gone`, or the error, of a probe in a process of its own."""
    words = [sys.executable, "-m", "tests.targets.hazards", "--one", target, name]
    result = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    if result.returncode < 0:
        return "there: the process ended"
    return result.stdout.strip() or result.stderr.strip().splitlines()[-1]


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print("there" if PROBES[sys.argv[2]][sys.argv[3]]() else "gone")
        return
    for target, probes in PROBES.items():
        for name in (each for each in probes if not sys.argv[1:] or each in sys.argv[1:]):
            print(f"{target}: {name}: {found(target, name)}", flush=True)


if __name__ == "__main__":
    main()
