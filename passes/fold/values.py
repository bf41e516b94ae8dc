"""Facts about constant values before, and without, computing them: type, shape, and derivation.

A Known is a tensor of the model, or a move of other Knowns, or what a conversion made of them. Equal derivations are
one object, however many nodes spell them out, so that each is computed once. Tensors are read, and moves done, only
when a conversion needs the array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.movement import Operands, may_be_constant, moves_elements, moves_of
from castsmith.ir.ops.moves import Dims, Move, MoveError, Way, move, operands_of
from castsmith.ir.ops.schemas import opset_of
from castsmith.ir.walks import sources_first
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.errors import present
from castsmith.numerics.types import element_bytes

_PARAMETERS = 64
"""Largest number of elements of a shape or a list of axes: the largest number of axes in numpy."""

_INDEXED, _INDICES = (Way.GATHER, Way.SCATTER), (DataType.INT64, DataType.INT32)

_KEPT = 4096
"""Size in bytes up to which a moved copy is kept for the next conversion; views are always kept."""

_SMALL = 4096
"""Bytes that a moved array may take whatever the size of the model."""

_ZERO = onnx_ir.tensor(np.zeros(1, np.float32))


class FoldError(Exception):
    """A constant that cannot be computed; the text is the reason."""


@dataclass(eq=False, slots=True)
class Known:
    """A constant: its type and shape, and the innermost graph that it is derived from."""

    dtype: DataType
    shape: Dims
    home: onnx_ir.Graph | None = None
    how: Move | None = None
    operands: tuple[Known, ...] = ()
    tensor: onnx_ir.TensorProtocol | None = None
    value: onnx_ir.Value | None = None
    moved: Array | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor in a file."""
        return ceil(prod(self.shape) * element_bytes(self.dtype))


