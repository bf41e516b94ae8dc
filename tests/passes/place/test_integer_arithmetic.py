"""Integer arithmetic between casts: random graphs of bounded integers, with the same bits before and after.

`python -m tests.passes.place.test_integer_arithmetic 1000` tries that many graphs.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import onnx_ir

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.passes import PlaceCasts
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for

_TYPES = {"int8": 3, "uint8": 2, "int16": 5, "int32": 6, "int64": 7, "bool": 9}
_WIDE = ("int32", "int64")
_SHAPE = "[3, 4]"


def _text(random: Random) -> str:
    """A model of casts, moves and arithmetic; every operand of arithmetic is int32 or int64."""
    values = [("x", "int8"), ("u", "uint8"), ("m", "bool"), ("w", "int64")]
    lines: list[str] = []

    def add(dtype: str, expression: str) -> None:
        values.append((f"v{len(lines)}", dtype))
        lines.append(f"{values[-1][0]} = {expression}")

    for _ in range(random.randint(4, 14)):
        name, dtype = random.choice(values)
        kind = random.choice(("cast", "cast", "unary", "binary", "binary", "move"))
        if kind == "cast" or dtype not in _WIDE:
            to = random.choice(_WIDE if random.random() < 0.8 else tuple(_TYPES))
            add(to, f"Cast <to = {_TYPES[to]}> ({name})")
        elif kind == "unary":
            operator = random.choice(("CumSum ({0}, axis)", "CumSum <exclusive = 1, reverse = 1> ({0}, axis)"))
            picked = random.choice((operator, "sum", "Div ({0}, {1}_3)", "Mod ({0}, {1}_3)"))
            if picked == "sum":
                add(dtype, f"ReduceSum ({name}, axes)")
                picked = "Sub ({0}, " + values[-1][0] + ")"
            add(dtype, picked.format(name, dtype))
        elif kind == "binary":
            same = [other for other, its in values if its == dtype]
            right = random.choice((random.choice(same), f"{dtype}_3", f"{dtype}_1000003"))
            add(dtype, f"{random.choice(('Add', 'Sub', 'Mul', 'Div', 'Mod'))} ({name}, {right})")
        else:
            move = random.choice(("Identity ({0})", "Slice ({0}, zero, four)", "Gather ({0}, zero_to_two)"))
            add(dtype, move.format(name))
    ends = [values[-1], *random.sample(values[4:], min(2, len(values) - 4))]
    results = "".join(f"o{place} = Identity ({name})\n" for place, (name, _) in enumerate(ends))
    outputs = ", ".join(f"{dtype}[A{place}, B{place}] o{place}" for place, (_, dtype) in enumerate(ends))
    constants = ", ".join(f"{dtype} {dtype}_{number} = {{{number}}}" for dtype in _WIDE for number in (3, 1000003))
    places = "int32 axis = {1}, int64[1] axes = {1}, int64[1] zero = {0}, int64[1] four = {4}"
    inputs = f"int8{_SHAPE} x, uint8{_SHAPE} u, bool{_SHAPE} m, int64{_SHAPE} w"
    body = "\n".join(lines)
    head = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => ({outputs})'
    return f"{head} <{constants}, {places}, int64[3] zero_to_two = {{0, 1, 2}}> {{ {body}\n{results} }}"


def _casts(model: onnx_ir.Model) -> int:
    return sum(node.op_type == "Cast" for node in all_nodes(model))


def _check(seed: int) -> bool:
    """Compare the results of a random graph; return True if casts moved."""
    text = _text(Random(seed))
    before = onnx_ir.from_onnx_text(text)
    after = castsmith.optimize(before).model
    for number in range(2):
        feeds = inputs_for(before, number)
        feeds["w"] = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, feeds["w"].shape)
        for old, new in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
            assert old.dtype == new.dtype
            np.testing.assert_array_equal(old, new, err_msg=text)
    assert _casts(after) <= _casts(before)
    assert not castsmith.optimize(after).rewrites
    alone = onnx_ir.from_onnx_text(text)
    return PlaceCasts()(alone).modified


def test_random_arithmetic_gives_the_same_bits() -> None:
    assert sum(map(_check, range(24))) > 3


if __name__ == "__main__":
    found = [_check(seed) for seed in range(int(sys.argv[1]))]
    print(f"{sum(found)} of {len(found)} graphs changed, all with the same bits")
