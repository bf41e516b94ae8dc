"""The ONNX backend node tests of the conversions, lowered for a target without narrow types: the expected bits."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx_ir import DataType

from castsmith.ir.records import RewriteResult
from castsmith.ir.walks import all_values
from castsmith.lowering.float8.lower import LowerFloat8
from castsmith.lowering.opset.version import LegalizeVersion
from castsmith.lowering.widen.run import WidenFloats
from castsmith.numerics.types import CODED_TYPES, element_type
from castsmith.targets.target import load_target
from tests.graphs.backend import cases_of
from tests.lowering.runtime import LEVELS, Array, run, session

ANDROID = load_target("onnxruntime-android")
OPERATORS = ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear")


@cache
def cases() -> dict[str, Any]:
    """The node tests of the operators that touch a type which can be codes."""
    kept = {name: case for name, case in cases_of(*OPERATORS).items() if "expanded" not in name}
    return {name: case for name, case in kept.items() if _types(case.model) & set(CODED_TYPES)}


def _types(model: onnx.ModelProto | None) -> set[DataType]:
    assert model is not None
    infos = (*model.graph.input, *model.graph.output)
    return {DataType(info.type.tensor_type.elem_type) for info in infos}


def as_fed(array: Any) -> Array:
    """Return codes as uint8, and other arrays unchanged."""
    array = np.asarray(onnx.numpy_helper.to_array(array) if isinstance(array, onnx.TensorProto) else array)
    if array.dtype.kind in "OUS":
        return array
    dtype = DataType.from_numpy(array.dtype)
    if dtype not in CODED_TYPES:
        return array
    bits = element_type(dtype).bits
    return array.view(np.uint8) & np.uint8(2**bits - 1) if bits < 8 else array.view(np.uint8)


@pytest.mark.parametrize("name", sorted(cases()))
def test_lowered_it_gives_the_expected_bits(name: str):
    case = cases()[name]
    model = onnx_ir.from_proto(case.model)
    result = LowerFloat8(ANDROID, always=True)(model)
    assert isinstance(result, RewriteResult)
    if "string" in name.lower():
        assert "string" in result.records.refusals[0].reason.lower()
        return
    assert not result.records.diagnostics
    assert not [value for value in all_values(model) if value.dtype in CODED_TYPES]
    WidenFloats(ANDROID)(model)
    LegalizeVersion(ANDROID)(model)
    proto = onnx_ir.to_proto(model)
    for inputs, outputs in case.data_sets:
        feeds = {info.name: as_fed(array) for info, array in zip(proto.graph.input, inputs, strict=True)}
        for level in LEVELS:
            for got, wanted in zip(run(session(proto, level), feeds), map(as_fed, outputs), strict=True):
                assert_same(got, wanted, _defined(case.model, inputs[0], got.shape))


def _defined(model: onnx.ModelProto, x: Any, shape: tuple[int, ...]) -> Array:
    """True where the schema fixes the result: floats out of an integer's range are left open.

    The data of the node tests (`test_cast_FLOAT_to_INT4` and others) wraps there.
    """
    node, array = model.graph.node[0], as_fed(x)
    to = DataType(model.graph.output[0].type.tensor_type.elem_type)
    if node.op_type not in ("Cast", "CastLike") or not to.is_integer() or array.dtype.kind != "f":
        return np.full(shape, True)
    row, whole = element_type(to), np.trunc(array)
    return (whole >= float(row.min)) & (whole <= float(row.max))


def assert_same(got: Array, wanted: Array, defined: Array) -> None:
    assert got.shape == wanted.shape
    same = (got.view(f"u{got.itemsize}") == wanted.view(f"u{wanted.itemsize}")) | ~defined
    if got.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            same = same | ((got != got) & (wanted != wanted))
    assert same.all(), (got[~same], wanted[~same])
