"""Models that fold-constants leaves alone and that no evaluator runs: too large, malformed, or not in its hands."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.constants import constant_nodes, constant_tensor, constant_types, new_constant
from castsmith.ir.errors import ModelError
from castsmith.ir.records import RewriteResult
from castsmith.ir.walks import all_nodes
from castsmith.lowering.pipeline import optimize
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import parse_type, type_name
from castsmith.passes.fold.run import FoldConstants
from castsmith.verification.run import verify
from tests.graphs.golden import model_text

TRUNC = '"qonnx.custom_op.general": 1'

REFUSED = {
    "a trillion elements": (
        "g () => (float16[N] y) <int64[2] s = {1000000, 1000000}> { a = ConstantOfShape (s) y = Cast <to = 10> (a) }",
        "fold-growth: the file would grow by 1999999999984 bytes, and max_growth is 4096",
    ),
    "a trillion elements on the way": (
        "g () => (float16[1, 1] y) <float[1] w = {1}, int64[2] s = {1000000, 1000000}, int64[2] zeros = {0, 0},"
        " int64[2] ones = {1, 1}> { a = Expand (w, s) b = Slice (a, zeros, ones) y = Cast <to = 10> (b) }",
        "fold-invalid: the intermediate array [1000000, 1000000] of float exceeds the memory limit",
    ),
    "an index that is not there": (
        "g () => (float16[1] y) <float[2] w = {1, 2}, int64[1] i = {2}> { p = Gather (w, i) y = Cast <to = 10> (p) }",
        "fold-invalid: an intermediate index is out of bounds",
    ),
    "an element that is put in place twice": (
        "g () => (float16[1] y) <float[1] w = {1}, int64[2, 1] i = {0, -1}, float[2] v = {1, 2}>"
        " { p = ScatterND (w, i, v) y = Cast <to = 10> (p) }",
        "fold-invalid: duplicate indices: ScatterND leaves the result undefined",
    ),
    "a scale that fits nothing": (
        "g () => (uint8[2] y) <float[2] w = {1, 2}, float[3] s = {1, 2, 3}> { y = QuantizeLinear (w, s) }",
        "fold-invalid: axis 1 is out of range for a tensor of rank 1.",
    ),
    "no version of Trunc has three inputs": (
        "g () => (float[1] y) <float[1] x = {255}> { y = qonnx.custom_op.general.Trunc"
        ' <rounding_mode = "UP"> (x, x, x) }',
        "fold-invalid: g: y (Trunc): Trunc has 3 inputs, which fits no version of it in qonnx.custom_op.general 1.",
    ),
    "shapes of Trunc that do not fit": (
        "g () => (float[4] y) <float[4] x = {1, 2, 3, 4}, float[2] z = {8, 8}, float b = {8}> {"
        ' y = qonnx.custom_op.general.Trunc <rounding_mode = "FLOOR"> (x, b, b, b, z) }',
        "fold-invalid: the shapes of the operands of Trunc do not fit together: (4,), (), (), (), (2,).",
    ),
    "a bit width that is none": (
        "g () => (float[1] y) <float[1] x = {255}, float z = {0}> { y = qonnx.custom_op.general.Trunc"
        ' <rounding_mode = "UP"> (x, x, z, z, z) }',
        "fold-invalid: the in_bitwidth of QONNX Trunc must be an integer from 1 to 1023, not array(0., dtype=float32).",
    ),
}

LEFT = {
    "an axis that is not there": (
        "g () => (float16[N] y) <float[2] w = {1, 2}> { a = Flatten <axis = 7> (w) y = Cast <to = 10> (a) }"
    ),
    "a shape that does not fit": (
        "g () => (float16[N] y) <float[2] w = {1, 2}, int64[1] s = {3}> { a = Reshape (w, s) y = Cast <to = 10> (a) }"
    ),
    "an axis named twice": (
        "g () => (float16[N] y) <float[2] w = {1, 2}, int64[2] a = {0, 0}> { b = Slice (w, a, a, a) y = Cast <to = 10>"
        " (b) }"
    ),
    "indices that are texts": (
        'g () => (float16[1] y) <float[2] w = {1, 2}, string[1] i = {"a"}> { a = Gather (w, i) y = Cast <to = 10> (a) }'
    ),
    "a shape that no array has": (
        "g () => (float16[N, M] y) <float[1, 1] w = {1}, int64[2] s = {0, 9223372036854775807}> { a = Expand (w, s)"
        " y = Cast <to = 10> (a) }"
    ),
    "types that differ": (
        "g () => (float16[N] y) <float[1] w = {1}, double[1] v = {2}> { a = Concat <axis = 0> (w, v) y = Cast <to = 10>"
        " (a) }"
    ),
    "updates of another type": (
        "g () => (float16[2] y) <float[2] w = {1, 2}, int64[1, 1] i = {0}, double[1] v = {2}>"
        " { a = ScatterND (w, i, v) y = Cast <to = 10> (a) }"
    ),
    "a sequence is no tensor": (
        "g () => (float16[1] y) <float[1] w = {1}, int64 i = {0}> { a = SequenceConstruct (w) b = Identity (a)"
        " c = SequenceAt (b, i) y = Cast <to = 10> (c) }"
    ),
    "two outputs of an operator that has one": (
        "g () => (float16[1] y, float16[1] z) <float[1] w = {1}, float16[1] v = {1}> { y, z = CastLike (w, v) }"
    ),
    "the caller chooses the value": (
        'g () => (float16 z) { z = local.f <v = 1.0> () } <domain: "local", opset_import: ["": 21]> f <v> () => (z)'
        " { w = Constant <value_float: float = @v> () z = Cast <to = 10> (w) }"
    ),
    "the caller chooses the axes": (
        'g () => (float16[2] z) { z = local.f <p = [0]> () } <domain: "local", opset_import: ["": 21]> f <p> () =>'
        " (z) { w = Constant <value = float[2] {1, 2}> () t = Transpose <perm: ints = @p> (w) z = Cast <to = 10> (t) }"
    ),
}


def _model(graph: str) -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21, "local": 1, {TRUNC}]>' + graph)


def _fold(model: onnx_ir.Model, max_total_growth: int = 1 << 20) -> RewriteResult:
    result = FoldConstants(max_total_growth=max_total_growth)(model)
    assert isinstance(result, RewriteResult)
    return result


@pytest.mark.parametrize(("graph", "said"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_reason(graph: str, said: str) -> None:
    model = _model(graph)
    before = model_text(model)
    (refusal,) = _fold(model).records.refusals
    assert f"{refusal.rule}: {refusal.reason}" == said
    assert model_text(model) == before


@pytest.mark.parametrize("graph", LEFT.values(), ids=LEFT)
def test_left_alone(graph: str) -> None:
    model = _model(graph)
    before = model_text(model)
    records = _fold(model).records
    assert not records.rewrites
    assert not records.refusals
    assert model_text(model) == before


def test_the_total_budget_holds_over_all_nodes() -> None:
    """Two constants grow by 6 bytes each; the second is refused, but not a third that shrinks."""
    constants = "float8e4m3fn[2] v = {1, 2}, float8e4m3fn[2] w = {3, 4}, float[2] u = {1, 2}"
    body = "a = Cast <to = 1> (v) b = Cast <to = 1> (w) c = Cast <to = 10> (u)"
    model = _model(f"g () => (float[2] a, float[2] b, float16[2] c) <{constants}> {{ {body} }}")
    records = _fold(model, max_total_growth=8).records
    assert [rewrite.site.op for rewrite in records.rewrites] == ["Cast", "Cast"]
    (refusal,) = records.refusals
    assert refusal.reason == "the file would grow by 6 bytes, and 2 of max_total_growth are left"


def test_a_value_without_a_name_gets_one() -> None:
    model = _model("g () => (float16[2] y) <float[2] w = {1, 2}> { a = Cast <to = 10> (w) y = Neg (a) }")
    model.graph[0].outputs[0].name = None
    _fold(model)
    assert list(model.graph.initializers) == ["folded"]


def test_a_shape_before_opset_5_is_an_attribute() -> None:
    """The reference evaluator has no such Reshape."""
    body = 'a = Reshape <shape = [0, 1]> (w) y = Cast <to = "FLOAT16"> (a)'
    graph = f"g () => (float16[2, 1] y) <float[2] w = {{1, 2}}> {{ {body} }}"
    model = onnx_ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 1]>{graph}')
    assert len(_fold(model).records.rewrites) == 1
    values = (*model.graph.initializers.values(), *(value for node in model.graph for value in node.outputs))
    (constant,) = [tensor for value in values if (tensor := constant_tensor(value)) is not None]
    assert constant.numpy().tolist() == [[1], [2]]


OLD = '<ir_version: 3, opset_import: ["": 8]> '


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64", "float16", "double"]
)
def test_a_constant_that_no_initializer_holds_is_of_a_type_that_constant_gives(dtype: str) -> None:
    """Before IR version 4 an initializer is an input, and before opset 9 Constant gives floats alone."""
    number = int(parse_type(dtype))
    body = f"c = Constant <value = float[2] {{1, 2}}> () d = Cast <to = {number}> (c) y = Cast <to = 1> (d)"
    model = onnx_ir.from_onnx_text(f"{OLD}g (float[2] x) => (float[2] z) {{ {body} z = Add (x, y) }}")
    casts = onnx_ir.from_onnx_text(f"{OLD}g () => ({dtype}[2] d) {{ {body.rpartition(' y = ')[0]} }}")
    for each in (model, casts):
        onnx.checker.check_model(onnx_ir.to_proto(optimize(each).model), full_check=True)
    refused = [refusal for refusal in _fold(casts).records.refusals if "does not support" in refusal.reason]
    assert bool(refused) == (dtype not in ("float16", "double"))


@pytest.mark.parametrize(
    ("dtype", "opset"),
    [
        *product((DataType.BOOL, DataType.UINT8, DataType.INT32, DataType.INT64, DataType.FLOAT), (7, 8, 28)),
        (DataType.FLOAT6E2M3, 28),
    ],
)
def test_a_constant_is_stated_by_a_cast_where_constant_does_not_give_the_type(dtype: DataType, opset: int) -> None:
    tensor = onnx_ir.tensor(cast(np.array([0, 1]), dtype), dtype=dtype, name="w")
    nodes = constant_nodes(new_constant("w", tensor), opset)
    stated = dtype in constant_types(opset)
    assert [node.op_type for node in nodes] == (["Constant"] if stated else ["Constant", "Cast"])
    held = constant_tensor(nodes[0].outputs[0])
    assert held is not None
    assert held.dtype in constant_types(opset)
    assert nodes[-1].outputs[0].name == "w"
    assert cast(held.numpy(), dtype).tobytes() == tensor.numpy().tobytes()


def test_a_constant_that_no_float_holds_is_refused() -> None:
    tensor = onnx_ir.tensor(np.array([2**53 + 1]), name="w")
    with pytest.raises(ModelError, match=r"opset 8 cannot express the constant w of int64"):
        constant_nodes(new_constant("w", tensor), 8)


SCOPES = {
    "branches": """g (bool c) => (T[2] y) <float[2] w = {1, 2}> { y = If (c)
        <then_branch = t () => (T[2] a) { a = Cast <to = N> (w) },
         else_branch = e () => (T[2] b) { b = Cast <to = N> (w) }> }""",
    "beside": """g (bool c) => (T[2] y, T[2] z) <float[2] w = {1, 2}> { z = Cast <to = N> (w) y = If (c)
        <then_branch = t () => (T[2] a) { a = Cast <to = N> (w) },
         else_branch = e () => (T[2] b) { b = Cast <to = N> (w) }> }""",
    "loop": """g (int64 n, bool c) => (T[m,2] y) <float[2] w = {1, 2}> { y = Loop (n, c)
        <body = b (int64 i, bool d) => (bool e, T[2] s) { e = Identity (d) s = Cast <to = N> (w) }> }""",
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("dtype", [DataType.INT4, DataType.UINT4, DataType.FLOAT16])
def test_a_body_gives_a_constant_of_an_outer_graph_without_an_identity(scope: str, dtype: DataType) -> None:
    """ONNX Runtime has no Identity of the 4-bit types: the constant stands in the body."""
    text = SCOPES[scope].replace("T[", f"{type_name(dtype)}[").replace("N>", f"{int(dtype)}>")
    proto = onnx.parser.parse_model(f'<ir_version: 11, opset_import: ["": 23]> {text}')
    result = optimize(proto)
    assert not result.refusals
    assert not any(node.op_type == "Cast" for node in all_nodes(result.model))
    assert dtype == DataType.FLOAT16 or not any(
        node.op_type == "Identity" and node.inputs[0] is not None and node.inputs[0].dtype == dtype
        for node in all_nodes(result.model)
    )
    onnx.checker.check_model(onnx_ir.to_proto(result.model), full_check=True)
    assert verify(proto, onnx_ir.to_proto(result.model), engine="reference").equal
