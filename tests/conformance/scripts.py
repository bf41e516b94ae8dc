"""Scripts that show one wrong element to the people who write an engine, without this program."""

from __future__ import annotations

from typing import Any

import numpy as np

from castsmith.conformance.exporting import ir_version, raw_bytes
from castsmith.conformance.vectors import Operand, Vector

_MODEL = """\
from onnx import TensorProto, helper

inputs = [
{inputs}
]
node = helper.make_node("{op}", [each.name for each in inputs], ["y"]{attributes})
y = helper.make_tensor_value_info("y", {output}, {shape})
graph = helper.make_graph([node], "g", [], [y], inputs)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", {opset})], ir_version={ir})
"""
_RUN = {
    "reference": """\
from onnx.reference import ReferenceEvaluator

print(ReferenceEvaluator(model).run(None, {{}}))""",
    "onnxruntime": """\
import ctypes
import onnxruntime

value = onnxruntime.InferenceSession(model.SerializeToString()).run_with_ort_values(None, {{}})[0]
print(hex({ctype}.from_address(value.data_ptr()).value))""",
    "openvino": """\
import io
import numpy as np
import openvino

values = [helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in inputs]
model.graph.input.extend(values)
model.graph.ClearField("initializer")
core = openvino.Core()
settings = {{"INFERENCE_PRECISION_HINT": "f32"}}
compiled = core.compile_model(core.read_model(io.BytesIO(model.SerializeToString())), "CPU", settings)
request = compiled.create_infer_request()
memory = [np.frombuffer(bytearray(each.raw_data), np.uint8) for each in inputs]
for i, each in enumerate(inputs):
    tensor = openvino.Tensor(memory[i], openvino.Shape(each.dims), compiled.input(i).element_type)
    request.set_input_tensor(i, tensor)
request.infer()
print(request.get_output_tensor(0).data)""",
}
_ML_DTYPES = """\
import ml_dtypes
import numpy as np

x = np.array([{code}], np.uint{bits}).view({source})
print(x.astype({target}).view(np.uint{out}))"""


def script(engine: str, vector: Vector, index: int) -> str:
    """Return a script that prints what the engine gives for one element."""
    inputs, shape = _one_element(vector, index)
    if engine == "ml_dtypes":
        return _of_ml_dtypes(inputs[0], vector)
    lines = [
        f'    helper.make_tensor("{each.name}", {_type(each)}, {list(each.elements.shape)}, '
        f"bytes.fromhex({_packed(each.elements)!r}), raw=True),"
        for each in inputs
    ]
    attributes = "".join(f", {key}={value!r}" for key, value in vector.attributes.items() if key != "axis")
    head = _MODEL.format(
        inputs="\n".join(lines),
        op=vector.op,
        attributes=attributes,
        output=f"TensorProto.{vector.output_type.name}",
        shape=shape,
        opset=vector.opset,
        ir=ir_version(vector.opset, [*(each.dtype for each in inputs), vector.output_type]),
    )
    ctype = f"ctypes.c_uint{8 * vector.output.itemsize}"
    return head + "\n" + _RUN[engine].format(ctype=ctype)


def _one_element(vector: Vector, index: int) -> tuple[list[Operand], list[int]]:
    """Return the operands for one element; of a quantization in blocks, for its block."""
    data, *others = vector.inputs
    place = np.unravel_index(index, data.elements.shape)
    if data.elements.ndim == 1:
        one = data.elements.reshape(-1)[index : index + 1]
        return [Operand(data.name, one, data.file), *others], [1]
    row, column = int(place[0]), int(place[1])
    if others[0].elements.ndim == 1:  # along axis 0: one scale is the scale of the tensor
        kept = [Operand(each.name, each.elements[row].reshape(()), each.file) for each in others]
        return [Operand(data.name, data.elements[row, column : column + 1], data.file), *kept], [1]
    block = data.elements.shape[1] // others[0].elements.shape[1]
    part = slice(column // block * block, column // block * block + block)
    kept = [
        Operand(each.name, each.elements[row : row + 1, column // block : column // block + 1], each.file)
        for each in others
    ]
    return [Operand(data.name, data.elements[row : row + 1, part], data.file), *kept], [1, block]


def _type(each: Operand) -> str:
    return f"TensorProto.{each.dtype.name}"


def _packed(array: Any) -> str:
    import onnx_ir

    from castsmith.numerics.types import element_type

    bits = element_type(onnx_ir.DataType.from_numpy(array.dtype)).bits
    return onnx_ir.Tensor(np.ascontiguousarray(array)).tobytes().hex() if 1 < bits < 8 else raw_bytes(array).hex()


def _of_ml_dtypes(data: Operand, vector: Vector) -> str:
    one, output = data.elements, vector.output
    code = int(one.view(f"u{one.itemsize}")[0])
    settings = {"source": _numpy(one.dtype), "target": _numpy(output.dtype), "out": 8 * output.itemsize}
    return _ML_DTYPES.format(code=hex(code), bits=8 * one.itemsize, **settings)


def _numpy(dtype: np.dtype[Any]) -> str:
    import ml_dtypes

    return f"ml_dtypes.{dtype.name}" if hasattr(ml_dtypes, dtype.name) else f"np.{dtype.name}"
