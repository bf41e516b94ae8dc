"""Each inconclusive verdict says what would decide it, and that does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnx_ir
import pytest

import castsmith
from castsmith.numerics.errors import OptionError
from castsmith.verification.evaluate.limits import refuse_huge_results

pytestmark = pytest.mark.usefixtures("engines_here")

_HEAD = '<ir_version: 10, opset_import: ["" : 23]>\n'
_MATMUL = "g (float[{}] x) => (float[K,3] y) <float[7,3] w = {{{}}}> {{ y = MatMul (x, w) }}"
_BRANCH = """g (float[4] x, int64[4] n) => (float[4] y) <int64 t = {{123456}}, float k = {{2.0}}> {{
    p = ReduceProd <keepdims = 0> (n) c = Equal (p, t)
    y = If (c) <then_branch = a () => (float[4] u) {{ u = {} (x, k) }},
                else_branch = b () => (float[4] v) {{ v = Neg (x) }}> }}"""
_TAKEN = {"x": np.ones(4, np.float32), "n": np.array([2, 61728, 1, 1])}


def parsed(text: str) -> onnx_ir.Model:
    return onnx_ir.from_proto(onnx.parser.parse_model(_HEAD + text))


def matmul(dims: str, shape: list[Any] | None = None) -> onnx_ir.Model:
    model = parsed(_MATMUL.format(dims, ", ".join(["0.5"] * 21)))
    model.graph.inputs[0].shape = None if shape is None else onnx_ir.Shape(shape)
    return model


def test_dimensions_without_a_name_are_fitted() -> None:
    for shape in ([None, None], [-1, -1], [2, None], [None, 7]):
        assert castsmith.verify(*(matmul("2,7", shape) for _ in "ab")).equal, shape


def test_a_shape_decides_what_is_not_declared() -> None:
    pair = matmul("2,7"), matmul("2,7")
    verdict = castsmith.verify(*pair)
    assert verdict.inconclusive
    assert "(`shapes=`)" in verdict.unsure[0]
    assert castsmith.verify(*pair, shapes={"x": (2, 7)}).equal
    assert castsmith.verify(*pair, dims={"x": (2, 7)}).equal
    wrong = castsmith.verify(*(matmul("2,7", [None, None]) for _ in "ab"), shapes={"x": (2, 6)})
    assert wrong.inconclusive
    named = [matmul("2,7", ["batch", "batch"]) for _ in "ab"]
    for shape in ((2,), (2, 7)):
        with pytest.raises(OptionError, match=r"^the input x is of the shape batchxbatch, not 2"):
            castsmith.verify(*named, shapes={"x": shape})
    with pytest.raises(OptionError, match=r"^unknown input 'z' with the shape 7; expected x\.$"):
        castsmith.verify(*pair, shapes={"z": (7,)})


def test_shapes_are_asked_for_only_if_some_were_made_up() -> None:
    text = "g (float[n] x) => (float[3,7] y) <int64[2] s = {3, 7}> { y = Reshape (x, s) }"
    verdict = castsmith.verify(parsed(text), parsed(text))
    assert "n=512; pass valid ones (`dims=`)" in verdict.unsure[0]
    assert not any("`shapes=`" in way for way in verdict.advice)


def test_what_no_input_reached_is_decided_by_inputs_or_by_leave() -> None:
    a, b, same = parsed(_BRANCH.format("Mul")), parsed(_BRANCH.format("Div")), parsed(_BRANCH.format("Mul"))
    verdict = castsmith.verify(a, b)
    assert verdict.inconclusive
    assert verdict.advice == [
        "pass inputs that the models accept and that reach it (`inputs=`), or accept that (`allow_unreached`)"
    ]
    assert castsmith.verify(a, b, inputs=_TAKEN).different
    allowed = castsmith.verify(a, b, allow_unreached=True)
    assert allowed.equal
    assert any("not reached, as allowed: " in text for text in allowed.accepted)
    assert castsmith.verify(a, same).equal


def test_each_reason_has_advice_that_works() -> None:
    halves = parsed("g (float[3] x) => (float[3] y) { y = Sqrt (x) }")
    nan = castsmith.verify(halves, parsed("g (float[3] x) => (float[3] y) { n = Neg (x) m = Neg (n) y = Sqrt (m) }"),
                           inputs={"x": -np.ones(3, np.float32)})  # fmt: skip
    assert nan.inconclusive is bool(nan.advice)
    proven = castsmith.verify(halves, parsed("g (float[3] x) => (float[3] y) <float h = {0.5}> { y = Pow (x, h) }"),
                              inputs={"x": np.array([1, 4, 16], np.float32)}, prove=True)  # fmt: skip
    assert any("`prove=`" in text for text in proven.advice) or proven.different
    seeded = "g (float[3] x) => (float[3] y) {{ y = RandomUniformLike {}(x) }}"
    drawn = castsmith.verify(*(parsed(seeded.format("")) for _ in "ab"))
    assert drawn.advice == ["give that operator a seed"]
    assert castsmith.verify(*(parsed(seeded.format("<seed = 1.0> ")) for _ in "ab")).equal
    unknown = "g (float[N] x) => (float[N] y) { y = Nothing (x) }"
    pair = parsed(unknown), parsed(unknown)
    assert castsmith.verify(*pair, sets=1).inconclusive
    assert castsmith.verify(*pair, sets=1, allow_unreached=True).equal


def test_padding_counts_by_axis() -> None:
    """A long signal that is padded by its length is not huge: the axes are not padded by the sum of all."""
    for text, axes in (("Pad (x, p)", None), ("Pad (x, p, , a)", [-1])):
        model = parsed(f"g (float[1,1,64] x, int64[K] p, int64[M] a) => (float[A,B,C] y) {{ y = {text} }}")
        node = next(iter(model.graph))
        widths = np.array([0, 0, 9000] * 2 if axes is None else [9000] * 2)
        operands = [np.zeros((1, 1, 64), np.float32), widths, None, None if axes is None else np.array(axes)]
        refuse_huge_results(node, operands[: len(node.inputs)], onnx.defs.get_schema("Pad", 21))
        operands[1] = widths * 10**9
        with pytest.raises(castsmith.CastsmithError, match="exceeds the limit"):
            refuse_huge_results(node, operands[: len(node.inputs)], onnx.defs.get_schema("Pad", 21))
