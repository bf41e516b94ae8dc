"""Constants that operators pass on as they are."""

from __future__ import annotations

import onnx_ir

from castsmith.lowering.quantized.scene import constant_array
from tests.sampling import check_all

ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
FLAT = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
# By the node that makes v: its elements, or None where they are not known.
PASSED_ON: dict[str, object] = {
    "v = Identity (w)": ROWS,
    "a = Identity (w) v = Identity (a)": ROWS,
    "v = Transpose <perm = [1, 0]> (w)": [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]],
    "v = Transpose <perm = [0, 1]> (w)": None,
    "v = Transpose (w)": None,
    "v = com.acme.Transpose <perm = [1, 0]> (w)": None,
    "v = Transpose <perm = [1, 0]> (x)": None,
    "s = Constant <value_ints = [6]> () v = Reshape (w, s)": FLAT,
    "s = Constant <value_ints = [1, 6]> () v = Reshape (w, s)": [FLAT],
    "s = Constant <value_ints = [1, -1]> () v = Reshape (w, s)": None,
    "s = Constant <value_ints = [-1, -6]> () v = Reshape (w, s)": None,
    "s = Constant <value_ints = [0, 3]> () v = Reshape (w, s)": None,
    "s = Constant <value_ints = [2, 2]> () v = Reshape (w, s)": None,
    "s = Constant <value_ints = [6]> () v = Reshape (x, s)": None,
    "v = Reshape (w, t)": None,
    "v = Reshape (w)": None,
    "s = Constant <value_ints = [2, 3]> () v = Tile (w, s)": None,
    "v = RandomUniform <shape = [2, 3]> ()": None,
    "v = Neg (w)": None,
    "v = com.acme.Identity (w)": None,
    "v = Identity (x)": None,
}


def require_elements(body: str, expected: object) -> None:
    model = onnx_ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 21, "com.acme": 1]>
        g (float[2, 3] x, int64[1] t) => (float[N] y) <float[2, 3] w = {{1, 2, 3, 4, 5, 6}}>
        {{ {body} y = Relu (v) }}"""
    )
    found = constant_array(list(model.graph)[-1].inputs[0])
    assert (None if found is None else found.tolist()) == expected


def test_constants_that_operators_pass_on() -> None:
    check_all(require_elements, PASSED_ON.items())
    assert constant_array(None) is None
