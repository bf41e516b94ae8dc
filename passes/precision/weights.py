"""Weights in 16 bits alone: each large one is rounded once and cast back by one Cast, so that nodes compute as before.

    float[64,64] w = {...}
    y = MatMul (x, w)
becomes
    float16[64,64] w = {...}
    w_float = Cast <to = float> (w)
    y = MatMul (x, w_float)

The Cast is marked in its metadata, so that `fold-constants` leaves it: folded, the file would have its former size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor, new_constant
from castsmith.ir.ops.casts import cast_node
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.ops.table import traits_of
from castsmith.ir.records import Effect, Records, Refusal, Rewrite
from castsmith.ir.text import constant_item, node_item
from castsmith.ir.walks import all_nodes, graph_of, graphs_with_initializers, holders
from castsmith.numerics.errors import present
from castsmith.passes.core.rewrite_pass import RULE, STORE_WEIGHT
from castsmith.passes.core.rewriting import name_node
from castsmith.passes.core.session import Session
from castsmith.passes.precision.apply import loss_text, put_constant, site_of_constant
from castsmith.passes.precision.constants import RoundingLosses, rounded, unfit

_FEWEST = 128
"""Elements of the smallest weight that is stored in 16 bits: a Cast takes about as many bytes as this saves."""

_SOURCES = (DataType.FLOAT, DataType.DOUBLE)


def store_weights(
    name: str,
    session: Session,
    to: DataType,
    losses: RoundingLosses,
    kept: Mapping[onnx_ir.Node, str],
    refusal_code: str,
) -> tuple[Records, dict[onnx_ir.Node, str]]:
    """Store the large weights of the model in the type.

    Args:
        name: The name of the pass, for the records.
        session: The model.
        to: float16 or bfloat16.
        losses: The effects of rounding.
        kept: The nodes whose weights stay as they are, with reasons.
        refusal_code: The code of a weight that stays.

    Returns:
        The records, and why the weights of each node stay as they are; empty if they do not.
    """
    model, records, reasons = session.model, Records(), dict[onnx_ir.Node, str]()
    held, namer, places = holders(model), session.namer(), dict[onnx_ir.Node, int]()
    for value in list(large_weights(model)):
        tensor = present(constant_tensor(value), "the tensor of a constant")
        users = [node for node, _ in value.uses()]
        why = next((kept[node] for node in users if node in kept), "") or unfit(value.name or "", losses.of(tensor), to)
        reasons.update((node, why if reasons.get(node, why) else "") for node in users)
        if why:
            records.refusals.append(Refusal(name, refusal_code, site_of_constant(value), why))
            continue
        opset = opset_of(model.graph.opset_imports, "") or 0
        before, new = new_constant(value.name or "", tensor), rounded(tensor, to, opset, value.name or "")
        put_constant(value, new)
        cast = cast_node(value, tensor.dtype)
        name_node(cast, namer)
        cast.metadata_props[RULE] = STORE_WEIGHT.code
        value.replace_all_uses_with(cast.outputs[0])
        cast.replace_input_with(0, value)
        _first_user(users, value.graph, held, places).prepend(cast)
        saved = tensor.nbytes - tensor.size * to.itemsize
        reason, site = loss_text(losses.of(tensor), to), site_of_constant(value)
        made = [constant_item(new_constant(value.name or "", new)), node_item(cast)]
        records.rewrites.append(
            Rewrite(name, STORE_WEIGHT.code, site, constant_item(before), made, reason, Effect.CONVERTED, int(saved))
        )
    if records.rewrites:
        session.changed()
    return records, reasons


def large_weights(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """Yield the large floating-point constants: initializers and results of Constant nodes, but not scales."""
    constants: Iterable[onnx_ir.Value] = (
        *(value for graph in graphs_with_initializers(model) for value in graph.initializers.values()),
        *(node.outputs[0] for node in all_nodes(model) if node.op_type == "Constant"),
    )
    for value in constants:
        tensor = constant_tensor(value)
        if tensor is None or tensor.dtype not in _SOURCES or tensor.size < _FEWEST or value.is_graph_output():
            continue
        uses = list(value.uses())
        if uses and not any(place in traits_of(node.domain, node.op_type).scaling for node, place in uses):
            yield value


def _first_user(
    users: Iterable[onnx_ir.Node],
    graph: onnx_ir.Graph | None,
    held: Mapping[onnx_ir.Graph, onnx_ir.Node],
    places: dict[onnx_ir.Node, int],
) -> onnx_ir.Node:
    """Return the first node of the graph that uses a value, itself or in a subgraph."""
    outer = list[onnx_ir.Node]()
    for node in users:
        while graph_of(node) is not graph:
            node = held[graph_of(node)]
        outer.append(node)
    if outer[0] not in places:
        places.update((node, place) for place, node in enumerate(graph_of(outer[0])))
    return min(outer, key=places.__getitem__)
