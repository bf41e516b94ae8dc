"""What operators do to powers of two."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import numpy_helper

from castsmith.analysis.inference.handed_on import value_at
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.ops.table import operators, traits_of
from castsmith.ir.ops.traits import Answer, Moves
from castsmith.lowering.rescale.solve import (
    Bound,
    _System,  # pyright: ignore[reportPrivateUsage]
    solve,
)
from castsmith.numerics.promotion.rules import PromotionRules
from tests.sampling import check_all


def exponents(body: str, needs: dict[str, int], **weights: object) -> dict[str, int]:
    """The exponents of values and adapters that keep the least exponents asked of values, by name."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
        f" g (float16[4, 4] x, float16[4, 4] z) => (float16[4, 4] y) {{ {body} }}"
    )
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float16), name))
    graph = onnx_ir.from_proto(model).graph
    values = {value.name: value for node in graph for value in node.outputs}
    bounds = [
        Bound(values[name], low=need) if need > 0 else Bound(values[name], high=need) for name, need in needs.items()
    ]
    whole = onnx_ir.Model(graph, ir_version=10)
    solution = solve(whole, infer_element_types(whole, PromotionRules()), bounds)
    assert solution.unsolved == ()
    scaled = {value.name or "": exponent for value, exponent in solution.values.items()}
    scaled |= {
        f"{place.name}@": power for place, power in solution.adapters.items() if isinstance(place, onnx_ir.Value)
    }
    edges = [(edge, power) for edge, power in solution.adapters.items() if not isinstance(edge, onnx_ir.Value)]
    for (owner, index), exponent in (*solution.constants.items(), *edges):
        source, reader = value_at((owner, index)), owner.outputs[0].name if isinstance(owner, onnx_ir.Node) else ""
        assert source is not None
        scaled[f"{source.name}@{reader}"] = exponent
    scaled |= {f"{name}@{node.outputs[0].name}": exponent for (node, name), exponent in solution.attributes.items()}
    return scaled | {f"repair@{node.outputs[0].name}": exponent for node, exponent in solution.repairs.items()}


W = np.ones((4, 4))

EXPONENTS: list[tuple[str, dict[str, int], dict[str, int]]] = [
    ("a = MatMul (x, w) y = MatMul (a, v)", {"a": 3}, {"a": 3, "w@a": 3, "v@y": -3}),
    ("a = Mul (x, x) b = Sqrt (a) y = Div (b, v)", {"a": 5}, {"x@a": 6, "a": 6, "b": 3, "v@y": 3}),
    ("a = MatMul (x, w) b = Reciprocal (a) y = Mul (b, v)", {"b": 2}, {"a": -2, "w@a": -2, "b": 2, "v@y": -2}),
    ("a = MatMul (x, w) b = Add (a, z) y = Mul (b, v)", {"b": 4}, {"a": 4, "b": 4, "w@a": 4, "z@b": 4, "v@y": -4}),
    (
        "a = Mul (x, x) b = ReduceMean (a) c = Sqrt (b) y = Div (x, c)",
        {"a": 7},
        {"a": 8, "b": 8, "c": 4, "x@": 4},
    ),
    (
        "a = MatMul (x, w) b = Pow (a, cube) c = Pow (b, third) y = Div (c, a)",
        {"b": 8},
        {"a": 3, "w@a": 3, "b": 9, "c": 3, "repair@c": 9},
    ),
    (
        "a = Gemm <alpha = 0.01> (x, z) b = Log (a) y = Gemm (b, w, x)",
        {"a": 3},
        {"a": 3, "alpha@a": 3, "repair@b": 3},
    ),
    ("a = Exp (x) y = Mul (a, w)", {"a": 5}, {"a": 5, "repair@a": 5, "w@y": -5}),
    ("a = MatMul (x, w) b = Exp (z) c = Mul (a, b) y = Div (c, s)", {"c": 4}, {"a": 4, "w@a": 4, "c": 4, "s@y": 4}),
    # A weight before an exponential, whose term is rounded.
    ("b = Exp (z) a = MatMul (x, w) c = Mul (b, a) y = Div (c, s)", {"c": 4}, {"a": 4, "w@a": 4, "c": 4, "s@y": 4}),
    ("a = MatMul (x, w) y = LpNormalization (a)", {"a": -3}, {"a": -3, "w@a": -3}),
    ("a = MatMul (x, w) y = LayerNormalization (a, s)", {"a": 3}, {"a": 3, "w@a": 3, "epsilon@y": 6}),
    (
        "a = MatMul (x, w) b = ReduceSumSquare (a) c = Sqrt (b) y = Div (a, c)",
        {"b": 4},
        {"a": 2, "b": 4, "c": 2, "w@a": 2},
    ),
    (
        "a = MatMul (x, w) b = Transpose (a) c = Relu (b) y = Gemm (c, v, s)",
        {"c": 1},
        {"a": 1, "b": 1, "c": 1, "w@a": 1, "v@y": -1},
    ),
    (
        "a = MatMul (x, w) b = MatMul (z, v) c = MatMul (a, b) y = Div (c, s)",
        {"c": 4},
        {"a": 4, "w@a": 4, "c": 4, "s@y": 4},
    ),
    (
        "a = MatMul (x, w) b = Max (a, s) c = Clip (b, s) y = Mul (c, v)",
        {"a": 2},
        {"a": 2, "b": 2, "c": 2, "w@a": 2, "s@b": 2, "s@c": 2, "v@y": -2},
    ),
    (
        "a = MatMul (x, w) b = Concat <axis = 0> (a, z) c = Slice (b, st, en) y = Mul (c, v)",
        {"b": 2},
        {"a": 2, "b": 2, "c": 2, "w@a": 2, "z@b": 2, "v@y": -2},
    ),
]


