"""What rewrites lower, so that no two passes undo each other and a run ends.

Each rewrite lowers the first of these that it changes:

1. what the schemas or the target refuse: insert-promote-types and the lowerings
2. values of the types that are to be narrow: narrow-types
3. casts: simplify-casts, place-casts
4. nodes, and those that are no Identity: folding, merging
5. operands that are computed, casts before an operand, and operands: what see-through-cast, fix-shape-operand and
   castlike-to-cast lower

So a pass of one line raises nothing above that line: it asks `Legality` before it gives a node another type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops.table import CASTS, FLOW, operators
from castsmith.ir.ops.traits import Moves
from castsmith.targets.kernels import takes_type
from castsmith.targets.target import Target

SHAPE_ONLY = operators(lambda row: row.moves is Moves.SHAPE)
"""Operators that do not depend on the elements of their operand."""
ON_EITHER = CASTS | FLOW | SHAPE_ONLY | {"Identity"}
"""Operators that accept a narrower type unchanged, or that only pass values on: narrow-types leaves them alone."""


@dataclass(frozen=True)
class Legality:
    """The types that a rewrite may give to a node.

    Attributes:
        target: The runtime whose kernels count; ONNX Runtime on the CPU if None.
        narrowed: The types that are to be narrow: no node is given one.
    """

    target: Target | None = None
    narrowed: Sequence[DataType] = ()

    def takes(self, node: onnx_ir.Node, index: int, dtype: DataType, imports: Mapping[str, int]) -> bool:
        """True if input `index` of the node may become of the type."""
        if dtype in self.narrowed and node.op_type not in ON_EITHER:
            return False
        return takes_type(node, index, dtype, imports, self.target)
