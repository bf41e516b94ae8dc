"""Conversion of a value that may be a sequence of tensors, which is converted element by element by SequenceMap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import onnx_ir
from onnx_ir import AttributeType, DataType, SequenceType, TensorType

from castsmith.ir.errors import ModelError
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, actual_outputs, op_key, opset_of
from castsmith.ir.ops.table import CASTS
from castsmith.ir.ops.value_types import named_type
from castsmith.ir.text import site_of
from castsmith.numerics.cast.settings import FIRST_OPSET
from castsmith.numerics.errors import PromotionError, present
from castsmith.numerics.exactness import Collapse, chain_collapses
from castsmith.numerics.types import Kind, Specials, element_type, type_name

# Cast and CastLike nodes.


@dataclass(frozen=True, slots=True)
class CastNode:
    """Meaning of a Cast or CastLike; `to` is None if a CastLike has a second operand of unknown type."""

    to: DataType | None
    saturate: bool
    round_mode: str

    @property
    def target(self) -> DataType:
        """The type `to`, where it is known. Raises InternalError if it is None."""
        return present(self.to, "the type of the cast")


def read_cast(node: onnx_ir.Node, like: DataType | None = None) -> CastNode | None:
    """Return the meaning of a Cast or CastLike node; None for other nodes, or if a function's parameter decides.

    Args:
        like: The element type of a CastLike's second operand.
    """
    if node.op_type not in CASTS or node.domain not in DEFAULT_DOMAINS:
        return None
    attributes = node.attributes
    for attribute in attributes.data.values():
        if attribute.is_ref():
            return None
    to = like if node.op_type == "CastLike" else cast_target(node)
    if node.op_type == "Cast" and len(attributes.data) == 1:
        return _plain_cast(to)
    saturate, round_mode = attributes.get_int("saturate", 1), attributes.get_string("round_mode", "up")
    return CastNode(to, bool(saturate), round_mode or "up")


def idle_attributes(node: onnx_ir.Node, like: DataType | None = None) -> list[str]:
    """Return the attributes of a Cast or CastLike that are not at their defaults and have no effect on its type.

    Saturation is of float8 alone, and rounding by a mode of float8e8m0. like: as in `read_cast`.
    """
    meaning = read_cast(node, like)
    if meaning is None or meaning.to is None:
        return []
    row = element_type(meaning.to)
    names = [] if meaning.saturate or (row.kind is Kind.FLOATING and row.bits == 8) else ["saturate"]
    return names if meaning.round_mode == "up" or row.specials is Specials.E8M0 else [*names, "round_mode"]


@lru_cache(maxsize=64)
def _plain_cast(to: DataType | None) -> CastNode:
    """Return the meaning of a Cast with no attribute but `to`."""
    return CastNode(to, saturate=True, round_mode="up")


def cast_target(node: onnx_ir.Node) -> DataType:
    """Return the `to` of a Cast: a number, or in opset 1 the name of the type. Raises ModelError if invalid."""
    attribute = node.attributes.get("to")
    dtype = None if attribute is None else named_type(attribute)
    if dtype is None:
        problem = "missing" if attribute is None else f"{attribute.value!r}, which is not an ONNX element type"
        raise ModelError(f"{site_of(node)}: the attribute to of {node.op_type} is {problem}.")
    return dtype


def cast_node(value: onnx_ir.Value, to: DataType, *, saturate: bool = True, round_mode: str = "up") -> onnx_ir.Node:
    """Return a Cast of `value`, its output typed and named after both; not yet owned by a graph."""
    attributes = [onnx_ir.Attr("to", AttributeType.INT, int(to))]
    if not saturate:
        attributes.append(onnx_ir.Attr("saturate", AttributeType.INT, 0))
    if round_mode != "up":
        attributes.append(onnx_ir.Attr("round_mode", AttributeType.STRING, round_mode))
    kind = type_name(to)
    output = onnx_ir.Value(name=f"{value.name}_{kind}", type=TensorType(to), shape=value.shape)
    return onnx_ir.Node("", "Cast", [value], attributes, outputs=[output], name=f"castsmith_{value.name}_to_{kind}")


def saturates_back(dtype: DataType) -> bool:
    """Return the saturation of a cast to a type that the elements come from: infinity of float8e5m2 stays infinity."""
    return dtype.bitwidth > 8 or not element_type(dtype).has_infinity


_NUMBERED_SINCE = 6


def spell_casts(model: onnx_ir.Model) -> None:
    """Name the types of Cast nodes by text where the opset has Cast-1, which does not take their numbers."""
    for scope in (model.graph, *model.functions.values()):
        if (opset_of(scope.opset_imports, "") or _NUMBERED_SINCE) >= _NUMBERED_SINCE:
            continue
        for node in scope.all_nodes():
            to = node.attributes.get("to") if node.op_type == "Cast" and node.domain in DEFAULT_DOMAINS else None
            if to is not None and to.type == onnx_ir.AttributeType.INT and not to.is_ref():
                node.attributes.add(onnx_ir.AttrString("to", cast_target(node).name))


def chain_verdict(
    source: DataType, first: CastNode, last: CastNode, opset: int, *, undefined_free: bool = False
) -> Collapse:
    """Decide whether two casts in a row, of a value of type `source`, equal the last one (see `chain_collapses`)."""
    return chain_collapses(
        source,
        first.target,
        last.target,
        first_saturate=first.saturate,
        second_saturate=last.saturate,
        first_round_mode=first.round_mode,
        second_round_mode=last.round_mode,
        opset=opset,
        undefined_free=undefined_free,
    )


def not_cast(types: Iterable[DataType], opset: int) -> str | None:
    """Return the reason why Cast does not support these types, with the opset that would allow it, or None."""
    first = {dtype: FIRST_OPSET.get(dtype) for dtype in types}
    lacking = [dtype for dtype, since in first.items() if since is None or since > opset]
    if not lacking:
        return None
    names = " and ".join(type_name(dtype) for dtype in lacking)
    needed = [since for dtype in lacking if (since := first[dtype]) is not None]
    way_out = way_out_of(max(needed) if len(needed) == len(lacking) else None)
    return f"Cast of opset {opset} does not support {names} ({way_out})."


def way_out_of(opset: int | None) -> str:
    return f"opset {opset} allows it" if opset else "no opset does"


_SEQUENCE_MAP_SINCE = 17


def conversion(value: onnx_ir.Value, to: DataType, imports: Mapping[str, int]) -> onnx_ir.Node:
    """Return the node that converts the value to elements of type `to`; not yet owned by a graph.

    Raises:
        PromotionError: The value is a sequence before opset 17, or Cast does not support the types at the opset.
    """
    types = [dtype for dtype in (to, value.dtype) if dtype is not None and dtype != DataType.UNDEFINED]
    why = not_cast(types, opset_of(imports, "") or 0)
    if why is not None:
        raise PromotionError(f"{value.name} must be cast to {type_name(to)}: {why}", rule="operator")
    if not _is_sequence(value, imports):
        return cast_node(value, to)
    if (opset_of(imports, "") or 0) < _SEQUENCE_MAP_SINCE:
        raise PromotionError(
            f"the sequence {value.name} must be cast to {type_name(to)}, which needs SequenceMap: raise the opset to"
            f" {_SEQUENCE_MAP_SINCE} or newer.",
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
