"""What each kind of move carries, and how many elements it reads and writes."""

from __future__ import annotations

import onnx_ir

from castsmith.analysis.inference.walk import infer_element_types
from castsmith.analysis.shapes.walk import Shapes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.passes.place.movable import data_inputs, elements_moved, moves_input
from castsmith.passes.place.sizes import Sizes
from tests.sampling import check_all

HEAD = """<ir_version: 10, opset_import: ["": 21, "com.acme": 1]>
g (float[2,3] x, float[2,3] z, float[1,1,2,3] q, bool[2,3] c, int64[4] i, int64[2,3] j, int64[2] k, float f, float r)
=> (y) { one = Constant <value_ints = [1]> () two = Constant <value_ints = [2]> () """
MOVES: list[tuple[str, list[int] | None, int]] = [
    # The node, the inputs that it carries, and the elements that it reads and writes: none where it keeps them in place
    ("y = Identity (x)", [0], 0),
    ("y = Reshape (x, k)", [0], 0),
    ("y = Flatten (x)", [0], 0),
    ("y = Unsqueeze (x, one)", [0], 0),
    ("y = Squeeze (q)", [0], 0),
    ("y = Transpose (x)", [0], 6 + 6),
    ("y = Concat <axis = 0> (x, z)", [0, 1], 6 + 6 + 12),
    ("y = Concat <axis = 0> (x, z, x)", [0, 1, 2], 6 + 6 + 6 + 18),
    ("y = Where (c, x, z)", [1, 2], 6 + 6 + 6),
    ("y = Gather <axis = 1> (x, i)", [0], 2 * 8),
    ("y = GatherElements (x, j)", [0], 2 * 6),
    ("y = Slice (x, one, two)", [0], 2 * 3),
    ("y, v = Split <num_outputs = 2> (x)", [0], 6 + 6),
    ("y = ScatterElements (x, j, z)", [0, 2], 6 + 6 + 6),
    ('y = ScatterElements <reduction = "add"> (x, j, z)', None, 0),
    ("y = Trilu (x)", [0], 6 + 6),
    ("y = Dropout (x)", [0], 0),
    ("y, m = Dropout (x)", None, 0),
    ("y = com.acme.Transpose (x)", None, 0),
    ("y = Neg (x)", None, 0),
    ("y = Cast <to = 1> (x)", None, 0),
]


def require_moves(text: str, carried: list[int] | None, moved: int) -> None:
    model = onnx_ir.from_onnx_text(f"{HEAD} {text} }}")
    node = list(model.graph)[-1]
    assert data_inputs(node) == carried
    if carried is not None:
        sizes = Sizes(Shapes(model, infer_element_types(model, PromotionRules())), 64, {})
        sizes.note_move([value for index in carried if (value := node.inputs[index]) is not None], node.outputs)
        assert elements_moved(node, carried, sizes) == moved
        assert [index for index in range(len(node.inputs)) if moves_input(node, index)] == carried


def test_what_moves_carry() -> None:
    check_all(require_moves, MOVES)


def test_the_value_of_a_pad_moves_too() -> None:
    for text, carried in (("(x, i)", [0]), ("(x, i, f)", [0, 2]), ("(x, i, , one)", [0])):
        model = onnx_ir.from_onnx_text(f"{HEAD} y = Pad {text} }}")
        assert data_inputs(list(model.graph)[-1]) == carried


def test_an_attribute_that_callers_choose_may_be_anything() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
        g (float[2,3] x) => (y) { y = local.f <p = [0, 1]> (x) }
        <domain: "local", opset_import: ["": 21]> f <p> (x) => (y) { y = Transpose <perm: ints = @p> (x) }"""
    (function,) = onnx_ir.from_onnx_text(text).functions.values()
    assert data_inputs(next(iter(function))) is None
