"""The ONNX backend node tests of conversions, each input made a constant: folded to the expected bits, or refused."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import onnx
import onnx.parser
import onnx_ir
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

from castsmith.ir.constants import constant_tensor
from castsmith.ir.records import RewriteResult
from castsmith.passes.fold.run import FoldConstants
from tests.graphs.backend import cases_of
from tests.sampling import check_all

OPERATORS = ("Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear")
LARGE = 1 << 20

REFUSED = {
    "_FLOAT(16)?_to_U?INT[24]": "out of range for",
    "_FLOAT(16)?_to_FLOAT4E2M1": "float4e2m1 has no NaN",
    "_e8m0_FLOAT(16)?_to_": "float8e8m0 has no zero",
}
"""Cases that hold an element which the standard does not fix, and the reason that names it."""


CASES = cases_of(*OPERATORS)


def _of_constants(case: TestCase) -> onnx_ir.Model:
    """The model of the case with its inputs as initializers."""
    assert case.model is not None
    assert case.data_sets is not None
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    proto.ir_version = max(proto.ir_version, 4)
    for info, value in zip(proto.graph.input, case.data_sets[0][0], strict=True):
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value)))
        tensor.name = info.name
        proto.graph.initializer.append(tensor)
    del proto.graph.input[:]
    return onnx_ir.from_proto(proto)


def _folded(model: onnx_ir.Model) -> tuple[np.ndarray | None, RewriteResult]:
    result = FoldConstants(max_growth=LARGE)(model)
    assert isinstance(result, RewriteResult)
    node = next(iter(model.graph))
    made = {"Identity": node.inputs[:1], "Constant": node.outputs}.get(node.op_type, ())
    tensor = constant_tensor(made[0]) if made else None
    return None if tensor is None else tensor.numpy(), result


def _bits(array: np.ndarray) -> bytes:
    return repr(array.tolist()).encode() if array.dtype.kind in "OSU" else np.ascontiguousarray(array).tobytes()


def require_folded_or_refused(name: str) -> None:
    case = CASES[name]
    assert case.data_sets is not None
    expected = case.data_sets[0][1][0]
    expected = numpy_helper.to_array(expected) if isinstance(expected, onnx.TensorProto) else np.asarray(expected)
    got, result = _folded(_of_constants(case))
    reasons = [reason for pattern, reason in REFUSED.items() if re.search(pattern, name)]
    if got is None:
        (refusal,) = result.records.refusals
        assert refusal.reason
        assert any(reason in refusal.reason for reason in reasons), refusal
    else:
        assert not reasons
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert _bits(got) == _bits(expected)


def test_folds_to_the_expected_bits_or_says_why_not() -> None:
    check_all(require_folded_or_refused, CASES)


def test_there_are_as_many_cases_as_when_this_was_written() -> None:
    kinds = Counter(str(case.model.graph.node[0].op_type) for case in CASES.values() if case.model is not None)
    assert kinds == {"Cast": 116, "CastLike": 56, "BitCast": 10, "QuantizeLinear": 13, "DequantizeLinear": 14}
    assert all(any(re.search(pattern, name) for name in CASES) for pattern in REFUSED)


def test_a_quantizer_in_memory_that_lacks_its_scale_is_left() -> None:
    text = "g () => (int8[2] y) <float[2] x = {1, 2}, float s = {3}, int8 z = {1}> { y = QuantizeLinear (x, s, z) }"
    for inputs in (["x", ""], ["x", "", "z"], ["", "s", "z"]):
        proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
        proto.graph.node[0].input[:] = inputs
        model = onnx_ir.from_proto(proto)
        assert not FoldConstants()(model).modified
        assert [node.op_type for node in model.graph] == ["QuantizeLinear"], inputs
