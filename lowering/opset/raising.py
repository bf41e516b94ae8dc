"""Nodes of opset 6 and later in the form of a newer opset.

What each opset changed, and what becomes of it:

    opset  operator                      before                            now
    8      Max, Mean, Min, Sum, ...      a case of what it is now          the same
    7      Add, Sub, Mul, Div, Pow, ...  broadcast along an axis           dimensions of 1 behind those of the operand
    7      PRelu                         a slope of channels               dimensions of 1 behind it
    9      Upsample                      attribute scales                  input
    10     Slice, TopK                   attributes                        inputs
    10     Upsample                      its own operator                  Resize
    11     Clip, Pad                     attributes                        inputs
    11     Resize                        rounds down, from the corner      stated
    11     Scatter                       its own operator                  ScatterElements
    12     Dropout                       attribute ratio                   none: it draws nothing
    13     Softmax, LogSoftmax, Hardmax  all dimensions from the axis on   flattened, unless the axis is the last
    13     Squeeze, ReduceSum, Split ..  attributes                        inputs
    16     RoiAlign                      coordinates as they are           stated
    18     ReduceMax, ...                attribute axes                    input
    18     Split                         parts by the number of outputs    stated

An operator that is not listed stays if `obstacles` finds no difference, and so does one that the opset of the model
lacks, until its first definition. Attributes without effect, such as `consumed_inputs` and `is_test`, are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.changes import SAME_FROM_9_TO_13
from castsmith.ir.ops.schemas import since_version
from castsmith.lowering.builder import FIRST_WITH_ROUND, Builder
from castsmith.lowering.opset.adapters import again
from castsmith.lowering.opset.obstacles import LAST_UNREAD, TypeOf, node_obstacle, standard_nodes
from castsmith.passes.core.rewriting import detach
from castsmith.targets.kernels import varied_input
from castsmith.targets.target import Target

FIRST_WITH_BFLOAT16 = 13

_LAST_WRITTEN_OUT = 9
"""The newest opset of which each change has its step."""

Step = Callable[[Builder, onnx_ir.Node], "onnx_ir.Node | str"]
"""Returns the node in the form of the opset that changed its operator: itself if it may stay, or why it has none."""


def raised(build: Builder, node: onnx_ir.Node, now: int, to: int, types: TypeOf) -> onnx_ir.Node | str:
    """Return the node in the form of opset `to`, itself if it may stay; or why it has none."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return f"an attribute of {node.op_type} is a parameter of a function"
    current = node
    for opset in range(now + 1, to + 1):
        if not _changes(current.op_type, opset):
            continue
        step = _STEPS.get((current.op_type, opset)) or _unless_different(opset, types)
        following = step(build, current)
        if isinstance(following, str):
            detach([] if current is node else [current])
            return following
        if current not in (node, following):
            detach([current])
        current = following
    return current


@cache
def _changes(op_type: str, opset: int) -> bool:
    """True if the opset has a version of its own of the operator, but for the first."""
    return onnx.defs.has(op_type, opset - 1, "") and since_version(op_type, opset) == opset


