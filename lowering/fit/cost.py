"""The cost by which the ways to make a model run are compared.

    cost = LAUNCH_BYTES * (nodes + casts) + bytes moved + bytes of the tensors

A node moves what it reads and writes, once per run; Reshape and its like move nothing. Unknown dimensions count as 64.
Casts count twice, in launches and in bytes: a cast is work itself, and keeps a runtime from fusing the nodes around it,
whose elements then go through memory. A cast of a constant costs nothing: a runtime does it once, when it loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import onnx_ir

from castsmith.analysis.inference.walk import Inference, infer_element_types
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS, operators
from castsmith.ir.ops.traits import Moves
from castsmith.ir.survey import survey
from castsmith.ir.walks import constant_bytes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type
from castsmith.passes.place.problem import LAUNCH_BYTES

_UNKNOWN_DIM = 64
_VIEWS = operators(lambda row: row.moves in (Moves.KEEP, Moves.SHAPE)) | {"Constant"}
"""Operators that read and write no elements: a runtime does them in place or removes them."""


@dataclass(frozen=True)
class Cost:
    """What a model costs.

    Attributes:
        nodes: The nodes of the model, in subgraphs and functions too.
        casts: The casts among them.
        moved_bytes: The bytes that all nodes read and write in one run, those of casts twice.
        tensor_bytes: The bytes of the tensors in the file.
        loaded_casts: The casts of constants among the casts, which run once.
    """

    nodes: int
    casts: int
    moved_bytes: int
    tensor_bytes: int
    loaded_casts: int = 0

    @property
    def launches(self) -> int:
        """The nodes of each run, of which casts count twice."""
        return self.nodes + self.casts - 2 * self.loaded_casts

    @property
    def total(self) -> int:
        """The cost in bytes: a launch takes as long as moving LAUNCH_BYTES."""
        return LAUNCH_BYTES * self.launches + self.moved_bytes + self.tensor_bytes

    def __str__(self) -> str:
        """Return the numbers of nodes and casts in words."""
        return f"{self.nodes} node{'' if self.nodes == 1 else 's'}, {self.casts} cast{'' if self.casts == 1 else 's'}"

    def is_within(self, share: float, other: Cost) -> bool:
        """True if neither the cost nor the number of launches is more than the share of the other's."""
        return self.total <= share * other.total and self.launches <= share * other.launches


def cost_of(model: onnx_ir.Model) -> Cost:
    """Return the cost of the model."""
    surveyed = survey(model)
    sizes = _Sizes(infer_element_types(model, PromotionRules(promote_unsafe=True)))
    loaded = [node for node in surveyed.nodes if _is_loaded(node)]
    moved = sum(map(sizes.moved, surveyed.nodes)) - sum(map(sizes.moved, loaded))
    return Cost(len(surveyed.nodes), surveyed.count_casts(), moved, constant_bytes(model), len(loaded))


def _is_loaded(node: onnx_ir.Node) -> bool:
    """True for a cast of a constant."""
    return _is_cast(node) and node.inputs[0] is not None and constant_tensor(node.inputs[0]) is not None


def _is_cast(node: onnx_ir.Node) -> bool:
    return node.domain in DEFAULT_DOMAINS and node.op_type in CASTS


class _Sizes:
    """The bytes of values, asked for in the order of the graph."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._elements: dict[onnx_ir.Value, int] = {}

    def moved(self, node: onnx_ir.Node) -> int:
        """Return the bytes that the node reads and writes."""
        values = [value for value in (*node.inputs, *node.outputs) if value is not None]
        largest = max((self._count(value, 1) for value in node.inputs if value is not None), default=1)
        sizes = [self._bytes(value, largest) for value in values]
        if node.domain in DEFAULT_DOMAINS and node.op_type in _VIEWS:
            return 0
        return sum(sizes) * (2 if _is_cast(node) else 1)

    def _bytes(self, value: onnx_ir.Value, default: int) -> int:
        dtype = self._inference.type_of(value) or value.dtype
        bits = 0 if dtype is None else element_type(dtype).bits
        return -(-self._count(value, default) * bits // 8)

    def _count(self, value: onnx_ir.Value, default: int) -> int:
        """Return the number of elements; of a value without a shape, the default."""
        if value not in self._elements:
            tensor, count = constant_tensor(value), default
            if tensor is not None:
                count = tensor.size
            elif value.shape is not None:
                count = prod(dim if isinstance(dim, int) else _UNKNOWN_DIM for dim in value.shape)
            self._elements[value] = count
        return self._elements[value]
