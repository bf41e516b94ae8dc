"""The walk: each node in order, its rule applied to the intervals of its operands.

A value without a rule, or of which a rule says nothing, has the range of its type, and may be NaN or infinite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import onnx
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.calls import Calls
from castsmith.analysis.bounds.control_flow import control_flow
from castsmith.analysis.bounds.defaults import Default
from castsmith.analysis.bounds.interval import (
    MOST_DIMENSIONS,
    NONE,
    Dims,
    Interval,
    UnknownRangeError,
    anything,
    collapsed,
    hull,
    interval_of,
    key_of,
    whole,
)
from castsmith.analysis.bounds.reading import interval_of_tensor, is_read_in_parts
from castsmith.analysis.bounds.remembered import Remembered
from castsmith.analysis.bounds.rounding import is_float, is_integer, limits_of, rounded, widest
from castsmith.analysis.bounds.rules import (
    arithmetic,
    attention,
    convolution,
    foreign,
    functions,
    linear,
    movement,
    normalization,
    places,
    quantization,
    recurrent,
    reduction,
    signal,
    written_out,
)
from castsmith.analysis.bounds.step import DEFAULTS, NO_OVERFLOW, Rule, Step
from castsmith.analysis.inference.walk import Inference
from castsmith.analysis.shapes.dims import Names
from castsmith.ir.constants import constant_tensor
from castsmith.ir.io.stored import release_pages
from castsmith.ir.io.streaming import is_stored
from castsmith.ir.ops.attributes import MisfitError
from castsmith.ir.ops.promote_types import is_convert_promote_types
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS, opset_of
from castsmith.ir.ops.table import RUNS_GRAPHS, traits_of
from castsmith.ir.ops.traits import OF_OPERANDS, Moves
from castsmith.ir.walks import graphs_in, graphs_of, nodes_of

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
    **quantization.RULES,
    **recurrent.RULES,
    **attention.RULES,
    **signal.RULES,
}

_MOVED = OF_OPERANDS | {Moves.PACK, Moves.UNPACK}
"""Movements after which an element is one of those before; sequences and optional values have one entry for all."""
_WALKS, _WALKS_OF_NODE = 20_000, 64
"""Nodes of subgraphs that are walked, and so many more for each node of the model: loops in loops walk theirs often."""


@dataclass
class Analysis:
    """Intervals of all values of a model. A function is walked for each call with other operands.

    Attributes:
        inference: The element types of the model.
        ranges: Declared ranges of graph inputs by name: least and greatest element.
        defaults: Ranges of other inputs, and why they are taken.
        imports: The opsets where the walk is.
        remembered: What was found of large constants in another model; takes what is found in this one.
        calls: The functions, and what calls of them gave.
        known: What was found so far in the turns and calls that are walked now.
        seen: What was found in all turns and calls.
        walks: How many more nodes of subgraphs are walked; loops in loops are walked many times.
    """

    inference: Inference
    ranges: Mapping[str, tuple[float, float]]
    defaults: Mapping[str, Default]
    imports: Mapping[str, int]
    remembered: Remembered | None = None
    calls: Calls = field(default_factory=lambda: Calls({}))
    intervals: dict[onnx_ir.Value, Interval] = field(default_factory=dict[onnx_ir.Value, Interval])
    seen: dict[onnx_ir.Value, Interval] = field(default_factory=dict[onnx_ir.Value, Interval])
    walks: int = 0
    _constants: dict[onnx_ir.Value, onnx_ir.Value] = field(default_factory=dict[onnx_ir.Value, onnx_ir.Value])
    _unknown: set[onnx_ir.Function] = field(default_factory=set[onnx_ir.Function])
    _names: Names = field(default_factory=Names)

    def run(self, graph: onnx_ir.Graph) -> None:
        """Bound every value of the graph, of its subgraphs, and of the functions that it calls."""
        scopes = [graph, *self.calls.functions.values()]
        self.walks = _WALKS + _WALKS_OF_NODE * sum(1 for scope in scopes for _ in nodes_of(scope))
        with np.errstate(all="ignore"):
            for value in graph.inputs:
                self._note(value, self._input(value))
            self._body(graph, graph)

    def _body(self, graph: onnx_ir.Graph, nodes: Iterable[onnx_ir.Node]) -> list[Interval]:
        for value in graph.initializers.values():
            if not value.is_graph_input() and value not in self.intervals:
                self._initializer(value)
        for node in nodes:
            for value, interval in zip(node.outputs, self._node(node), strict=False):
                self._note(value, self._declared(value, interval))
        return [self._of(value) for value in graph.outputs]

    def _initializer(self, value: onnx_ir.Value) -> None:
        tensor = constant_tensor(value)
        if tensor is None or self.remembered is None or not is_read_in_parts(tensor):
            self._note(value, self._constant(value))
            return
        interval = self.remembered.interval(tensor)
        if interval is None:
            interval = self._constant(value)
            self.remembered.keep_interval(tensor, interval)
        self._note(value, interval)

    def _subgraph(
        self, graph: onnx_ir.Graph, inputs: Sequence[Interval], before: Sequence[Interval] | None = None
    ) -> list[Interval]:
        nodes = list(graph)
        if before is not None:
            pairs = zip(graph.inputs, before, inputs, strict=True)
            nodes = _depending(nodes, {value for value, old, new in pairs if key_of(old) != key_of(new)})
        self.walks -= len(nodes)
        if self.walks < 0 or len(inputs) != len(graph.inputs):
            raise UnknownRangeError
        for value, interval in zip(graph.inputs, inputs, strict=True):
            self._note(value, self._declared(value, interval))
        for node in nodes:
            for value in node.outputs:
                self.intervals.pop(value, None)
        return self._body(graph, nodes)

    def _call(self, step: Step, function: onnx_ir.Function) -> list[Interval]:
        """Walk the body of a function, unless it was walked with the same operands before."""
        body, values = self.calls.body_of(function, step.node), step.node.inputs
        operands = [step.input(index) for index in range(len(body.inputs))]
        sources = [None if value is None else self._constants.get(value, value) for value in values]
        constants = [None if constant_tensor(source) is None else source for source in sources]
        key = (body, *((constant, key_of(x)) for constant, x in zip(constants, operands, strict=True)))
        results = self.calls.results.get(key)
        if results is None:
            for formal, x, constant in zip(body.inputs, operands, constants, strict=True):
                self._constants.pop(formal, None)
                if constant is not None:
                    self._constants[formal] = constant
                if x.dtype is not None:
                    self.inference.types[formal] = x.dtype
            if body is not function or len(self.inference.signatures.get(function, ())) > 1:
                self.inference.walk(body, body.opset_imports)
            imports, self.imports = self.imports, body.opset_imports
            try:
                results = self._subgraph(body.graph, operands)
            finally:
                self.imports = imports
            self.calls.results[key] = results
        return results

    def _give_up(self, node: onnx_ir.Node) -> None:
        """Note that nothing is known of the values in the subgraphs of a node, or in the functions that it calls."""
        function = self.calls.function_of(node)
        if function is not None and function not in self._unknown:
            self._unknown.add(function)
            self._give_up_in(function.graph)
        for attribute in node.attributes.values():
            for graph in graphs_in(attribute):
                self._give_up_in(graph)

    def _give_up_in(self, graph: onnx_ir.Graph) -> None:
        for value in graph.initializers.values():
            if value not in self.seen:
                self._initializer(value)
        for value in graph.inputs:
            self._note(value, self._anything(value))
        for node in graph:
            for value in node.outputs:
                self._note(value, self._anything(value))
            self._give_up(node)

    def _note(self, value: onnx_ir.Value, interval: Interval) -> None:
        """Remember what is known now, and what holds in all turns and calls."""
        self.intervals[value] = interval
        value = self.calls.originals.get(value, value)
        before = self.seen.get(value)
        self.seen[value] = interval if before is None or before is interval else hull([before, interval])

    def _declared(self, value: onnx_ir.Value, interval: Interval) -> Interval:
        """The interval with the dimensions that the model declares, where the rule found none."""
        dims = self.dims_of(value)
        return interval if interval.dims is not None or dims is None else collapsed(interval, dims)

    def _anything(self, value: onnx_ir.Value) -> Interval:
        return anything(self.inference.type_of(value), self.dims_of(value))

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
            return self._anything(value)
        interval = interval_of_tensor(tensor)
        _release(tensor)
        return interval

    def _node(self, node: onnx_ir.Node) -> Sequence[Interval]:
        inputs = [None if value is None else self._of(value) for value in node.inputs]
        dims = [self.dims_of(value) for value in node.outputs]
        dtypes = [self.inference.type_of(value) for value in node.outputs]
        if None in dtypes:
            dtypes = [_type_by_operands(node, inputs) if dtype is None else dtype for dtype in dtypes]
        opset = opset_of(self.imports, "") or 1
        step = Step(node, inputs, opset, dims, dtypes, self.intervals, self._constants, self.remembered)
        if self._is_one_operator(node):
            step = step.with_dims(self.imports, self._names)
        try:
            results = self._results(step)
        except (UnknownRangeError, MisfitError):
            self._give_up(node)
            results = [step.anything(index) for index in range(len(node.outputs))]
        for value in node.inputs:
            tensor = constant_tensor(value)
            if tensor is not None:
                _release(tensor)
        results = [results] if isinstance(results, Interval) else results
        if any(x is not None and DEFAULTS in x.assumes for x in inputs):  # also of shapes and weights that a rule reads
            return [replace(result, assumes=result.assumes | {DEFAULTS}) for result in results]
        return results

    def _is_one_operator(self, node: onnx_ir.Node) -> bool:
        """True for a node whose shapes follow from those of its operands, without a walk through what it calls."""
        return self.calls.function_of(node) is None and node.op_type not in RUNS_GRAPHS | {"Constant"}

    def _of(self, value: onnx_ir.Value) -> Interval:
        """Return the interval of a value; anything for one that the model uses before it defines it."""
        interval = self.intervals.get(value)
        return anything(self.inference.type_of(value), None) if interval is None else interval

    def dims_of(self, value: onnx_ir.Value) -> Dims | None:
        """The dimensions that are declared for a value, unless there are more than are followed."""
        shape = value.shape
        if shape is None or len(shape) > MOST_DIMENSIONS:
            return None
        return tuple(dim if isinstance(dim, int) and dim >= 0 else None for dim in shape)

    def _results(self, step: Step) -> Interval | Sequence[Interval]:
        node, function = step.node, self.calls.function_of(step.node)
        if not node.outputs:
            raise UnknownRangeError
        if function is not None:
            return self._call(step, function)
        if is_convert_promote_types(node):
            step = replace(step, dims=[step.input(index).dims for index in range(2)])
            return [_promoted(step, index) for index in range(2)]
        if node.domain not in DEFAULT_DOMAINS:
            rule = FOREIGN.get((node.domain, node.op_type))
            if rule is None:
                raise UnknownRangeError
            return rule(step)
        if node.op_type == "Constant":
            return self._constant(node.outputs[0])
        nested = control_flow(step, self._subgraph)
        if nested is not None:
            return nested
        if node.op_type in RUNS_GRAPHS:
            raise UnknownRangeError
        if node.op_type in RULES:
            return _unknown(step) if _loses_fractions(step) else RULES[node.op_type](step)
        return _by_traits(step)


def _unknown(step: Step) -> list[Interval]:
    return [step.anything(index) for index in range(len(step.node.outputs))]


def _loses_fractions(step: Step) -> bool:
    """True if an operand becomes integers before the node computes, as its type disagrees: no rule follows that."""
    if not is_integer(step.dtypes[0]):
        return False
    shared = _operands_of_result_type(step.node.op_type, len(step.inputs))
    return any(index in shared and x is not None and is_float(x.dtype) for index, x in enumerate(step.inputs))


def _depending(nodes: Iterable[onnx_ir.Node], changed: set[onnx_ir.Value]) -> list[onnx_ir.Node]:
    """The nodes that depend on values that changed; those that hold graphs, which may read any, count."""
    depending: list[onnx_ir.Node] = []
    for node in nodes:
        if not changed.isdisjoint(node.inputs) or graphs_of(node):
            depending.append(node)
            changed.update(node.outputs)
    return depending


def _release(tensor: onnx_ir.TensorProtocol) -> None:
    if is_stored(tensor):
        release_pages(tensor)


def _type_by_operands(node: onnx_ir.Node, inputs: Sequence[Interval | None]) -> DataType | None:
    """The type of what operators of com.microsoft, which have no schema here, and those behind them compute."""
    first: Sequence[int] = (0,) if node.domain == "com.microsoft" else ()
    if node.domain in DEFAULT_DOMAINS and any(node.op_type in part.RULES for part in _PARTS):
        first = _operands_of_result_type(node.op_type, len(inputs))[:1]
    return next((value.dtype for index in first for value in inputs[index:] if value is not None), None)


@cache
def _operands_of_result_type(op_type: str, count: int) -> Sequence[int]:
    """Return which of its operands have the type of the results, by the newest schema; the first without a schema."""
    if not onnx.defs.has(op_type):
        return (0,)
    schema = onnx.defs.get_schema(op_type)
    result, last = schema.outputs[0].type_str, len(schema.inputs) - 1
    if any("(" in value.type_str for value in schema.outputs):  # a result of a type of its own, such as indices
        return ()
    return tuple(index for index in range(count) if schema.inputs[min(index, last)].type_str == result)


def _declared_range(low: float, high: float, dims: Dims | None, dtype: DataType | None) -> Interval:
    """The range, and the numbers of the type that are nearest to its ends: 0.1 in float is above 0.1."""
    ends = np.asarray(low), np.asarray(high)
    if is_float(dtype):
        least, most = rounded(*ends, dtype)
        ends = np.minimum(ends[0], least), np.maximum(ends[1], most)
        ends = np.clip(ends, -widest(dtype), widest(dtype))
    elif is_integer(dtype):
        ends = np.clip(ends, *limits_of(dtype))
    return interval_of(ends[0], ends[1], NONE, dims, dtype)


def _with_default(declared: Interval, value: onnx_ir.Value) -> Interval:
    """The declared range of an input, and its default value."""
    if value.const_value is None:
        return declared
    default = interval_of_tensor(value.const_value)
    return collapsed(hull([collapsed(declared, None), collapsed(default, None)]), declared.dims)


def _promoted(step: Step, index: int) -> Interval:
    """Return the result of ConvertPromoteTypes for an operand: the same numbers, rounded to its type."""
    x = step.input(index)
    if not is_float(step.dtypes[index]):
        return step.anything(index)
    return step.result(x.low, x.high, x, special=x.special, index=index)


def _by_traits(step: Step) -> list[Interval]:
    """Operators without a rule: moves join what they move; others may give anything that the type holds."""
    node = step.node
    row = traits_of(node.domain, node.op_type)
    if row.moves not in _MOVED or not row.holds(node):
        return _unknown(step)
    return movement.joined(step)