def _unless_different(opset: int, types: TypeOf) -> Step:
    """Return the step of an operator that no step is written for."""

    def step(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
        if opset <= _LAST_WRITTEN_OUT:
            return f"{node.op_type} changed in opset {opset}"
        if opset <= LAST_UNREAD and node.op_type in SAME_FROM_9_TO_13:
            return node
        return node_obstacle(node, opset - 1, opset, types) or node

    return step


def opset_needed(model: onnx_ir.Model, target: Target, types: TypeOf, now: int) -> tuple[int, str]:
    """Return the oldest opset at which the target runs the operators that it does not at the present one, and why.

    Operators that it does not run at any opset count for nothing, apart from quantizers, which arithmetic with Round
    replaces. The present opset if none is needed.
    """
    goal, why, checked = now, "", set[tuple[str, DataType]]()
    if now < FIRST_WITH_ROUND and any(_is_written_out(node, target, types, now) for node, _ in standard_nodes(model)):
        goal, why = FIRST_WITH_ROUND, "arithmetic replaces QuantizeLinear, which needs Round"
    for node, opset in standard_nodes(model):
        at = varied_input(node.op_type)
        value = node.inputs[at] if at < len(node.inputs) else next(iter(node.outputs), None)
        dtype = None if value is None else types.get(value, value.dtype)
        if dtype is None or opset != now:
            continue
        if dtype in target.lacks:  # what becomes of it later has a type that the target has
            dtype = DataType.FLOAT
        if (node.op_type, dtype) in checked:
            continue
        checked.add((node.op_type, dtype))
        if "kernels" in target.unknown or target.has_kernel(node.op_type, dtype, now):
            continue
        runs = (n for n in range(now + 1, target.newest_opset + 1) if target.has_kernel(node.op_type, dtype, n))
        first = next(runs, now)
        if first > goal:
            goal, why = first, f"{target} runs {node.op_type} of {dtype.name.lower()} from opset {first} on"
    return goal, why


def _is_written_out(node: onnx_ir.Node, target: Target, types: TypeOf, opset: int) -> bool:
    """True for a quantizer to 8 bits that the target is known not to have with these codes."""
    if node.op_type != "QuantizeLinear" or "kernels" in target.unknown:
        return False
    codes = types.get(node.outputs[0], node.outputs[0].dtype)
    if codes is None or codes not in (DataType.UINT8, DataType.INT8):
        return False
    return not target.has_kernel(node.op_type, codes, opset)


# Steps.


def _same(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    return node


def _in_test_mode(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """BatchNormalization of one output does not train, whatever `is_test` says."""
    return node if len(node.outputs) == 1 else "BatchNormalization with more than one output is in training mode"


def _dropout(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """It draws random numbers unless `is_test` is set."""
    return node if node.attributes.get_int("is_test", 0) else "Dropout without is_test draws random numbers"


def _by_channels_alone(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """BatchNormalization whose statistics are of channels."""
    return node if node.attributes.get_int("spatial", 1) else "opset 9 only has statistics per channel"


def _sequence(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """Recurrent operators, whose first output was left out unless `output_sequence` is set."""
    unread = not node.outputs or not (node.outputs[0].uses() or node.outputs[0].is_graph_output())
    return node if node.attributes.get_int("output_sequence", 0) or unread else "its first output is left out"


def _broadcast(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """The second operand got dimensions of 1 behind its own, so that it began at an axis of the first one."""
    if not node.attributes.get_int("broadcast", 0) or "axis" not in node.attributes:
        return node
    x, y = node.inputs
    if x is None or y is None or x.shape is None or y.shape is None:
        return f"the ranks of the operands of {node.op_type} are unknown, one of which is broadcast along an axis"
    axis, ranks = node.attributes.get_int("axis", 0) or 0, (x.shape.rank(), y.shape.rank())
    behind = ranks[0] - (axis + ranks[0] if axis < 0 else axis) - ranks[1]
    if all(dim == 1 for dim in y.shape):
        return again(node, [x, y], axis=None, broadcast=None)
    if behind < 0:
        return f"the operand of {node.op_type} is broadcast along an axis that the other one lacks"
    return again(node, [x, _with_ones(build, y, behind)], axis=None, broadcast=None)


def _slope(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """A slope of one number, or one of channels, which are the second dimension."""
    x, slope = node.inputs
    unknown = "the slope of PRelu is neither one number nor one of each channel"
    if slope is None or slope.shape is None or not slope.shape.is_static():
        return unknown
    if int(np.prod(slope.shape.numpy(), dtype=np.int64)) == 1 or (x is not None and x.shape == slope.shape):
        return node
    if x is None or x.shape is None or slope.shape.rank() != 1 or x.shape.rank() < 2:
        return unknown
    return again(node, [x, _with_ones(build, slope, x.shape.rank() - 2)], consumed_inputs=None)


def _with_ones(build: Builder, value: onnx_ir.Value, count: int) -> onnx_ir.Value:
    """Return the value with dimensions of 1 behind its own."""
    if not count or value.shape is None:
        return value
    dims = build.constant(np.array([0] * value.shape.rank() + [1] * count, np.int64), "dims")  # 0 keeps a dimension
    reshaped = build.op("Reshape", value, dims)
    reshaped.shape = onnx_ir.Shape([*value.shape, *[1] * count])
    return reshaped


def _scales_as_input(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    scales = node.attributes.get_floats("scales", None)
    if scales is None:
        return "Upsample has no scales"
    factors = build.constant(np.array(scales, np.float32), "scales")
    return again(node, [node.inputs[0], factors], scales=None)


def _as_inputs(*names: str, least: int = 0) -> Step:
    """Return the step that makes inputs of attributes, each a list of int64 but `k`; the first `least` are required."""

    def step(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
        stated = [_int64s(node, name) for name in names]
        if None in stated[:least]:
            return f"{node.op_type} has no {names[stated.index(None)]}"
        inputs = [None if values is None else build.constant(np.array(values, np.int64), name)
                  for name, values in zip(names, stated, strict=True)]  # fmt: skip
        return again(node, [node.inputs[0], *inputs], **dict.fromkeys(names))

    return step


def _int64s(node: onnx_ir.Node, name: str) -> list[int] | None:
    attribute = node.attributes.get(name)
    if attribute is None:
        return None
    return [attribute.as_int()] if attribute.type == onnx_ir.AttributeType.INT else list(attribute.as_ints())


def _parts_counted(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """Without lengths, the parts are as many as the outputs."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return node
    return again(node, [node.inputs[0]], num_outputs=onnx_ir.AttrInt64("num_outputs", len(node.outputs)))


def _unshifted(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    mode = onnx_ir.AttrString("coordinate_transformation_mode", "output_half_pixel")
    return again(node, list(node.inputs), coordinate_transformation_mode=mode)


def _without_ratio(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """Between opset 7 and 12, Dropout draws nothing."""
    undrawn = again(node, list(node.inputs), ratio=None) if "ratio" in node.attributes else node
    return undrawn if len(node.outputs) == 1 else "Dropout has a mask as its second output"


def _named(op_type: str) -> Step:
    """Return the step that gives the operator its newer name."""
    return lambda _, node: again(node, list(node.inputs), op_type=op_type)


def _resized_from_corners(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """Resize of opset 10 divides positions by the scales, and rounds down if it enlarges, up if it does not."""
    tensor, mode = constant_tensor(node.inputs[1]), "floor"
    if node.attributes.get_string("mode", "nearest") == "nearest":
        if tensor is None:
            return "the scales of Resize are not constant"
        scales = tensor.numpy()
        if (scales < 1).any():
            mode = "ceil"
            if (scales > 1).any():
                return "Resize of opset 10 rounds up where it reduces, and down where it enlarges"
    return again(
        node,
        [node.inputs[0], None, node.inputs[1]],
        coordinate_transformation_mode=onnx_ir.AttrString("coordinate_transformation_mode", "asymmetric"),
        nearest_mode=onnx_ir.AttrString("nearest_mode", mode),
    )


def _bounds_as_inputs(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """Clip without a bound replaces infinities by the largest float, which only a float keeps."""
    x = node.inputs[0]
    if x is None or x.dtype is None:
        return "the type of Clip is unknown"
    most = {"min": -_MOST_FLOAT, "max": _MOST_FLOAT} if x.dtype == DataType.FLOAT else {}
    stated = {name: node.attributes.get_float(name, most.get(name)) for name in ("min", "max")}
    if x.dtype == DataType.DOUBLE and None in stated.values():
        return "Clip of double without a bound ends at the largest float before opset 11"
    with np.errstate(over="ignore"):
        bounds = [None if bound is None else build.constant(np.array(bound, x.dtype.numpy()), name)
                  for name, bound in stated.items()]  # fmt: skip
    return again(node, [x, *bounds], min=None, max=None)


def _pads_as_input(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    x, pads = node.inputs[0], node.attributes.get_ints("pads", None)
    if pads is None or x is None or x.dtype is None:
        return "Pad has no pads" if pads is None else "the type of Pad is unknown"
    value = node.attributes.get_float("value", 0.0)
    inputs = [x, build.constant(np.array(pads, np.int64), "pads"), None]
    if value:
        inputs[2] = build.constant(np.array(value, x.dtype.numpy()), "value")
    return again(node, inputs, pads=None, value=None)


def _deconvolution(_: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """Padding by itself has the larger half on the other side since opset 11."""
    by_itself = node.attributes.get_string("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    padded = by_itself or "output_shape" in node.attributes
    return "ConvTranspose of opset 11 pads on the other side" if padded else node


def _over_one_axis(build: Builder, node: onnx_ir.Node) -> onnx_ir.Node | str:
    """What is computed over all dimensions from an axis on is computed over one of the flattened operand."""
    x, axis = node.inputs[0], node.attributes.get_int("axis", 1) or 0
    if x is None or x.dtype is None:
        return f"the type of {node.op_type} is unknown"
    rank = None if x.shape is None else x.shape.rank()
    if axis == -1 or (rank is not None and axis == rank - 1):
        return again(node, [x], axis=onnx_ir.AttrInt64("axis", -1))
    flat = build.typed(node.op_type, [build.typed("Flatten", [x], x.dtype, axis=axis)], x.dtype, axis=-1)
    return again(node, [flat, build.typed("Shape", [x], DataType.INT64)], op_type="Reshape", axis=None)


_MOST_FLOAT = float(np.finfo(np.float32).max)
_BROADCAST = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_REDUCED_BY = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
_STEPS: Mapping[tuple[str, int], Step] = {
    **{(name, 8): _same for name in ("Max", "MaxPool", "Mean", "Min", "Sum")},
    **{(name, 9): _same for name in ("Cast", "Constant", "Flatten", "Gemm", "Greater", "Less", "MatMul", "PRelu")},
    **dict.fromkeys((("AveragePool", 7), ("Gemm", 7)), _same),
    **{(name, 7): _broadcast for name in _BROADCAST},
    **{(name, 7): _sequence for name in ("GRU", "LSTM", "RNN")},
    ("BatchNormalization", 7): _in_test_mode,
    ("BatchNormalization", 9): _by_channels_alone,
    ("Dropout", 7): _dropout,
    ("PRelu", 7): _slope,
    ("Upsample", 9): _scales_as_input,
    ("Dropout", 10): _without_ratio,
    ("Slice", 10): _as_inputs("starts", "ends", "axes", least=2),
    ("TopK", 10): _as_inputs("k", least=1),
    ("Upsample", 10): _named("Resize"),
    ("Clip", 11): _bounds_as_inputs,
    ("ConvTranspose", 11): _deconvolution,
    ("Pad", 11): _pads_as_input,
    ("Resize", 11): _resized_from_corners,
    ("Scatter", 11): _named("ScatterElements"),
    ("Dropout", 12): _without_ratio,
    **dict.fromkeys((("Hardmax", 13), ("LogSoftmax", 13), ("Softmax", 13)), _over_one_axis),
    **dict.fromkeys((("ReduceSum", 13), ("Squeeze", 13)), _as_inputs("axes")),
    ("Split", 13): _as_inputs("split"),
    ("Unsqueeze", 13): _as_inputs("axes", least=1),
    ("RoiAlign", 16): _unshifted,
    **{(f"Reduce{kind}", 18): _as_inputs("axes") for kind in _REDUCED_BY},
    ("Split", 18): _parts_counted,
}
"""What the versions of an operator ask of a node."""
