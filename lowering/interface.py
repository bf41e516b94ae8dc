"""Graph inputs and outputs with types other than the values inside, with casts at the border of the model."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.codes import Rule
from castsmith.ir.ops.casts import cast_node, saturates_back
from castsmith.ir.records import Effect, Rewrite, Site, ValueItem
from castsmith.ir.text import value_item
from castsmith.numerics.errors import present
from castsmith.numerics.types import Kind, element_type, type_name
from castsmith.passes.core.options import Interface
from castsmith.passes.core.rewriting import insert_behind, name_node
from castsmith.passes.core.session import Session

WIDE: Interface = "wide"
"""Inputs and outputs are numbers of a type that all runtimes support."""

NARROW_INTERFACE = Rule(
    "narrow-interface",
    "Graph inputs of int64 or double become int32 or float, and so do outputs that are known to fit.",
    why="The option `narrow_interface` requests it.",
    example="- int64[N] ids\n+ int32[N] ids",
    advice="Feed and read the type that the record names.",
    safety=(Effect.INTERFACE,),
    silence="Leave out --narrow-interface.",
)
WIDEN_INTERFACE = Rule(
    "widen-interface",
    "A graph input or output of a narrow type becomes a wider number, cast inside the model.",
    why="The option `interface=wide` requests it, so that callers need no codes.",
    example="- float8e4m3fn[N] x\n+ float[N] x, and x_float8e4m3fn = Cast <to = float8e4m3fn> (x)",
    advice="Feed and read float, or a byte for an integer; inputs that the type cannot represent are rounded.",
    safety=(Effect.INTERFACE,),
    silence="Leave out --interface wide.",
)


def wide_type(dtype: DataType) -> DataType:
    """Return float for a floating-point type, uint8 or int8 for an integer type."""
    row = element_type(dtype)
    if row.kind is Kind.FLOATING:
        return DataType.FLOAT
    return DataType.INT8 if row.signed else DataType.UINT8


def widen_interface(session: Session, pass_name: str, dtypes: Collection[DataType]) -> list[Rewrite]:
    """Make the graph's inputs and outputs of these types wide.

    Each number of the type is one of the wider type; another number fed to an input is cast, and so rounded.
    """
    to, rule, reason = {dtype: wide_type(dtype) for dtype in dtypes}, WIDEN_INTERFACE.code, "requested to be wide"
    inputs = convert_inputs(session, pass_name, rule, to, reason)
    return [*inputs, *convert_outputs(session, pass_name, rule, to, reason)]


def convert_inputs(
    session: Session, pass_name: str, rule: str, to: Mapping[DataType, DataType], reason: str
) -> list[Rewrite]:
    """Change the type of the graph's inputs of these types, and cast them back inside."""
    graph, namer, rewrites = session.model.graph, session.namer(), list[Rewrite]()
    for value in graph.inputs:
        if not _is_tensor(value, to) or value.is_initializer():
            continue
        before, dtype = value_item(value), present(value.dtype, "the element type")
        value.type = onnx_ir.TensorType(to[dtype])
        node = cast_node(value, dtype, saturate=saturates_back(dtype))
        name_node(node, namer)
        # An input that is also an output has one name, so it stays the output, in its present type.
        for user, index in list(value.uses()):
            if user is not node:
                user.replace_input_with(index, node.outputs[0])
        insert_behind(value, node)
        rewrites.append(_record(session, pass_name, rule, reason, before, value))
    return rewrites


def convert_outputs(
    session: Session,
    pass_name: str,
    rule: str,
    to: Mapping[DataType, DataType],
    reason: str,
    only: Collection[onnx_ir.Value] | None = None,
) -> list[Rewrite]:
    """Cast the graph's outputs of these types, or only those named, to other types."""
    graph, namer, rewrites = session.model.graph, session.namer(), list[Rewrite]()
    for index, value in enumerate(list(graph.outputs)):
        if not _is_tensor(value, to) or (only is not None and value not in only):
            continue
        name, before, dtype = value.name, value_item(value), present(value.dtype, "the element type")
        value.name = namer.fresh(f"{name}_{type_name(dtype)}")
        node = cast_node(value, to[dtype])
        name_node(node, namer)
        node.outputs[0].name = name
        graph.append(node)
        graph.outputs[index] = node.outputs[0]
        rewrites.append(_record(session, pass_name, rule, reason, before, node.outputs[0]))
    return rewrites


def _is_tensor(value: onnx_ir.Value, dtypes: Container[DataType | None]) -> bool:
    return isinstance(value.type, onnx_ir.TensorType) and value.dtype in dtypes


def _record(
    session: Session, pass_name: str, rule: str, reason: str, before: ValueItem, value: onnx_ir.Value
) -> Rewrite:
    session.changed()
    site, text = Site(session.model.graph.name or "", value.name or ""), f"inputs and outputs were {reason}"
    return Rewrite(pass_name, rule, site, before, value_item(value), text, Effect.INTERFACE)
