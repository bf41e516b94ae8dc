"""Operators that compute something else from an opset on, though their signatures do not show it: one row per change.

Found by comparing the schema texts of every operator from opset 14 to 28; of older ones, those of some operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

TypesInUse = Sequence[DataType | None]
"""The element types of a node's inputs and then of its outputs; None if unknown."""


@dataclass(frozen=True)
class Change:
    """From opset `since` on, `op_type` has a different meaning for the nodes that `touches` selects."""

    op_type: str
    since: int
    reason: str
    touches: Callable[[onnx_ir.Node, TypesInUse], bool]


def _always(_node: onnx_ir.Node, _types: TypesInUse) -> bool:
    return True


def _saturates_to_fnuz(node: onnx_ir.Node, types: TypesInUse) -> bool:
    fnuz = (DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2FNUZ)
    return (types[-1] is None or types[-1] in fnuz) and node.attributes.get_int("saturate", 1) == 1


def _ceil_mode(node: onnx_ir.Node, _types: TypesInUse) -> bool:
    return node.attributes.get_int("ceil_mode", 0) != 0


def _is_shifted(node: onnx_ir.Node, _types: TypesInUse) -> bool:
    return node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel"


def _no_second_input(node: onnx_ir.Node, _types: TypesInUse) -> bool:
    return len(node.inputs) < 2 or node.inputs[1] is None


def _fmod_of_the_other_kind(node: onnx_ir.Node, types: TypesInUse) -> bool:
    return types[0] is None or types[0].is_integer() == (node.attributes.get_int("fmod", 0) == 1)


def _trains(node: onnx_ir.Node, _types: TypesInUse) -> bool:
    return len(node.outputs) > 1 or node.attributes.get_int("training_mode", 0) != 0


def _says(attribute: str, *texts: str) -> Callable[[onnx_ir.Node, TypesInUse], bool]:
    return lambda node, _types: node.attributes.get_string(attribute, "") in texts


_keeps_ratio = _says("keep_aspect_ratio_policy", "not_larger", "not_smaller")
_is_symmetric = _says("coordinate_transformation_mode", "half_pixel_symmetric")
_INFINITY = "infinity saturates to the largest value of the fnuz types from opset 24 on, and gave NaN before"
_WINDOW = "with ceil_mode, windows that start in the right padding are omitted from opset {} on"
_SOFTMAX = "it normalises over one axis from opset 13 on, and over all axes from `axis` before"

CHANGES: tuple[Change, ...] = (
    Change("Cast", 24, _INFINITY, _saturates_to_fnuz),
    Change("CastLike", 24, _INFINITY, _saturates_to_fnuz),
    Change("QuantizeLinear", 24, _INFINITY, _saturates_to_fnuz),
    Change("Softmax", 13, _SOFTMAX, _always),
    Change("LogSoftmax", 13, _SOFTMAX, _always),
    Change("Hardmax", 13, _SOFTMAX, _always),
    Change("BatchNormalization", 14, "its training outputs were redefined", _trains),
    Change("RoiAlign", 16, "coordinates are shifted by half a pixel unless set otherwise", _is_shifted),
    Change("ScatterElements", 18, "max and min are new reductions", _says("reduction", "max", "min")),
    Change("ScatterND", 18, "max and min are new reductions", _says("reduction", "max", "min")),
    Change("Pad", 19, "the mode wrap is new", _says("mode", "wrap")),
    Change("Split", 18, "without the input `split`, `num_outputs` must say how many", _no_second_input),
    Change("Resize", 18, "a policy of aspect ratio other than stretch is new", _keeps_ratio),
    Change("Resize", 19, "the mode half_pixel_symmetric is new", _is_symmetric),
    Change("AveragePool", 19, "with ceil_mode, the size of the output was redefined", _ceil_mode),
    Change("AveragePool", 22, _WINDOW.format(22), _ceil_mode),
    Change("MaxPool", 22, _WINDOW.format(22), _ceil_mode),
    Change("DFT", 20, "the axis became an input and its default the last but one", _always),
    Change("GridSample", 20, "the modes were renamed (bilinear is now linear) and volumes added", _always),
    Change("GroupNormalization", 21, "scale and bias are per channel; they were per group", _always),
    Change("Attention", 24, "the causal mask is aligned by the cached keys; fully masked rows were redefined", _always),
    Change("Attention", 25, "causal alignment and fully masked rows were corrected", _always),
    Change("Mod", 28, "fmod = 0 of floats and fmod = 1 of integers became defined", _fmod_of_the_other_kind),
)  # fmt: skip

SAME_FROM_9_TO_13 = frozenset((
    "Abs", "Add", "ArgMax", "ArgMin", "AveragePool", "Cast", "Ceil", "Clip", "Compress", "Concat",
    "Constant", "Conv", "DepthToSpace", "DequantizeLinear", "Div", "Dropout", "Equal", "Erf", "Exp", "Expand",
    "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gemm", "Greater", "Hardmax", "Identity", "If",
    "IsNaN", "LRN", "Less", "Log", "LogSoftmax", "Loop", "LpPool", "MatMul", "Max", "MaxPool", "MaxUnpool", "Mean",
    "MeanVarianceNormalization", "Min", "Mod", "Mul", "Neg", "NonMaxSuppression", "NonZero", "Pad", "Pow",
    "QuantizeLinear", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Resize", "Scan",
    "ScatterElements", "ScatterND", "Shape", "Sigmoid", "Sign", "Size", "Slice", "Softmax", "SpaceToDepth", "Split",
    "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile", "TopK", "Transpose", "Unsqueeze",
))  # fmt: skip
"""Operators whose texts of opset 10 to 13 were read: without a step, nothing changed but words, defaults or types."""


def changes_between(node: onnx_ir.Node, types: TypesInUse, low: int, high: int) -> list[Change]:
    """Return the changes after opset `low` and up to `high` that affect the node.

    An attribute that refers to a function's parameter may have any value, so every change is assumed to affect it.
    """
    unknown = any(attribute.is_ref() for attribute in node.attributes.values())
    crossed = (change for change in CHANGES if change.op_type == node.op_type and low < change.since <= high)
    return [change for change in crossed if unknown or change.touches(node, types)]
