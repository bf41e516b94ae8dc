"""Queries of rewrites about a target's kernels: whether a node may be given another type and still be loaded.

Without a target, or if the kernels of the target are unknown, those of ONNX Runtime decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_inputs, op_formals, op_key, opset_of
from castsmith.ir.ops.table import LINEAR, traits_of
from castsmith.numerics.types import CODED_TYPES
from castsmith.targets.target import Target, load_target

DEFAULT_TARGET = "onnxruntime-cpu"
"""The default target, whose kernels decide."""


def varied_input(op_type: str) -> int:
    """Return the first input whose type the rows of a target's `kernels` describe."""
    return (traits_of("", op_type).elements or (0,))[0]


def takes_operator(op_type: str, dtype: DataType, opset: int, target: Target | None) -> bool:
    """True if the target is known to have a kernel of the standard's operator for the type."""
    described = target or _default()
    if dtype in described.lacks:
        return False
    if "kernels" in described.unknown and dtype not in described.kernels:
        return dtype not in CODED_TYPES and takes_operator(op_type, dtype, opset, None)
    unprobed = described.probed and op_type not in described.probed
    return not unprobed and described.has_kernel(op_type, dtype, opset)


def takes_identity(dtype: DataType, imports: Mapping[str, int], target: Target | None) -> bool:
    """True if a rewrite may add an Identity of the type: the schema allows it, and the target has a kernel.

    A type that the target lacks entirely is replaced later, so that only the schema counts for it.
    """
    opset = opset_of(imports, "") or 0
    formals = op_formals("", "Identity", opset)
    if formals is None or dtype not in formals[0][0].allowed:
        return False
    return dtype in (target or _default()).lacks or takes_operator("Identity", dtype, opset, target)


def takes_type(
    node: onnx_ir.Node, index: int, dtype: DataType, imports: Mapping[str, int], target: Target | None
) -> bool:
    """True if input `index` of the node may be of the type, by its schema and by the kernels of the target.

    Inputs with their own type variable, such as indices, go by the schema and by the types that the target lacks.
    """
    key, opset = op_key(node, imports), opset_of(imports, node.domain)
    if key is None or opset is None or node.domain not in DEFAULT_DOMAINS:
        return False
    formals = actual_inputs(key, max(len(node.inputs), varied_input(node.op_type) + 1))
    formal, varied = formals[index] if index < len(formals) else None, formals[varied_input(node.op_type)]
    if formal is None or varied is None or dtype not in formal.allowed:
        return False
    if formal.variable != varied.variable:
        return dtype not in (target or _default()).lacks
    return takes_operator(node.op_type, dtype, opset, target)


def operands_of_several_types(
    node: onnx_ir.Node,
    type_of: Callable[[onnx_ir.Value | None], DataType | None],
    imports: Mapping[str, int],
    target: Target,
) -> dict[int, DataType]:
    """Return the types of the operands of elements, by index, if the target requires one and they have several.

    Operands of elements are those that the standard allows to be float; a mask of bool is not one.
    """
    key = op_key(node, imports) if node.op_type in target.one_type and node.domain in DEFAULT_DOMAINS else None
    if key is None:
        return {}
    dtypes: dict[int, DataType] = {}
    for index, (value, formal) in enumerate(zip(node.inputs, actual_inputs(key, len(node.inputs)), strict=True)):
        dtype = type_of(value)
        if formal is not None and DataType.FLOAT in formal.allowed and dtype not in (None, DataType.BOOL):
            dtypes[index] = dtype
    return dtypes if len(set(dtypes.values())) > 1 else {}


def broken_block_rule(node: onnx_ir.Node, target: Target) -> str | None:
    """Return the rule of the target's `quantization` on blocks that a QuantizeLinear or DequantizeLinear breaks."""
    block = node.attributes.get("block_size")
    if block is None or block.is_ref() or block.as_int() < 1 or node.op_type not in LINEAR:
        return None
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    if node.op_type == "QuantizeLinear" and "zero-points-of-blocks" in target.quantization:
        has_zero_point = len(node.inputs) > 2 and node.inputs[2] is not None
        if not has_zero_point or shape is None or not shape.is_static():
            return "zero-points-of-blocks"
    if "whole-blocks" not in target.quantization or shape is None:
        return None
    axis = node.attributes.get_int("axis", 1)
    length = shape[axis] if -len(shape) <= axis < len(shape) else None
    broken = len(shape) < 2 or (isinstance(length, int) and length % block.as_int())
    return "whole-blocks" if broken else None


@cache
def _default() -> Target:
    return load_target(DEFAULT_TARGET)