@dataclass
class Constants:
    """The constants of a model, found on demand.

    Attributes:
        depths: The nesting depth of each graph.
        largest: Returns the bytes that a moved array may take.
    """

    depths: Mapping[onnx_ir.Graph, int]
    imports: Mapping[onnx_ir.Graph | onnx_ir.Function, Mapping[str, int]]
    largest: Callable[[], int]
    by_value: dict[onnx_ir.Value, Known | None] = field(default_factory=dict[onnx_ir.Value, "Known | None"])
    derived: dict[Hashable, Known] = field(default_factory=dict[Hashable, Known])

    def of(self, value: onnx_ir.Value | None) -> Known | None:
        """Return the facts about the value; None if it is not constant."""
        if value is None:
            return None
        if value in self.by_value:
            return self.by_value[value]
        node = value.producer()
        if node is not None and value.const_value is None and not may_be_constant(node):  # as mostly
            self.by_value[value] = None
            return None
        for source, _ in sources_first(value, self.by_value, self._sources):
            self._settle(source)
        return self.by_value[value]

    def array(self, constant: Known) -> Array:
        """Return the elements of a constant. Raises FoldError if it is too large, or an index is out of bounds."""
        order: dict[Known, None] = {}
        for part, _ in sources_first(constant, order, _operands_of):
            order[part] = None
        waiting = Counter(operand for part in order for operand in _operands_of(part))
        arrays: dict[Known, Array] = {}
        for part in order:
            arrays[part] = self._compute(part, arrays)
            for operand in _operands_of(part):
                waiting[operand] -= 1
                if not waiting[operand]:
                    del arrays[operand]
        return arrays[constant]

    def innermost(self, knowns: Iterable[Known]) -> onnx_ir.Graph | None:
        """Return the graph, of those the constants come from, in which all of them are visible."""
        homes = [constant.home for constant in knowns if constant.home is not None]
        return max(homes, key=lambda home: self.depths.get(home, 0), default=None)

    def converted(self, conversion: Hashable, knowns: tuple[Known, ...], dtype: DataType, shape: Dims) -> Known:
        """Return the constant that a conversion makes of others, which is one object for all that make it."""
        key = conversion, knowns
        derived = self.derived.get(key)
        if derived is None:
            derived = self.derived[key] = Known(dtype, shape, self.innermost(knowns))
        return derived

    def _sources(self, value: onnx_ir.Value) -> list[onnx_ir.Value]:
        node = value.producer()
        if node is None or not moves_elements(node):
            return []
        return [operand for operand in node.inputs if operand is not None]

    def _settle(self, value: onnx_ir.Value) -> None:
        tensor, node = constant_tensor(value), value.producer()
        if tensor is not None:
            graph = value.graph
            home = graph if isinstance(graph, onnx_ir.Graph) else None if graph is None else graph.graph
            self.by_value[value] = Known(tensor.dtype, _dims(tensor), home, tensor=tensor, value=value)
        elif node is None or not moves_elements(node):
            self.by_value[value] = None
        else:
            self._settle_outputs(node)

    def _settle_outputs(self, node: onnx_ir.Node) -> None:
        operands = [None if operand is None else self.by_value[operand] for operand in node.inputs]
        planned = self._plan(node, operands)
        for output, constant in zip(node.outputs, planned or [None] * len(node.outputs), strict=True):
            self.by_value[output] = constant

    def _plan(self, node: onnx_ir.Node, operands: list[Known | None]) -> list[Known] | None:
        shapes = [None if constant is None else constant.shape for constant in operands]
        opset = opset_of(self.imports[node.graph], "") if node.graph is not None else None
        plan = moves_of(Operands(node, shapes, lambda index: self._integers(operands[index]), opset or 1))
        if plan is None:
            return None
        carried = self._carried(node, plan[0].way, operands)
        if carried is None:
            return None
        home = self.innermost(carried) or self.innermost(constant for constant in operands if constant is not None)
        return [self._moved(carried, step, home) for step in plan]

    def _moved(self, carried: tuple[Known, ...], step: Move, home: onnx_ir.Graph | None) -> Known:
        if step.way is Way.RESHAPE and step.shape == carried[0].shape:
            return carried[0]
        return self.derived.setdefault((step, carried, home), Known(carried[0].dtype, step.shape, home, step, carried))

    def _carried(self, node: onnx_ir.Node, way: Way, operands: list[Known | None]) -> tuple[Known, ...] | None:
        """Return the constants whose elements a node moves, without its parameters; None if their types differ."""
        if node.op_type == "ConstantOfShape":
            return self._filling(node)
        count = operands_of(way, len(operands))
        carried = tuple(constant for constant in operands[:count] if constant is not None)
        joined = {Way.CONCAT: carried, Way.SCATTER: carried[::2]}.get(way, ())
        mixed = len({constant.dtype for constant in joined}) > 1
        if mixed or len(carried) < count:
            return None
        return None if way in _INDEXED and carried[1].dtype not in _INDICES else carried

    def _filling(self, node: onnx_ir.Node) -> tuple[Known] | None:
        """Return the scalar with which a ConstantOfShape fills its result; equal scalars are one object."""
        tensor = node.attributes["value"].as_tensor() if "value" in node.attributes else _ZERO
        if tensor.size != 1 or tensor.dtype == DataType.STRING:
            return None
        key = (tensor.dtype, tensor.tobytes())
        whole = Known(tensor.dtype, _dims(tensor), tensor=tensor)
        return (self.derived.setdefault(key, Known(tensor.dtype, (), None, Move(Way.RESHAPE, ()), (whole,))),)

    def _integers(self, constant: Known | None) -> Dims | None:
        if constant is None or len(constant.shape) > 1 or prod(constant.shape) > _PARAMETERS:
            return None
        if constant.dtype not in _INDICES:
            return None
        try:
            return tuple(int(element) for element in self.array(constant).reshape(-1))
        except FoldError:
            return None

    @cached_property
    def _limit(self) -> int:
        return self.largest()

    def _compute(self, constant: Known, arrays: Mapping[Known, Array]) -> Array:
        if constant.moved is not None:
            return constant.moved
        if constant.how is None:
            return present(constant.tensor, "the tensor of the constant").numpy()
        if constant.nbytes > _SMALL and constant.nbytes > self._limit:
            size = f"{list(constant.shape)} of {constant.dtype.name.lower()}"
            raise FoldError(f"the intermediate array {size} exceeds the memory limit")
        try:
            array = move(constant.how, [arrays[operand] for operand in constant.operands])
        except MoveError as error:
            raise FoldError(str(error)) from None
        if array.base is not None or array.nbytes <= _KEPT:
            constant.moved = array
        return array


def _operands_of(constant: Known) -> tuple[Known, ...]:
    return () if constant.how is None or constant.moved is not None else constant.operands


def _dims(tensor: onnx_ir.TensorProtocol) -> Dims:
    return tuple(int(dim) for dim in tensor.shape.numpy())
