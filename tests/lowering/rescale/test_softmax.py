"""Softmaxes that are written out, from which a number may be subtracted."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir
import pytest
from onnx import numpy_helper

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.ir.naming import Namer
from castsmith.ir.records import Records
from castsmith.lowering.faults import Fault
from castsmith.lowering.rescale.softmax import Shifts, softmax_of
from castsmith.numerics.promotion.rules import PromotionRules

SOFTMAXES = [
    ("t = ReduceSum (e, a) y = Div (e, t)", True),
    ("t = ReduceSum (e, a) r = Reciprocal (t) y = Mul (r, e)", True),
    ("t = ReduceSum (e, a) s = Add (t, eps) y = Div (e, s)", True),
    ("m = Mul (e, z) t = ReduceSum (m, a) y = Div (m, t)", True),
    ("t = ReduceSum <keepdims = 0> (e, a) l = Log (t) u = Unsqueeze (l, a) y = Sub (x, u)", True),
    ("t = ReduceSum (e, a) l = Log (t) d = Div (e, t) y = Sub (d, l)", True),
    ("t = ReduceSum (e, a) y = Mul (e, t)", False),  # of the degree 2
    ("t = ReduceSum (e, a) s = Add (t, one) y = Div (e, s)", True),  # 1 is an exponential too
    ("t = Add (e, one) l = Log (t) y = Neg (l)", True),
    ("l = Log (e) y = Neg (l)", False),
    ("t = ReduceSum <keepdims = 0> (e, a) s = Add (t, one) l = Log (s) u = Unsqueeze (l, a) y = Sub (x, u)", False),
    ("m = Mul (e, z) t = ReduceSum (m, a) s = Add (eps, t) y = Div (m, s)", True),
    ("c = Cast <to = 9> (z) m = Where (c, e, nil) t = ReduceSum (m, a) y = Div (m, t)", True),
    ("c = Cast <to = 9> (z) m = Where (c, e, one) t = ReduceSum (m, a) y = Div (m, t)", False),  # 1 is of degree 0
    ("d = Div (e, e) m = Mul (e, d) t = ReduceSum (m, a) y = Div (m, t)", False),  # the mask is needed before e
    (
        "n = If (k) <then_branch = p () => (float16[4, 4] q) { q = Neg (x) },"
        " else_branch = r () => (float16[4, 4] s) { s = Neg (z) }> m = Mul (e, n) t = ReduceSum (m, a) y = Div (m, t)",
        True,
    ),
    ("n = Not (h) m = Where (n, e, nil) t = ReduceSum (m, a) y = Div (m, t)", True),
    (
        "d = Div (e, e) n = If (k) <then_branch = p () => (float16[4, 4] q) { q = Neg (d) },"
        " else_branch = r () => (float16[4, 4] s) { s = Neg (z) }> m = Mul (e, n) t = ReduceSum (m, a) y = Div (m, t)",
        False,
    ),
    ("m = Mul (e, z) d = Div (m, m) n = Mul (m, d) t = ReduceSum (n, a) y = Div (n, t)", False),  # made of the first
    ("m = Mul (e, z) t = ReduceSum (m, a) y = Div (e, t)", False),  # what is masked may exceed the sum
    ("t = ReduceSum (e, a) d = Div (t, t) l = Log (e) y = Add (d, l)", True),
    ("t = ReduceSum (e, a) d = Div (e, t) y = Add (d, e)", False),
    ("t = ReduceSum (e, a) u = ReduceSum (e, b) d = Div (e, t) f = Div (e, u) y = Add (d, f)", False),  # two axes
    ("t = ReduceSum <keepdims = 0> (e, a) y = Div (e, t)", False),  # of other axes
    ("t = ReduceMax (e) y = Div (e, t)", False),
    ("t = ReduceSum (e, a) d = Div (e, t) y = Neg (d)", True),  # d is of degree 0 once t is known
    ("m = Where (h, e, nil) t = ReduceSum (m, a) l = Log (t) y = Neg (l)", True),
    ("m = Where (h, nil, e) t = ReduceSum (m, a) y = Div (m, t)", True),
    ("m = Where (h, one, e) t = ReduceSum (m, a) y = Div (m, t)", False),
    ("t = ReduceSum (e, a) s = Clip (t, eps) y = Div (e, s)", True),
    ("t = ReduceSum (e, a) s = Clip (t, one) y = Div (e, s)", False),  # 1 is no epsilon
    ("t = ReduceSum (e, a) s = Add (t, z) y = Div (e, s)", False),
    ("m = Max (e, one) t = ReduceSum (m, a) y = Div (m, t)", False),  # no mask
    ("m = Div (e, z) t = ReduceSum (m, a) y = Div (m, t)", False),
    ("t = ReduceSum <keepdims = 0> (e, a) l = Log (t) d = Div (e, t) y = Add (d, l)", False),
    (
        "f = Add (e, one) d = Div (f, f) t = ReduceSum <keepdims = 0> (e, a) l = Log (t) u = Unsqueeze (l, a)"
        " y = Add (d, u)",
        False,
    ),
    (
        "n = If (k) <then_branch = p () => (float16[4, 4] q) { d = Div (e, e) q = Neg (d) }, else_branch = r () =>"
        " (float16[4, 4] s) { s = Neg (z) }> t = ReduceSum (e, a) f = Div (e, t) y = Add (f, n)",
        False,  # read in a branch
    ),
    (
        "m = Mul (e, z) d = Div (m, m) n = If (k) <then_branch = p () => (float16[4, 4] q) { w = Neg (d) q = Neg (x) },"
        " else_branch = r () => (float16[4, 4] s) { s = Neg (z) }> o = Mul (m, n) t = ReduceSum (o, a) y = Div (o, t)",
        False,  # the mask is computed behind the exponential
    ),
    (
        "m0 = Mul (e, z) t = ReduceSum (e, a) d = Div (e, t) y = Add (d, z) "
        + " ".join(f"m{i} = Mul (m{i - 1}, z)" for i in range(1, 100))
        + " n = Neg (m99)",
        False,  # farther than is followed
    ),
]


PARTS = [
    # a softmax, the results of its masks, of the nodes whose constants are terms, and of its logarithms
    ("t = ReduceSum (e, a) s = Mul (t, one) u = Div (e, s) y = Neg (u)", "", "", ""),
    ("t = ReduceSum (e, a) s = Add (t, one) l = Log (s) y = Neg (l)", "", "s", "l"),
    ("m = Mul (e, z) n = Mul (x, m) t = ReduceSum (n, a) s = Max (one, t) y = Div (n, s)", "m n", "s", ""),
]


@pytest.mark.parametrize(("body", "is_one"), SOFTMAXES, ids=[body[:60] for body, _ in SOFTMAXES])
def test_what_stays_the_same_if_a_number_is_subtracted_below_the_exponential(body: str, is_one: bool) -> None:
    assert (softmax_of(exponential_of(body)) is not None) == is_one


@pytest.mark.parametrize(("body", "masks", "terms", "logarithms"), PARTS)
def test_the_parts_of_a_softmax(body: str, masks: str, terms: str, logarithms: str) -> None:
    softmax = softmax_of(exponential_of(body))
    assert softmax is not None
    parts = (softmax.masks, [node for node, _ in softmax.constants], softmax.logarithms)
    assert [[node.outputs[0].name for node in nodes] for nodes in parts] == [
        names.split() for names in (masks, terms, logarithms)
    ]


def exponential_of(body: str) -> onnx_ir.Node:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]>'
        " g (float16[4, 4] x, float16[4, 4] z, bool[4, 4] h, bool k) => (float16[4, 4] y)"
        f" {{ e = Exp (x) {body} }}"
    )
    constants = {
        "a": np.array([-1]),
        "b": np.array([0]),
        "eps": np.float16(1e-5),
        "one": np.float16(1),
        "nil": np.float16(0),
    }
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items())
    return next(iter(onnx_ir.from_proto(model).graph))


def test_an_exponential_with_two_faults_is_shifted_once() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float16[4, 4] x) => (float16[4, 4] y) {
        e = Exp (x) t = ReduceSum (e) y = Div (e, t) }"""
    model = onnx_ir.from_onnx_text(text)
    exponential = next(iter(model.graph))
    fault = Fault(exponential, "e", "e", "e", "overflow", 1e6)
    inference = infer_element_types(model, PromotionRules())
    done = Shifts(model, inference, Records(), Namer(model), lambda _: 2).apply([fault, fault])
    assert exponential in done
    assert [node.op_type for node in model.graph].count("Sub") == 1


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("magnitude", "shifted"), [(65519.0, False), (65520.0, True)])
def test_the_maximum_is_subtracted_before_a_softmax_that_overflows(
    op_type: str, magnitude: float, shifted: bool
) -> None:
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float16[4] x) => (float16[4] y) {{ y = {op_type} (x) }}'
    model = onnx_ir.from_onnx_text(text)
    fault = Fault(next(iter(model.graph)), "y", "y", "y", "overflow", magnitude)
    inference = infer_element_types(model, PromotionRules())
    Shifts(model, inference, Records(), Namer(model), lambda _: 1).apply([fault])
    assert [node.op_type for node in model.graph] == ["ReduceMax", "Sub", "Mul"] * shifted + [op_type]


def test_an_exponential_stays_where_the_axes_of_its_sum_are_computed() -> None:
    """ReduceMax takes its axes as an operand from opset 18 on alone."""
    text = """<ir_version: 8, opset_import: ["": OPSET]> g (float16[4, 4] x, int64[1] a) => (float16[4, 4] y) {
        e = Exp (x) t = ReduceSum (e, a) y = Div (e, t) }"""
    for opset, count in ((17, 0), (18, 1)):
        model = onnx_ir.from_onnx_text(text.replace("OPSET", str(opset)))
        fault = Fault(next(iter(model.graph)), "e", "e", "e", "overflow", 1e6)
        inference = infer_element_types(model, PromotionRules())
        done = Shifts(model, inference, Records(), Namer(model), lambda _: 2).apply([fault])
        assert (len(done) > 0, [node.op_type for node in model.graph].count("ReduceMax")) == (count > 0, count)
