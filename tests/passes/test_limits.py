"""Each limit of a pass at its last element or byte, and one beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
from numpy.typing import NDArray

from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.records import RewriteResult
from castsmith.passes import FoldConstants, PlaceCasts, SimplifyCasts
from castsmith.passes.place.sizes import Sizes, parse_sizes
from tests.analysis.shapes.test_walk import shapes_of


def model(text: str, **arrays: NDArray[Any]) -> onnx_ir.Model:
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g {text}')
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in arrays.items())
    return onnx_ir.from_proto(proto)


def rules(result: object) -> list[str]:
    assert isinstance(result, RewriteResult)
    return [each.rule for each in result.records.rewrites]


def test_constants_that_are_compared_in_a_narrower_type() -> None:
    text = "(int32[N] x) => (bool[N] y) { a = Cast <to = 7> (x) y = Less (a, k) }"
    for size, found in ((1024, ["see-through-cast"]), (1025, [])):
        assert rules(SimplifyCasts()(model(text, k=np.arange(size)))) == found


def test_constants_of_equal_nodes() -> None:
    text = (
        "(float[N] x) => (float16[N] y, int32[N] z)"
        " { a = Add (x, k) b = Add (x, l) y = Cast <to = 10> (a) z = Cast <to = 6> (b) }"
    )
    for size, found in ((256, ["merge-equal-nodes"]), (257, [])):
        array = np.ones(size, np.float32)
        assert rules(SimplifyCasts()(model(text, k=array, l=array))) == found
    padded = (
        "(float[N] x) => (float16[N] y, int32[N] z) { k = Constant <value = K> () l = Constant <value = K> ()"
        " a = Where (c, x, k) b = Where (c, x, l) y = Cast <to = 10> (a) z = Cast <to = 6> (b) }"
    )
    for size, found in ((256, ["merge-equal-nodes"]), (257, [])):
        given = padded.replace("K>", f"float[{size}] {{{', '.join(['1'] * size)}}}>")
        assert rules(SimplifyCasts()(model(given, c=np.ones(size, np.bool_)))) == found


def test_constants_that_move_to_another_type() -> None:
    text = (
        "(float16[N] x) => (float16[M] y) { a = Cast <to = 1> (x) b = Concat <axis = 0> (a, k) y = Cast <to = 10> (b) }"
    )
    for size, left in ((1024, ["Concat"]), (1025, ["Cast", "Concat", "Cast"])):
        moved = model(text, k=np.ones(size, np.float32))
        PlaceCasts()(moved)
        assert [node.op_type for node in moved.graph] == left


def test_arrays_on_the_way_to_a_conversion() -> None:
    """They take at most the bytes of the constants of the model, of the growth of one node, and a MiB."""
    text = "() => (float16[1] y) { a = Expand (w, s) b = Slice (a, o, i) y = Cast <to = 10> (b) }"
    arrays = {"w": np.ones(1, np.float32), "o": np.array([5]), "i": np.array([6])}
    for growth in (0, 4096):
        most = ((1 << 20) + growth + 4 + 3 * 8) // 4
        for size, found in ((most, ["fold-constant"]), (most + 1, [])):
            folded = FoldConstants(max_growth=growth)(model(text, **arrays, s=np.array([size])))
            assert rules(folded) == found


def test_floats_that_are_followed() -> None:
    for size in (64, 65):
        given = ", ".join(["1.5"] * size)
        found, shapes = shapes_of("21", f"k = Constant <value_floats = [{given}]> () y = Floor (k)")
        content = shapes.content(found.graph.outputs[0])
        assert (content is not None) == (size == 64)
        assert content is None or set(content.tolist()) == {1}


def sizes(default: int = 64, **named: int) -> tuple[onnx_ir.Model, Sizes, Shapes]:
    found, shapes = shapes_of("21", "a = Cast <to = 10> (x) b = NonZero (w) y = Relu (a)")
    return found, Sizes(shapes, default, named), shapes


def test_numbers_of_elements() -> None:
    assert parse_sizes("batch=1, N = 128,") == {"batch": 1, "N": 128}
    assert parse_sizes("") == {}
    for default, named, expected in ((64, {}, 64 * 4 * 64), (10, {"N": 3}, 3 * 4 * 10), (1, {"N": 2, "M": 5}, 40)):
        found, counted, _ = sizes(default, **named)
        x, last = found.graph.inputs[0], found.graph.outputs[0]
        assert (counted.of(x), counted.of(last)) == (expected, expected)
        assert counted.dims(x) == (None, 4, None)
    found, counted, _ = sizes(1 << 20)
    assert counted.of(found.graph.inputs[0]) == 1 << 40
    found, counted, _ = sizes((1 << 19) - 1)
    assert counted.of(found.graph.inputs[0]) == 4 * ((1 << 19) - 1) ** 2
    pairs = next(node for node in found.graph if node.op_type == "NonZero").outputs[0]
    assert counted.of(pairs) == 2 * ((1 << 19) - 1)
    counted.note_move([found.graph.inputs[1]], [pairs])
    assert counted.of(pairs) == 12
