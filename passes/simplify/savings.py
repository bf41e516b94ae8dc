"""Savings of a rewrite of simplify-casts: the bytes that casts, and operators after them, no longer read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx_ir

from castsmith.analysis.inference.walk import Inference
from castsmith.ir.constants import use_count
from castsmith.ir.ops.casts import chain_verdict, read_cast
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS
from castsmith.numerics.errors import present
from castsmith.numerics.types import element_bytes
from castsmith.passes.core.cost import SHAPE_ONLY
from castsmith.passes.core.rewriting import Replacement


@dataclass(frozen=True)
class Savings:
    """Counts bytes by the declared shapes; an unknown dimension or shape counts as `default` or as `named`."""

    inference: Inference
    default: int
    named: Mapping[str, int]

    def of(self, node: onnx_ir.Node, replacement: Replacement) -> int:
        """Return the bytes that the replacement of the node saves each time the model runs."""
        inputs, kept = node.inputs, {*replacement.inputs.values(), *(replacement.outputs or ())}
        saved = self._cast(node)
        for new in replacement.nodes:
            saved -= self._cast(new, *node.outputs)
        if node.op_type not in SHAPE_ONLY:
            for index, value in replacement.inputs.items():
                saved += self._narrower(inputs[index], value)
        dropped = inputs if replacement.outputs is not None else [inputs[index] for index in replacement.inputs]
        for place, value in enumerate(dropped):
            saved += self._going(value, kept, node.outputs if place == 0 and _is_cast(node) else ())
        return int(saved)

    def _going(self, value: onnx_ir.Value | None, kept: set[onnx_ir.Value], shaped: Sequence[onnx_ir.Value]) -> float:
        """Return the bytes of the casts that become unused without one user of the value; shaped: as in `_cast`."""
        total = 0.0
        while value is not None and value not in kept and not value.is_graph_output():
            cast = value.producer()
            if cast is None or not _is_cast(cast) or use_count(value) != 1:
                break
            total, value = total + self._cast(cast, *shaped), cast.inputs[0]
        return total

    def _cast(self, node: onnx_ir.Node, *shaped: onnx_ir.Value) -> float:
        """Return the bytes of a cast, whose shape is also that of `shaped`; 0 for another node."""
        if not _is_cast(node) or node.inputs[0] is None:
            return 0.0
        source, result = node.inputs[0], node.outputs[0]
        return self._elements(source, result, *shaped) * (self._itemsize(source) + self._itemsize(result))

    def _narrower(self, old: onnx_ir.Value | None, new: onnx_ir.Value) -> float:
        if old is None or new.const_value is not None:
            return 0.0
        return self._elements(old, new) * (self._itemsize(old) - self._itemsize(new))

    def _itemsize(self, value: onnx_ir.Value) -> float:
        dtype = self.inference.type_of(value)
        return 0.0 if dtype is None else element_bytes(dtype)

    def _elements(self, *values: onnx_ir.Value) -> int:
        """Return the elements of values that have one shape."""
        shape = next((value.shape for value in values if value.shape is not None), None)
        if shape is None:
            return self.default
        return prod([d if isinstance(d, int) else self.named.get(d.value or "", self.default) for d in shape.dims])


def reads_more(node: onnx_ir.Node, origin: onnx_ir.Value, inference: Inference, opset: int) -> bool:
    """True if the last cast of a chain, from the origin and not from its narrower operand, moves more bytes.

    It does if the operand stays for other users. If all users are casts that can start from the origin, the operand and
    its own cast are removed once all of them have been changed: worthwhile for few users.
    """
    source = present(node.inputs[0], "the operand")
    wide, narrow = inference.type_of(origin), inference.type_of(source)
    if wide is None or narrow is None or element_bytes(wide) <= element_bytes(narrow):
        return False
    count, more, less = use_count(source), element_bytes(wide), element_bytes(narrow)
    if source.is_graph_output() or count * (more - less) > more + less:
        return True
    meaning = read_cast(present(source.producer(), "the cast before"))
    for user in (user for user, _ in source.uses() if user is not node):
        last = read_cast(user, inference.type_of(user.outputs[0])) if user.op_type in CASTS else None
        if meaning is None or last is None or meaning.to is None or last.to is None:
            return True
        if not chain_verdict(wide, meaning, last, opset):
            return True
    return False


def _is_cast(node: onnx_ir.Node) -> bool:
    return node.op_type in CASTS and node.domain in DEFAULT_DOMAINS
