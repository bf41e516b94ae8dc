"""Equal nodes before casts, which are merged so that the casts of their results are casts of one value.

    a = Abs (x)    b = Abs (x)
    u = Cast <to = float16> (a)    v = Cast <to = float16> (b)
becomes
    a = Abs (x)
    u = Cast <to = float16> (a)    v = Cast <to = float16> (a)

Exact: the operator, its attributes and the bits of its constants are the same, and the standard gives one result for
them. Kept: what draws random numbers, what holds graphs, operators without a schema, and quantization, of which a
runtime fuses each with the operator beside it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache

import onnx.defs
import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.constants import constant_tensor, use_count
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import CASTS, LINEAR, traits_of
from castsmith.ir.walks import GRAPH_KINDS, TENSOR_KINDS, graph_of, tensor_of
from castsmith.passes.core.rewriting import NodeRule, Replacement
from castsmith.passes.simplify.earlier import hand_over
from castsmith.passes.simplify.facts import Facts

_LARGEST = 1024
"""The bytes up to which constants are compared by their content; larger ones are equal only to themselves."""


def nodes_before(casts: Iterable[onnx_ir.Node]) -> set[onnx_ir.Node]:
    """Return the nodes from whose results one of the casts is computed; none for fewer than two casts."""
    standard = [node for node in casts if node.domain in DEFAULT_DOMAINS and node.inputs]
    nodes, waiting = set[onnx_ir.Node](), [node.inputs[0] for node in standard] if len(standard) > 1 else []
    while waiting:
        value = waiting.pop()
        node = None if value is None else value.producer()
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting += node.inputs
    return nodes


def merge(node: onnx_ir.Node, facts: Facts) -> Replacement | None:
    """Use the results of an earlier equal node; remember this one if there is none."""
    if node not in facts.before_casts or not _may_have_twin(node):
        return None
    key = _key(node, facts.imports_of(node))
    if key is None:
        return None
    twin = facts.earlier.find(node.graph, key)
    if twin is None or not hand_over(node, twin):
        if twin is None:
            facts.earlier.note(graph_of(node), key, tuple(node.outputs))
        return None
    reason = f"{twin[0].name} already is the same value"
    return Replacement(MERGE_EQUAL_NODES.code, reason, outputs=tuple(twin))


def _may_have_twin(node: onnx_ir.Node) -> bool:
    """True if the node reads something else than constants, and another node reads that too."""
    operands = [value for value in node.inputs if value is not None and constant_tensor(value) is None]
    return bool(operands) and all(use_count(value) > 1 for value in operands)


def _key(node: onnx_ir.Node, imports: Mapping[str, int]) -> Hashable:
    """Return what determines the results of the node; None if nothing known does."""
    domain = "" if node.domain in DEFAULT_DOMAINS else node.domain
    opset, row = opset_of(imports, node.domain), traits_of(domain, node.op_type)
    if opset is None or not _is_defined(node.op_type, opset, domain) or node.overload:
        return None
    draws = row.random or (node.op_type == "Dropout" and not row.holds(node))
    if draws or node.op_type in CASTS | LINEAR or any(not output.name for output in node.outputs):
        return None
    attributes = [(name, _attribute(attribute)) for name, attribute in sorted(node.attributes.items())]
    if any(content is None for _, content in attributes):
        return None
    return domain, node.op_type, tuple(map(_operand, node.inputs)), tuple(attributes), len(node.outputs)


@lru_cache(maxsize=1024)
def _is_defined(op_type: str, opset: int, domain: str) -> bool:
    return onnx.defs.has(op_type, opset, domain)


def _operand(value: onnx_ir.Value | None) -> Hashable:
    tensor = constant_tensor(value)
    return value if tensor is None or tensor.nbytes > _LARGEST else _content(tensor)


def _content(tensor: onnx_ir.TensorProtocol) -> Hashable:
    text = tensor.dtype is onnx_ir.DataType.STRING
    bits = tuple(tensor.numpy().ravel().tolist()) if text else tensor.tobytes()
    return tensor.dtype, tuple(tensor.shape.numpy()), bits


def _attribute(attribute: onnx_ir.Attr) -> Hashable:
    """Return the bits of an attribute; None if it holds graphs, several tensors or a large one."""
    if attribute.is_ref() or attribute.type not in (*GRAPH_KINDS, *TENSOR_KINDS):
        return onnx_ir.to_proto(attribute).SerializeToString()
    if attribute.type is not AttributeType.TENSOR or tensor_of(attribute).nbytes > _LARGEST:
        return None
    return _content(tensor_of(attribute))


MERGE_EQUAL_NODES = NodeRule(
    "merge-equal-nodes",
    "Equal nodes before casts are merged, so that their casts can be merged too.",
    why="Operator, attributes and operands are equal. Never merged: random numbers, training, quantization.",
    example="- b = Abs (x); d = Cast <to = float16> (b)  where  a = Abs (x); c = Cast <to = float16> (a)",
    operators=None,
    apply=merge,
    certified=True,
)
