"""What `castsmith.lowering.fault_search` finds: a node that float16 does not do, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx_ir
from onnx_ir import DataType

from castsmith.passes.precision.constants import limits
from castsmith.passes.precision.patterns import paths_of

Kind = Literal["overflow", "inside", "vanish", "operand"]

LIMITS = limits(DataType.FLOAT16)


@dataclass(frozen=True)
class Fault:
    """A node that float16 does not do, by the names that it had before anything was changed.

    Attributes:
        node: The node.
        name: The name of its first result.
        place: The path of its modules, if the model has it, its name and its operator.
        value: The name of the value that it loses: its result, or the operand that does not fit.
        kind: "overflow": the value is beyond float16; "vanish": it is below its normal numbers; "inside": operands and
            result fit, and what the node adds up does not; "operand": it reads what is lost.
        magnitude: The greatest magnitude that the value has, of what the node adds up inside.
        slight: True if what is lost is a small part of the tensor.
        unknown_to: The target of which it is unknown whether it adds up in float16.
    """

    node: onnx_ir.Node
    name: str
    place: str
    value: str
    kind: Kind
    magnitude: float
    slight: bool = False
    unknown_to: str = ""

    @property
    def reason(self) -> str:
        """What is wrong, as a clause."""
        name = self.value
        if self.kind == "inside":
            unknown = f"; whether {self.unknown_to} adds up in float16 is unknown" if self.unknown_to else ""
            return f"{name} fits float16, but the sum inside reaches {self.magnitude:.6g} (measured){unknown}"
        name = f"it reads {name}, which" if self.kind == "operand" else name
        if self.magnitude >= LIMITS.overflow:
            return f"{name} reaches {self.magnitude:.6g} (measured), beyond float16"
        return f"{name} has elements below {self.magnitude:.3g} (measured), where float16 loses bits"


def fault_at(node: onnx_ir.Node, value: onnx_ir.Value, kind: Kind, magnitude: float) -> Fault:
    """Return the fault of a node, which loses the value."""
    result = next((output.name or "" for output in node.outputs), "")
    path, name = next(map(".".join, paths_of(node)), ""), node.name or result
    place = f"{f'{path} ' if path and not name.startswith('/') else ''}{name} ({node.op_type})"
    return Fault(node, result, place, value.name or "", kind, magnitude)
