"""Known integers that make a chain of two casts exact: every integer of the range, computed both ways."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.intervals import Range, Ranges
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.casts import CastNode
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import parse_type
from castsmith.passes.core.casts import cast_of, harmless, held
from tests.sampling import check_all

# Start, type between and target, and the largest end of a range from 0 on whose chain is taken for one cast: the last
# that all three hold, or that the first two do where the target converts both alike.
LARGEST = [
    ("int64", "int32", "int8", 2**31 - 1),  # wraps alike
    ("int32", "int64", "int8", 2**31 - 1),
    ("int64", "int32", "bool", 2**31 - 1),
    ("int64", "float16", "bool", 2**11),
    ("int64", "float", "int8", 127),  # a float that no int8 holds is undefined
    ("float", "int64", "int8", 127),
    ("int64", "float", "int16", 2**15 - 1),
    ("float16", "int64", "int8", 127),
    ("int64", "float", "float16", 2**24),  # rounds and overflows alike
    ("float", "int64", "float16", 2**24),
    ("int64", "float16", "float", 2**11),
    ("float16", "int64", "float", 2**11),
    ("int64", "bfloat16", "double", 2**8),
    ("int64", "float", "float8e4m3fn", 2**4),  # NaN or 448, by the settings
    ("int64", "float", "float8e5m2", 2**3),
    ("int8", "uint8", "int64", 127),
    ("int64", "int32", "string", -1),
    ("int64", "string", "int32", -1),
    ("string", "int64", "int32", -1),
]


def step(name: str) -> CastNode:
    return CastNode(parse_type(name), saturate=True, round_mode="up")


def require_largest(start: str, between: str, target: str, largest: int) -> None:
    for high in (largest, largest + 1):
        if high >= 0:
            found = harmless(Range(0, high), parse_type(start), step(between), step(target))
            assert found == (high == largest), high


def test_the_largest_integer_of_an_exact_chain() -> None:
    check_all(require_largest, LARGEST)


TYPES = [parse_type(name) for name in ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float", "bool")]
TARGETS = [*TYPES, *map(parse_type, ("float8e4m3fn", "float8e5m2"))]


def require_the_same(start: DataType, between: DataType, target: DataType) -> None:
    for low, high in ((0, 1), (-128, 127), (0, 255), (-9, 300), (0, 2048), (0, 70000)):
        last = CastNode(target, saturate=False, round_mode="up")
        if harmless(Range(low, high), start, CastNode(between, saturate=True, round_mode="up"), last):
            numbers = np.unique(np.linspace(low, high, 99).round()).astype(np.int64)
            once, middle = cast(numbers, start), cast(cast(numbers, start), between)
            assert cast(once, target, saturate=False).tobytes() == cast(middle, target, saturate=False).tobytes()
            status = [cast_status(array, target, saturate=False) for array in (once, middle)]
            assert (status[0] == status[1]).all(), (low, high)


def test_an_exact_chain_of_integers_gives_the_same() -> None:
    check_all(require_the_same, product(TYPES, TYPES, TARGETS))


CLIPPED = """<ir_version: 10, opset_import: ["": 21, "com.acme": 1]>
g (int64 k, float[2] l) => (float16 y, float z, int64 v) {
    lo = Constant <value_int = -200> () hi = Constant <value_int = 100> () r = Clip (k, lo, hi)
    y = Cast <to = 10> (r) z = CastLike <saturate = 0> (r, l) v = com.acme.Cast <to = 7> (r) }"""


def test_held_integers() -> None:
    model = onnx_ir.from_onnx_text(CLIPPED)
    ranges = Ranges(infer_element_types(model, PromotionRules()))
    clip = next(node for node in model.graph if node.op_type == "Clip").outputs[0]
    rows = [("int64", "int16", True), ("int64", "float16", True), ("int64", "int8", False), ("int8", "int64", False)]
    for source, to, expected in [*rows, ("int64", "uint8", False)]:
        assert held(clip, ranges, parse_type(source), parse_type(to)) is expected, (source, to)
    assert not held(model.graph.inputs[1], ranges, DataType.FLOAT, DataType.DOUBLE)


def test_what_a_node_casts() -> None:
    model = onnx_ir.from_onnx_text(CLIPPED)
    inference = infer_element_types(model, PromotionRules())
    *_, y, z, v = model.graph
    clip = y.inputs[0]
    assert cast_of(y, inference) == (clip, DataType.INT64, step("float16"))
    assert cast_of(z, inference) == (clip, DataType.INT64, CastNode(DataType.FLOAT, saturate=False, round_mode="up"))
    assert cast_of(v, inference) is None
