"""Each rewriting of a node for an older opset, beside what has no older form: the result's text, and the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.parser
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.targets.target import Target
from tests.sampling import check_all

NEWEST = onnx.defs.onnx_opset_version()
Row = tuple[int, int, str, str]
X3, Y3 = "float[3,4,5] x", "float[a,b,c] y"
TWO = "(float[a] y, float[b] z) { y, z = Split <num_outputs = 2> (x) }"
SPLIT = "changed in opset 18: without the input `split`, `num_outputs` must say how many"
ANY = "*"
"""Any text: several nodes, whose results count."""

ROWS: list[Row] = [
    # Split: whole parts, a last one that is shorter, an axis without elements; a part without elements is refused.
    (18, 17, f"(float[6] x) => {TWO}", "Split () split=[3, 3]"),
    (18, 17, f"(float[7] x) => {TWO}", "Split () split=[4, 3]"),
    (18, 17, f"(float[0] x) => {TWO}", "Split () split=[0, 0]"),
    (18, 17, "(float[2,3] x) => (float[a,b] y) { y = Split <num_outputs = 1, axis = -1> (x) }",
     "Split (axis=-1) split=[3]"),
    (18, 17, "(float[4] x) => (float[a] y, float[b] z, float[c] w) { y, z, w = Split <num_outputs = 3> (x) }", SPLIT),
    (18, 17, "(float[5] x, int64[2] p) => (float[a] y, float[b] z) { y, z = Split (x, p) }", "Split ()"),
    (18, 17, "(float[a] x) => (float[b] y, float[c] z) { t = Neg (x) y, z = Split <num_outputs = 2> (t) }", SPLIT),
    # Reduce: constant axes.
    (18, 17, f"({X3}) => ({Y3}) <int64[2] k = {{-1, 0}}> {{ y = ReduceMax (x, k) }}", "ReduceMax (axes=[-1, 0])"),
    (18, 17, f"({X3}) => ({Y3}) {{ y = ReduceMax <keepdims = 1> (x) }}", "ReduceMax (keepdims=1)"),
    (18, 17, f"({X3}) => ({Y3}) <int64[1] k = {{1}}> {{ y = ReduceMin <noop_with_empty_axes = 1> (x, k) }}",
     "ReduceMin (axes=[1])"),
    (18, 17, f"({X3}) => ({Y3}) <int64[0] k = {{}}> {{ y = ReduceMax <noop_with_empty_axes = 0> (x, k) }}",
     "ReduceMax ()"),
    (18, 17, f"({X3}) => ({Y3}) <int64[0] k = {{}}> {{ y = ReduceMax <noop_with_empty_axes = 1> (x, k) }}",
     "ReduceMax of opset 13 has no input 1 (axes)"),
    (18, 17, f"({X3}, int64[1] k) => ({Y3}) {{ y = ReduceMax (x, k) }}", "ReduceMax of opset 13 has no input 1 (axes)"),
    (18, 12, f"({X3}) => ({Y3}) <int64[1] k = {{1}}> {{ y = ReduceMax (x, k) }}",
     "ReduceMax of opset 12 has no input 1 (axes)"),
    (18, 17, f"({X3}) => ({Y3}) <int64[1] k = {{1}}> {{ y = ReduceSum (x, k) }}", "ReduceSum ()"),
    (20, 19, "(bool[2,3] x) => (bool[n,m] y) <int64[1] j = {1}> { y = ReduceMax (x, j) }",
     "ReduceMax of opset 18 does not support bool as input 0"),
    # Pad.
    (18, 17, f"({X3}) => ({Y3}) <int64[4] p = {{1, 2, 3, 4}}, int64[2] k = {{-1, 0}}> {{ y = Pad (x, p, , k) }}",
     "Pad () pads=[2, 0, 1, 4, 0, 3]"),
    (18, 17, f"({X3}) => ({Y3}) <int64[6] p = {{1, 2, 3, 4, 5, 6}}, float v = {{7}}> {{ y = Pad (x, p, v) }}",
     "Pad ()"),
    (18, 17, f"({X3}, int64[2] p, int64[1] k) => ({Y3}) {{ y = Pad (x, p, , k) }}",
     "Pad of opset 13 has no input 3 (axes)"),
    (18, 17, f"({X3}) => ({Y3}) <int32[1] k = {{-2}}, int64[2] p = {{1, 2}}> {{ t = Relu (x) y = Pad (t, p, , k) }}",
     ANY),
    (19, 17, f'({X3}) => ({Y3}) <int64[1] k = {{1}}, int64[2] p = {{1, 2}}> {{ y = Pad <mode = "wrap"> (x, p, , k) }}',
     "changed in opset 19: the mode wrap is new"),
    (18, 17, f"({X3}) => ({Y3}) <int64[2] p = {{1, 2}}, int64[1] k = {{1}}> {{ s = Shape (x) t = Reshape (x, s)"
     " y = Pad (t, p, , k) }", ANY),
    (18, 17, f"({X3}, int64[m] n) => ({Y3}) <int64[2] p = {{1, 2}}, int64[1] k = {{1}}> {{ t = Reshape (x, n)"
     " y = Pad (t, p, , k) }", "Pad of opset 13 has no input 3 (axes)"),
    (18, 17, f"({X3}, int64[1] k) => ({Y3}) <int64[2] p = {{1, 2}}> {{ y = Pad (x, p, , k) }}",
     "Pad of opset 13 has no input 3 (axes)"),
    (18, 17, f"({X3}, int64[2] p) => ({Y3}) <int64[1] k = {{1}}> {{ y = Pad (x, p, , k) }}",
     "Pad of opset 13 has no input 3 (axes)"),
    # QuantizeLinear.
    (21, 20, "(float[4] x, float[2] s) => (uint8[4] y) { y = QuantizeLinear <block_size = 2, axis = 0> (x, s) }",
     "QuantizeLinear of opset 19 has no attribute block_size"),
    (23, 22, "(float[3] x, float s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3, precision = 10> (x, s) }",
     "Cast (to=10) Cast (to=10) QuantizeLinear (output_dtype=3)"),
    (21, 20, "(float[3] x, float s) => (uint8[3] y) { y = QuantizeLinear (x, s) }", "QuantizeLinear ()"),
    (21, 20, "(float[3] x, float s, int8 z) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3> (x, s, z) }",
     "QuantizeLinear ()"),
    (21, 20, "(float[3] x, float[3] s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3, axis = 0> (x, s) }", ANY),
    (21, 20, "(float[3] x, float s) => (int16[3] y) { y = QuantizeLinear <output_dtype = 5> (x, s) }",
     "of opset 19 does not support int16 as output 0"),
    (23, 22, "(float16[3] x, float s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3, precision = 1> (x, s) }",
     ANY),
    (23, 22, "(float16[3] x, float s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3> (x, s) }", ANY),
    (23, 22, "(float[3] x, float s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3> (x, s) }",
     "QuantizeLinear (output_dtype=3)"),
    (23, 12, "(float16[3] x, float s, uint8 z) => (uint8[3] y) { y = QuantizeLinear (x, s, z) }",
     "QuantizeLinear of opset 10 does not support float16 as input 0"),
    (19, 18, "(float[3] x, float s, uint8 z) => (uint8[3] y) { y = QuantizeLinear <saturate = 0> (x, s, z) }",
     "QuantizeLinear ()"),
    (19, 18, "(float[3] x, float s) => (uint8[3] y) { y = QuantizeLinear <saturate = 0> (x, s) }", "QuantizeLinear ()"),
    (19, 18, "(float[3] x, float s, float8e4m3fn z) => (float8e4m3fn[3] y) { y = QuantizeLinear (x, s, z) }",
     "QuantizeLinear of opset 13 does not support float8e4m3fn as input 2"),
    (21, 18, "(float[3] x, float s) => (int8[3] y) { y = QuantizeLinear <output_dtype = 3, saturate = 0> (x, s) }",
     ANY),
    # Casts: saturation and rounding of other types; infinity saturates to the fnuz types.
    (24, 23, "(float[3] x) => (float8e4m3fnuz[3] y) { y = Cast <to = 18, saturate = 0> (x) }",
     "Cast (saturate=0, to=18)"),
    (24, 23, "(float[3] x) => (float8e4m3fn[3] y) { y = Cast <to = 17> (x) }", "Cast (to=17)"),
    (24, 23, "(int32[3] x) => (float8e4m3fnuz[3] y) { y = Cast <to = 18> (x) }",
     "changed in opset 24: infinity saturates to the largest value of the fnuz types from opset 24 on, and gave NaN"
     " before"),
    (24, 23, "(float[3] x, float8e4m3fn k) => (float8e4m3fn[3] y) { y = CastLike (x, k) }", "CastLike ()"),
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
    # What nothing real needs is refused, with the difference.
    (20, 17, "(float[1,1,4,4] x, float[1,3,3,2] g) => (float[a,b,c,d] y) { y = GridSample (x, g) }",
     "changed in opset 20: the modes were renamed (bilinear is now linear) and volumes added"),
    (20, 17, "(float[2,3,1] x) => (float[a,b,c] y) <int64 k = {0}> { y = DFT (x, , k) }",
     "DFT changed in opset 20: the axis became an input and its default the last but one"),
    (24, 23, "(float[2,4,3] x, float[2,2,3] u) => (float[a,b,c] y) { y = TensorScatter (x, u) }",
     "opset 23 has no TensorScatter"),
    (26, 25, f"({X3}) => ({Y3}) <int64 j = {{0}}> {{ y = CumProd (x, j) }}", "opset 25 has no CumProd"),
    (14, 13, "(float[3,3] x) => (float[a,b] y) { y = Trilu (x) }", "opset 13 has no Trilu"),
    (15, 14, f"({X3}) => (int64[a] y) {{ y = Shape <start = 1> (x) }}", "Shape of opset 13 has no attribute start"),
    (15, 14, f"({X3}) => (int64[a] y) {{ y = Shape <start = 0> (x) }}", "Shape ()"),
    (14, 13, f"({X3}) => (float[a,b] y) <int64[2] l = {{6, -1}}> {{ y = Reshape <allowzero = 1> (x, l) }}",
     "Reshape of opset 13 has no attribute allowzero"),
    (28, 27, "(bfloat16[6] x, bool[6] b) => (bfloat16[n] y) { y = Compress (x, b) }",
     "Compress of opset 11 does not support bfloat16 as input 0"),
    (13, 10, "(float[2,3,4] x) => (float[a,b] y) { y = Flatten <axis = -2> (x) }",
     "the changes of Flatten between opset 9 and 13 were not compared"),
    *((20, 19, f"({name}[6] x) => (bool[6] y) {{ y = {op} (x) }}", made) for name, op, made in (
        ("float16", "IsInf", "IsInf of opset 10 does not support float16 as input 0"), ("float16", "IsNaN", "IsNaN ()"),
        ("float", "IsInf", "IsInf ()"))),
    *((now, 17, "(float[1,1,4,4] x, float[4] fs, int64[4] fz, float[2] s, int64[2] z, float[4] r) => (float[a,b,c,d] y)"
       f" {{ y = Resize <{attributes}> ({inputs}) }}", made)
      for now, attributes, inputs, made in (
          (18, 'mode = "nearest"', "x, , fs", "Resize (mode=nearest)"),
          (18, 'mode = "nearest", antialias = 0', "x, , fs", "Resize (mode=nearest)"),
          (18, 'mode = "nearest", keep_aspect_ratio_policy = "stretch"', "x, , , fz", "Resize (mode=nearest)"),
          (18, 'mode = "nearest", antialias = 1', "x, , fs", "has no attribute antialias"),
          (18, 'mode = "nearest", axes = [2, 3]', "x, , s", "Resize of opset 13 has no attribute axes"),
          (18, 'mode = "nearest", keep_aspect_ratio_policy = "not_larger"', "x, , , fz",
           "changed in opset 18: a policy of aspect ratio other than stretch is new"),
          (19, 'mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric"', "x, , fs",
           "changed in opset 19: the mode half_pixel_symmetric is new"))),
]  # fmt: skip


def texts(proto: onnx.ModelProto) -> str:
    """The nodes with their attributes in order, and the constants that the move made, by the last part of the name."""

    def shown(attribute: onnx.AttributeProto) -> str:
        value: Any = onnx.helper.get_attribute_value(attribute)
        return value.decode() if isinstance(value, bytes) else str(value)

    nodes = [
        f"{node.op_type} ({', '.join(sorted(f'{each.name}={shown(each)}' for each in node.attribute))})"
        for node in proto.graph.node
    ]
    made = [
        f"{tensor.name.rpartition('_')[2]}={onnx.numpy_helper.to_array(tensor).tolist()}"
        for tensor in proto.graph.initializer
        if "_" in tensor.name
    ]
    return " ".join([*nodes, *made])


def feeds_of(proto: onnx.ModelProto) -> dict[str, Any]:
    given: dict[str, Any] = {
        "p": np.array([2, 3]), "k": np.array([1]),
        "fs": np.array([1, 1, 2, 1.5], np.float32), "fz": np.array([1, 1, 2, 3]), "s": np.array([2, 1.5], np.float32),
        "z": np.array([7, 3]), "r": np.array([0.1, 0.2, 0.8, 0.7], np.float32),
    }  # fmt: skip
    found = dict[str, Any]()
    for value in proto.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value or 5 for dim in kind.shape.dim]
        if value.name == "x" and "float[0]" in onnx.printer.to_text(proto):
            shape = [0]
        count = int(np.prod(shape))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        made = given.get(value.name)
        if made is None or list(made.shape) != shape:
            made = np.resize([0.25, -0.9, 0.5, 300.0, -0.1, np.inf if "Cast" in texts(proto) else 0.7], count)
        found[value.name] = np.asarray(made).astype(dtype).reshape(shape)
        if value.name in ("s", "z") and not shape:
            found[value.name] = np.array(0.3 if value.name == "s" else 5).astype(dtype)
    return found


def check_row(now: int, to: int, body: str, expected: str) -> None:
    """Compare the text of the result, or of the refusal, and the bits that the reference evaluator gives."""
    if now > NEWEST:
        pytest.skip(f"the installed onnx has no opset {now}")
    text = f'<ir_version: 10, opset_import: ["" : {now}]> g {body}'
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    before = onnx_ir.to_proto(model)
    records = LegalizeVersion(Target("t", "", newest_opset=to, newest_ir_version=10))(model).records
    after = onnx_ir.to_proto(model)
    if records.refusals:
        (refusal,) = records.refusals
        assert expected in refusal.reason
        assert expected != ANY
        assert after.SerializeToString() == before.SerializeToString()
        values = (value for node in model.graph for value in (*node.inputs, *node.outputs) if value is not None)
        assert all(use.node.graph is model.graph for value in values for use in value.uses())
        return
    assert [entry.version for entry in after.opset_import] == [to]
    assert expected in (ANY, texts(after))
    onnx.checker.check_model(after, full_check=True)
    feeds = feeds_of(before)
    results = [ReferenceEvaluator(proto).run(None, feeds) for proto in (before, after)]
    for old, new in zip(*results, strict=True):
        assert np.asarray(old).tobytes() == np.asarray(new).tobytes()


def test_a_node_in_the_form_of_an_older_opset() -> None:
    check_all(check_row, (row for row in ROWS if row[0] <= NEWEST))
