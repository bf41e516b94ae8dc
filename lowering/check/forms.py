"""The forms of operators that a target does not take: of QuantizeLinear and DequantizeLinear, and of several types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.disagreement import rank_of
from castsmith.analysis.inference.walk import Inference
from castsmith.ir.codes import FindingCode, Outcome
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.casts import idle_attributes
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.records import Diagnostic, Severity
from castsmith.ir.text import site_of
from castsmith.ir.walks import all_nodes, imports_by_scope
from castsmith.numerics.types import type_name
from castsmith.targets.kernels import broken_block_rule, operands_of_several_types
from castsmith.targets.statements import QUANTIZATION_RULES
from castsmith.targets.target import Target

_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
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


def form_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the nodes whose operator the target supports, but not in this form."""
    yield from _operand_findings(model, inference, target)
    yield from _attribute_findings(model, inference, target)
    yield from _quantization_findings(model, inference, target)
    yield from _convolution_findings(model, inference, target)
    yield from _crash_findings(model, inference, target)


def _attribute_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the casts with attributes that have no effect, for a target that does not load them."""
    for node in all_nodes(model) if target.refuses_idle_attributes else ():
        like = inference.type_of(node.inputs[1]) if len(node.inputs) == 2 else None
        for name in idle_attributes(node, like):
            message = f"{target} does not load this {node.op_type}: {name} has no effect on its type"
            way_out = f"`optimize(target={str(target)!r})` removes it"
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site_of(node), message, way_out, name)


def _operand_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the nodes whose operands of elements have several types, for a target that requires one."""
    if not target.one_type:
        return
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        if node.graph is None or node.op_identifier() in model.functions:
            continue
        operands = operands_of_several_types(node, inference.type_of, imports[node.graph], target)
        if operands:
            names = " and ".join(type_name(dtype) for dtype in dict.fromkeys(operands.values()))
            message = f"{target} requires one type of the operands of {node.op_type}, which are {names}"
            way_out = f"`optimize(target={str(target)!r})` casts them to a type that holds both, if there is one"
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site_of(node), message, way_out, "one-type")


def _convolution_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the convolutions of float16 in groups, for a target that may have no kernel for them."""
    for node in all_nodes(model) if "grouped-float16-conv" in target.hazards else ():
        grouped = node.op_type in ("Conv", "ConvTranspose") and node.attributes.get_int("group", 1) != 1
        if grouped and node.domain in DEFAULT_DOMAINS and inference.type_of(node.inputs[0]) == DataType.FLOAT16:
            message = f"{target} may have no kernel for this {node.op_type} of float16 in groups"
            way_out = f"keep it in float: `convert(keep=[{node.name!r}])`"
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.WARNING, site_of(node), message, way_out, "grouped")


def _crash_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the products of transposed batches at which the target ends the process.

    ONNX Runtime 1.32 fuses Transpose, Cast and MatMul without asking whether it knows the ranks; the Cast may be one
    that it inserts, before a MatMul of float16. It infers some ranks that are not declared: without them this may be.
    """
    for node in all_nodes(model) if target.breaks_cast_after_transpose else ():
        if node.op_type != "MatMul" or node.domain not in DEFAULT_DOMAINS:
            continue
        ranks = [_rank(value, inference) for value in node.inputs]
        dtype = inference.type_of(node.inputs[0])
        if (ranks[0] is not None and ranks[0] == ranks[1]) or dtype not in _FUSED:
            continue
        sources = [_behind_cast(value) for value in node.inputs]
        sources += node.inputs if dtype == DataType.FLOAT16 else ()
        if not any(map(_moves_batch, sources)):
            continue
        certain = dtype != DataType.FLOAT16 and None not in ranks
        severity = Severity.ERROR if certain else Severity.WARNING
        message = (
            f"{target} {'ends' if certain else 'may end'} the process when it loads this MatMul of a transposed batch"
            f" {'of another rank' if None not in ranks else 'whose rank is not declared'}"
        )
        way_out = "put the Cast before the Transpose, or declare operands of one rank"
        yield Diagnostic(TARGET_LACKS_FORM.code, severity, site_of(node), message, way_out, "transposed-batch")


_FUSED = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16)


