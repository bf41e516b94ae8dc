"""Every tensor that a model holds, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.walks import all_nodes, graphs_in, subgraphs_of

_WITH_TENSORS = (AttributeType.TENSOR, AttributeType.TENSORS, AttributeType.GRAPH, AttributeType.GRAPHS)


def all_tensors(model: onnx_ir.Model) -> Iterator[onnx_ir.TensorProtocol]:
    """Initializers of the graph and its subgraphs, and tensors in the attributes of nodes, functions included."""
    yield from _initializers(model.graph)
    for node in all_nodes(model):
        for attribute in node.attributes.data.values():
            if attribute.type in _WITH_TENSORS and not attribute.is_ref():
                yield from _tensors_in(attribute)


def graphs_with_initializers(model: onnx_ir.Model) -> Iterator[onnx_ir.Graph]:
    """The main graph and every subgraph, those inside model-local functions included."""
    yield model.graph
    for scope in (model.graph, *model.functions.values()):
        yield from subgraphs_of(scope)


def _initializers(graph: onnx_ir.Graph) -> Iterator[onnx_ir.TensorProtocol]:
    return (value.const_value for value in graph.initializers.values() if value.const_value is not None)


def _tensors_in(attribute: onnx_ir.Attr) -> Iterator[onnx_ir.TensorProtocol]:
    if attribute.type == AttributeType.TENSOR:
        yield attribute.as_tensor()
    elif attribute.type == AttributeType.TENSORS:
        yield from attribute.as_tensors()
    for graph in graphs_in(attribute):
        yield from _initializers(graph)
