"""Converting a value that may be a sequence of tensors: a sequence is converted element by element, by SequenceMap."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir
from onnx_ir import DataType, SequenceType, TensorType

from castsmith.ir.casts import cast_node
from castsmith.ir.legality import not_cast
from castsmith.ir.schemas import actual_outputs, op_key, opset_of
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.types import type_name

_SEQUENCE_MAP_SINCE = 17


def conversion(value: onnx_ir.Value, to: DataType, imports: Mapping[str, int]) -> onnx_ir.Node:
    """The node that converts the value to elements of type `to`; owned by no graph yet.

    Raises PromotionError for a sequence before opset 17, and for types that Cast does not take at the opset.
    """
    types = [dtype for dtype in (to, value.dtype) if dtype is not None and dtype != DataType.UNDEFINED]
    why = not_cast(types, opset_of(imports, "") or 0)
    if why is not None:
        raise PromotionError(f"{value.name} has to become {type_name(to)}: {why}", rule="operator")
    if not _is_sequence(value, imports):
        return cast_node(value, to)
    if (opset_of(imports, "") or 0) < _SEQUENCE_MAP_SINCE:
        raise PromotionError(
            f"the sequence {value.name} would have to become one of {type_name(to)}, for which opset"
            f" {_SEQUENCE_MAP_SINCE} has SequenceMap and this model's has nothing.",
            rule="sequence",
        )
    element = onnx_ir.Value(name=f"{value.name}_element")
    cast = cast_node(element, to)
    body = onnx_ir.Graph([element], cast.outputs, nodes=[cast], name=f"{value.name}_to_{type_name(to)}")
    if value.dtype is not None:
        element.type = TensorType(value.dtype)
    node = onnx_ir.node("SequenceMap", [value], {"body": body}, name=f"castsmith_{value.name}_to_{type_name(to)}")
    node.outputs[0].name, node.outputs[0].type = f"{value.name}_{type_name(to)}", SequenceType(TensorType(to))
    return node


def _is_sequence(value: onnx_ir.Value, imports: Mapping[str, int]) -> bool:
    if value.type is not None:
        return isinstance(value.type, SequenceType)
    node = value.producer()
    key = op_key(node, imports) if node is not None else None
    if node is None or key is None:
        return False
    formal = actual_outputs(key, len(node.outputs))[node.outputs.index(value)]
    return formal is not None and formal.sequence
