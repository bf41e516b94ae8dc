"""What the checker knows of numbers and shapes that are computed from sizes: for each size, what onnx gives."""

from __future__ import annotations

import math

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from castsmith.verification import checker
from tests.sampling import check_all
from tests.verification.pairs import HEAD

_NUMBERS = {"zero": 0, "one": 1, "two": 2, "minus": -1}
_VECTORS = {"z": [0], "o": [1], "m": [-1], "t": [3], "far": [2**63 - 1], "back": [1, 0], "none": [-9]}
_BEFORE = " ".join(
    [
        *(f"{name} = Constant <value_int = {number}> ()" for name, number in _NUMBERS.items()),
        *(f"{name} = Constant <value_ints = {numbers}> ()" for name, numbers in _VECTORS.items()),
        "s = Shape (x) h = Gather (s, zero) w = Gather (s, one) hs = Gather (s, z) ws = Gather (s, o) all = Mul (h, w)",
        "as = Unsqueeze (all, z)",
    ]
)
KNOWN = (
    *("Shape (x)", "Shape <start = 1> (x)", "Shape <start = -1> (x)", "Shape <end = 1> (x)", "Shape <end = -1> (x)"),
    *("Shape <start = 1, end = 9> (x)", "Size (x)"),
    *("Gather (s, minus)", "Gather (s, back)", "GatherElements (s, back)"),
    *("Slice (s, z, o)", "Slice (s, o, far)", "Slice (s, m, none, z, m)", "Concat <axis = 0> (s, s)"),
    *("Concat <axis = -1> (hs, t)", "Squeeze (hs)", "Unsqueeze (h, z)", "Reshape (h, m)", "Expand (h, t)"),
    *("Add (s, s)", "Add (h, two)", "Sub (h, w)", "Sub (two, h)", "Sub (h, h)", "Mul (h, w)", "Mul (s, two)"),
    *("Div (all, w)", "Div (all, h)", "Div (all, all)", "Max (h, h)", "Min (all, all)", "Sum (h, w, two)"),
    *("Equal (h, h)", "Equal (h, zero)", "Less (zero, h)", "Less (h, h)", "Less (h, zero)", "Greater (h, zero)"),
    *("Greater (zero, h)", "Greater (h, h)", "LessOrEqual (one, h)", "LessOrEqual (h, zero)", "LessOrEqual (h, h)"),
    *("GreaterOrEqual (h, one)", "GreaterOrEqual (zero, h)", "GreaterOrEqual (h, h)", "Cast <to = 6> (s)"),
    *("c = Less (zero, h) y = Where (c, s, back)", "c = Less (h, zero) y = Where (c, s, back)"),
    "a = Cast <to = 6> (s) b = Cast <to = 7> (a) y = Add (b, s)",
    *(
        f"c = Concat <axis = 0> (hs, t) n = {node} y = Gather (n, one)"
        for node in ("Neg (c)", "Mod (c, two)", "Abs (c)")
    ),
    *(
        f"c = Concat <axis = 0> (hs, t) y = {op} (c, {other})"
        for op, other in (
            ("Add", "t"),
            ("Add", "c"),
            ("Sub", "t"),
            ("Sub", "two"),
            ("Mul", "c"),
            ("Mul", "t"),
            ("Div", "c"),
            ("Max", "c"),
            ("Equal", "c"),
            ("Less", "z"),
            ("Greater", "z"),
            ("Equal", "z"),
            ("Min", "c"),
            ("LessOrEqual", "c"),
        )
    ),
    "a = Cast <to = 6> (all) b = Cast <to = 6> (w) y = Div (a, b)",
)
"""Nodes whose result is known for all sizes."""
SHAPED = (
    *("Reshape (x, m)", "Reshape (x, s)", "Reshape <allowzero = 1> (x, s)", "Reshape (x, as)", "Flatten (x)"),
    *("Flatten <axis = 0> (x)", "Flatten <axis = 2> (x)", "Flatten <axis = -1> (x)", "Transpose (x)"),
    *("Unsqueeze (x, z)", "Unsqueeze (x, m)", "Add (x, v)", "Mul (v, x)", "Expand (x, s)", "ConstantOfShape (s)"),
    *("Relu (x)", "Range (zero, h, one)", "Div (all, two)", "Div (h, w)", "Mod (h, two)", "Max (h, one)", "Max (h, w)"),
    *("Min (h, zero)", "Neg (s)", "Abs (h)", "Equal (h, w)", "LessOrEqual (all, h)", "Cast <to = 3> (s)"),
    *("Cast <to = 1> (s)", "ReduceSum <noop_with_empty_axes = 1> (s)", "ReduceSum (s)", "ReduceSum <keepdims = 0> (s)"),
    *("ReduceProd (s)", "ReduceSum (s, z)", "ReduceProd (s, m)"),
    *("c = Concat <axis = 0> (ws, m) y = Reshape (x, c)", "c = Concat <axis = 0> (m, hs) y = Reshape (x, c)"),
    *("c = Concat <axis = 0> (ws, hs) y = Reshape (x, c)", "c = Concat <axis = 0> (z, m) y = Reshape (x, c)"),
    *("c = Concat <axis = 0> (m, z, o) y = Reshape (x, c)", "c = Concat <axis = 0> (t, o, o) y = Expand (x, c)"),
    *("c = Concat <axis = 0> (o, m) y = Reshape (x, c)", "c = Concat <axis = 0> (as, m) y = Reshape (x, c)"),
    "c = Equal (h, w) y = Where (c, s, back)",
)
"""Nodes whose result is not known, but its shape."""


def value(dim: checker.Dim, sizes: dict[str, int]) -> int | None:
    """Return the number for these sizes; None if it depends on another."""
    if isinstance(dim, int):
        return int(dim)
    if not {name for atoms, _ in dim.terms for name in atoms} <= sizes.keys():
        return None
    return sum(factor * math.prod(sizes[name] for name in atoms) for atoms, factor in dim.terms)


def require_known(row: str, is_known: bool) -> None:
    body = row if " y = " in row else f"y = {row}"
    model = onnx.parser.parse_model(f"{HEAD}g (float[N, M] x, float[M] v) => (y) {{ {_BEFORE} {body} }}")
    pool: dict[str, checker.Array] = {}
    state = checker.state_of(model, pool)
    values = checker.checker_of(model, pool).read(state, is_first=True).values
    y, shape = values["y"], values["x"].shape
    assert y.shape is not None
    assert shape is not None
    names = [name for dim in shape for (name,), _ in checker.terms_of(dim)]
    runtime = ReferenceEvaluator(model)
    for places in ((1, 1), (1, 4), (4, 1), (2, 3), (5, 2)):
        feeds = {"x": np.zeros(places, np.float32), "v": np.zeros(places[1], np.float32)}
        result, sizes = np.asarray(next(iter(runtime.run(None, feeds)))), dict(zip(names, places, strict=True))
        assert [value(dim, sizes) for dim in y.shape] == list(result.shape)
        numbers = [value(element, sizes) for element in y.elements if not isinstance(element, float)]
        assert numbers == result.ravel().tolist() or (not is_known and {*numbers} <= {None})


@pytest.mark.parametrize(("rows", "are_known"), [(KNOWN, True), (SHAPED, False)], ids=["values", "shapes"])
def test_what_is_known_of_sizes_is_what_onnx_gives(rows: tuple[str, ...], are_known: bool) -> None:
    check_all(require_known, [(row, are_known) for row in rows])
