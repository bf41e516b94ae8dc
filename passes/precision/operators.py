"""Operators in 16 bits: those that stay in float by default, each with the reason.

Sources: PyTorch, "CUDA ops that can autocast to float32" (softmax, norms, losses, exp, log, pow, sums, cumulative sums,
reciprocal, trigonometry that overflows); ONNX Runtime `float16.py` and onnxconverter-common, DEFAULT_OP_BLOCK_LIST
(CumSum, Range, RandomUniform); ONNX schemas, whose `stash_type` and `softmax_precision` let a node keep its statistics
in float by itself.
"""

from __future__ import annotations

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.contrib import CONTRIB_DOMAIN
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators
from castsmith.ir.ops.traits import Conversion
from castsmith.passes.place.sizes import Sizes

_EXPONENTIAL = "its results span more orders of magnitude than 16 bits hold"
_SUM = "it adds up many elements, and small ones are lost in a large sum"
_NORM = "its statistics add up squares, which overflow or vanish in 16 bits"
_SOFTMAX = "it divides by a sum of exponentials"
_LOSS = "a loss adds up logarithms"
_DRAWN = "it would draw different random numbers in another type"
_COUNT = "its results are counts, and 16 bits skip integers beyond 2048 (float16) or 256 (bfloat16)"
_POLE = "its results grow without bound near a pole"
_PLACES = "its operands are positions between elements, which 16 bits shift"

SENSITIVE: dict[str, str] = {
    **dict.fromkeys(("Softmax", "LogSoftmax"), _SOFTMAX),
    **dict.fromkeys(("Exp", "Pow", "Log", "Softplus", "Sinh", "Cosh"), _EXPONENTIAL),
    **dict.fromkeys(("Reciprocal", "Tan", "Acos", "Asin", "Acosh", "Atanh"), _POLE),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "CumSum", "CumProd"), _SUM),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare", "LpNormalization", "LpPool", "GlobalLpPool"), _NORM),
    **dict.fromkeys(("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", "LRN"), _NORM),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _NORM),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _LOSS),
    **dict.fromkeys(("Det", "DFT", "STFT", "MelWeightMatrix", "HannWindow", "HammingWindow", "BlackmanWindow"), _SUM),
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _DRAWN),
    **dict.fromkeys(("Bernoulli", "Multinomial"), _DRAWN),
    "Range": _COUNT,
    **dict.fromkeys(("AffineGrid", "GridSample", "RoiAlign", "MaxRoiPool", "DeformConv"), _PLACES),
}
"""Standard operators that stay in float by default, each with the reason."""

SENSITIVE_CONTRIB: dict[str, str] = {
    "BiasSoftmax": _SOFTMAX,
    **dict.fromkeys(("Rfft", "Irfft", "Inverse"), _SUM),
    "GridSample": _PLACES,
    "CropAndResize": _PLACES,
}
"""Operators of com.microsoft that stay in float by default, each with the reason.

Its fused attention and normalizations are not among them: they compute their statistics in float by themselves.
"""

MASK_PASSES = frozenset({"Add", "Sub", "Mul", "Neg", "Cast", "CastLike", "Min", "Max", "Div"})
"""Arithmetic that preserves mask values."""

BOUNDS = {"Clip": (1, 2), "Max": None, "Min": None}
"""The inputs that may be bounds; None: every input. A bound beyond the range of a type has no effect."""

_LONG_SUM = 256
"""Number of elements from which a mean counts as a long sum."""

IN_FLOAT_INSIDE: dict[str, tuple[str, int]] = {
    "LayerNormalization": ("stash_type", 1),
    "RMSNormalization": ("stash_type", 1),
    "GroupNormalization": ("stash_type", 1),
    "Attention": ("softmax_precision", 0),
}
"""Operators with an attribute that makes them compute sensitive steps in float, and its default, 0 for none."""


