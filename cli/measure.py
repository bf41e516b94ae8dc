"""What a model amounts to, for the line that compares before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir

from castsmith.ir.schemas import DEFAULT_DOMAINS
from castsmith.ir.tensors import all_tensors
from castsmith.ir.walks import all_nodes

_CASTS = ("Cast", "CastLike")


RuleKey = tuple[str, str]
"""A pass and a rule; the rule is empty for what the pass did beside its rules, such as dropping unused constants."""


@dataclass(frozen=True)
class Amount:
    """What the rewrites of one rule come to: how many, and what they add and remove of casts and bytes of constants."""

    count: int
    casts_added: int
    casts_removed: int
    bytes_added: int
    bytes_removed: int


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


@dataclass(frozen=True)
class Sizes:
    """A model before and after, and what each rule did to it in the order in which they first did."""

    before: Measure
    after: Measure
    rules: Mapping[RuleKey, Amount]
