"""Operators of ai.onnx.ml and com.microsoft: their bounds, computed by hand next to each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.ir.bounds.interval import Interval
from castsmith.ir.bounds.step import UnknownRangeError
from tests.ir.bounds.rules.grids import box, ruled, step_of

_ML, _MS = "ai.onnx.ml", "com.microsoft"
_X = box([[-1, 0]], [[2, 3]])
"""Two columns: from -1 to 2 and from 0 to 3."""
_LEAVES: dict[str, Any] = {"{}_treeids": [0, 0, 1, 1], "{}_ids": [0, 0, 0, 1], "{}_weights": [1.0, -2.0, 3.0, -5.0]}
"""Target 0 gets 1 or -2 from the first tree and 3 or nothing from the second, which may give target 1 -5."""


def trees(kind: str, **given: Any) -> dict[str, Any]:
    return {**{name.format(kind): value for name, value in _LEAVES.items()}, **given}


def tensor(*numbers: float) -> Any:
    import onnx.numpy_helper

    return onnx.numpy_helper.from_array(np.array(numbers, np.float32))


_CASES: dict[str, tuple[str, str, list[Any], dict[str, Any], tuple[float, float]]] = {
    # -1*2 + 0*-1 + 0.5 and 2*2 + ...: 2x - y + 0.5; the second target -x + 4
    "linear regressor": (_ML, "LinearRegressor", [_X], {"coefficients": [2.0, -1.0], "intercepts": [0.5]}, (-4.5, 4.5)),
    "two targets": (_ML, "LinearRegressor", [_X], {"coefficients": [2.0, -1.0, -1.0, 0.0], "intercepts": [0.5, 4.0],
                    "targets": 2}, (-4.5, 5)),
    "no intercept": (_ML, "LinearRegressor", [_X], {"coefficients": [2.0, -1.0]}, (-5, 4)),
    "one interval": (_ML, "LinearRegressor", [box([[-1]], [[2]], (1, 2))], {"coefficients": [2.0, -1.0]}, (-4, 5)),
    "unknown rank": (_ML, "LinearRegressor", [replace(box(-1, 2), dims=None)], {"coefficients": [2.0, -1.0]}, (-4, 5)),
    "transformed": (_ML, "LinearRegressor", [_X], {"coefficients": [2.0, -1.0], "post_transform": "LOGISTIC"}, (0, 1)),
    "probit": (_ML, "LinearRegressor", [_X], {"coefficients": [2.0, -1.0], "post_transform": "PROBIT"},
               (-math.inf, math.inf)),
    # scores 2x - y + 0.5 and -x + 4 between -4.5 and 5, and the opposite of one: 1 - score and -score
    "linear classifier": (_ML, "LinearClassifier", [_X], {"coefficients": [2.0, -1.0, -1.0, 0.0],
                          "intercepts": [0.5, 4.0]}, (-5, 5.5)),
    "one class": (_ML, "LinearClassifier", [_X], {"coefficients": [2.0, -1.0], "intercepts": [7.0]}, (-11, 11)),
    "trees": (_ML, "TreeEnsembleRegressor", [_X], trees("target"), (-5, 4)),
    "trees with a base": (_ML, "TreeEnsembleRegressor", [_X], trees("target", base_values=[0.5, -1.0]), (-6, 4.5)),
    "trees of tensors": (_ML, "TreeEnsembleRegressor", [_X], {"target_treeids": [0, 0, 1], "target_ids": [0, 0, 0],
                         "target_weights_as_tensor": tensor(1, -2, 4), "base_values_as_tensor": tensor(0.25)},
                         (-2, 5.25)),
    "tree classifier": (_ML, "TreeEnsembleClassifier", [_X], trees("class"), (-5, 6)),
    "forest": (_ML, "TreeEnsemble", [_X], {"leaf_weights": tensor(1, -2, 4), "tree_roots": [0, 1]}, (-4, 8)),
    "scaler": (_ML, "Scaler", [_X], {"offset": [1.0], "scale": [2.0]}, (-4, 4)),
    "scalers": (_ML, "Scaler", [_X], {"offset": [1.0, -1.0], "scale": [2.0, -0.5]}, (-4, 8)),
    "normalizer": (_ML, "Normalizer", [_X], {"norm": "L2"}, (-1, 1)),
    "imputer": (_ML, "Imputer", [_X], {"imputed_value_floats": [4.0, -0.5]}, (-1, 4)),
    "imputer below": (_ML, "Imputer", [_X], {"imputed_value_floats": [-2.0]}, (-2, 3)),
    "imputer without a value": (_ML, "Imputer", [_X], {}, (-math.inf, math.inf)),
    "binarizer": (_ML, "Binarizer", [_X], {}, (0, 1)),
    "one hot": (_ML, "OneHotEncoder", [_X], {"cats_int64s": [1, 2]}, (0, 1)),
    "vectorizer": (_ML, "FeatureVectorizer", [_X, box([-4], [1])], {}, (-4, 3)),
    "extractor": (_ML, "ArrayFeatureExtractor", [_X, np.array([0])], {}, (-1, 3)),
    # [x, y] @ [[1], [-2]] = x - 2y
    "fused matmul": (_MS, "FusedMatMul", [_X, np.array([[1.0], [-2.0]])], {}, (-7, 2)),
    "fused matmul, alpha": (_MS, "FusedMatMul", [_X, np.array([[1.0], [-2.0]])], {"alpha": -0.5}, (-1, 3.5)),
    "fused matmul, transposed": (_MS, "FusedMatMul", [_X, np.array([[1.0, -2.0]])], {"transB": 1}, (-7, 2)),
    "fused matmul, both transposed": (_MS, "FusedMatMul", [box([[-1], [0]], [[2], [3]]), np.array([[1.0, -2.0]])],
                                      {"transA": 1, "transB": 1}, (-7, 2)),
    "fused gemm": (_MS, "FusedGemm", [_X, np.array([[1.0], [-2.0]]), box([0.5], [1])], {"activation": "Relu"}, (0, 3)),
    "fused gemm without one": (_MS, "FusedGemm", [_X, np.array([[1.0], [-2.0]])], {}, (-7, 2)),
    "fused conv": (_MS, "FusedConv", [box([[[-1, 0]]], [[[2, 3]]]), np.array([[[2.0]]])], {"activation": "Tanh"},
                   (math.tanh(-2), math.tanh(6))),
    "gelu": (_MS, "Gelu", [box([1], [2])], {}, (0.841345, 1.9545)),
    "fast gelu": (_MS, "FastGelu", [box([1], [2])], {}, (0.841192, 1.9546)),
    "fast gelu with a bias": (_MS, "FastGelu", [box([1], [2]), box([-1], [0])], {}, (0, 1.9546)),
    "bias gelu": (_MS, "BiasGelu", [box([1], [1]), box([0], [1])], {}, (0.841345, 1.9545)),
    "quick gelu": (_MS, "QuickGelu", [box([1], [2])], {}, (1 / (1 + math.exp(-1.702)), 2 / (1 + math.exp(-3.404)))),
    "quick gelu, alpha": (_MS, "QuickGelu", [box([1], [2])], {"alpha": 1.0},
                          (1 / (1 + math.exp(-1)), 2 / (1 + math.exp(-2)))),
    # rows of 4 over their root mean square are at most 2; x + skip + bias is the fourth result
    "skip norm": (_MS, "SkipLayerNormalization", [box([[1] * 4], [[2] * 4]), box([[0] * 4], [[1] * 4]),
                  np.array([1.0, 1, 1, 3]), np.array([0.0, 0, 0, 1])], {}, (-5, 7)),
    "simplified skip norm": (_MS, "SkipSimplifiedLayerNormalization", [box([[1] * 4], [[2] * 4]),
                             box([[0] * 4], [[1] * 4]), np.array([1.0, 1, 1, 3])], {}, (-6, 6)),
}  # fmt: skip


def result(name: str, **given: Any) -> Interval:
    domain, op_type, operands, attributes, _ = _CASES[name]
    count = 2 if op_type.endswith("Classifier") else 1
    operands = [replace(each, **given) if isinstance(each, Interval) else each for each in operands]
    return ruled(step_of(op_type, operands, attributes, domain=domain, opset=1, dims=(None,) * count))[-1]


@pytest.mark.parametrize("name", _CASES)
def test_bounds_by_hand(name: str) -> None:
    low, high = _CASES[name][-1]
    found = result(name)
    assert (found.least, found.greatest) == pytest.approx((low, high), rel=1e-4, abs=1e-4)
    assert found.least <= low + 1e-6
    assert found.greatest >= high - 1e-6
    assert found.infinite is (name == "probit")


_NAN_BY_ITSELF = ("probit", "normalizer")
_NOT_OF_ITS_OPERANDS = ("trees", "tree", "forest", "one")
"""Cases whose results are the same numbers for any operand: the first word of their names."""


@pytest.mark.parametrize("name", _CASES)
def test_facts_of_operands(name: str) -> None:
    fixed = name.split()[0] in _NOT_OF_ITS_OPERANDS and name not in ("one interval", "one class")
    assert result(name).nan is (name in _NAN_BY_ITSELF)
    told = result(name, nan=True, blame=frozenset({"b"}), assumes=frozenset({"a"}))
    assert told.nan is not fixed
    assert told.blame == {"b"}
    assert "a" in told.assumes


@pytest.mark.parametrize(
    ("op_type", "operands", "given"),
    [
        ("FusedMatMul", [_X, np.ones((2, 1))], {"transBatchA": 1}),
        ("FusedMatMul", [_X, np.ones((2, 1))], {"transBatchB": 1}),
        ("FusedGemm", [_X, np.ones((2, 1))], {"activation": "Selu"}),
        ("MultiHeadAttention", [box([[[0]]], [[[1]]])], {"num_heads": 1}),
        ("QuickGelu", [_X], {"alpha": -1.0}),
    ],
)
def test_nothing_is_known(op_type: str, operands: list[Any], given: dict[str, Any]) -> None:
    with pytest.raises(UnknownRangeError):
        ruled(step_of(op_type, operands, given, domain=_MS, opset=1))


def test_a_forest_with_a_transform_is_unknown() -> None:
    given = {"leaf_weights": tensor(1), "tree_roots": [0]}
    assert ruled(step_of("TreeEnsemble", [_X], {**given, "post_transform": 0}, domain=_ML, opset=5))[0].finite
    with pytest.raises(UnknownRangeError):
        ruled(step_of("TreeEnsemble", [_X], {**given, "post_transform": 1}, domain=_ML, opset=5))


@pytest.mark.parametrize(
    ("low", "high", "nan"),
    [(1, 2, False), (-2, -1, False), (-1, 1, True), (0, 1, True), (-1, 0, True), (1e160, 2e160, True)],
)
def test_a_normalizer_divides_zeros_and_overflows(low: float, high: float, nan: bool) -> None:
    x = box([[low]], [[high]])
    assert ruled(step_of("Normalizer", [x], {"norm": "L2"}, domain=_ML, opset=1))[0].nan is nan
    for norm in ("MAX", "L1"):
        found = ruled(step_of("Normalizer", [x], {"norm": norm}, domain=_ML, opset=1))[0]
        assert (found.nan, found.infinite, found.greatest) == (True, True, math.inf)


def test_an_imputer_replaces_nan_where_it_is_asked_to() -> None:
    x = box([[-1]], [[2]], nan=True)
    for missing, nan in ((math.nan, False), (0.0, True)):
        given = {"imputed_value_floats": [1.0], "replaced_value_float": missing}
        assert ruled(step_of("Imputer", [x], given, domain=_ML, opset=1))[0].nan is nan
    whole = {"imputed_value_int64s": [1]}
    found = ruled(step_of("Imputer", [box([1], [2], dtype=DataType.INT64)], whole, domain=_ML, opset=1,
                          dtypes=[DataType.INT64]))[0]  # fmt: skip
    assert (found.least, found.greatest) == (-(2.0**63), 2.0**63)


def test_all_results_of_a_skip_normalization() -> None:
    x, skip, bias = box([[1] * 4], [[2] * 4]), box([[0] * 4], [[1] * 4]), np.array([4.0, 4, 4, 4])
    operands = [x, skip, np.ones(4), np.zeros(4), bias]
    found = ruled(step_of("SkipLayerNormalization", operands, domain=_MS, opset=1, dims=(None,) * 4))
    assert [(each.finite, round(each.least), round(each.greatest)) for each in (found[0], found[3])] == [
        (True, -2, 2),
        (True, 5, 7),
    ]
    assert not found[1].finite
    assert not found[2].finite
    short = ruled(step_of("SkipLayerNormalization", operands, domain=_MS, opset=1, dims=(None,) * 2))
    assert len(short) == 2
    simple = [x, skip, np.ones(4), bias]
    found = ruled(step_of("SkipSimplifiedLayerNormalization", simple, domain=_MS, opset=1, dims=(None,) * 4))
    assert (round(found[3].least), round(found[3].greatest)) == (5, 7)


@pytest.mark.parametrize("name", ["n_levels", "n_levels_out"])
@pytest.mark.parametrize("op_type", ["RequantShift", "iSoftmax"])
def test_requantized_integers(op_type: str, name: str) -> None:
    x = box([1], [2], nan=True, blame=frozenset({"b"}))
    for given, ends in (
        ({name: 256}, (0, 255)),
        ({name: tensor(256)}, (0, 255)),
        ({name: tensor(128), "signed": tensor(1)}, (-64, 63)),
        ({name: tensor(128), "signed": tensor(0)}, (0, 127)),
    ):
        found = ruled(step_of(op_type, [x], given, dtypes=[DataType.FLOAT]))[0]
        assert (found.least, found.greatest, found.nan, found.blame) == (*ends, False, {"b"})
        assert [each.split()[-1] for each in found.assumes] == ["names"]


def test_heads_take_values_and_a_bias() -> None:
    q, k, v = (box(np.full((1, 2, 4), low), np.full((1, 2, 4), high)) for low, high in ((0, 1), (0, 1), (-2, 3)))
    plain = ruled(step_of("MultiHeadAttention", [q, k, v], {"num_heads": 2}, domain=_MS, opset=1))[0]
    assert (plain.least, plain.greatest) == pytest.approx((-2, 3))
    assert (plain.nan, plain.assumes) == (False, frozenset())
    biased = [q, k, v, np.array([0.5, -1.0])]
    found = ruled(step_of("MultiHeadAttention", biased, {"num_heads": 2}, domain=_MS, opset=1))[0]
    assert (found.least, found.greatest) == pytest.approx((-3, 4))
    masked = [q, k, v, None, box([0], [1])]
    found = ruled(step_of("MultiHeadAttention", masked, {"num_heads": 2}, domain=_MS, opset=1))[0]
    assert [each.split()[-1] for each in found.assumes] == ["whole"]
    for operands in ([q, k, None], [box([0], [1]), k, v], [q, k, v, None, None, None, k]):
        with pytest.raises(UnknownRangeError):
            ruled(step_of("MultiHeadAttention", operands, {"num_heads": 2}, domain=_MS, opset=1))
    huge = [replace(q, high=q.high * 1e200), replace(k, high=k.high * 1e200), v]
    assert ruled(step_of("MultiHeadAttention", huge, {"num_heads": 2}, domain=_MS, opset=1))[0].nan
