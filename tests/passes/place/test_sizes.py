"""Numbers of elements where shapes have names."""

from __future__ import annotations

import onnx_ir
import pytest

import castsmith
from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.place.problem import LAUNCH_BYTES
from castsmith.passes.place.sizes import Sizes, parse_sizes
from tests.passes.place.test_problem import FLATTEN


def test_a_dimension_counts_as_often_as_it_is_there() -> None:
    result = castsmith.optimize(onnx_ir.from_onnx_text(FLATTEN), passes=["place-casts"])
    (rewrite,) = result.rewrites
    # 64 * 64 elements: both casts read or write 2 bytes and 4, the Transpose reads and writes 2 in place of 4.
    assert f"bytes moved: {4096 * 4} instead of {4096 * (6 + 8 + 6)}" in rewrite.reason
    assert f"at these sizes (a launch counts as {LAUNCH_BYTES} bytes)" in rewrite.reason


def test_sizes_of_values() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "com.acme": 1]>
    g (float[2,3] a, float[N,3] b, float[N,M] c, float d, float[1048576,1048576] f, float[M,1099511627776] g)
        => (float16[7] y) {
        i = Cast <to = 10> (a) j = Cast <to = 1> (i) k = CastLike (j, d) l = com.acme.Cast <to = 10> (a)
        m = com.acme.Thing (a) y = Cast <to = 10> (m) }"""
    model = onnx_ir.from_onnx_text(text)
    shapes = Shapes(model, infer_element_types(model, PromotionRules()))
    values = {value.name: value for value in (*model.graph.inputs, *(node.outputs[0] for node in model.graph))}
    expected = {
        "a": (6, (2, 3)),
        "b": (15, (None, 3)),
        "c": (50, (None, None)),
        "d": (1, ()),
        "f": (1 << 40, (1 << 20,) * 2),
        "g": (1 << 40, (None, 1 << 40)),
        "i": (6, (2, 3)),
        "j": (6, (2, 3)),
        "k": (6, (2, 3)),
        "l": (10, None),
        "m": (10, None),
        "y": (10, None),  # nothing says how large they are: a Cast has the shape of its operand, whatever is declared
    }
    sizes = Sizes(shapes, 10, {"N": 5})
    for name, found in expected.items():
        assert (sizes.of(values[name]), sizes.dims(values[name])) == found, name


def test_a_move_of_unknown_size_is_as_large_as_the_largest_that_it_reads() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2,3] a, float[4,3] b, int64[K] k, int64[2] l, bool c) => (y) {
        u = Reshape (a, k) v = Gather (a, k) w = Where (c, u, b) x = Expand (a, l) y = Transpose (u) }"""
    model = onnx_ir.from_onnx_text(text)
    sizes = Sizes(Shapes(model, infer_element_types(model, PromotionRules())), 100, {})
    found: dict[str | None, int] = {}
    for node in model.graph:
        operands = [value for value in node.inputs if value is not None and value.dtype != onnx_ir.DataType.INT64]
        sizes.note_move(operands, node.outputs)
        found[node.outputs[0].name] = sizes.of(node.outputs[0])
    # K is a name, so that 100 rows of 3 are gathered; the sizes that a list names are not.
    assert found == {"u": 6, "v": 300, "w": 12, "x": 6, "y": 6}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("", {}),
        ("batch=1", {"batch": 1}),
        ("batch=1,N=128", {"batch": 1, "N": 128}),
        (" batch = 1 , N=0,", {"batch": 1, "N": 0}),
    ],
)
def test_sizes_as_text(text: str, sizes: dict[str, int]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["batch", "batch=", "batch=x", "=1=2"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal for int"):
        parse_sizes(text)
