"""The operators that stay in float by default: each is one of ONNX, at home in its domain, with a reason in words."""

from __future__ import annotations

import onnx.defs

from castsmith.passes.precision.operators import SENSITIVE, SENSITIVE_CONTRIB

STAY = {
    "Softmax", "LogSoftmax", "Exp", "Log", "Pow", "Reciprocal", "ReduceSum", "ReduceMean", "CumSum", "ReduceL2",
    "Range", "LayerNormalization", "InstanceNormalization", "LRN", "RandomNormal", "Bernoulli", "Multinomial",
    "GridSample", "RoiAlign", "NegativeLogLikelihoodLoss", "Acos", "Atanh", "LpPool", "DFT",
}  # fmt: skip
CHANGE = {"MatMul", "Conv", "Add", "Mul", "Relu", "Sigmoid", "Tanh", "Erf", "Gemm", "MaxPool", "Transpose", "Where"}


def test_each_is_an_operator_with_a_reason() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(SENSITIVE) - known <= {"RMSNormalization", "CumProd"}  # of later releases of ONNX
    for name, reason in (*SENSITIVE.items(), *SENSITIVE_CONTRIB.items()):
        assert isinstance(name, str)
        assert len(reason.split()) > 4, name


def test_those_that_lose_digits_stay_and_those_of_the_work_change() -> None:
    assert STAY - set(SENSITIVE) <= {"ReduceMean"}
    assert not CHANGE & set(SENSITIVE)
