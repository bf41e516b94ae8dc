"""The forms of operators that a target does not take: of QuantizeLinear and DequantizeLinear, and of several types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import idle_attributes
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import LINEAR
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import graph_of
from castsmith.lowering.check.scene import Scene
from castsmith.numerics.types import type_name
from castsmith.targets.kernels import broken_block_rule, operands_of_several_types
from castsmith.targets.statements import QUANTIZATION_RULES

_WAY_OUT = "quantize the model symmetrically, as this target requires"
_OTHER_BLOCKS = "choose supported blocks; optimize replaces float8 and types of up to 4 bits"
_WAYS_OUT = {
    "constant-scales": "quantize with scales from calibration, or write the arithmetic out",
    "whole-blocks": _OTHER_BLOCKS,
    "zero-points-of-blocks": _OTHER_BLOCKS,
}

TARGET_LACKS_FORM = FindingCode(
    "target-lacks-form",
    "The target does not support this form of the operator.",
    why=(
        "TensorRT quantizes symmetrically: zero points are constants of zeros, scales are positive, int4 is for "
        "weights alone, and blocks lie along one of the last two axes. TensorRT 11 requires one type of the operands "
        "of Pow, GridSample, RMSNormalization, Attention and QuantizeLinear, which the standard lets differ."
    ),
    example="y = QuantizeLinear (x, scale, zero_point {3})  # for tensorrt-11",
    advice=(
        "Quantize the model again, symmetrically: a different zero point changes the numbers, so optimize cannot do "
        "that. If the operands have several types, run optimize or convert: both cast them to one that holds all."
    ),
    outcomes=(Outcome.REFUSED, Outcome.UNCERTAIN),
    fix="manual",
    silence="If a plugin of the runtime supports the form.",
)


def form_findings(scene: Scene) -> Iterator[Diagnostic]:
    """Yield the nodes whose operator the target supports, but not with these types, attributes or parameters."""
    target = scene.target
    for node in scene.own:
        for reason, way_out, subject in _faults(node, scene):
            message = f"{target} {reason}"
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site_of(node), message, way_out, subject)


def _faults(node: onnx_ir.Node, scene: Scene) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with the form of the node, with the way out, and the rule that it breaks."""
    target, op_type = scene.target, node.op_type
    if op_type in target.one_type:
        operands = operands_of_several_types(node, scene.type_of, scene.imports[graph_of(node)], target)
        if operands:
            names = " and ".join(type_name(dtype) for dtype in dict.fromkeys(operands.values()))
            reason = f"requires one type of the operands of {op_type}, which are {names}"
            yield reason, f"{scene.lowering} casts them to a type that holds both, if there is one", "one-type"
    if target.refuses_idle_attributes:
        like = scene.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        for name in idle_attributes(node, like):
            yield (
                f"does not load this {op_type}: {name} has no effect on its type",
                f"{scene.lowering} removes it",
                name,
            )
    if op_type in LINEAR and node.domain in DEFAULT_DOMAINS:
        rules = (rule for rule in target.quantization if rule in _BROKEN and _BROKEN[rule](node, scene))
        broken = next(rules, None) or broken_block_rule(node, target)
        if broken is not None:
            yield f"does not take this {op_type}: {QUANTIZATION_RULES[broken]}", _WAYS_OUT.get(broken, _WAY_OUT), broken


def _constant(node: onnx_ir.Node, index: int) -> NDArray[Any] | None:
    """Return the elements of an input; None if it is computed or left out."""
    tensor = constant_tensor(node.inputs[index]) if index < len(node.inputs) else None
    return None if tensor is None else tensor.numpy()


def _has_zero_point(node: onnx_ir.Node, _: Scene) -> bool:
    zero, points = node.inputs[2] if len(node.inputs) > 2 else None, _constant(node, 2)
    return zero is not None and (points is None or bool(np.any(points.astype(np.float64) != 0)))


def _has_no_positive_scale(node: onnx_ir.Node, _: Scene) -> bool:
    """True for a constant scale that is not positive; one that is computed cannot be checked."""
    scale = _constant(node, 1)
    return scale is not None and not np.all(scale.astype(np.float64) > 0)


def _has_int4_of_inputs(node: onnx_ir.Node, scene: Scene) -> bool:
    """True if int4 is made from or kept in a value that can change from run to run, quantized by the graph or not."""
    value = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    source = node.inputs[0]
    producer = None if source is None else source.producer()
    if producer is not None and producer.op_type == "QuantizeLinear" and producer.domain in DEFAULT_DOMAINS:
        source = producer.inputs[0]
    return scene.type_of(value) == DataType.INT4 and constant_tensor(source) is None


def _has_other_blocks(node: onnx_ir.Node, scene: Scene) -> bool:
    rank, axis = scene.rank(node, 0), node.attributes.get_int("axis", 1)
    if rank is None or not node.attributes.get_int("block_size", 0):
        return False
    return (axis if axis >= 0 else axis + rank) < rank - 2


_BROKEN: dict[str, Callable[[onnx_ir.Node, Scene], bool]] = {
    "constant-zero-points-of-zero": _has_zero_point,
    "positive-scales": _has_no_positive_scale,
    "int4-of-constants": _has_int4_of_inputs,
    "blocks-of-the-last-two-axes": _has_other_blocks,
    "constant-scales": lambda node, _: _constant(node, 1) is None,
}
