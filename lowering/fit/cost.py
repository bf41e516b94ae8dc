"""The cost by which the ways to make a model run are compared.

    cost = LAUNCH_BYTES * (nodes + casts) + bytes moved + bytes of the tensors

A node moves what it reads and writes, once per run; Reshape and its like move nothing. Unknown dimensions count as 64.
Casts count twice, in launches and in bytes: a cast is work itself, and keeps a runtime from fusing the nodes around it,
whose elements then go through memory. A cast of a constant costs nothing: a runtime does it once, when it loads.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS, operators
from castsmith.ir.ops.traits import Moves
from castsmith.ir.walks import constant_bytes
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import element_type
from castsmith.passes.core.session import Session
from castsmith.passes.place.problem import LAUNCH_BYTES
from castsmith.passes.place.sizes import Sizes

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
    session = Session(model)
    inference = session.inference(PromotionRules(promote_unsafe=True))
    sizes = Sizes(Shapes(model, inference), _UNKNOWN_DIM, {})

    def size(value: onnx_ir.Value) -> int:
        tensor, dtype = constant_tensor(value), inference.type_of(value) or value.dtype
        count = sizes.of(value) if tensor is None else tensor.size
        return 0 if dtype is None else -(-count * element_type(dtype).bits // 8)

    moved = loaded = 0
    for node in session.nodes:
        default = node.domain in DEFAULT_DOMAINS
        is_cast = default and node.op_type in CASTS
        if is_cast and constant_tensor(node.inputs[0]) is not None:
            loaded += 1
        elif not (default and node.op_type in _VIEWS):
            values = (value for value in (*node.inputs, *node.outputs) if value is not None)
            moved += sum(map(size, values)) * (2 if is_cast else 1)
    surveyed = session.survey
    return Cost(len(session.nodes), surveyed.count_casts(), moved, constant_bytes(model), loaded)