@pytest.mark.parametrize(("body", "needs", "expected"), EXPONENTS, ids=str)
def test_exponents(body: str, needs: dict[str, int], expected: dict[str, int]) -> None:
    scalar = np.ones(4)
    body = body.replace("st, en", "starts, ends")
    text = (
        ""
        if "starts" not in body
        else "starts = Constant <value = int64[1] {0}> () ends = Constant <value = int64[1] {4}> () "
    )
    names = {
        "w": W,
        "v": W,
        "cube": np.float16(3),
        "third": np.float16(1 / 3),
        "s": scalar if "LayerNorm" in body or "Gemm" in body else np.float16(1),
    }
    used = {name: array for name, array in names.items() if f" {name}" in body or f"({name}" in body}
    assert exponents(text + body, needs, **used) == expected


UNMOVED = operators(lambda row: row.moves is Moves.SHAPE or row.answer in (Answer.EXTREME, Answer.COMPARISON))


@pytest.mark.parametrize("op_type", sorted(UNMOVED))
def test_what_no_common_factor_changes_reads_scaled_values(op_type: str) -> None:
    compares = traits_of("", op_type).answer is Answer.COMPARISON
    body = f"a = MatMul (x, w) b = {op_type} (a{', z' if compares else ''}) y = MatMul (a, v)"
    expected = {"a": 3, "w@a": 3, "v@y": -3} | ({"z@b": 3} if compares else {})
    assert exponents(body, {"a": 3}, w=W, v=W) == expected


