"""Graph inputs and outputs of narrow types as wider numbers, with casts just inside of the model's border."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.casts import cast_node
from castsmith.ir.kept_types import outdated
from castsmith.ir.naming import Namer
from castsmith.ir.records import Effect, Rewrite, Site
from castsmith.ir.text import type_text
from castsmith.lowering.errors import OptionError
from castsmith.numerics.types import Kind, element_type, type_name

STORED, WIDE = "stored", "wide"
"""What inputs and outputs are: as the values inside are kept, or numbers of a type that all runtimes have."""


def require_interface(text: str) -> None:
    """Raises OptionError for anything but the two."""
    if text not in (STORED, WIDE):
        raise OptionError(f"{text!r} is no interface; inputs and outputs are {STORED} or {WIDE}.")


def wide_type(dtype: DataType) -> DataType:
    """float for a type of floating point, a byte for an integer."""
    row = element_type(dtype)
    if row.kind is Kind.FLOATING:
        return DataType.FLOAT
    return DataType.INT8 if row.signed else DataType.UINT8


def widen_interface(model: onnx_ir.Model, pass_name: str, dtypes: Collection[DataType]) -> list[Rewrite]:
    """Make the graph's inputs and outputs of these types wide. Each number of the type is one of the wider type; an
    input that is fed another number is cast, so it rounds."""
    if not dtypes:
        return []
    graph, namer, made = model.graph, Namer(model), list[Rewrite]()
    for value in [value for value in graph.inputs if _is_tensor(value, dtypes) and not value.is_initializer()]:
        made.append(_widen_input(graph, value, pass_name, namer))
    for index, value in enumerate(list(graph.outputs)):
        if _is_tensor(value, dtypes):
            made.append(_widen_output(graph, index, value, pass_name, namer))
    if made:
        outdated(model)
    return made


def _is_tensor(value: onnx_ir.Value, dtypes: Collection[DataType]) -> bool:
    return isinstance(value.type, onnx_ir.TensorType) and value.dtype in dtypes


def _widen_input(graph: onnx_ir.Graph, value: onnx_ir.Value, pass_name: str, namer: Namer) -> Rewrite:
    before, dtype = f"{type_text(value)} {value.name}", value.dtype
    assert dtype is not None
    value.type = onnx_ir.TensorType(wide_type(dtype))
    # Infinity is a value of float8e5m2, which a saturating cast would not keep.
    node = cast_node(value, dtype, saturate=dtype.bitwidth > 8 or not element_type(dtype).has_infinity)
    _name(node, namer)
    value.replace_all_uses_with(node.outputs[0], replace_graph_outputs=True)
    node.replace_input_with(0, value)
    first = next(iter(graph), None)
    graph.append(node) if first is None else graph.insert_before(first, node)
    return _record(pass_name, graph, value, before, dtype)


def _widen_output(graph: onnx_ir.Graph, index: int, value: onnx_ir.Value, pass_name: str, namer: Namer) -> Rewrite:
    name, before, dtype = value.name, f"{type_text(value)} {value.name}", value.dtype
    assert dtype is not None
    value.name = namer.fresh(f"{name}_{type_name(dtype)}")
    node = cast_node(value, wide_type(dtype))
    _name(node, namer)
    node.outputs[0].name = name
    graph.append(node)
    graph.outputs[index] = node.outputs[0]
    return _record(pass_name, graph, node.outputs[0], before, dtype)


def _name(node: onnx_ir.Node, namer: Namer) -> None:
    node.name = namer.fresh(node.name or "castsmith_Cast")
    node.outputs[0].name = namer.fresh(node.outputs[0].name or "castsmith_value")


def _record(pass_name: str, graph: onnx_ir.Graph, value: onnx_ir.Value, before: str, dtype: DataType) -> Rewrite:
    site, after = Site(graph.name or "", value.name or ""), f"{type_text(value)} {value.name}"
    reason = f"the interface was asked to be wide; every {type_name(dtype)} is a {type_name(wide_type(dtype))}"
    return Rewrite(pass_name, "widen-interface", site, before, after, reason, Effect.INTERFACE)
