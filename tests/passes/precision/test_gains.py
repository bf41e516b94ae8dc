"""The worth of nodes and casts in bytes."""

from __future__ import annotations

import onnx.parser
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.walks import holders, imports_by_scope
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.passes.place.problem import LAUNCH_BYTES
from castsmith.passes.place.sizes import Sizes
from castsmith.passes.precision.constants import RoundingLosses
from castsmith.passes.precision.evidence import Evidence
from castsmith.passes.precision.gains import casts_cost, saved_bytes
from castsmith.passes.precision.ports import Aim, ports_of
from castsmith.passes.precision.problem import Problem

NODES: list[tuple[str, float, float]] = [
    # nodes, bytes that a conversion saves, bytes of casts of all operands and results
    ("y = Relu (x)", 2 * 64 * 2 / 4, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Add (x, x)", 3 * 64 * 2 / 4, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Add (x, k)", (3 * 64 * 2 - 63 * 2) / 4, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Add (d, d)", 3 * 64 * 6 / 4, 2 * (LAUNCH_BYTES + 64 * 10)),
    ("y = Identity (x)", 0, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Cast <to = 11> (x)", 0, LAUNCH_BYTES + 64 * 10),
    ("y = Transpose (x)", 2 * 64 * 2 / 4, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Neg (n)", 2 * 512 * 2 / 4, 2 * (LAUNCH_BYTES + 512 * 6)),
    ("y = MaxPool <kernel_shape = [1, 1]> (c)", 2 * 64 * 2 / 4, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y, j = TopK (x, t)", (64 + 8) * 2 / 4, 2 * LAUNCH_BYTES + (64 + 8) * 6),  # the indices keep their type
    ("y = RandomNormal <shape = [8, 8]> () z = Relu (y)", 64 * 2 / 4, LAUNCH_BYTES + 64 * 6),
    ("y = MatMul (x, n)", 4 * (64 + 512 + 64) * 2 + 64 * 64 / 8, 3 * LAUNCH_BYTES + (64 + 512 + 64) * 6),
    ('y = Einsum <equation = "ij->ji"> (x)', 4 * 2 * 64 * 2 + 64 * 64 / 8, 2 * (LAUNCH_BYTES + 64 * 6)),
    ('y = Einsum <equation = "ij,j->i"> (x, e)', 4 * 80 * 2 + 8 * 64 / 8, 3 * LAUNCH_BYTES + 80 * 6),
    ("y = Gather (x, i)", 2 * 16 * 2 / 4, 2 * LAUNCH_BYTES + (64 + 16) * 6),
    ("y = MatMul (x, x)", 4 * 3 * 64 * 2 + 64 * 8 / 8, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = MatMul (x, v)", 4 * (64 * 2 + 16 * 2 + 16 * 2) + 16 * 8 / 8, 3 * LAUNCH_BYTES + (64 + 16 + 16) * 6),
    ("y = Conv (c, k4)", 4 * (64 * 2 + 32 * 2 + 32 * 2) + 32 * 16 / 8, 2 * LAUNCH_BYTES + (64 + 32) * 6),
    ("q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = MatMul (a, a) z = QuantizeLinear (y, s)", 0,
     2 * (LAUNCH_BYTES + 64 * 6)),
    *(
        (f"q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = MatMul (a, a) {users}", saved,
         2 * (LAUNCH_BYTES + 64 * 6))
        for users, saved in (
            ("z = Relu (y)", 0), ("z = Clip (y)", 0), ("z = Abs (y) w = Relu (y)", 0),
            ("z = Abs (y)", 4 * 3 * 64 * 2 + 64 * 8 / 8), ("", 4 * 3 * 64 * 2 + 64 * 8 / 8),
        )
    ),
    ("q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = Gemm (a, a, x) z = QuantizeLinear (y, s)", 0,
     3 * (LAUNCH_BYTES + 64 * 6)),  # the bias is added in float
    ("q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = Clip (a, , k) z = QuantizeLinear (y, s)", 0,
     2 * (LAUNCH_BYTES + 64 * 6)),
    ("q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = MatMul (a, x) z = QuantizeLinear (y, s)",
     4 * 3 * 64 * 2 + 64 * 8 / 8, 3 * (LAUNCH_BYTES + 64 * 6)),
]  # fmt: skip


def test_bytes_that_a_conversion_saves_and_that_casts_cost() -> None:
    head = "float[8,8] x, double[8,8] d, float[8,2] v, float[1,4,4,4] c, int64[2] i, float[N,8] n, float[8] e"
    weights = f"int64[1] t = {{1}}, float k = {{1}}, float s = {{0.5}}, float[2,4,2,2] k4 = {{{', '.join(['1'] * 32)}}}"
    for nodes, saved, casts in NODES:
        text = f'<ir_version: 8, opset_import: ["": 21]> g ({head}) => (y) <{weights}> {{ {nodes} }}'
        if "Conv" in nodes:
            text = text.replace("Conv (", "Conv <strides = [1, 1], pads = [0, 0, 1, 1]> (")
        model = onnx_ir.from_proto(onnx.parser.parse_model(text))
        session, aim = Session(model), Aim(DataType.FLOAT16, frozenset({DataType.FLOAT, DataType.DOUBLE}), None)
        inference, imports = (
            session.inference(PromotionRules(promote_unsafe=True)),
            imports_by_scope(model, holders(model)),
        )
        sizes = Sizes(Shapes(model, inference), 64, {})
        evidence, losses = Evidence(model, aim.to, None), RoundingLosses(aim.to)
        problem = Problem(model, inference, imports, aim, {}, {}, frozenset(), evidence, sizes, losses)
        problem.facts.trace(model)
        node = next(node for node in model.graph if "y" in [value.name for value in node.outputs])
        ports = ports_of(node, inference.type_of, imports[model.graph], aim)
        assert (saved_bytes(problem, node, ports), casts_cost(problem, node, ports)) == (saved, casts), nodes