FREE: list[tuple[str, str]] = [
    # nodes behind h = MatMul (x, w), and what has any exponent then, with no multiplication put in
    ("", "h w@h"),
    ("g = own.Transpose (h)", ""),
    ("s = Constant <value = float[2] {1.0, 1.0}> () u = Resize (h, , s)", "h w@h u"),
    ('e = Einsum <equation = "ij->ji"> (h)', "h w@h e"),
    ("p = Pow (h, r)", ""),  # a power of each column
    ("g = Gemm (h, z, none)", "h w@h g"),
    ("n = LayerNormalization (h, r)", "h w@h n r@n epsilon@n"),
    ("n = LayerNormalization (h, z)", "h w@h epsilon@n"),
    ("n, , m = LayerNormalization (h, r)", "n r@n"),
    ("n = com.microsoft.SkipSimplifiedLayerNormalization (h, h, r, z)", "n r@n"),
    ("n, , , s = com.microsoft.SkipLayerNormalization (h, h, r, r)", "h w@h n s r@n epsilon@n"),
    ("n = com.microsoft.SkipLayerNormalization (h, h, r, , r)", "h w@h n r@n epsilon@n"),
    ("b = BatchNormalization (h, r, r, r, r)", "h w@h b r@b epsilon@b"),
    ("b = BatchNormalization (h, x, r, r, r)", ""),
    ("b, m, v = BatchNormalization <training_mode = 1> (h, r, r, r, r)", ""),
    ("i = Shape (x) p = Pad <value = 2.0> (h, i)", "h w@h p value@p"),
    ("p = Clip <min = 1.0, max = 2.0> (h)", "h w@h p min@p max@p"),
    ("i = Cast <to = 7> (h)", ""),
    ("i = Shape (x) c = Cast <to = 10> (i)", "h w@h"),
    ("d = Cast <to = 1> (h)", "h w@h d"),
    ("c = Constant <value = bool {1}> () i = Shape (x) l = Loop (, c, i) <body = b (int64 n, bool k, int64 s) =>"
     " (k, t) { t = Neg (s) }>", "h w@h"),
    ("c = Constant <value = bool {1}> () l = Loop (, c, h) <body = b (int64 n, bool k, float16[4, 4] s) =>"
     " (k, t) { t = Neg (s) }>", "h w@h l s t"),
    # A constant that is handed in takes the exponent; one that a branch hands out has none.
    ("c = Constant <value = bool {1}> () l = Loop (, c, w) <body = b (int64 n, bool k, float16[4, 4] s) =>"
     " (k, t) { t = Neg (s) }>", "h w@h w@l l s t"),
    ("c = Constant <value = bool {1}> () f = If (c) <then_branch = a () =>"
     " (k) { k = Constant <value = float[2] {1.0, 1.0}> () }, else_branch = e () => (m) { m = Neg (h) }>", ""),
    # Elements of sequences have none: nothing can be multiplied in between.
    ("q = SequenceConstruct (x) p = SequenceMap (q) <body = b (float16[4, 4] v) => (t) { t = MatMul (v, w) }>"
     " o = SequenceMap (p) <body = d (float16[4, 4] m) => (u) { u = MatMul (m, w) }>", "h w@h"),
    ("i = Shape (x) , j = TopK (h, i)", "h w@h"),  # what is left out is not named
    ("k = Conv (h, w, none)", "h w@h k w@k"),
    ("k = Conv (h, w, r)", "h w@h k w@k r@k"),
    ("k = Conv (h, w, x)", "h w@h w@k"),
    ("g = Gemm <beta = 3.0> (h, w, r)", "h w@h g w@g r@g"),
    ("g = Gemm <beta = 3.0> (h, w, x)", "h w@h g w@g beta@g"),
    ("a = Constant <value = int64[1] {1}> () b = Constant <value = int64[1] {2}> () k = Max (a, b)", "h w@h"),
]  # fmt: skip


def _check_free(body: str, expected: str) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1, "own": 1]>'
        f" g (float16[4, 4] x, float16[4, 4] z) => (float16[4, 4] y) {{ y = Neg (x) h = MatMul (x, w) {body} }}"
    )
    for name, array in (("w", W), ("r", np.ones(4))):
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float16), name))
    for node in model.graph.node:  # the parser drops the last operands that are left out
        node.input[:] = ["" if name == "none" else name for name in node.input]
    made = onnx_ir.from_proto(model)
    system = _System(made, infer_element_types(made, PromotionRules()), frozenset())
    found, forms = system.exponents, {value.name or "": form for value, form in system.exponents.of.items()}
    for (owner, index), form in found.constants.items():
        source, reader = value_at((owner, index)), owner.outputs[0].name if isinstance(owner, onnx_ir.Node) else ""
        forms[f"{source.name if source else ''}@{reader}"] = form
    forms |= {f"{name}@{node.outputs[0].name}": form for (node, name), form in found.attributes.items()}
    free = {name for name, form in forms.items() if system.reduced(form)}
    assert free == set(expected.split()), f"{body}: {sorted(free)}"


def test_what_may_have_an_exponent_of_its_own() -> None:
    check_all(_check_free, FREE)


def test_an_adapter_counts_where_it_is_put_and_once_for_all_that_read_the_value() -> None:
    model = onnx_ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 21]> g (float16[4] x) => (float16[4] h, float16[4] y, float16[4] z)'
        " { h = Relu (x) y = Neg (h) z = Abs (h) }"
    )
    relu, negative, absolute = model.graph
    h, ends = relu.outputs[0], [(model.graph, index) for index in range(3)]
    system = _System(model, infer_element_types(model, PromotionRules()), frozenset({h, (absolute, 0), ends[1]}))
    found = system.exponents
    behind, before, end = (found.adapted[place] for place in (h, (absolute, 0), ends[1]))
    assert len({*behind, *before, *end}) == 3
    assert (found.at(negative, 0), found.at(absolute, 0)) == (behind, {**behind, **before})
    demanded = {edges: form for form, edges in found.equations}
    assert [demanded[edge,] for edge in ends] == [{}, {**behind, **end}, {**behind, **before}]
