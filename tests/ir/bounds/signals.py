"""Signals, random numbers, and operators of other domains, with random attributes, shapes and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.ir.bounds.cases import Case, Make


def random(op_type: str) -> Make:
    def make(case: Case) -> None:
        like = op_type.endswith("Like")
        given: dict[str, Any] = {} if like else {"shape": [3, 4]}
        if "Uniform" in op_type:
            given |= {"low": -2.0, "high": 5.0}
        else:
            given |= {"mean": 3.0, "scale": 2.0}
        case.node(op_type, *([case.x(3, 4)] if like else []), dtype=1, **given)

    return make


def signal(case: Case) -> None:
    match int(case.rng.integers(5)):
        case 0:
            x = case.x(1, 8, case.pick(1, 2), low=-3, high=4)
            given = {"onesided": 1} if case.coin() else {"inverse": case.pick(0, 1)}
            if case.opset < 20:
                case.node("DFT", x, axis=1, **given)
            else:
                case.node("DFT", x, "", case.scalar(1), **given)
        case 1:
            case.node(
                case.pick("HannWindow", "HammingWindow", "BlackmanWindow"),
                case.scalar(case.pick(1, 2, 7)),
                periodic=case.pick(0, 1),
            )
        case 2:
            window = [case.floats(4)] if case.coin() else []
            case.node("STFT", case.x(1, 12, 1), case.scalar(2), *(window or [""]), case.scalar(4))
        case 3:
            ends = case.constant(np.float32(0)), case.constant(np.float32(4000))
            case.node("MelWeightMatrix", case.scalar(4), case.scalar(16), case.scalar(8000), *ends)
        case _:
            case.node("HannWindow", case.scalar(5))


def shaped(case: Case) -> None:
    """Operators whose result depends on shapes and constants."""
    match int(case.rng.integers(6)):
        case 0:
            case.node("EyeLike", case.x(3, 4), k=case.pick(0, 1))
        case 1:
            values = case.floats(2)
            case.node("OneHot", case.ints(0, 3, 1), case.scalar(4), values)
        case 2:
            case.node("ReverseSequence", case.x(4, 3), case.ints(1, 2, 4))
        case 3:
            case.node("Compress", case.x(3, 4), case.constant(np.array([True, False, True])), axis=0)
        case 4:
            case.node("Unique", case.x(6), count=4)
        case _:
            case.node("CenterCropPad", case.x(3, 4), case.ints(5, 2)) if case.opset >= 18 else case.node(
                "Identity", case.x(1)
            )


def range_of(case: Case) -> None:
    case.node("Range", case.x(low=-2, high=1), case.x(low=2, high=5), case.floats(low=0.5, high=1.5))


def affine_grid(case: Case) -> None:
    case.dtype = TensorProto.FLOAT  # of which the reference evaluator makes it
    case.node("AffineGrid", case.x(1, 2, 3), case.ints(1, 1, 3, 4), align_corners=case.pick(0, 1))


def determinant(case: Case) -> None:
    size = case.pick(1, 2, 3)
    case.node("Det", case.x(2, size, size))


def learned(case: Case) -> None:
    """Operators of ai.onnx.ml."""
    case.dtype = TensorProto.FLOAT
    x, ml = case.x(3, 4), {"domain": "ai.onnx.ml"}
    match int(case.rng.integers(9)):
        case 0:
            factors = [float(each) for each in case.rng.normal(size=8)]
            post = case.pick("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
            case.node(
                "LinearRegressor", x, coefficients=factors, intercepts=[0.5, -3.0], targets=2, post_transform=post, **ml
            )
        case 1:
            factors = [float(each) for each in case.rng.normal(size=8)]
            post = case.pick("NONE", "SOFTMAX", "LOGISTIC")
            given: dict[str, Any] = {"intercepts": [0.5, -3.0], "classlabels_ints": [0, 1], "multi_class": 1}
            case.node("LinearClassifier", x, coefficients=factors, post_transform=post, count=2, **given, **ml)
        case 2:
            case.node("Scaler", x, offset=[1.0, 2.0, -1.0, 0.0], scale=[2.0, -1.0, 0.5, 0.0], **ml)
        case 3:
            case.node("Normalizer", x, norm=case.pick("L1", "L2", "MAX"), **ml)
        case 4:
            case.node("Imputer", x, imputed_value_floats=[5.0], replaced_value_float=0.0, **ml)
        case 5:
            case.node("Binarizer", x, threshold=0.2, **ml)
        case 6:
            case.node("FeatureVectorizer", x, case.x(3, 2), inputdimensions=[4, 2], **ml)
        case 7:
            case.node("ArrayFeatureExtractor", x, case.ints(2, 0), **ml)
        case _:
            trees(case, x)


def trees(case: Case, x: str) -> None:
    """Two trees of a root and two leaves each."""
    weights = [float(each) for each in case.rng.normal(size=4) * 3]
    given: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2],
        "nodes_featureids": [0, 0, 0, 2, 0, 0],
        "nodes_values": [0.3, 0, 0, -0.2, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
        "post_transform": case.pick("NONE", "LOGISTIC", "SOFTMAX"),
    }
    if case.coin():
        leaves = {"target_treeids": [0, 0, 1, 1], "target_nodeids": [1, 2, 1, 2], "target_ids": [0, 1, 0, 0]}
        joint = {"aggregate_function": case.pick("SUM", "AVERAGE", "MIN", "MAX"), "n_targets": 2}
        start = {"base_values": [1.0, -2.0]} if case.coin() else {}
        case.reference = joint["aggregate_function"] not in ("MIN", "MAX")  # without a leaf: the largest number
        given |= {**leaves, **joint, **start, "target_weights": weights}
        case.node("TreeEnsembleRegressor", x, domain="ai.onnx.ml", **given)
    else:
        leaves = {"class_treeids": [0, 0, 1, 1], "class_nodeids": [1, 2, 1, 2], "class_ids": [0, 1, 2, 0]}
        given |= {**leaves, "class_weights": weights, "classlabels_int64s": [0, 1, 2]}
        case.node("TreeEnsembleClassifier", x, domain="ai.onnx.ml", count=2, **given)


def contributed(case: Case) -> None:
    """Operators of com.microsoft."""
    case.dtype = TensorProto.FLOAT
    shape, ms = (2, 3, 4), {"domain": "com.microsoft"}
    x = case.x(*shape)
    match int(case.rng.integers(10)):
        case 0:
            w = case.floats(4, 5)
            case.node("FusedMatMul", x, w, alpha=case.pick(1.0, -0.3), transA=0, **ms)
        case 1:
            case.node(case.pick("Gelu", "FastGelu", "QuickGelu"), x, **ms)
        case 2:
            case.node("BiasGelu", x, case.floats(4), **ms)
        case 3:
            parts = case.floats(4), case.floats(4)
            case.node("SkipLayerNormalization", x, case.x(*shape), *parts, epsilon=1e-5, **ms)
        case 4:
            case.node("SkipSimplifiedLayerNormalization", x, case.x(*shape), case.floats(4), epsilon=1e-5, **ms)
        case 5:
            case.node(
                "FusedGemm", case.x(3, 4), case.floats(4, 2), case.floats(2), activation=case.pick("Relu", "Tanh"), **ms
            )
        case 6:
            image = case.x(1, 2, 5, 5)
            case.node("FusedConv", image, case.floats(3, 2, 2, 2), activation=case.pick("Relu", "Sigmoid"), **ms)
        case 7:
            case.node("SimplifiedLayerNormalization", x, case.floats(4), axis=-1, epsilon=1e-5)
        case 8:
            case.node("BiasSplitGelu", x, case.floats(4), **ms)
        case _:
            case.node("MultiHeadAttention", case.x(1, 3, 4), case.x(1, 5, 4), case.x(1, 5, 4), num_heads=2, **ms)
