"""Casts across If, Loop and Scan: random joints keep their bits and stay well-formed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from castsmith.ir.walks import all_nodes
from castsmith.passes.place.run import PlaceCasts
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for

_TYPES = {"float16": 10, "float": 1, "double": 11}
_HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'


def _chain(rng: np.random.Generator, source: str, dtype: str, to: str, name: str) -> tuple[str, str]:
    """Nodes from `source` to `name` of type `to`, through a few casts, moves and a Neg; and the text of them."""
    text, value, now = "", source, dtype
    for step in range(int(rng.integers(0, 4))):
        kind, made = int(rng.integers(4)), f"{name}_{step}"
        if kind < 2:
            now = list(_TYPES)[int(rng.integers(3))]
            text += f"{made} = Cast <to = {_TYPES[now]}> ({value}) "
        else:
            text += f"{made} = {'Transpose' if kind == 2 else 'Neg'} ({value}) "
        value = made
    if now != to:
        return f"{text}{name} = Cast <to = {_TYPES[to]}> ({value}) ", name
    return f"{text}{name} = Identity ({value}) ", name


def random_flow(seed: int) -> onnx_ir.Model:
    """An If, Loop or Scan between random chains of casts."""
    rng = np.random.default_rng(seed)
    one, two, met, out = (list(_TYPES)[int(rng.integers(3))] for _ in range(4))
    left, right = _chain(rng, "x", one, met, "p")[0], _chain(rng, "y", two, met, "q")[0]
    if rng.random() < 0.3 and met != "float16":
        right = f"q = Constant <value = {met}[2, 2] {{1, -2, 0.5, 3}}> ()"
    after = _chain(rng, "m", met, out, "z")[0]
    more, outputs = "", f"{out}[2, 2] z"
    if rng.random() < 0.3:
        more, outputs = _chain(rng, "m", met, "float", "w")[0], f"{outputs}, float[2, 2] w"
    port = f"{met}[2, 2]"
    kind = seed % 3
    if kind == 0:
        branches = f"then_branch = t () => ({port} p) {{ {left} }}, else_branch = e () => ({port} q) {{ {right} }}"
        flow = f"m = If (c) <{branches}>"
    else:
        turn = _chain(rng, "v", met, met, "u")[0]
        stacked = _chain(rng, "v_same", met, "float", "o")[0]
        inner = f"{{ v_same = Neg (v) {turn} {stacked} }}"
        going = inner.replace("{", "{ d = Identity (g)", 1)
        ends = f"{port} u, float[2, 2] o"
        outputs += ", float[3, 2, 2] s"
        loop = f"m, s = Loop (n, , p) <body = b (int64 i, bool g, {port} v) => (bool d, {ends}) {going}>"
        scan = f"m, s = Scan (p, xs) <num_scan_inputs = 1, body = b ({port} v, float[2, 2] e) => ({ends}) {inner}>"
        flow = f"{left} {loop if kind == 1 else scan}"
    inputs = f"bool c, {one}[2, 2] x, {two}[2, 2] y, float[3, 2, 2] xs"
    text = f"g ({inputs}) => ({outputs}) <int64 n = {{3}}> {{ {flow} {after} {more} }}"
    model = onnx_ir.from_onnx_text(_HEAD + text)
    for node in all_nodes(model):
        for value in node.outputs:
            if value.shape is None and value.name != "d":
                value.shape = onnx_ir.Shape([2, 2])
    return model


@pytest.mark.parametrize("seed", range(60))
def test_random_joints(seed: int) -> None:
    before, after = random_flow(seed), random_flow(seed)
    PlaceCasts()(after)
    onnx.checker.check_model(onnx_ir.to_proto(after), full_check=True)
    for number in range(3):
        feeds = inputs_for(before, seed + number)
        for old, new in zip(evaluate(before, feeds), evaluate(after, feeds), strict=True):
            assert old.dtype == new.dtype
            assert np.ascontiguousarray(old).tobytes() == np.ascontiguousarray(new).tobytes()
    assert not PlaceCasts()(after).modified


def test_casts_do_cross() -> None:
    """Most joints of the random models have something to gain."""
    crossed = 0
    for seed in range(60):
        model = random_flow(seed)
        crossed += any("joined" in rewrite.reason for rewrite in PlaceCasts()(model).records.rewrites)
    assert crossed > 15
