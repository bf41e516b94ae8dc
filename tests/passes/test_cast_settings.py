"""saturate and round_mode through all passes: every graph that moves, merges or computes casts, with every setting.

A pass that drops a setting on the way changes values on inputs alone that overflow or lie between two powers of two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np
import onnx.numpy_helper
import onnx.parser

from castsmith.ir.io.loading import from_proto
from castsmith.lowering.pipeline import optimize
from castsmith.lowering.registry import make_pass
from castsmith.numerics.cast.settings import ROUND_MODES
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import ELEMENT_TYPES, Kind, Specials, type_name
from castsmith.targets.target import load_target
from tests.evaluator import evaluate
from tests.sampling import check_all, sampled

VALUES = (0.0, -0.0, 1.0, -1.0, 1.4, 1.5, 1.6, 447.0, 465.0, -465.0, 1e6, -1e6, 7e-5, np.inf, -np.inf, np.nan)
_ELEMENTS = ", ".join(("0.0", "1.0", "1.5", "1.375", "3.0", "640.0", "-640.0", "1000000.0"))
_CONSTANT = f"k = Constant <value = float[8] {{{_ELEMENTS}}}> ()"
_SQUARE = "s = Constant <value_ints = [-1, 4]> ()"
_WIDE = "a = Cast <to = 11> (x)"

# By name: the body of a graph with a Cast <TO> of x, which is float[16].
SHAPES: dict[str, str] = {
    "alone": "y = Cast <TO> (x)",
    "a chain": f"{_WIDE} y = Cast <TO> (a)",
    "a chain of three": f"{_WIDE} b = Cast <to = 1> (a) y = Cast <TO> (b)",
    "CastLike": f"l = Constant <value = TYPE {{1}}> () {_WIDE} y = CastLike <LIKE> (a, l)",
    "two from one": f"{_WIDE} i = Identity (a) b = Cast <TO> (i) y = Identity (b) c = Cast <TO> (a)"
    " z = Concat <axis = 0> (c, b)",
    "a constant": f"{_CONSTANT} y = Cast <TO> (k)",
    "a constant between powers": "k = Constant <value = float[3] {1.375, 3.0, 640.0}> () y = Cast <TO> (k)",
    "a constant by CastLike": f"{_CONSTANT} l = Constant <value = TYPE {{1}}> () y = CastLike <LIKE> (k, l)",
    "a filling": "n = Shape (x) a = ConstantOfShape <value = float[1] {1000000.0}> (n) y = Cast <TO> (a)",
    "a filling between": "n = Shape (x) a = ConstantOfShape <value = float[1] {1.375}> (n) y = Cast <TO> (a)",
    "in a branch": "c = Constant <value = bool {1}> () y = If (c) <"
    f"then_branch = t () => (TYPE[16] p) {{ {_WIDE} p = Cast <TO> (a) }},"
    "else_branch = e () => (TYPE[16] q) { q = Cast <TO> (x) }>",
    "seen through": "a = Cast <TO> (x) b = Cast <to = 1> (a) n = IsNaN (b) y = Cast <to = NUMBER> (n)",
    "there and back": "a = Cast <TO> (x) b = Cast <to = 1> (a) y = Cast <TO> (b)",
    "CastLike of float6": "l = Constant <value = TYPE {1}> () a = Cast <to = 27> (x) y = CastLike <LIKE> (a, l)",
    "a quantized constant": f"{_CONSTANT} s = Constant <value_float = 1.0> () l = Constant <value = TYPE {{0}}> ()"
    " y = QuantizeLinear <LIKE> (k, s, l)",
    "moved": f"{_SQUARE} n = Shape (x) a = Reshape (x, s) y = Cast <TO> (a) b = Reshape (x, n) z = Cast <TO> (b)",
    "moved with a constant": f"{_CONSTANT} {_SQUARE} a = Reshape (k, s) y = Cast <TO> (a)",
}

# Two casts that may differ in their settings alone.
PAIRS: dict[str, str] = {
    "two of one value": f"{_WIDE} {_SQUARE} y = Cast <TO> (a) b = Cast <OTHER> (a) z = Reshape (b, s)",
    "one after the other": "a = Cast <TO> (x) b = Cast <to = 1> (a) y = Cast <OTHER> (b)",
    "two of a constant": f"{_CONSTANT} y = Cast <TO> (k) z = Cast <OTHER> (k)",
    "two of a constant between powers": "k = Constant <value = float[3] {1.375, 3.0, 640.0}> () y = Cast <TO> (k)"
    " z = Cast <OTHER> (k)",
    "moved apart": f"{_SQUARE} n = Shape (x) a = Reshape (x, s) b = Reshape (x, n) y = Cast <TO> (a)"
    " z = Cast <OTHER> (b)",
}


def settings() -> dict[str, list[tuple[int, str]]]:
    """Each 8-bit floating-point type with every value of the settings that it looks at."""
    found = defaultdict[str, list[tuple[int, str]]](list)
    for dtype, row in ELEMENT_TYPES.items():
        if row.kind is Kind.FLOATING and row.bits == 8:
            modes = ROUND_MODES if row.specials is Specials.E8M0 else ("up",)
            found[type_name(dtype)] = list(product((1, 0), modes))
    assert len(found) == 5
    return found


NUMBERS = {type_name(dtype): int(dtype) for dtype in ELEMENT_TYPES}


def attributes(name: str, setting: tuple[int, str], *, like: bool = False) -> str:
    saturate, mode = setting
    words = [] if like else [f"to = {NUMBERS[name]}"]
    words += [f"saturate = {saturate}"]
    return ", ".join([*words, *([f'round_mode = "{mode}"'] if name == "float8e8m0" else [])])


def text_of(body: str, name: str, setting: tuple[int, str], other: tuple[int, str], opset: int) -> str:
    words = {"TO": attributes(name, setting), "OTHER": attributes(name, other), "TYPE": name}
    words |= {"LIKE": attributes(name, setting, like=True), "NUMBER": str(NUMBERS[name])}
    outputs = f"{name}[A] y, {name}[B] z" if " z = " in body else f"{name}[A] y"
    for word, attribute in words.items():
        body = body.replace(word, attribute)
    return f'<ir_version: 11, opset_import: ["" : {opset}]> g (float[16] x) => ({outputs}) {{ {body} }}'


def cases(bodies: dict[str, str], *, pairs: bool) -> Iterator[tuple[str, str, tuple[int, str], tuple[int, str], int]]:
    for title, (name, every) in product(bodies, settings().items()):
        opset = 28 if "float6" in title else 25 if name == "float8e8m0" else 23 if name.endswith("fnuz") else 24
        if title == "a quantized constant" and name == "float8e8m0":
            continue  # no zero point
        for setting, other in product(every, every):
            if pairs or setting == other:
                yield title, name, setting, other, opset


ALONE = {"moved": ("place-casts", "openvino-cpu"), "a filling": ("simplify-casts", "openvino-cpu")}
"""Bodies for one pass, and a target with the kernels that it needs; the others are for `optimize`."""
REWRITTEN = defaultdict[str, set[str]](set)
"""The types of each body that a pass changed."""


def require_same_bits(title: str, name: str, setting: tuple[int, str], other: tuple[int, str], opset: int) -> None:
    text = text_of({**SHAPES, **PAIRS}[title], name, setting, other, opset)
    proto = onnx.parser.parse_model(text)
    alone = next((alone for start, alone in ALONE.items() if title.startswith(start)), None)
    if alone is not None:
        result = make_pass(alone[0], {"target": load_target(alone[1])})(from_proto(proto))
        rewritten = result.modified
    else:
        result = optimize(proto, provenance=False)
        rewritten = bool(result.rewrites)
    feeds = {"x": np.array(VALUES, np.float32)}
    for before, after in zip(evaluate(from_proto(proto), feeds), evaluate(result.model, feeds), strict=True):
        assert (before.dtype, before.tobytes()) == (after.dtype, after.tobytes()), text
    if rewritten:
        REWRITTEN[title].add(name)


def test_a_setting_stays_with_its_cast() -> None:
    every = cases(SHAPES, pairs=False)
    check_all(require_same_bits, sampled("casts with a setting", every, 0, cover=lambda case: [case[:2], case[1:3]]))
    # No cast to float8e8m0 is moved: the standard leaves that of zero and of negative numbers open.
    assert {title for title in SHAPES if len(REWRITTEN[title]) < 2} == {"alone"}


def test_casts_that_differ_in_a_setting_stay_apart() -> None:
    every = cases(PAIRS, pairs=True)
    check_all(require_same_bits, sampled("casts that differ", every, 0, cover=lambda case: [case[:2], case[1:4]]))
    assert {*PAIRS} <= REWRITTEN.keys()


def require_folded_where_fixed(name: str, setting: tuple[int, str], opset: int) -> None:
    """Fold one constant at a time."""
    saturate, mode = setting
    text = text_of("k = Constant <value = float[1] {0}> () y = Cast <TO> (k)", name, setting, setting, opset)
    for value in np.array(VALUES, np.float32).reshape(-1, 1):
        proto = onnx.parser.parse_model(text)
        proto.graph.node[0].attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(value))
        result = make_pass("fold-constants", {})(from_proto(proto))
        status = cast_status(value, name, saturate=bool(saturate), round_mode=mode, opset=opset)
        assert result.modified == (not status.any()), (value, text)


def test_a_constant_is_folded_where_the_standard_fixes_its_cast_with_these_settings() -> None:
    every = [(name, setting) for name, some in settings().items() for setting in some]
    opsets = {name: (25,) if name == "float8e8m0" else (23, 25) for name in settings()}
    check_all(require_folded_where_fixed, [(*each, opset) for each in every for opset in opsets[each[0]]])
