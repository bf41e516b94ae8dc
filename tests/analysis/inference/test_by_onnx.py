"""What onnx is asked about one node: with the defaults of its attributes, in its opset, and never what crashes it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx_ir

from castsmith.analysis.inference.by_onnx import crashes_onnx, outputs_by_onnx

_CONSTANTS = {
    "shape": np.array([3, -1], np.int64),
    "step": np.array(2, np.int64),
    "frame": np.array(4, np.int64),
    "parts": np.array([2, 4], np.int64),
}
_CASES = [
    ("y = Relu (x)", 13, ["float 2,6"]),
    ("y = ai.onnx.Relu (x)", 13, ["float 2,6"]),
    ("y = Relu (unknown)", 13, ["float ?"]),
    ("y = Nothing (x)", 13, [None]),
    ("y, z = Nothing (x, x)", 13, [None, None]),
    ("y = Swish (x)", 23, [None]),
    ("y = Swish (x)", 24, ["float 2,6"]),
    ("y = Reshape (x, shape)", 13, ["float 3,4"]),
    ("y = STFT (w, step, , frame)", 17, ["float 1,7,3,2"]),  # of one side by default
    ("y = STFT <onesided = 1> (w, step, , frame)", 17, ["float 1,7,3,2"]),
    ("y = STFT <onesided = 0> (w, step, , frame)", 17, ["float 1,7,4,2"]),
    ("y, z = Split <axis = 1> (x, parts)", 13, ["float 2,2", "float 2,4"]),
    ("y, z = Split <axis = 1, num_outputs = 2> (x)", 18, ["float 2,3", "float 2,3"]),
    ("y, z = Split <axis = 1, num_outputs = 3> (x)", 18, [None, None]),
    ("y = GatherND <batch_dims = 1> (x, i)", 13, ["float 2"]),
    ("y = GatherND <batch_dims = -1> (x, i)", 13, [None]),
    ("y, m = Dropout (x)", 13, ["float 2,6", "bool 2,6"]),
]


def _text(proto: onnx.TypeProto | None) -> str | None:
    if proto is None:
        return None
    name = onnx.TensorProto.DataType.Name(proto.tensor_type.elem_type).lower()
    dims = proto.tensor_type.shape.dim if proto.tensor_type.HasField("shape") else None
    return f"{name} {'?' if dims is None else ','.join(str(dim.dim_value) for dim in dims)}"


def test_the_types_that_onnx_infers() -> None:
    types = {
        "x": onnx.helper.make_tensor_type_proto(1, [2, 6]),
        "w": onnx.helper.make_tensor_type_proto(1, [1, 16, 1]),
        "i": onnx.helper.make_tensor_type_proto(7, [2, 1]),
        "unknown": onnx.helper.make_tensor_type_proto(1, None),
    }
    for name, array in _CONSTANTS.items():
        types[name] = onnx.helper.make_tensor_type_proto(7, array.shape)
    inputs = ", ".join(f"float {name}" for name in types)
    for text, opset, expected in _CASES:
        imports = f'["" : {opset}, "ai.onnx" : {opset}]'
        model = f"<ir_version: 10, opset_import: {imports}> g ({inputs}) => (y) {{ {text} }}"
        (node,) = onnx_ir.from_proto(onnx.parser.parse_model(model)).graph
        names = ["" if value is None else str(value.name) for value in node.inputs]
        constants = {
            index: onnx.numpy_helper.from_array(_CONSTANTS[name])
            for index, name in enumerate(names)
            if name in _CONSTANTS
        }
        given = [types.get(name, onnx.TypeProto()) for name in names]
        assert [*map(_text, outputs_by_onnx(node, opset, given, constants))] == expected, text
        if constants and "Reshape" in text:
            assert [*map(_text, outputs_by_onnx(node, opset, given))] != expected
        assert crashes_onnx(node) == ("num_outputs = 3" in text or "batch_dims = -1" in text)
