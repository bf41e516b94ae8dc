"""What values hold of constants: masks, numbers that do not fit, counts; through nodes, control flow and functions."""

from __future__ import annotations

import onnx.parser
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.core.session import Session
from castsmith.passes.precision.constants import RoundingLosses
from castsmith.passes.precision.facts import Facts
from castsmith.passes.precision.ports import Aim
from tests.sampling import check_all

HALF = Aim(DataType.FLOAT16, frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16}), None)
CONSTANTS = (
    "float low = {-1e9}, float[2] lows = {-1e9, 0}, float big = {1e6}, float[2] bigs = {1e6, 2}, float huge = {1e9},"
    " float one = {1}, float half = {0.5}, float tiny = {1e-9}, double wide = {1e6}, int64[1] s = {2}, int64 n = {3},"
    " bool t = {1}"
)


def traced(body: str, more: str = "", *, opset: int = 17) -> tuple[onnx_ir.Model, Facts]:
    model = onnx_ir.from_proto(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": {opset}, "own": 1, "com.acme": 1]> g (float[2] x, int32[2] i,'
            f" int8[2] j, uint16[2] u, bool[2] b, bool c, float16[2] h) => (y) <{CONSTANTS}> {{ {body} }} {more}"
        )
    )
    facts = Facts(Session(model).inference(PromotionRules(promote_unsafe=True)), HALF, RoundingLosses(HALF.to))
    facts.trace(model)
    return model, facts


def carried(facts: Facts, value: onnx_ir.Value) -> str:
    """What a value holds, in words."""
    found = facts.carry_of(value)
    words = [f"unfit {found.unfit.partition(' exceed')[0]}"] if found.unfit else []
    words += [f"masks {' '.join(mask.name or '' for mask in found.masks)}"] if found.masks else []
    words += [name for name in ("counts", "integers", "constant") if getattr(found, name)]
    return ", ".join(words)