def sensitive_reason(node: onnx_ir.Node, opset: int, sizes: Sizes) -> str:
    """Return the reason why the node stays in float by default; empty if it does not.

    Args:
        node: The node.
        opset: That of ONNX's operators in its scope.
        sizes: The sizes of the axes of its operands.
    """
    if node.domain == CONTRIB_DOMAIN:
        return SENSITIVE_CONTRIB.get(node.op_type, "")
    if node.domain not in DEFAULT_DOMAINS:
        return ""
    if stash_attribute(node, opset) is not None:
        return ""
    if node.op_type in ("ReduceMean", "ReduceSum", "GlobalAveragePool"):
        count = _averaged(node, sizes)
        return "" if count is not None and count < _LONG_SUM else _SUM
    if node.op_type == "BatchNormalization":
        return _NORM if node.attributes.get_int("training_mode", 0) or len(node.outputs) > 1 else ""
    return SENSITIVE.get(node.op_type, "")


def stash_attribute(node: onnx_ir.Node, opset: int) -> str | None:
    """Return the attribute that makes the node compute sensitive steps in float; None if it has none."""
    name, default = IN_FLOAT_INSIDE.get(node.op_type, ("", 0))
    if not name or node.domain not in DEFAULT_DOMAINS or (node.op_type == "GroupNormalization" and opset < 21):
        return None
    return name if node.attributes.get_int(name, default) in (0, int(DataType.FLOAT)) else None


def _averaged(node: onnx_ir.Node, sizes: Sizes) -> int | None:
    """Return the number of elements of one mean; None if the shape is unknown."""
    dims = None if node.inputs[0] is None else sizes.dims(node.inputs[0])
    if dims is None:
        return None
    axes: list[int] = list(range(len(dims)))
    stated = node.inputs[1] if len(node.inputs) > 1 else None
    if node.op_type == "GlobalAveragePool":
        axes = axes[2:]
    elif "axes" in node.attributes:
        if node.attributes["axes"].is_ref():
            return None
        axes = list(node.attributes["axes"].as_ints())
    elif stated is not None:
        tensor = constant_tensor(stated)
        if tensor is None:
            return None
        if tensor.size or node.attributes.get_int("noop_with_empty_axes", 0):
            axes = [int(axis) for axis in tensor.numpy().ravel()]
    total = 1
    for axis in axes:
        size = dims[axis] if -len(dims) <= axis < len(dims) else None
        if size is None:
            return None
        total *= size
    return total


INSIDE = frozenset(
    {
        *("Softmax", "LogSoftmax", "BiasSoftmax", "ReduceMean", "GlobalAveragePool", "ReduceLogSumExp", "Softplus"),
        *("InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", "LpNormalization", "LRN"),
    }
)
"""Sensitive operators whose results fit where their operands do, and whose kernels add up in float."""

GROWING = frozenset(
    {
        *("Exp", "Pow", "Mul", "Sinh", "Cosh", "ReduceSum", "ReduceProd", "CumSum", "CumProd"),
        *("ReduceSumSquare", "ReduceL1", "ReduceL2", "LpPool", "GlobalLpPool"),
    }
)
"""Sensitive operators whose results may exceed a type that holds their operands."""

RANGE = (GROWING - {"CumSum"}) | {"Reciprocal", "ReduceLogSum"}
"""Sensitive operators that need float for the range of their results alone, as each sum of a CumSum is rounded."""

LINEAR = frozenset({"Add", "Sub", "Mul", "Div", "Neg"})
MEANS = frozenset({"ReduceMean", "ReduceSum", "GlobalAveragePool"})
PASSING = operators(lambda row: row.rounding is not None or row.conversion is Conversion.CAST) | MEANS | {"AveragePool"}
"""Operators whose results may be about as large as their operands, if nothing smaller is known of them."""
SATURATING = {"Tanh": 16.0, "Erf": 8.0, "Sigmoid": 32.0}
"""Operators that give their limit, rounded to 16 bits, for operands from this magnitude on."""
