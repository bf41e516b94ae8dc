"""What a model amounts to, for the line that compares before and after."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.tensors import all_tensors

_CASTS = ("Cast", "CastLike")


@dataclass(frozen=True)
class Measure:
    """Nodes in graphs, subgraphs and functions; bytes that the tensors hold; bytes of the file, where it is one."""

    nodes: int
    casts: int
    tensor_bytes: int
    file_bytes: int | None = None


def measure(model: onnx_ir.Model, file_bytes: int | None = None) -> Measure:
    """Count the nodes, the casts among them and the bytes of the tensors of `model`."""
    nodes = [node for scope in (model.graph, *model.functions.values()) for node in scope.all_nodes()]
    casts = sum(node.domain in DEFAULT_DOMAINS and node.op_type in _CASTS for node in nodes)
    return Measure(len(nodes), casts, sum(tensor.nbytes for tensor in all_tensors(model)), file_bytes)
