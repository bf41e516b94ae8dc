"""The choice of sides beside all choices, and the worth of nodes and casts in bytes."""

from __future__ import annotations

from itertools import product
from random import Random

import onnx.parser
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.inference import infer_element_types
from castsmith.ir.walks import holders, imports_by_scope
from castsmith.numerics.promotion import PromotionRules
from castsmith.passes.place import LAUNCH_BYTES, Sizes
from castsmith.passes.precision.cut import CONVERTED, INFINITE, KEPT, Costs, solve
from castsmith.passes.precision.gains import Gains
from castsmith.passes.precision.ports import Aim, ports_of
from castsmith.passes.shapes import Shapes


def cost_of(costs: Costs, sides: tuple[bool, ...]) -> float:
    return sum(cost for (a, b), cost in costs.pays.items() if sides[a] and not sides[b])


def random_costs(draw: Random) -> Costs:
    costs = Costs()
    made = [KEPT, CONVERTED, *(costs.variable() for _ in range(draw.randint(1, 7)))]
    for _ in range(draw.randint(1, 14)):
        a, b = draw.choice(made), draw.choice(made)
        if draw.random() < 0.1:
            costs.join(a, b)
        elif draw.random() < 0.1:
            costs.fix(a, converted=draw.random() < 0.5)
        else:
            costs.pay(a, b, draw.choice([1, 2, 2, 3, 0.5, 7]))
    return costs


def test_the_chosen_sides_cost_least() -> None:
    finite = mixed = 0
    for seed in range(400):
        costs = random_costs(Random(seed))
        chosen = tuple(solve(costs))
        assert chosen[:2] == (False, True)
        choices = [(False, True, *rest) for rest in product((False, True), repeat=costs.count - 2)]
        least = min(cost_of(costs, each) for each in choices)
        assert cost_of(costs, chosen) == least, seed
        finite += least < INFINITE
        mixed += 0 < least < INFINITE and len({*chosen[2:]}) == 2
    assert finite > 200
    assert mixed > 40


def test_costs_that_are_paid() -> None:
    costs = Costs()
    a, b = costs.variable(), costs.variable()
    assert (a, b, costs.count) == (2, 3, 4)
    costs.pay(a, b, 2)
    costs.pay(a, b, 3)
    costs.pay(a, a, 5)
    costs.pay(b, a, 0)
    costs.pay(KEPT, CONVERTED, 5)
    assert costs.pays == {(a, b): 5.0}
    costs.fix(a, converted=True)
    costs.fix(b, converted=False)
    assert costs.pays == {(a, b): 5.0, (CONVERTED, a): INFINITE, (b, KEPT): INFINITE}
    assert solve(costs) == [False, True, True, False]
    costs.fix(a, converted=False)  # fixed to both sides
    assert solve(costs) == [False, True, False, False]
    joined = Costs()  # all of them are fixed to both sides
    first, between, last = (joined.variable() for _ in range(3))
    joined.fix(last, converted=False)
    joined.join(between, last)
    joined.join(first, between)
    joined.fix(first, converted=True)
    assert solve(joined) == [False, True, False, False, False]
    alone = Costs()
    one = alone.variable()
    assert solve(alone) == [False, True, False]
    alone.pay(CONVERTED, one, 1)
    assert solve(alone) == [False, True, True]
    alone.pay(one, KEPT, 1)
    assert solve(alone) == [False, True, False]


NODES: list[tuple[str, float, float]] = [
    # nodes, bytes that a conversion saves, bytes of casts of all operands and results
    ("y = Relu (x)", 2 * 64 * 2, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Add (x, x)", 3 * 64 * 2, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Add (x, k)", 3 * 64 * 2 - 63 * 2, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Add (d, d)", 3 * 64 * 6, 2 * (LAUNCH_BYTES + 64 * 10)),
    ("y = Identity (x)", 0, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Cast <to = 11> (x)", 0, LAUNCH_BYTES + 64 * 10),
    ("y = Transpose (x)", 2 * 64 * 2, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = Gather (x, i)", 2 * 16 * 2, 2 * LAUNCH_BYTES + (64 + 16) * 6),
    ("y = MatMul (x, x)", 4 * 3 * 64 * 2 + 64 * 8 / 8, 2 * (LAUNCH_BYTES + 64 * 6)),
    ("y = MatMul (x, v)", 4 * (64 * 2 + 16 * 2 + 16 * 2) + 16 * 8 / 8, 3 * LAUNCH_BYTES + (64 + 16 + 16) * 6),
    ("y = Conv (c, k4)", 4 * (64 * 2 + 32 * 2 + 32 * 2) + 32 * 16 / 8, 2 * LAUNCH_BYTES + (64 + 32) * 6),
    ("q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = MatMul (a, a) z = QuantizeLinear (y, s)", 0,
     2 * (LAUNCH_BYTES + 64 * 6)),
    ("q = QuantizeLinear (x, s) a = DequantizeLinear (q, s) y = MatMul (a, x) z = QuantizeLinear (y, s)",
     4 * 3 * 64 * 2 + 64 * 8 / 8, 3 * (LAUNCH_BYTES + 64 * 6)),
]  # fmt: skip


def test_bytes_that_a_conversion_saves_and_that_casts_cost() -> None:
    head = "float[8,8] x, double[8,8] d, float[8,2] v, float[1,4,4,4] c, int64[2] i"
    weights = f"float k = {{1}}, float s = {{0.5}}, float[2,4,2,2] k4 = {{{', '.join(['1'] * 32)}}}"
    for nodes, saved, casts in NODES:
        text = f'<ir_version: 8, opset_import: ["": 21]> g ({head}) => (y) <{weights}> {{ {nodes} }}'
        if "Conv" in nodes:
            text = text.replace("Conv (", "Conv <strides = [1, 1], pads = [0, 0, 1, 1]> (")
        model = onnx_ir.from_proto(onnx.parser.parse_model(text))
        inference = infer_element_types(model, PromotionRules(promote_unsafe=True))
        held = holders(model)
        imports = imports_by_scope(model, held)
        aim = Aim(DataType.FLOAT16, frozenset({DataType.FLOAT, DataType.DOUBLE}), None)
        gains = Gains(aim, Sizes(Shapes(model, inference, imports, held), 64, {}), inference.type_of)
        node = next(node for node in model.graph if node.outputs[0].name == "y")
        ports = ports_of(node, inference.type_of, imports[model.graph], aim)
        constants = set(model.graph.initializers.values())
        assert (gains.saved(node, ports), gains.casts(node, ports, constants)) == (saved, casts), nodes
