"""The ONNX backend tests of QuantizeLinear and DequantizeLinear at every opset from 21, for onnxruntime-android: the
expected bits, with no type left that the target lacks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnx.checker
import onnx_ir
import pytest
from onnx_ir import DataType

import castsmith
from tests.graphs.backend import array_of_case, cases_of
from tests.lowering.float8.test_casts import as_fed, assert_same
from tests.lowering.runtime import LEVELS, Array, errors, session
from tests.sampling import sampled

TARGET = "onnxruntime-android"
IR_VERSIONS = {21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13, 28: 14}
_NEWEST = onnx.defs.onnx_opset_version()
OPSETS = sampled(
    "opsets of quantizers", [each for each in IR_VERSIONS if each <= _NEWEST], 3, always={21, _NEWEST}.__contains__
)


def at_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto | None:
    """Return the model of that opset; None if its types or attributes are not of that opset."""
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    moved.opset_import[0].version, moved.ir_version = opset, IR_VERSIONS[opset]
    try:
        onnx.checker.check_model(moved, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return moved


def through_codes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with bytes for inputs and outputs of 4 bits, which Python cannot give ONNX Runtime."""
    packed = {DataType.INT4: DataType.INT8, DataType.UINT4: DataType.UINT8}
    graph = model.graph
    for index, info in enumerate(graph.input):
        held = info.type.tensor_type
        if held.elem_type in packed:
            cast = onnx.helper.make_node("Cast", [f"{info.name}_codes"], [info.name], to=held.elem_type)
            held.elem_type, info.name = packed[DataType(held.elem_type)], cast.input[0]
            graph.node.insert(index, cast)
    for info in graph.output:
        held = info.type.tensor_type
        if held.elem_type in packed:
            to = packed[DataType(held.elem_type)]
            graph.node.append(onnx.helper.make_node("Cast", [info.name], [f"{info.name}_codes"], to=to))
            held.elem_type, info.name = to, f"{info.name}_codes"
    return model


def as_given(array: Array, info: onnx.ValueInfoProto) -> Array:
    """Return the array as the optimized model declares it: as it is, as codes, or 4-bit integers in a byte each."""
    native = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    stored = array.dtype in (DataType.INT4.numpy(), DataType.UINT4.numpy())
    if stored and info.name.endswith("_codes"):
        return array.astype(native)
    return as_fed(array)


@pytest.mark.parametrize("opset", OPSETS)
def test_every_case_gives_the_expected_bits(opset: int):
    counts = Counter[str]()
    for name, case in cases_of("QuantizeLinear", "DequantizeLinear").items():
        assert case.model is not None
        model = at_opset(case.model, opset)
        if model is None:
            counts["invalid"] += 1
            continue
        result = castsmith.optimize(model, target=TARGET)
        assert not errors(result.model, target=TARGET), name
        proto = through_codes(onnx_ir.to_proto(result.model))
        counts["lowered" if result.rewrites else "unchanged"] += 1
        for inputs, outputs in case.data_sets or ():
            pairs = zip(map(array_of_case, inputs), proto.graph.input, strict=True)
            feeds = {info.name: as_given(array, info) for array, info in pairs}
            for level in LEVELS:
                found = session(proto, level).run(None, feeds)
                for got, wanted, info in zip(found, map(array_of_case, outputs), proto.graph.output, strict=True):
                    assert_same(np.asarray(got), as_given(wanted, info), np.full(wanted.shape, True))
    assert counts["lowered"] + counts["unchanged"] >= 15
