"""Operators of ai.onnx.ml and com.microsoft, and those that exporters put into the domain of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir

from castsmith.ir.bounds.interval import Interval, collapsed, flags, joined_along, products
from castsmith.ir.bounds.rounding import (
    Array,
    is_float,
    largest,
    sum_error,
    summed,
    unit_roundoff,
    vanished,
    with_slack,
)
from castsmith.ir.bounds.rules.arithmetic import add
from castsmith.ir.bounds.rules.attention import convex_of_values
from castsmith.ir.bounds.rules.convolution import convolve
from castsmith.ir.bounds.rules.functions import RULES as FUNCTIONS, gelu, swish
from castsmith.ir.bounds.rules.linear import gemm, matmul, transposed
from castsmith.ir.bounds.rules.normalization import normalized, with_cancellation
from castsmith.ir.bounds.step import LONGEST, Rule, Step, UnknownRangeError
from castsmith.ir.bounds.sums import product_with

_MS = "com.microsoft"
_ML = "ai.onnx.ml"


def _floats(step: Step, name: str) -> Array:
    attribute = step.node.attributes.get(name)
    return np.asarray([] if attribute is None else attribute.as_floats(), np.float64)


def _numbers(step: Step, name: str) -> list[int]:
    attribute = step.node.attributes.get(name)
    return [] if attribute is None else [int(each) for each in attribute.as_ints()]


def _scores(step: Step, index: int, low: Array, high: Array, *given: Interval) -> Interval:
    """The scores of a model after its post transform; a classifier of one score adds its opposite."""
    held = replace(step, dims=[step.dims[index]], dtypes=[step.dtypes[index]])
    nan = any(each.nan or each.infinite for each in given)
    kind = "NONE" if step.node.op_type == "TreeEnsemble" else step.text("post_transform", "NONE")
    if kind == "PROBIT":
        return step.unbounded(index, nan=True, infinite=True)
    if kind != "NONE":
        low, high = np.zeros(()), np.ones(())
    elif "Classifier" in step.node.op_type:
        least, most = float(low.min(initial=0.0)), float(high.max(initial=0.0))
        low, high = np.asarray(min(least, -most, 1 - most)), np.asarray(max(most, -least, 1 - least))
    return held.result(*with_slack(low, high, step.dtypes[index]), step.dims[index], *given, nan=nan)


def _linear(step: Step) -> Sequence[Interval]:
    """LinearRegressor and LinearClassifier: products with the coefficients of each target."""
    x = step.input(0)
    regressor = step.node.op_type == "LinearRegressor"
    weights, start = _floats(step, "coefficients"), _floats(step, "intercepts")
    targets = step.int("targets", 1) if regressor else max(start.size, 1)
    matrix = weights.reshape(targets, -1).T
    low, high = joined_along(x, range(max(x.low.ndim - 1, 0)))
    ends = (low.reshape(1, -1), high.reshape(1, -1)) if low.size in (1, matrix.shape[0]) else (_one(low), _one(high))
    least, most, size = product_with(*ends, matrix)
    error = size * sum_error(matrix.shape[0] + 2, step.dtypes[-1])
    error = np.where(np.isfinite(error), error, 0.0) + vanished(matrix.shape[0], step.dtypes[-1])
    start = start if start.size else np.zeros(1)
    least, most = least - error + start, most + error + start
    least, most = summed(least, most, size, step.dtypes[-1])
    index = 0 if regressor else 1
    found = _scores(step, index, np.asarray(least.min()), np.asarray(most.max()), x)
    return [found] if regressor else [step.unbounded(0), found]


def _one(array: Array) -> Array:
    return np.full((1, 1), array.min() if array.size else 0.0)


def _trees(step: Step) -> Sequence[Interval]:
    """Tree ensembles: for each target the sum of the least and of the greatest leaf of every tree."""
    regressor = step.node.op_type == "TreeEnsembleRegressor"
    kind = "target" if regressor else "class"
    attribute = step.node.attributes.get(f"{kind}_weights_as_tensor")
    weights = _floats(step, f"{kind}_weights") if attribute is None else _array(attribute)
    trees, ids = _numbers(step, f"{kind}_treeids"), _numbers(step, f"{kind}_ids")
    leaves: dict[tuple[int, int], tuple[float, float]] = {}
    for tree, target, weight in zip(trees, ids, weights, strict=True):
        before = leaves.get((tree, target), (0.0, 0.0))
        leaves[tree, target] = min(before[0], float(weight)), max(before[1], float(weight))
    base = step.node.attributes.get("base_values_as_tensor")
    start = _floats(step, "base_values") if base is None else _array(base)
    totals: dict[int, tuple[float, float]] = dict.fromkeys(ids, (0.0, 0.0))
    for (_, target), (low, high) in leaves.items():
        totals[target] = totals[target][0] + low, totals[target][1] + high
    return _of_trees(step, list(totals.values()), start, len(set(trees)), "SUM" if regressor else "")


def _array(attribute: onnx_ir.Attr) -> Array:
    return np.asarray(attribute.as_tensor().numpy()).astype(np.float64).reshape(-1)


def _of_trees(step: Step, totals: list[tuple[float, float]], start: Array, count: int, kind: str) -> list[Interval]:
    """Any aggregate is between the sums, with 0 among them: a mean, the least and the greatest are, too."""
    low = min((each[0] for each in totals), default=0.0) + float(start.min(initial=0.0))
    high = max((each[1] for each in totals), default=0.0) + float(start.max(initial=0.0))
    index = 0 if kind else 1
    size = max(abs(low), abs(high)) + sum(max(abs(a), abs(b)) for a, b in totals)
    error = size * sum_error(count + 2, step.dtypes[index])
    found = _scores(step, index, np.asarray(low - error), np.asarray(high + error))
    found = replace(found, nan=False, infinite=False)
    return [found] if kind else [step.unbounded(0), found]


def _forest(step: Step) -> list[Interval]:
    """TreeEnsemble: each tree adds one leaf."""
    weights, roots = step.node.attributes["leaf_weights"], _numbers(step, "tree_roots")
    leaves = _array(weights)
    ends = float(leaves.min(initial=0.0)) * len(roots), float(leaves.max(initial=0.0)) * len(roots)
    if step.int("post_transform", 0):
        raise UnknownRangeError
    return _of_trees(step, [ends], np.zeros(1), len(roots), "SUM")


def _scaler(step: Step) -> Interval:
    """(x - offset) * scale."""
    x, offset, scale = step.input(0), _floats(step, "offset"), _floats(step, "scale")
    low, high = joined_along(x, range(x.low.ndim))
    parts = [(np.asarray(low.min() - o), np.asarray(high.max() - o)) for o in offset]
    each = [products(part, (np.asarray(s), np.asarray(s))) for part in parts for s in scale]
    ends = np.asarray(min(float(low) for low, _ in each)), np.asarray(max(float(high) for _, high in each))
    size = max(float(np.abs(scale).max()) * (float(x.magnitude.max()) + float(np.abs(offset).max())), 0.0)
    error = 4 * unit_roundoff(step.dtypes[0] or onnx_ir.DataType.FLOAT) * size if math.isfinite(size) else 0.0
    return step.result(ends[0] - error, ends[1] + error, x.dims, x)


def _normalizer(step: Step) -> Interval:
    """Rows over their norm, which some runtimes compute as the sum or the maximum with its sign; 0 / 0 for zeros."""
    x = step.input(0)
    if step.text("norm", "MAX") != "L2":
        return step.unbounded(nan=True, infinite=True)
    ends = with_slack(np.asarray(-1.0), np.asarray(1.0), step.dtypes[0])
    most = float(x.magnitude.max(initial=0.0))
    nan = x.nan or x.infinite or _may_hold_zero(x) or most * most * LONGEST > largest(step.dtypes[0] or _FLOAT)
    return step.result(*ends, x.dims, x, nan=nan)


_FLOAT = onnx_ir.DataType.FLOAT


def _may_hold_zero(x: Interval) -> bool:
    return bool(((np.abs(x.low) < 1e-15) | (np.abs(x.high) < 1e-15) | ((x.low < 0) & (x.high > 0))).any())


def _imputer(step: Step) -> Interval:
    x, filling = step.input(0), _floats(step, "imputed_value_floats")
    if not is_float(step.dtypes[0]) or not filling.size:
        return step.unbounded()
    ends = np.asarray(min(x.least, float(filling.min()))), np.asarray(max(x.greatest, float(filling.max())))
    missing = step.float("replaced_value_float", 0.0)
    return step.result(*ends, x.dims, x, nan=x.nan and not math.isnan(missing))


def _zero_or_one(step: Step) -> Interval:
    return step.result(np.zeros(()), np.ones(()), step.dims[0], nan=False, infinite=False)


def _binarizer(step: Step) -> Interval:
    return replace(_zero_or_one(step), nan=step.input(0).nan)


def _vectorizer(step: Step) -> Interval:
    """FeatureVectorizer: the operands beside each other, in float."""
    given = [each for each in step.inputs if each is not None]
    low, high = min(each.least for each in given), max(each.greatest for each in given)
    return step.result(np.asarray(low), np.asarray(high), step.dims[0], *given)


def _extractor(step: Step) -> Interval:
    return collapsed(step.input(0), step.dims[0])


# com.microsoft.


def _fused_matmul(step: Step) -> Interval:
    if step.int("transBatchA", 0) or step.int("transBatchB", 0):
        raise UnknownRangeError
    if step.int("transA", 0) or step.int("transB", 0):
        sides = [step.input(0), step.input(1)]
        turned = [
            transposed(x) if step.int(name, 0) else x for x, name in zip(sides, ("transA", "transB"), strict=True)
        ]
        return _times(step, matmul(replace(step, inputs=turned), constant=False))
    return _times(step, matmul(step))


def _times(step: Step, found: Interval) -> Interval:
    alpha = step.float("alpha", 1.0)
    if alpha == 1:
        return found
    ends = products((found.low, found.high), (np.asarray(alpha), np.asarray(alpha)))
    return step.result(*with_slack(*ends, step.dtypes[0]), found.dims, found)


def _biased(function: Callable[[Step], Interval]) -> Rule:
    """A function of the first operand plus the second."""

    def rule(step: Step) -> Interval:
        if step.value(1) is None:
            return function(step)
        return function(replace(step, inputs=[add(step, 1)]))

    return rule


def _skip_norm(step: Step) -> list[Interval]:
    """SkipLayerNormalization and its simplified form: the norm of a sum, which is the fourth output."""
    simple = step.node.op_type.startswith("SkipSimplified")
    total = add(step, 1)
    bias = step.optional(3 if simple else 4)
    if bias is not None:
        total = add(replace(step, inputs=[total, bias]), 1)
    count = None if total.dims is None else total.dims[-1]
    found = normalized(step, total, count, step.input(2), None if simple else step.optional(3), ball=True)
    if not simple:
        found = with_cancellation(step, found, total, count or 1)
    others = [step.unbounded(index) for index in range(1, len(step.node.outputs))]
    return [found, *others[:2], *([total] if len(others) > 2 else [])]


def _rms_norm(step: Step) -> Interval:
    """RMSNorm: the rows of the last axis over their root mean square, times a weight."""
    x = step.input(0)
    found = normalized(step, x, None if x.dims is None else x.dims[-1], step.input(1), None, ball=True, own=False)
    return replace(found, assumes=found.assumes | {AS_NAMED})


def _requantized(step: Step) -> Interval:
    """RequantShift and iSoftmax: integers of `n_levels`, held in floats."""
    kept = [attribute for name in _LEVELS if (attribute := step.node.attributes.get(name)) is not None]
    levels = float(_array(kept[0])[0]) if kept[0].type == onnx_ir.AttributeType.TENSOR else float(kept[0].as_int())
    sign = step.node.attributes.get("signed")
    least = -levels / 2 if sign is not None and _array(sign)[0] else 0.0
    x = step.input(0)
    facts = {"nan": False, "infinite": False, "assumes": x.assumes | {AS_NAMED}}
    return step.result(np.asarray(least), np.asarray(least + levels - 1), step.dims[0], x, **facts)


AS_NAMED = "operators that ONNX does not define are what Deeploy and quantlib define by these names"
_LEVELS = ("n_levels_out", "n_levels")


def _activated(function: Callable[[Step], Interval]) -> Rule:
    """A product or convolution with an activation."""

    def rule(step: Step) -> Interval:
        plain = function(step)
        name = step.text("activation", "")
        if not name:
            return plain
        if name not in ("Relu", "Tanh", "Sigmoid"):
            raise UnknownRangeError
        found = FUNCTIONS[name](replace(step, inputs=[plain]))
        return found if isinstance(found, Interval) else found[0]

    return rule


def _heads(step: Step) -> list[Interval]:
    """MultiHeadAttention with the value as its third operand; a bias is added to it."""
    q, k, v = step.input(0), step.optional(1), step.optional(2)
    if k is None or v is None or len(q.dims or ()) != 3 or step.optional(6) is not None:
        raise UnknownRangeError
    bias = step.optional(3)
    if bias is not None:
        most = float(bias.magnitude.max(initial=0.0))
        q, k, v = (replace(each, low=each.low - most, high=each.high + most, **flags(each, bias)) for each in (q, k, v))
    masks = [each for each in (step.optional(4), step.optional(5)) if each is not None]
    return convex_of_values(step, q, k, v, masks)


RULES: dict[tuple[str, str], Rule] = {
    (_ML, "LinearRegressor"): _linear,
    (_ML, "LinearClassifier"): _linear,
    (_ML, "TreeEnsembleRegressor"): _trees,
    (_ML, "TreeEnsembleClassifier"): _trees,
    (_ML, "TreeEnsemble"): _forest,
    (_ML, "Scaler"): _scaler,
    (_ML, "Normalizer"): _normalizer,
    (_ML, "Imputer"): _imputer,
    (_ML, "Binarizer"): _binarizer,
    (_ML, "OneHotEncoder"): _zero_or_one,
    (_ML, "FeatureVectorizer"): _vectorizer,
    (_ML, "ArrayFeatureExtractor"): _extractor,
    (_MS, "FusedMatMul"): _fused_matmul,
    (_MS, "Gelu"): gelu,
    (_MS, "FastGelu"): _biased(lambda step: gelu(step, tanh=True)),
    (_MS, "BiasGelu"): _biased(lambda step: gelu(step, tanh=False)),
    (_MS, "QuickGelu"): lambda step: swish(step, 1.702),
    (_MS, "SkipLayerNormalization"): _skip_norm,
    (_MS, "SkipSimplifiedLayerNormalization"): _skip_norm,
    (_MS, "FusedGemm"): _activated(gemm),
    (_MS, "FusedConv"): _activated(convolve),
    (_MS, "MultiHeadAttention"): _heads,
}

UNDEFINED: dict[str, Rule] = {"RMSNorm": _rms_norm, "RequantShift": _requantized, "iSoftmax": _requantized}
"""Operators of the domain of ONNX that it does not define, as Deeploy and quantlib write them.

Source: Deeploy's parsers and kernels (`RMSNorm` normalizes the last axis; `RequantShift` clips to `n_levels_out`).
"""
