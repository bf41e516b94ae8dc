"""The last model that is rewritten, and the first that is not: by the nodes of inlined calls, by the opset."""

from __future__ import annotations

from dataclasses import replace

import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.lowering.float8 import LowerFloat8, obstacle_to_inlining
from castsmith.numerics.errors import OptionError
from tests.lowering.float8.test_float8 import model_of
from tests.lowering.float8.test_limits import BIT_CAST


@pytest.mark.parametrize(("more", "refused"), [("y = Identity (t)", True), ("", False)])
def test_calls_are_inlined_up_to_a_number_of_nodes(more: str, refused: bool) -> None:
    """Twelve levels of two calls each are 4096 nodes."""
    levels = [
        f"""<domain: "local", opset_import: ["": 19, "local": 1]>
        f{n} (a) => (b) {{ c = local.f{n - 1} (a) b = local.f{n - 1} (c) }}"""
        for n in range(1, 13)
    ]
    text = f"""<ir_version: 9, opset_import: ["": 19, "local": 1]>
        g (float[3] x) => (float[3] {"y" if more else "t"}) {{ t = local.f12 (x) {more} }}
        <domain: "local", opset_import: ["": 19]> f0 (a) => (b) {{ b = Neg (a) }} {" ".join(levels)}"""
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    found = obstacle_to_inlining(model, {("local", "f0", "")})
    nodes = 26 + refused
    said = "inlining local::f0, local::f1, local::f10 at each call would turn the"
    assert found == (f"{said} {nodes} nodes of the model into more than 4096" if refused else None)


@pytest.mark.parametrize(("ceil", "moves"), [(0, True), (1, False)])
def test_bitcast_needs_an_opset_to_which_every_node_can_move(ceil: int, moves: bool) -> None:
    body = f"""g (float[3] x, float[1,1,4,4] a) => (float[3] y, float[b,c,d,e] z)
        {{ q = Cast <to = 17> (x) y = Cast <to = 1> (q)
          z = AveragePool <ceil_mode = {ceil}, kernel_shape = [2, 2]> (a) }}"""
    model = model_of(body, 21)
    if moves:
        LowerFloat8(BIT_CAST, sequence="bitcast")(model)
        assert model.opset_imports[""] == 26
        return
    with pytest.raises(OptionError, match="cannot move to opset 26, because AveragePool changed in opset 22"):
        LowerFloat8(BIT_CAST, sequence="bitcast")(model)


@pytest.mark.parametrize(
    ("dtype", "moves"), [(DataType.FLOAT, False), (DataType.INT64, False), (DataType.DOUBLE, True)]
)
def test_bitcast_needs_an_opset_at_which_the_target_has_every_kernel(dtype: DataType, moves: bool) -> None:
    """The types of operands and of results count."""
    body = """g (float[3] x, int64[1] s) => (float[3] y, float[n] z)
        { q = Cast <to = 17> (x) y = Cast <to = 1> (q) z = ConstantOfShape (s) }"""
    target = replace(BIT_CAST, dropped={dtype: {"ConstantOfShape": 26}})
    model = model_of(body, 25)
    if moves:
        LowerFloat8(target, sequence="bitcast")(model)
        assert model.opset_imports[""] == 26
        return
    with pytest.raises(OptionError, match="because t has ConstantOfShape up to opset 25 only"):
        LowerFloat8(target, sequence="bitcast")(model)
