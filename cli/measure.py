"""What a model amounts to, for the line that compares before and after."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.tensors import all_tensors
from castsmith.ir.walks import all_nodes

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
    nodes = casts = 0
    for node in all_nodes(model):
        nodes += 1
        casts += node.op_type in _CASTS and node.domain in DEFAULT_DOMAINS
    return Measure(nodes, casts, sum(tensor.nbytes for tensor in all_tensors(model)), file_bytes)
