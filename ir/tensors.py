"""Every tensor that a model holds, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from castsmith.ir.walks import all_nodes, subgraphs_of


def all_tensors(model: onnx_ir.Model) -> Iterator[onnx_ir.TensorProtocol]:
    """Initializers of the graph and its subgraphs, and tensors in the attributes of nodes, functions included."""
    for graph in graphs_with_initializers(model):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value
    for node in all_nodes(model):
        yield from _attribute_tensors(node)


def graphs_with_initializers(model: onnx_ir.Model) -> Iterator[onnx_ir.Graph]:
    """The main graph and every subgraph, those inside model-local functions included."""
    yield model.graph
    for scope in (model.graph, *model.functions.values()):
        yield from subgraphs_of(scope)


def _attribute_tensors(node: onnx_ir.Node) -> Iterator[onnx_ir.TensorProtocol]:
    for attribute in node.attributes.data.values():
        if attribute.type == onnx_ir.AttributeType.TENSOR and not attribute.is_ref():
            yield attribute.as_tensor()
        elif attribute.type == onnx_ir.AttributeType.TENSORS and not attribute.is_ref():
            yield from attribute.as_tensors()
