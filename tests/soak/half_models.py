"""Random float16 models that go wrong, of the kinds that are shipped: each is healed and rescaled.

    nice python -m tests.soak.half_models 100 [--seed 0] [--name TEXT]

A model is a source of numbers that do not fit (or vanish), a norm, scores or exponentials that take them in, and what
holds those: the graph, a branch, a loop or a function; at a random opset. Prints what does not hold, by the draw, then
how many models went wrong at all; exits with 1 if a result is not right.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir

import castsmith
from castsmith.ir.walks import all_nodes
from castsmith.lowering.faults import widened
from tests.lowering.shipped import Case, draw
from tests.lowering.test_conversion_healing import in_float

_OPSETS = (11, 13, 17, 18, 21)
_AXES_OF_SUM, _AXES_OF_MEAN, _LAYER_NORM = 13, 18, 17
_LIMIT, _HEALTHY, _FLOOR, _SHARE = 2e-2, 5e-3, 1e-3, 0.12
_SHAPE = "float[2, 6, 32]"
Norm = Callable[[int, str, str], str]


def _over(operator: str, opset: int, source: str, result: str) -> str:
    """A reduction over the last axis, as the opset writes it."""
    if opset < (_AXES_OF_SUM if operator == "ReduceSum" else _AXES_OF_MEAN):
        return f"{result} = {operator} <axes = [-1]> ({source}) "
    return f"{result} = {operator} ({source}, axes) "


def _centred(o: int, x: str, y: str) -> str:
    mean = _over("ReduceMean", o, x, f"{y}_m")
    return f"{mean}{y}_d = Sub ({x}, {y}_m) {y}_q = Mul ({y}_d, {y}_d) {_over('ReduceMean', o, f'{y}_q', f'{y}_v')}"


def _rms(o: int, x: str, y: str) -> str:
    return f"{y}_q = Pow ({x}, two) {_over('ReduceMean', o, f'{y}_q', f'{y}_v')}{y}_e = Add ({y}_v, eps) "


NORMS: dict[str, Norm] = {
    "layer": lambda o, x, y: (
        f"{_centred(o, x, y)}{y}_e = Add ({y}_v, eps) {y}_s = Sqrt ({y}_e) {y} = Div ({y}_d, {y}_s) "
    ),
    "layer by a reciprocal": lambda o, x, y: (
        f"{_centred(o, x, y)}{y}_e = Add (eps, {y}_v) {y}_s = Sqrt ({y}_e) {y}_r = Reciprocal ({y}_s)"
        f" {y} = Mul ({y}_d, {y}_r) "
    ),
    "standard deviation": lambda o, x, y: (
        f"{_centred(o, x, y)}{y}_s = Sqrt ({y}_v) {y}_e = Add ({y}_s, eps) {y} = Div ({y}_d, {y}_e) "
    ),
    "layer by moments": lambda o, x, y: (
        f"{_rms(o, x, y)}{_over('ReduceMean', o, x, f'{y}_m')}{y}_mm = Mul ({y}_m, {y}_m) {y}_w = Sub ({y}_e, {y}_mm)"
        f" {y}_s = Sqrt ({y}_w) {y}_d = Sub ({x}, {y}_m) {y} = Div ({y}_d, {y}_s) "
    ),
    "rms": lambda o, x, y: f"{_rms(o, x, y)}{y}_s = Sqrt ({y}_e) {y} = Div ({x}, {y}_s) ",
    "rms by a power": lambda o, x, y: f"{_rms(o, x, y)}{y}_s = Pow ({y}_e, inverse) {y} = Mul ({x}, {y}_s) ",
    "rms by a sum": lambda o, x, y: (
        f"{_over('ReduceSumSquare', o, x, f'{y}_q')}{y}_v = Mul ({y}_q, share) {y}_e = Add ({y}_v, eps)"
        f" {y}_s = Sqrt ({y}_e) {y}_r = Div (one, {y}_s) {y} = Mul ({y}_r, {x}) "
    ),
    "l2": lambda o, x, y: f"{_over('ReduceL2', o, x, f'{y}_n')}{y}_c = Max ({y}_n, eps) {y} = Div ({x}, {y}_c) ",
    "l2 by a sum": lambda o, x, y: (
        f"{y}_q = Mul ({x}, {x}) {_over('ReduceSum', o, f'{y}_q', f'{y}_t')}{y}_c = Clip ({y}_t, eps)"
        f" {y}_s = Sqrt ({y}_c) {y} = Div ({x}, {y}_s) "
    ),
    "l1": lambda o, x, y: f"{_over('ReduceL1', o, x, f'{y}_n')}{y} = Div ({x}, {y}_n) ",
    "operator": lambda o, x, y: (
        f"{y} = LayerNormalization ({x}, gain, shift) "
        if o >= _LAYER_NORM
        else f"{y} = LpNormalization <axis = -1, p = 2> ({x}) "
    ),
}
SOURCES = {
    "residual": ("m = MatMul (x, big) h = Add (x, m) ", 250),
    "much larger residual": ("m = MatMul (x, big) h = Add (x, m) ", 9000),
    "gated": (
        "g = MatMul (x, w0) s = Sigmoid (g) a = Mul (g, s) u = MatMul (x, big) p = Mul (a, u) d = MatMul (p, w1)"
        " h = Add (x, d) ",
        8000,
    ),
    "squares": ("u = MatMul (x, big) r = Relu (u) q = Mul (r, r) d = MatMul (q, w0) h = Add (d, x) ", 80),
    "power": ("u = MatMul (x, big) r = Abs (u) q = Pow (r, half) d = Mul (q, u) h = MatMul (d, w0) ", 200),
    "channels": ("m = MatMul (x, w0) b = Mul (m, massive) h = Add (x, b) ", 1),
    "vanishing": ("h = MatMul (x, big) ", 1e-3),
}
SCORES = {
    "scaled after": "s = MatMul (q, t) z = Mul (s, small) ",
    "divided after": "s = MatMul (q, t) z = Div (s, large) ",
    "einsum": 's = Einsum <equation = "bqd,bdk->bqk"> (q, t) z = Mul (small, s) ',
    "not scaled": "z = MatMul (q, t) ",
}
EXPONENTIALS = {
    "softmax": "p = Softmax <axis = 2> (z) ",
    "written out": "e = Exp (z) {sum}p = Div (e, n) ",
    "with an epsilon": "e = Exp (z) {sum}n1 = Add (n, tiny) p = Div (e, n1) ",
    "masked": "e0 = Exp (z) e = Mul (e0, kept) {sum}n1 = Add (n, tiny) r = Reciprocal (n1) p = Mul (e, r) ",
    "beside 1": "e = Exp (z) {sum}n1 = Add (n, one) p = Div (e, n1) ",
    "logarithm": "e = Exp (z) {sum}l = Log (n) d = Sub (z, l) p = Mul (d, small) ",
}
_WHERE = ("graph", "graph", "branch", "loop", "function", "blocks")


def drawn(seed: int) -> Case:
    """The model of a seed."""
    choice = random.Random(seed)
    opset = choice.choice(_OPSETS)
    if choice.random() < 1 / 3:
        return _scores(seed, choice, opset)
    (norm, make), (source, (before, scale)) = choice.choice([*NORMS.items()]), choice.choice([*SOURCES.items()])
    where, functions = choice.choice(_WHERE), ""
    if source == "vanishing":
        where = "graph"
    inner = make(opset, "h", "n")
    if where == "branch":
        inner = (
            f"yes = Constant <value = bool {{1}}> () n = If (yes) <then_branch = t () => ({_SHAPE} n_t)"
            f" {{ {make(opset, 'h', 'n_t')} }}, else_branch = e () => ({_SHAPE} n_t) {{ n_t = Neg (h) }}> "
        )
    elif where == "loop":
        inner = (
            f"count = Constant <value = int64 {{3}}> () yes = Constant <value = bool {{1}}> () k = Loop (count, yes, h)"
            f" <body = b (int64 i, bool on, {_SHAPE} k_i) => (bool go, {_SHAPE} k_o) {{ go = Identity (on)"
            f" {make(opset, 'k_i', 'c')} c_u = MatMul (c, big) k_o = Add (k_i, c_u) }}> {make(opset, 'k', 'n')}"
        )
    elif where == "function":
        used = [name for name in _CONSTANTS if name in make(opset, "v", "w")]
        inner = f"n0 = own.norm (h{''.join(f', {name}' for name in used)}) k = MatMul (n0, big)"
        inner += f" n = own.norm (k{''.join(f', {name}' for name in used)}) "
        functions = (
            f'<domain: "own", opset_import: ["": {opset}]> norm (v{"".join(f", {name}" for name in used)}) => (w)'
            f" {{ {make(opset, 'v', 'w')} }}"
        )
    elif where == "blocks":
        inner = "".join(
            f"{make(opset, f'h{i or str()}', f'b{i}')}up{i} = MatMul (b{i}, w0) act{i} = Relu (up{i})"
            f" b{i}_o = MatMul (act{i}, big) h{i + 1} = Add (h{i or ''}, b{i}_o) "
            for i in range(3)
        ) + make(opset, "h3", "n")
    eps = 1e-12 if source == "vanishing" or choice.random() < 0.2 else 1e-6
    name, body = f"{seed}: {source}, {norm}, {where}, opset {opset}", f"{before}{inner}y = MatMul (n, w1)"
    return _case(name, body, opset, eps, scale, functions)


def _scores(seed: int, choice: random.Random, opset: int) -> Case:
    (form, scores), (kind, after) = choice.choice([*SCORES.items()]), choice.choice([*EXPONENTIALS.items()])
    after = after.replace("{sum}", _over("ReduceSum", opset, "e", "n"))
    before, scale, last = "q = MatMul (x, big) k = MatMul (x, w0) t = Transpose <perm = [0, 2, 1]> (k) ", 1e3, "x"
    if kind != "softmax":  # a number for each element, up to some tens
        before, form, scores, scale, last = "", "product", "z = MatMul (x, big) ", 1.5, "w1"
    body = f"{before}{scores}{after}y = MatMul (p, {last})"
    return _case(f"{seed}: scores, {form}, {kind}, opset {opset}", body, opset, 1e-6, scale)


_CONSTANTS = ("eps", "two", "half", "inverse", "share", "one", "gain", "shift", "axes")


def _case(name: str, body: str, opset: int, eps: float, scale: float, functions: str = "") -> Case:
    weights = {
        "eps": eps,
        "tiny": 1e-6,
        "two": 2,
        "half": 0.5,
        "inverse": -0.5,
        "share": 1 / 32,
        "one": 1,
        "small": 1e-4,
        "large": 2e4,
        "gain": np.abs(draw(32, seed=3)) + 0.3,
        "shift": draw(32, seed=4),
        "kept": np.arange(32) % 3 > 0,
        "massive": np.where(np.arange(32) == 5, 2e4, 1),
        "big": draw(32, 32, scale=scale, seed=1),
        "w0": draw(32, 32, seed=2),
        "w1": draw(32, 32, scale=0.2, seed=5),
    }
    arrays = {key: np.asarray(value, np.float32) for key, value in weights.items()} | {"axes": np.array([-1])}
    words = set(body.replace("(", " ").replace(")", " ").replace(",", " ").split())
    return Case(name, "soak", body, {k: v for k, v in arrays.items() if k in words}, opset=opset, functions=functions)


def judged(case: Case) -> tuple[str, list[str]]:
    """Return how the model is, `broken`, `healthy` or neither, and what does not hold of what is made of it."""
    shipped, inputs = case.shipped(), case.inputs()
    before, floor = case.error(shipped), case.error(onnx_ir.to_proto(widened(onnx_ir.from_proto(shipped))))
    if floor > _LIMIT / 4:
        return "lost in its weights", []
    healed, scaled = (
        castsmith.convert(shipped, to="float16", inputs=inputs, rescale=rescale) for rescale in (False, True)
    )
    for result in (healed, scaled):
        onnx.checker.check_model(result.proto, full_check=True)
    if before < _HEALTHY:
        return "healthy", ["is changed"] if healed.rewrites or scaled.rewrites else []
    original = castsmith.convert(case.original(), to="float16", inputs=inputs)
    error, rescaled, best = (case.error(result.proto) for result in (healed, scaled, original))
    nodes, most = in_float(healed.model), max(in_float(original.model), _SHARE * len(list(all_nodes(healed.model))))
    checks = {
        f"healed to {error:.2g}": error > _LIMIT,
        f"healed to {error:.2g}, from float {best:.2g}": error > max(2 * best, 2 * floor, _FLOOR),
        f"{nodes} nodes in float, from float {in_float(original.model)}": nodes > most,
        f"rescaled to {rescaled:.2g}": rescaled > _LIMIT,
        "a float node under rescale": in_float(scaled.model) > 0,
        "rescaled and wrong without a word": rescaled > _LIMIT and not scaled.diagnostics,
    }
    return "broken" if before > _LIMIT else "inexact", [text for text, fails in checks.items() if fails]


def main() -> int:
    """Draw the models, and tell what does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.half_models")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="", help="only models in whose name this is")
    given = parser.parse_args()
    tally, wrong = Counter[str](), 0
    for seed in range(given.seed, given.seed + given.count):
        case = drawn(seed)
        if given.name in case.name:
            kind, faults = judged(case)
            tally[kind] += 1
            wrong += bool(faults)
            for fault in faults:
                print(f"{case.name} ({kind}): {fault}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in tally.items()), f"; {wrong} not right")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
