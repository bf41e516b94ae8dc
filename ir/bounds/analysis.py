"""The walk: each node in order, its rule applied to the intervals of its operands.

A value without a rule has the range of its type: for a floating-point type none, and it may be NaN or infinite. What a
rule cannot bound is unbounded, but no NaN unless an operand may be one: its operator computes finite numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, overload

import numpy as np
import onnx
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.bounds.control_flow import control_flow
from castsmith.ir.bounds.defaults import Default
from castsmith.ir.bounds.interval import (
    Dims,
    Interval,
    collapsed,
    constant_interval,
    flags,
    hull,
    whole,
    with_bounds,
)
from castsmith.ir.bounds.reading import Reader, interval_of_tensor, is_read_in_parts, read_constant
from castsmith.ir.bounds.rounding import is_float, is_integer, rounded
from castsmith.ir.bounds.rules import (
    arithmetic,
    attention,
    convolution,
    foreign,
    functions,
    linear,
    movement,
    normalization,
    places,
    reduction,
    signal,
    written_out,
)
from castsmith.ir.bounds.step import DEFAULTS, NO_OVERFLOW, Rule, Step, UnknownRangeError
from castsmith.ir.bounds.sums import BlockSums
from castsmith.ir.constants import constant_tensor
from castsmith.ir.inference.walk import Inference
from castsmith.ir.io.stored import release_pages
from castsmith.ir.io.streaming import is_stored
from castsmith.ir.ops.promote_types import is_convert_promote_types
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import GIVES_BOOL, operators, traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.numerics.types import MOST_DIMENSIONS

FOREIGN: Mapping[tuple[str, str], Rule] = foreign.RULES
"""By domain and operator."""
_PARTS = (arithmetic, functions, reduction, normalization, linear, convolution, movement, places)
RULES: Mapping[str, Rule] = {
    **movement.RULES,
    **places.RULES,
    **arithmetic.RULES,
    **functions.RULES,
    **reduction.RULES,
    **normalization.RULES,
    **written_out.RULES,
    **linear.RULES,
    **convolution.RULES,
    **attention.RULES,
    **signal.RULES,
    **foreign.UNDEFINED,
}

_PACKED = operators(lambda row: row.moves in (Moves.PACK, Moves.UNPACK))
_MOVED = (Moves.KEEP, Moves.PERMUTE, Moves.SELECT, Moves.SPLIT, Moves.REPEAT, Moves.JOIN, Moves.CHOOSE)
_LAZY = frozenset({"MatMul", "Gemm", "FusedMatMul"})
"""Operators whose rules read a large constant themselves, with the sums that they need."""

Also = Callable[[onnx_ir.TensorProtocol], Reader | None]
"""Returns what else to compute from a large constant when it is read; None for nothing."""


@dataclass(frozen=True)
class Operands(Sequence[Interval | None]):
    """The intervals of the inputs of a node, each found when it is asked for; None for an input that is left out."""

    values: Sequence[onnx_ir.Value | None]
    of: Callable[[onnx_ir.Value], Interval]

    @overload
    def __getitem__(self, index: int) -> Interval | None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Interval | None]: ...
    def __getitem__(self, index: int | slice) -> Interval | Sequence[Interval | None] | None:
        if isinstance(index, slice):
            return Operands(self.values[index], self.of)
        value = self.values[index]
        return None if value is None else self.of(value)

    def __len__(self) -> int:
        return len(self.values)

    def read_all(self) -> None:
        """Find all of them."""
        for _ in self:
            pass


@dataclass
class Analysis:
    """Intervals of all values of a model whose functions are inlined.

    Attributes:
        inference: The element types of the model.
        ranges: Declared ranges of graph inputs by name: least and greatest element.
        defaults: Ranges of other inputs, and why they are taken.
        opset: The opset of the default domain.
        shapes: Inferred shapes, for values that declare none.
        also: What else is computed from large constants.
        known: What was found so far.
        unread: The large constants that no node has used yet: the first one reads them, once for all it needs of them.
    """

    inference: Inference
    ranges: Mapping[str, tuple[float, float]]
    defaults: Mapping[str, Default]
    opset: int
    shapes: Mapping[onnx_ir.Value, onnx_ir.Shape]
    also: Also | None = None
    known: dict[onnx_ir.Value, Interval] = field(default_factory=dict[onnx_ir.Value, Interval])
    seen: dict[onnx_ir.Value, Interval] = field(default_factory=dict[onnx_ir.Value, Interval])
    unread: dict[onnx_ir.Value, onnx_ir.TensorProtocol] = field(
        default_factory=dict[onnx_ir.Value, onnx_ir.TensorProtocol]
    )

    def run(self, graph: onnx_ir.Graph) -> None:
        """Bound every value of the graph and of its subgraphs."""
        for value in graph.inputs:
            self._note(value, self._input(value))
        self._body(graph)
        for value in list(self.unread):
            self._read(value)

    def _body(self, graph: onnx_ir.Graph) -> list[Interval]:
        for value in graph.initializers.values():
            if not value.is_graph_input() and value not in self.known and value not in self.unread:
                self._initializer(value)
        for node in graph:
            for value, interval in zip(node.outputs, self._node(node), strict=False):
                self._note(value, self._declared(value, interval))
        return [self._of(value) for value in graph.outputs]

    def _initializer(self, value: onnx_ir.Value) -> None:
        tensor = constant_tensor(value)
        if tensor is None or not is_read_in_parts(tensor):
            self._note(value, self._constant(value))
        else:
            self.unread[value] = tensor
            self.seen[value] = whole(tensor.dtype, None)  # its place in the order of the model

    def _read(self, value: onnx_ir.Value, sums: Sequence[BlockSums[Any]] = ()) -> None:
        """Read a large constant: for the sums, and also for its bounds and `also`, if it is unread."""
        tensor = self.unread.get(value)
        if tensor is None:
            if sums:
                read_constant(value, sums)
            return
        self.known[value] = self.seen[value] = self._of_tensor(tensor, sums)
        del self.unread[value]

    def _of_tensor(self, tensor: onnx_ir.TensorProtocol, sums: Sequence[Reader] = ()) -> Interval:
        other = self.also(tensor) if self.also is not None and is_read_in_parts(tensor) else None
        return interval_of_tensor(tensor, sums if other is None else [*sums, other])

    def _subgraph(self, graph: onnx_ir.Graph, inputs: Sequence[Interval]) -> list[Interval]:
        for value, interval in zip(graph.inputs, inputs, strict=False):
            self._note(value, self._declared(value, interval))
        for node in graph:
            for value in node.outputs:
                self.known.pop(value, None)
        return self._body(graph)

    def _note(self, value: onnx_ir.Value, interval: Interval) -> None:
        """Remember what is known now, and what holds in all turns of the loops around."""
        self.known[value] = interval
        before = self.seen.get(value)
        self.seen[value] = interval if before is None or before is interval else _joined(before, interval)

    def _declared(self, value: onnx_ir.Value, interval: Interval) -> Interval:
        """The interval with the dimensions that the model declares, where the rule found none."""
        dims = self.dims_of(value)
        if interval.dims is not None or dims is None:
            return interval
        return with_bounds(interval, np.asarray(interval.least), np.asarray(interval.greatest), dims)

    def _input(self, value: onnx_ir.Value) -> Interval:
        dims, dtype, name = self.dims_of(value), self.inference.type_of(value), value.name or ""
        if name in self.ranges:
            return _with_default(_declared_range(*self.ranges[name], dims, dtype), value)
        if name in self.defaults:
            default = self.defaults[name]
            held = _declared_range(default.low, default.high, dims, dtype)
            return replace(held, assumes=frozenset({default.why}))
        if value.const_value is not None:
            return replace(interval_of_tensor(value.const_value), assumes=frozenset({DEFAULTS}))
        assumed = frozenset({NO_OVERFLOW}) if is_float(dtype) else frozenset[str]()
        return whole(dtype, dims, blame=frozenset({name}), assumes=assumed)

    def _constant(self, value: onnx_ir.Value) -> Interval:
        tensor = constant_tensor(value)
        if tensor is None:
            return whole(self.inference.type_of(value), self.dims_of(value), nan=True, infinite=True)
        return self._of_tensor(tensor)

    def _node(self, node: onnx_ir.Node) -> Sequence[Interval]:
        inputs = Operands(node.inputs, self._of)
        if node.op_type not in _LAZY:
            inputs.read_all()
        dims = [self.dims_of(value) for value in node.outputs]
        dtypes = [self.inference.type_of(value) for value in node.outputs]
        if None in dtypes:
            dtypes = [_type_by_operands(node, inputs) if dtype is None else dtype for dtype in dtypes]
        step = Step(node, inputs, self.opset, dims, dtypes, self.known, self._read)
        try:
            found = self._results(step)
        except (UnknownRangeError, IndexError, TypeError, ValueError, ZeroDivisionError):
            # Attributes and shapes of a model that breaks its operators' rules: nothing is known of what it computes.
            found = [step.unbounded(index) for index in range(len(node.outputs))]
        inputs.read_all()
        for value in node.inputs:
            tensor = constant_tensor(value)
            if tensor is not None:
                _release(tensor)
        return [found] if isinstance(found, Interval) else found

    def _of(self, value: onnx_ir.Value) -> Interval:
        """Return the interval of a value; unbounded for one that the model uses before it defines it."""
        if value in self.unread:
            self._read(value)
        found = self.known.get(value)
        return whole(self.inference.type_of(value), None, nan=True, infinite=True) if found is None else found

    def dims_of(self, value: onnx_ir.Value) -> Dims | None:
        """The dimensions that are declared or inferred for a value, unless there are more than an array can have."""
        shape = value.shape if value.shape is not None else self.shapes.get(value)
        if shape is None or len(shape) > MOST_DIMENSIONS:
            return None
        return tuple(dim if isinstance(dim, int) and dim >= 0 else None for dim in shape)

    def _results(self, step: Step) -> Interval | Sequence[Interval]:
        node = step.node
        if is_convert_promote_types(node):
            return [_promoted(step, index) for index in range(len(node.outputs))]
        if node.domain not in DEFAULT_DOMAINS:
            rule = FOREIGN.get((node.domain, node.op_type))
            return self._foreign(step) if rule is None else rule(step)
        if node.op_type == "Constant":
            return self._constant(node.outputs[0])
        nested = control_flow(step, self._subgraph)
        if nested is not None:
            return nested
        if node.op_type in RULES:
            return RULES[node.op_type](step)
        if node.op_type in _PACKED:
            return _packed(step)
        return _by_traits(step)

    def _foreign(self, step: Step) -> Sequence[Interval]:
        return [step.unbounded(index, **_anything(step, index)) for index in range(len(step.node.outputs))]


def _release(tensor: onnx_ir.TensorProtocol) -> None:
    if is_stored(tensor):
        release_pages(tensor)


def _type_by_operands(node: onnx_ir.Node, inputs: Sequence[Interval | None]) -> DataType | None:
    """The type of what operators of com.microsoft, which have no schema here, and those behind them compute."""
    first = 0 if node.domain == "com.microsoft" else None
    if node.domain in DEFAULT_DOMAINS and any(node.op_type in part.RULES for part in _PARTS):
        first = _operand_of_result_type(node.op_type)
    return None if first is None else next((each.dtype for each in inputs[first:] if each is not None), None)


@cache
def _operand_of_result_type(op_type: str) -> int | None:
    """Return the first operand that has the type of the results, by the newest schema; the first without a schema."""
    if not onnx.defs.has(op_type):
        return 0
    schema = onnx.defs.get_schema(op_type)
    if any("(" in each.type_str for each in schema.outputs):  # a result of a type of its own, such as indices
        return None
    result = schema.outputs[0].type_str
    return next((index for index, each in enumerate(schema.inputs) if each.type_str == result), None)


def _declared_range(low: float, high: float, dims: Dims | None, dtype: DataType | None) -> Interval:
    """The range, and the numbers of the type that are nearest to its ends: 0.1 in float is above 0.1."""
    declared = constant_interval(low, high, dims, dtype)
    least, greatest = rounded(declared.low, declared.high, dtype)
    return replace(declared, low=np.minimum(declared.low, least), high=np.maximum(declared.high, greatest))


def _with_default(declared: Interval, value: onnx_ir.Value) -> Interval:
    """The declared range of an input, and its default value."""
    if value.const_value is None:
        return declared
    default = interval_of_tensor(value.const_value)
    low, high = min(declared.least, default.least), max(declared.greatest, default.greatest)
    return replace(constant_interval(low, high, declared.dims, declared.dtype), **flags(declared, default))


def _joined(a: Interval, b: Interval) -> Interval:
    return hull([a, b]) if a.low.size and b.low.size else a if a.low.size else b


def _anything(step: Step, index: int) -> dict[str, bool]:
    floating = not is_integer(step.dtypes[index])
    return {"nan": floating, "infinite": floating}


def _promoted(step: Step, index: int) -> Interval:
    """Return the result of ConvertPromoteTypes for an operand: the same numbers, rounded to its type."""
    x = step.input(index)
    held = replace(step, dims=[step.dims[index]], dtypes=[step.dtypes[index]])
    if not is_float(step.dtypes[index]):
        return held.unbounded()
    return held.result(x.low, x.high, x.dims, x)


def _packed(step: Step) -> list[Interval]:
    """Sequences and optional values: one interval for all that they hold."""
    moved = traits_of(step.node.domain, step.node.op_type).moved(step.node.inputs)
    parts = [step.known[value] for value in moved if value is not None and value in step.known]
    if not parts:
        return [whole(step.dtypes[0], None)]
    least, greatest = min(each.least for each in parts), max(each.greatest for each in parts)
    joint = constant_interval(least, greatest, None, parts[0].dtype, **flags(*parts))
    dims = step.dims[0]
    return [joint if dims is None else constant_interval(least, greatest, dims, joint.dtype, **flags(*parts))]


def _by_traits(step: Step) -> list[Interval]:
    """Operators without a rule: moves join what they move; logic gives 0 or 1; others may give anything."""
    node = step.node
    row = traits_of(node.domain, node.op_type)
    if node.op_type in GIVES_BOOL:
        return [arithmetic.boolean(step)]
    if row.moves in _MOVED and row.holds(node):
        moved = [
            found
            for value in row.moved(node.inputs)
            if value is not None and (found := step.known.get(value)) is not None
        ]
        if moved:
            joint = hull([collapsed(each, None) for each in moved])
            return [collapsed(joint, dims) for dims in step.dims]
    return [step.unbounded(index, **_anything(step, index)) for index in range(len(node.outputs))]


def opset_of_model(model: onnx_ir.Model) -> int:
    """The opset of the default domain of the model; 1 for a model without it."""
    return opset_of(model.opset_imports, "") or 1
