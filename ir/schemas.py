"""Facts about operators, read from the ONNX schemas that the installed onnx registers; nothing is written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import onnx.defs
import onnx_ir
from onnx_ir.schemas import OpSignature, Parameter

DEFAULT_DOMAINS = ("", "ai.onnx")


@cache
def op_signature(domain: str, op_type: str, opset: int) -> OpSignature | None:
    """The signature of the operator at that opset of its domain; None when no schema is registered for it."""
    domain = "" if domain in DEFAULT_DOMAINS else domain
    if not onnx.defs.has(op_type, opset, domain):
        return None
    return OpSignature.from_op_schema(onnx.defs.get_schema(op_type, opset, domain))


def opset_of(imports: Mapping[str, int], domain: str) -> int | None:
    """The version that `imports` gives for the domain; None where it does not import it."""
    if domain in DEFAULT_DOMAINS:
        return imports.get("", imports.get("ai.onnx"))
    return imports.get(domain)


def node_signature(node: onnx_ir.Node, imports: Mapping[str, int]) -> OpSignature | None:
    """The signature of the node's operator under the opset imports in force; None for an operator without schema."""
    opset = opset_of(imports, node.domain)
    return None if opset is None else op_signature(node.domain, node.op_type, opset)


def formal_inputs(signature: OpSignature, count: int) -> Iterator[Parameter]:
    """The formal parameter of each of `count` actual inputs; a variadic parameter stands for all that are left."""
    yield from _spread(list(signature.inputs), count)


def formal_outputs(signature: OpSignature, count: int) -> Iterator[Parameter]:
    """The formal parameter of each of `count` actual outputs."""
    yield from _spread(list(signature.outputs), count)


def shared_type_groups(node: onnx_ir.Node, signature: OpSignature) -> dict[str, list[int]]:
    """For each type variable that binds two or more of the node's inputs, the indexes of those inputs.

    A heterogeneous variadic parameter (Loop's state, say) binds nothing.
    """
    groups: dict[str, list[int]] = {}
    for index, formal in enumerate(formal_inputs(signature, len(node.inputs))):
        if node.inputs[index] is not None and formal.homogeneous and len(formal.type_constraint.allowed_types) > 1:
            groups.setdefault(formal.type_constraint.name, []).append(index)
    return {variable: indexes for variable, indexes in groups.items() if len(indexes) > 1}


def allowed_types(signature: OpSignature, variable: str) -> frozenset[onnx_ir.DataType]:
    """The element types of the tensors that the type variable may stand for."""
    for parameter in (*signature.inputs, *signature.outputs):
        if parameter.type_constraint.name == variable:
            types = parameter.type_constraint.allowed_types
            return frozenset(allowed.dtype for allowed in types if isinstance(allowed, onnx_ir.TensorType))
    return frozenset()


def _spread(formals: list[Parameter], count: int) -> Iterator[Parameter]:
    for index in range(count):
        if index < len(formals):
            yield formals[index]
        elif formals and formals[-1].variadic:
            yield formals[-1]
