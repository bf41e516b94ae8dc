"""Every tensor that a model holds, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx_ir
from onnx_ir import AttributeType

from castsmith.ir.ranges import file_of
from castsmith.ir.walks import all_nodes, subgraphs_of

_WITH_TENSORS = (AttributeType.TENSOR, AttributeType.TENSORS)


@dataclass(frozen=True)
class Held:
    """The place of a tensor in an attribute of a node, or in the default of a function's; index: in a list of them."""

    owner: onnx_ir.Node | onnx_ir.Function
    name: str
    index: int | None = None


Place = onnx_ir.Value | Held
"""Where a tensor is kept: an initializer or an attribute."""


def all_tensors(model: onnx_ir.Model) -> Iterator[onnx_ir.TensorProtocol]:
    """Initializers of the graph and its subgraphs, and tensors in the attributes of nodes, functions included."""
    return (tensor for _, tensor in tensor_places(model))


def files_read(model: onnx_ir.Model) -> set[Path]:
    """The data files that the tensors of the model are in, links followed."""
    return {file_of(tensor) for tensor in all_tensors(model) if isinstance(tensor, onnx_ir.ExternalTensor)}


def tensor_places(model: onnx_ir.Model) -> Iterator[tuple[Place, onnx_ir.TensorProtocol]]:
    """Every tensor of the model with its place. Tensors may be put in the places meanwhile."""
    for graph in graphs_with_initializers(model):
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value, value.const_value
    yield from held_tensors(model)


def held_tensors(model: onnx_ir.Model) -> Iterator[tuple[Held, onnx_ir.TensorProtocol]]:
    """The tensors in attributes of nodes, and in the defaults of functions, with their places."""
    owners: list[onnx_ir.Node | onnx_ir.Function] = [*model.functions.values()]
    for owner in (*owners, *all_nodes(model)):
        for name, attribute in list(owner.attributes.data.items()):
            if attribute.type in _WITH_TENSORS and not attribute.is_ref() and attribute.value is not None:
                if attribute.type == AttributeType.TENSOR:
                    yield Held(owner, name), attribute.as_tensor()
                else:
                    yield from ((Held(owner, name, i), each) for i, each in enumerate(attribute.as_tensors()))


def put_tensor(place: Place, tensor: onnx_ir.TensorProtocol) -> None:
    """Put the tensor in the place."""
    if not isinstance(place, Held):
        place.const_value = tensor
        return
    attributes = place.owner.attributes
    before = attributes[place.name]
    if place.index is None:
        attributes[place.name] = onnx_ir.AttrTensor(place.name, tensor, doc_string=before.doc_string)
    else:
        tensors = list(before.as_tensors())
        tensors[place.index] = tensor
        attributes[place.name] = onnx_ir.AttrTensors(place.name, tensors, doc_string=before.doc_string)


def graphs_with_initializers(model: onnx_ir.Model) -> Iterator[onnx_ir.Graph]:
    """The main graph and every subgraph, those inside model-local functions included."""
    yield model.graph
    for scope in (model.graph, *model.functions.values()):
        yield from subgraphs_of(scope)