def _rank(value: onnx_ir.Value | None, inference: Inference) -> int | None:
    """Return the rank that is declared, or that of the value which Casts and Transposes are of."""
    while value is not None:
        rank, node = rank_of(value, inference.ranks), value.producer()
        if rank is not None:
            return rank
        value = node.inputs[0] if node is not None and node.op_type in ("Cast", "Transpose") else None
    return None


def _behind_cast(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """Return what a Cast makes the value of; None for another value, and for a result of the model."""
    node = None if value is None or value.is_graph_output() else value.producer()
    return node.inputs[0] if node is not None and node.op_type == "Cast" and node.domain in DEFAULT_DOMAINS else None


def _moves_batch(value: onnx_ir.Value | None) -> bool:
    """True if a Transpose moves the first axis behind the others, or before the last."""
    node = None if value is None else value.producer()
    perm = node.attributes.get("perm") if node is not None and node.op_type == "Transpose" else None
    order = [] if perm is None or perm.is_ref() else list(perm.as_ints())
    rest = list(range(1, len(order)))
    return len(order) > 2 and order in ([*rest[:-1], 0, rest[-1]], [*rest, 0])


def _quantization_findings(model: onnx_ir.Model, inference: Inference, target: Target) -> Iterator[Diagnostic]:
    """Yield the nodes that break a rule of the target, each with the first rule that it breaks."""
    if not target.quantization:
        return
    for node in all_nodes(model):
        if node.op_type not in (_QUANTIZE, _DEQUANTIZE) or node.domain not in DEFAULT_DOMAINS:
            continue
        rules = (rule for rule in target.quantization if rule in _BROKEN and _BROKEN[rule](node, inference))
        broken = next(rules, None) or broken_block_rule(node, target)
        if broken is not None:
            message = f"{target} does not take this {node.op_type}: {QUANTIZATION_RULES[broken]}"
            way_out = _WAYS_OUT.get(broken, _WAY_OUT)
            yield Diagnostic(TARGET_LACKS_FORM.code, Severity.ERROR, site_of(node), message, way_out, broken)


def _input(node: onnx_ir.Node, index: int) -> onnx_ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _has_zero_point(node: onnx_ir.Node, _: Inference) -> bool:
    zero = _input(node, 2)
    tensor = constant_tensor(zero)
    return zero is not None and (tensor is None or bool(np.any(tensor.numpy().astype(np.float64) != 0)))


def _has_no_positive_scale(node: onnx_ir.Node, _: Inference) -> bool:
    """True for a constant scale that is not positive; one that is computed cannot be checked."""
    tensor = constant_tensor(_input(node, 1))
    return tensor is not None and not np.all(tensor.numpy().astype(np.float64) > 0)


def _has_computed_scale(node: onnx_ir.Node, _: Inference) -> bool:
    return constant_tensor(_input(node, 1)) is None


def _has_int4_of_inputs(node: onnx_ir.Node, inference: Inference) -> bool:
    """True if int4 is made from or kept in a value that can change from run to run."""
    value = node.inputs[0] if node.op_type == _DEQUANTIZE else node.outputs[0]
    return inference.type_of(value) == DataType.INT4 and not _is_constant(node.inputs[0])


def _is_constant(value: onnx_ir.Value | None) -> bool:
    """True for a constant, quantized by the graph or not."""
    producer = None if value is None else value.producer()
    if producer is not None and producer.op_type == _QUANTIZE and producer.domain in DEFAULT_DOMAINS:
        value = producer.inputs[0]
    return constant_tensor(value) is not None


def _has_other_blocks(node: onnx_ir.Node, _: Inference) -> bool:
    rank = None if node.inputs[0] is None or node.inputs[0].shape is None else len(node.inputs[0].shape)
    axis = node.attributes.get_int("axis", 1)
    if not node.attributes.get_int("block_size", 0) or rank is None:
        return False
    return (axis if axis >= 0 else axis + rank) < rank - 2


_BROKEN: dict[str, Callable[[onnx_ir.Node, Inference], bool]] = {
    "constant-zero-points-of-zero": _has_zero_point,
    "positive-scales": _has_no_positive_scale,
    "int4-of-constants": _has_int4_of_inputs,
    "blocks-of-the-last-two-axes": _has_other_blocks,
    "constant-scales": _has_computed_scale,
}
