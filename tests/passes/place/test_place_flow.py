"""Casts across If, Loop and Scan: random joints keep their bits and stay well-formed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.passes.place.run import PlaceCasts
from tests.evaluator import evaluate
from tests.graphs.inputs import inputs_for
from tests.sampling import sampled

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
    outer, starts = "", [("x", one), ("y", two)]
    if seed % 3 == 0 and rng.random() < 0.5:
        outer, starts = (
            f"k = Cast <to = {_TYPES[met]}> (x) ",
            [("k", met), [("k", met), ("y", two)][int(rng.integers(2))]],
        )
    left, right = (_chain(rng, *start, met, name)[0] for start, name in zip(starts, "pq", strict=True))
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
    text = f"g ({inputs}) => ({outputs}) <int64 n = {{3}}> {{ {outer}{flow} {after} {more} }}"
    model = onnx_ir.from_onnx_text(_HEAD + text)
    for node in all_nodes(model):
        for value in node.outputs:
            if value.shape is None and value.name != "d":
                value.shape = onnx_ir.Shape([2, 2])
    return model


@pytest.mark.parametrize("seed", sampled("random joints", range(60), 10))
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


_X = "float16[3, 2] x, bool c, int64 n"
_IF = "a = If (c) <then_branch = t () => (float[3, 2] p) {{ {} }}, else_branch = e () => (float[3, 2] q) {{ {} }}>"
_LOOP = """a{} = Loop (n, c, k{}) <body = b (int64 i, bool g, float[3, 2] s{}) => (bool h, float[3, 2] v{})
{{ h = Identity (g) {} }}>"""
_K, _BACK = "k = Cast <to = 1> (x)", "y = Cast <to = 10> (a)"
BOTH_SIDES = {
    "If": (_K, _IF.format("p = Identity (k)", "r = Identity (k) q = Identity (r)"), _BACK),
    "If, a cast and a constant": (
        _IF.format("p = Cast <to=1> (x)", "r = Constant <value=float[3, 2] {1, 2, 3, 4, 5, 6}> () q = Identity (r)"),
        _BACK,
    ),
    "If in If": (
        _K,
        _IF.format(
            "p = If (c) <then_branch = t2 () => (float[3, 2] o) { o = Identity (k) }, "
            "else_branch = e2 () => (float[3, 2] u) { u = Identity (k) }>",
            "q = Identity (k)",
        ),
        _BACK,
    ),
    "Split": (_K, _IF.format("u, v = Split <num_outputs=2> (k) p = Concat <axis=0> (v, u)", "q = Identity (k)"), _BACK),
    "Loop": (_K, _LOOP.format("", "", "", "", "v = Identity (s)"), _BACK),
    "Loop of two states": (
        _K,
        "l = Neg (x) m = Cast <to = 1> (l)",
        _LOOP.format(", d", ", m", ", float[3, 2] z", ", float[3, 2] w", "v = Identity (z) w = Identity (s)"),
        _BACK,
        "f = Cast <to = 10> (d) j = Neg (f)",
    ),
    "Scan": (
        _K,
        "a = Scan <num_scan_inputs = 1, body = b (float[2] s) => (float[2] o) { o = Identity (s) }> (k)",
        _BACK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH_SIDES)
def test_casts_on_both_sides(name: str) -> None:
    """Casts there and back around control flow that only moves go, but for one that another user needs."""
    for more, left in (("", 0), ("w = Neg (a)", 1)):
        text = f"g ({_X}) => (float16[3, 2] y) {{ {' '.join(BOTH_SIDES[name])} {more} }}"
        before, after = onnx_ir.from_onnx_text(_HEAD + text), onnx_ir.from_onnx_text(_HEAD + text)
        if more:
            for model in (before, after):
                model.graph.outputs.append(model.graph[-1].outputs[0])
        result = castsmith.optimize(after).model
        assert sum(node.op_type == "Cast" for node in all_nodes(result)) == left
        for seed in range(3):
            feeds = inputs_for(before, seed, given={"n": 2})
            for old, new in zip(evaluate(before, feeds), evaluate(result, feeds), strict=True):
                assert np.ascontiguousarray(old).tobytes() == np.ascontiguousarray(new).tobytes()