ROWS: list[tuple[str, str]] = [
    # nodes, and what y holds
    ("y = Identity (low)", "masks low, constant"),
    ("y = Identity (lows)", "masks lows, constant"),
    ("y = Identity (big)", "unfit 1 of 1 elements of big, constant"),
    ("y = Identity (wide)", "unfit 1 of 1 elements of wide, constant"),
    ("y = Identity (tiny)", "unfit 1 of 1 elements of tiny become zero in float16, constant"),
    ("y = Identity (one)", "constant"),
    ("y = Identity (x)", ""),
    ("y = Identity (h)", ""),
    # Arithmetic keeps masks, and loses what does not fit: the sum may be as small as it likes.
    *((f"y = {name} (x, low)", "masks low") for name in ("Add", "Sub", "Mul", "Div", "Min", "Max")),
    ("y = Neg (low)", "masks low"),
    ("y = Where (b, x, low)", "masks low"),
    ("y = Where (b, lows, low)", "masks lows low, constant"),
    ("y = Add (low, low)", "masks low"),
    ("y = Add (x, big)", ""),
    ("y = Add (one, half)", ""),
    ("y = Relu (low)", ""),
    ("y = Abs (low)", ""),
    # Movements keep all; of operands that are no elements nothing.
    ("y = Concat <axis = 0> (lows, bigs)", "unfit 1 of 2 elements of bigs, masks lows, constant"),
    ("y = Concat <axis = 0> (x, bigs)", "unfit 1 of 2 elements of bigs"),
    ("y = Gather (bigs, i)", "unfit 1 of 2 elements of bigs, constant"),
    ("y = Reshape (lows, s)", "masks lows, constant"),
    ("y = Pad (lows, s)", ""),  # without the third operand, what it fills with
    ("y = ScatterElements (x, i, lows)", "masks lows"),
    ("y = Shape (lows)", ""),
    ("y = com.acme.Identity (low)", ""),
    ("y = com.acme.Add (x, low)", ""),
    # Integers, and which of them float16 holds.
    ("y = Cast <to = 1> (i)", "counts, integers"),
    ("y = Cast <to = 1> (u)", "counts, integers"),
    ("y = Cast <to = 1> (j)", "counts"),
    ("y = Cast <to = 1> (b)", "counts"),
    ("y = Cast <to = 1> (h)", ""),
    ("m = com.acme.Thing (x) y = Cast <to = 1> (m)", ""),
    ("m = com.acme.Thing (x) k = Cast <to = 1> (b) y = Mul (k, m)", ""),
    ("m = com.acme.Thing (x) y = Concat <axis = 0> (lows, m)", "masks lows"),
    ("y = Cast <to = 1> (x)", ""),
    ("y = Cast <to = 11> (low)", "masks low"),
    ("y = Cast <to = 7> (low)", ""),
    ("d = Cast <to = 1> (i) y = Add (d, d)", "counts, integers"),
    ("d = Cast <to = 1> (i) y = Add (d, half)", "counts, integers"),
    ("d = Cast <to = 1> (j) y = Add (d, half)", "counts"),
    ("d = Cast <to = 1> (i) y = Add (d, x)", "integers"),
    ("d = Cast <to = 1> (i) y = Transpose (d)", "counts, integers"),
    ("d = Cast <to = 1> (i) y = Gather (d, i)", "counts, integers"),
    ("d = Cast <to = 1> (i) y = Relu (d)", ""),
    # A large number times counts is a mask.
    ("d = Cast <to = 1> (b) e = Sub (d, one) y = Mul (e, huge)", "masks huge, counts"),
    ("d = Cast <to = 1> (b) e = Sub (d, one) y = Mul (huge, e)", "masks huge, counts"),
    ("d = Cast <to = 1> (b) y = Mul (d, low)", "masks low low, counts"),
    ("d = Cast <to = 1> (b) y = Mul (d, bigs)", "counts"),  # not of one element
    ("d = Cast <to = 1> (b) y = Mul (d, half)", "counts"),
    ("d = Cast <to = 1> (b) y = Div (d, huge)", "counts"),
    ("d = Cast <to = 1> (b) e = Add (d, x) y = Mul (e, huge)", ""),
    ("y = Mul (x, huge)", ""),
    ("y = Mul (one, huge)", ""),  # of constants alone
    # Fillings.
    ("y = ConstantOfShape <value = float[1] {-3.4e38}> (s)", "masks y, constant"),
    ("y = ConstantOfShape <value = float[1] {1e5}> (s)", "unfit 1 of 1 elements of its filling, constant"),
    ("y = ConstantOfShape <value = float[1] {2.0}> (s)", "constant"),
    ("y = ConstantOfShape <value = float16[1] {64512}> (s)", ""),
    ("y = ConstantOfShape (s)", ""),
    ("y = com.acme.ConstantOfShape <value = float[1] {1e5}> (s)", ""),
    # Control flow and functions, in both directions.
    ("y = If (c) <then_branch = p () => (float[2] q) { q = Identity (lows) }, else_branch = e () => (float[2] r)"
     " { r = Identity (bigs) }>", "unfit 1 of 2 elements of bigs, masks lows"),
    ('y = Loop (n, "", lows) <body = p (int64 k, bool g, float[2] v) => (bool o, float[2] w) { o = Identity (g)'
     " w = Abs (v) }>", "masks lows"),  # of no turns
    ('y = Loop (n, "", x) <body = p (int64 k, bool g, float[2] v) => (bool o, float[2] w) { o = Identity (g)'
     " w = Add (v, low) }>", "masks low"),
    ("y = own.f (lows)", "masks lows"),
    ("d = own.f (bigs) y = own.f (x)", "unfit 1 of 2 elements of bigs"),  # a function is the same for all its calls
]  # fmt: skip
FUNCTION = '<domain: "own", opset_import: ["": 17]> f (p) => (q) { q = Identity (p) }'


def require_carried(body: str, expected: str) -> None:
    model, facts = traced(body, FUNCTION)
    assert carried(facts, model.graph.outputs[0]) == expected


def test_what_values_hold_of_constants() -> None:
    check_all(require_carried, ROWS)


@pytest.mark.parametrize(
    ("node", "bounds"),
    [
        ("Clip (x, low, big)", "12"),
        ("Max (x, big, low)", "012"),
        ("Min (x, low)", "01"),
        ("Add (x, low)", ""),
        ("com.acme.Clip (x, low, big)", ""),
        ("com.acme.Max (x, low)", ""),
    ],
)
def test_which_inputs_are_bounds(node: str, bounds: str) -> None:
    model, facts = traced(f"y = {node}")
    (last,) = model.graph
    assert "".join(str(index) for index in range(len(last.inputs)) if facts.is_bound(last, index)) == bounds


def test_which_types_are_converted() -> None:
    model, facts = traced("y = Cast <to = 11> (h)")
    types = {value.name: facts.concerns(value) for value in (*model.graph.inputs, *model.graph.outputs)}
    assert types == {"x": True, "i": False, "j": False, "u": False, "b": False, "c": False, "h": False, "y": True}
    assert not facts.concerns(None)
    assert facts.source(None) is None
    assert {value.name for value in facts.constants} == {
        *("low", "lows", "big", "bigs", "huge", "one", "half", "tiny", "wide"),
    }
