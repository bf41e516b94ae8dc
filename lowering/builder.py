"""Nodes written as arithmetic: numbers become constants of their neighbour's type, results are typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import new_constant
from castsmith.ir.errors import ModelError
from castsmith.ir.naming import Namer
from castsmith.ir.ops.table import GIVES_BOOL
from castsmith.ir.records import Effect
from castsmith.numerics.errors import InternalError, present
from castsmith.numerics.types import CODED_TYPES, type_name
from castsmith.passes.core.rewriting import Replacement, place_constant

ConstantHome = Callable[[str, npt.NDArray[Any]], onnx_ir.Value]
"""Returns a value for a constant array that the nodes may use; equal arrays may share one."""

Operand = onnx_ir.Value | int | float

FIRST_WITH_ROUND = 11
"""The opset of the first Round, by which arithmetic rounds to even."""


def new_constants(into: list[onnx_ir.Value], prefix: str = "") -> ConstantHome:
    """Return a function that makes each array a new constant, and collects them in `into`."""

    def home(name: str, array: npt.NDArray[Any]) -> onnx_ir.Value:
        into.append(new_constant(f"{prefix}{name}", onnx_ir.tensor(np.asarray(array))))
        return into[-1]

    return home


def shared_constants(model: onnx_ir.Model, namer: Namer, prefix: str) -> ConstantHome:
    """Return a function that makes constants in the main graph, visible in all subgraphs; equal arrays share one."""
    shared: dict[tuple[str, tuple[int, ...], bytes], onnx_ir.Value] = {}

    def home(name: str, array: npt.NDArray[Any]) -> onnx_ir.Value:
        array = np.asarray(array)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in shared:
            shared[key] = new_constant(namer.fresh(f"{prefix}{name}"), onnx_ir.tensor(array))
            place_constant(shared[key], model.graph[0], namer)
        return shared[key]

    return home


def dtype_of(value: onnx_ir.Value) -> DataType:
    """Return the element type of a value that declares one. Raises InternalError if it does not."""
    if value.dtype is None:
        raise InternalError(f"the value {value.name} declares no element type")
    return value.dtype


def need_opset(opset: int, first: int, what: str) -> None:
    """Raise ModelError if the opset is older than the first that has what is written."""
    if opset < first:
        raise ModelError(f"{what} needs opset {first}: raise the opset from {opset}")


class Builder:
    """Collects nodes. Every result has the type that the operator gives and the broadcast shape of its operands.

    Attributes:
        flat_look_up: Look up with GatherElements on a flat index instead of with Gather, from opset 14 on.
        bitwise: BitwiseAnd of uint8 and int32 may be used, from opset 18 on.
        chooses_bytes: Where of uint8 may be used.
        doubles: Operators on double are computed in double, each rounded by itself.
    """

    def __init__(
        self,
        constant_home: ConstantHome,
        *,
        flat_look_up: bool = False,
        bitwise: bool = True,
        chooses_bytes: bool = True,
        doubles: bool = False,
    ) -> None:
        self.bitwise, self.chooses_bytes, self.doubles = bitwise, chooses_bytes, doubles
        self.nodes: list[onnx_ir.Node] = []
        self._constant_home = constant_home
        self._flat_look_up = flat_look_up

    def constant(self, array: npt.NDArray[Any], name: str = "constant") -> onnx_ir.Value:
        """Return a value that holds `array`."""
        return self._constant_home(name, array)

    def op(self, op_type: str, *operands: Operand, dtype: DataType | None = None, **attributes: Any) -> onnx_ir.Value:
        """Add one node. A number among the operands becomes a constant of the type of the other tensors.

        `dtype` is the type of the numbers and of the result if no operand is a tensor: Where with two numbers.
        """
        beside = operands[1:] if op_type == "Where" else operands
        tensors = [operand for operand in beside if isinstance(operand, onnx_ir.Value)]
        like = tensors[0].dtype if tensors else dtype
        like = present(like, "the operand that gives the type")
        values = [self._value(operand, like) for operand in operands]
        shape = _broadcast([operand.shape for operand in operands if isinstance(operand, onnx_ir.Value)])
        gives = DataType.BOOL if op_type in GIVES_BOOL else like
        return self._append(op_type, values, gives, shape, attributes)

    def typed(self, op_type: str, inputs: list[onnx_ir.Value], dtype: DataType, **attributes: Any) -> onnx_ir.Value:
        """Add one node whose result has the type, and an unknown shape."""
        return self._append(op_type, inputs, dtype, None, attributes)

    def cast(self, value: onnx_ir.Value, to: DataType, op_type: str = "Cast") -> onnx_ir.Value:
        """Cast (or BitCast) to the type; return the value itself if it already has the type."""
        if value.dtype == to:
            return value
        return self._append(op_type, [value], to, value.shape, {"to": int(to)})

    def cast_codes(self, codes: onnx_ir.Value) -> onnx_ir.Value:
        """Return codes, whatever type their value still declares, as integers in float."""
        return self._append("Cast", [codes], DataType.FLOAT, codes.shape, {"to": int(DataType.FLOAT)})

    def look_up(self, table: onnx_ir.Value, index: onnx_ir.Value) -> onnx_ir.Value:
        """Return table[index], by element."""
        if not self._flat_look_up:
            index = self.cast(index, DataType.INT32)
            return self._append("Gather", [table, index], dtype_of(table), index.shape, {"axis": 0})
        if index.shape is not None and index.shape.rank() == 1:
            index = self.cast(index, DataType.INT32)
            return self._append("GatherElements", [table, index], dtype_of(table), index.shape, {"axis": 0})
        kept_as = DataType.UINT8 if dtype_of(index) in CODED_TYPES else dtype_of(index)
        to_flat = self.constant(np.array([-1], np.int64), "flat")
        flat = self._append("Reshape", [index, to_flat], kept_as, onnx_ir.Shape([None]), {})
        flat = self.cast(flat, DataType.INT32)
        gathered = self._append("GatherElements", [table, flat], dtype_of(table), flat.shape, {"axis": 0})
        shape = self._append("Shape", [index], DataType.INT64, None, {})
        return self._append("Reshape", [gathered, shape], dtype_of(table), index.shape, {"allowzero": 1})

    def _value(self, operand: Operand, dtype: DataType) -> onnx_ir.Value:
        if isinstance(operand, onnx_ir.Value):
            return operand
        return self.constant(np.array(operand, dtype.numpy()))

    def _append(
        self,
        op_type: str,
        inputs: list[onnx_ir.Value],
        dtype: DataType,
        shape: onnx_ir.Shape | None,
        attributes: dict[str, Any],
    ) -> onnx_ir.Value:
        node = onnx_ir.node(op_type, inputs, attributes)
        self.nodes.append(node)
        node.outputs[0].type = onnx_ir.TensorType(dtype)
        node.outputs[0].shape = shape.copy() if shape is not None else None
        return node.outputs[0]


class ReplacementBuilder(Builder):
    """A builder of the nodes that replace one node.

    Attributes:
        node: The node to replace.
        constants: The constants of the new nodes, with the prefix, by default the first result of the node, unless
            `constant_home` keeps them.
    """

    def __init__(
        self, node: onnx_ir.Node, prefix: str | None = None, constant_home: ConstantHome | None = None, **usable: bool
    ) -> None:
        if prefix is None:
            prefix = f"{node.outputs[0].name if node.outputs else node.op_type}_"
        self.node, self.constants = node, list[onnx_ir.Value]()
        super().__init__(constant_home or new_constants(self.constants, prefix), **usable)


def as_replacement(
    build: ReplacementBuilder, rule: str, reason: str, *outputs: onnx_ir.Value, effect: Effect = Effect.BIT_EXACT
) -> Replacement:
    """Return the nodes written so far as the replacement of the node, with a value for each of its outputs."""
    for old, new in zip(build.node.outputs, outputs, strict=True):
        if new.name is None and new.producer() in build.nodes:
            new.name = old.name
    return Replacement(rule, reason, tuple(build.nodes), tuple(build.constants), outputs=outputs, effect=effect)


def at_least(build: Builder, x: onnx_ir.Value, bound: Operand) -> onnx_ir.Value:
    """Return x >= bound, by element, false for NaN, without GreaterOrEqual, which needs opset 12.

    A number greater than the predecessor of a constant is at least the constant; for 0 the predecessor is subnormal,
    which some targets flush. Equal supports floats from opset 11 on.
    """
    if isinstance(bound, onnx_ir.Value) or bound == 0:
        return build.op("Or", build.op("Greater", x, bound), build.op("Equal", x, bound))
    before = np.nextafter(np.array(bound, dtype_of(x).numpy()), np.array(-np.inf, dtype_of(x).numpy()))
    return build.op("Greater", x, before.item())


def computed_in(
    build: ReplacementBuilder,
    to: DataType,
    attributes: Sequence[onnx_ir.Attr],
    operand: Callable[[int, onnx_ir.Value], onnx_ir.Value],
    type_before: Callable[[onnx_ir.Value], DataType | None],
) -> tuple[onnx_ir.Value, ...]:
    """Write the node of the builder in another type, with casts before and after it; return the results.

    Args:
        build: The builder.
        to: The type to compute in.
        attributes: Those of the new node.
        operand: Returns what the new node reads in the place of an input, by index and value.
        type_before: The type that a result is cast back to; None for a result that keeps its type.
    """
    node = build.node
    inputs = [None if value is None else operand(index, value) for index, value in enumerate(node.inputs)]
    copied = onnx_ir.Node("", node.op_type, inputs, attributes, num_outputs=len(node.outputs))
    build.nodes.append(copied)
    outputs: list[onnx_ir.Value] = []
    for old, new in zip(node.outputs, copied.outputs, strict=True):
        back = type_before(old)
        new.type, new.shape = old.type if back is None else onnx_ir.TensorType(to), old.shape
        new.name = old.name if back is None or not old.name else f"{old.name}_{type_name(to)}"
        outputs.append(new if back is None or not old.name else build.cast(new, back))
        outputs[-1].name = old.name
    return tuple(outputs)


def _broadcast(shapes: list[onnx_ir.Shape | None]) -> onnx_ir.Shape | None:
    """Return the shape that operands of these shapes broadcast to; None if one is unknown."""
    ranked = [shape for shape in shapes if shape is not None]
    if len(ranked) < len(shapes):
        return None
    rank = max(shape.rank() for shape in ranked)
    columns = [
        [shape[axis - rank + shape.rank()] for shape in ranked if axis >= rank - shape.rank()] for axis in range(rank)
    ]
    return onnx_ir.Shape([next((dim for dim in column if dim != 1), 1) for column in columns])
