"""Requirements on inputs for a model to run on them and to be covered: bounds, roles and constants to hit.

They are found backwards: from an operator that indexes, or that compares with a constant, to the graph inputs whose
elements it gets, through moves and conversions. Following them through arithmetic too found no more differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir
from onnx_ir import AttributeType

from castsmith.analysis.inference.handed_on import handed_on
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import CASTS, operators, traits_of
from castsmith.ir.ops.traits import Answer, Conversion, Moves, Rounding, Size
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import Kind, element_type
from castsmith.verification.evaluate.indices import Bound, RangeError, Shape, index_bounds

_MOST_TURNS, _MOST_SIZE = 4, 4
"""Turns of a loop, and sizes that an input determines: several, and few enough that each set runs quickly."""

_MOST_CONSTANTS, _MOST_COUNTED = 32, 100
"""Constants that an input should hold, and the largest one that counts turns or sizes, if they are compared with it."""


_WORTH: Mapping[Size, tuple[tuple[int, int], ...]] = {
    Size.SHAPE: ((1, _MOST_SIZE),),
    Size.TIMES: ((1, _MOST_SIZE),),
    Size.RANGE: ((-8, 8), (-16, 16), (1, _MOST_SIZE)),
    Size.PAD: ((0, _MOST_SIZE),),
    Size.RESIZE: ((1, 16),),
    Size.FRAMES: ((1, _MOST_SIZE),),
}
"""Useful values of inputs that determine the size of a result; others are possible."""

_BOUND: dict[str, Bound] = {"Loop": (0, 0, _MOST_TURNS), "TopK": (1, 1, 2)}
"""The same if the size of the result is bounded anyway."""

_COMPARED = operators(
    lambda row: row.answer is Answer.COMPARISON or row.on_bits or (row.ordered and row.elementwise)
) | {"PRelu", "Mod"}
"""Operators that compare elements with those of another operand, or with a bound."""

_SAME_NUMBERS = operators(lambda row: row.moves is Moves.KEEP and not row.computes) | CASTS

_DECIDING = operators(lambda row: row.answer is Answer.LOGIC) | {"If", "Where"}


@dataclass
class Needs:
    """Requirements on one graph input. low, high: bounds of its elements. wanted: numbers that it should hold."""

    low: float = -math.inf
    high: float = math.inf
    demanded: dict[float | str, None] = field(default_factory=dict[float | str, None])
    """Elements that it has to hold, since the models differ on them: integers as int, texts as str."""
    wanted: dict[float, None] = field(default_factory=dict[float, None])
    nonzero: bool = False
    """True if integers are divided by it."""
    sizes: tuple[float, float] | None = None
    """Useful sizes and iteration counts, if it determines the size of a result."""

    def narrow(self, low: float, high: float) -> None:
        """Add bounds, unless no number would remain."""
        if max(low, self.low) <= min(high, self.high):
            self.low, self.high = max(low, self.low), min(high, self.high)

    def narrow_sizes(self) -> None:
        """Restrict to useful sizes; those that the models compare with are included."""
        if self.sizes is not None:
            low, high = self.sizes
            self.narrow(low, max(high, *(number + 1 for number in self.wanted if number < _MOST_COUNTED), high))


class Reach:
    """The requirements on the inputs of a model, by name."""

    def __init__(self, model: onnx_ir.Model) -> None:
        self.needs = {value.name or "": Needs() for value in model.graph.inputs}
        self.wanted: dict[float, None] = {}
        """Constants in comparisons anywhere, even without a known path to an input."""
        self._inputs = set(model.graph.inputs)
        nodes = list(all_nodes(model))
        self._outer: dict[onnx_ir.Value, list[onnx_ir.Value | None]] = {}
        for source, receiver in (pair for node in nodes for pair in handed_on(model, node)):
            self._outer.setdefault(receiver, []).append(source)
        for node in nodes:
            shapes = [_shape(value) for value in node.inputs]
            for slot, low, high in index_bounds(node, shapes):
                self._bound(node, slot, low, high)
            for slot, low, high in _worth(node):
                if slot < len(node.inputs):
                    self._bound(node, slot, low, high, sizes=True)
        for node in nodes:
            if node.domain in DEFAULT_DOMAINS:
                self._compare(node)
                if node.op_type in ("Div", "Mod"):
                    for need in self._sources(node.inputs[1], bounding=True, casting=False):
                        need.nonzero = True

    def repair(self, error: RangeError) -> bool:
        """Narrow the inputs whose elements were out of range; False if that changes nothing."""
        before = [(need.low, need.high) for need in self.needs.values()]
        if error.node is not None:
            self._bound(error.node, *error.bound)
        return before != [(need.low, need.high) for need in self.needs.values()]

    def demand(self, value: onnx_ir.Value, elements: Iterable[float | str]) -> None:
        """Demand inputs that bring these elements to the value."""
        for need in self._sources(value, bounding=False):
            need.demanded.update(dict.fromkeys(elements))

    def _bound(self, node: onnx_ir.Node, slot: int, low: int, high: int, *, sizes: bool = False) -> None:
        for need in self._sources(node.inputs[slot], bounding=True):
            if sizes:
                before = need.sizes or (-math.inf, math.inf)
                need.sizes = max(before[0], low), min(before[1], high)
            else:
                need.narrow(low, high)

    def _compare(self, node: onnx_ir.Node) -> None:
        constants = [_known_array(value) for value in node.inputs]
        places = range(len(node.inputs))
        if node.op_type in _COMPARED:
            numbers = [number for array in constants if array is not None for number in _numbers(array)]
            self._want([node.inputs[i] for i in places if constants[i] is None], numbers)
        elif node.op_type == "QuantizeLinear" and constants[1] is not None and constants[1].dtype.kind == "f":
            scales = [number for number in _numbers(constants[1])[:4] if math.isfinite(number)]
            steps = (0.5, 1.5, 2.5, -0.5, -1.5, 3.0, 126.5, 127.5, 128.5, -128.5, 254.5, 255.5)
            self._want(node.inputs[:1], [step * scale for scale in scales for step in steps])
        elif node.op_type in _DECIDING:
            self._want(node.inputs[:1], [0.0, 1.0])
        floats = [a.as_float() for a in node.attributes.values() if a.type is AttributeType.FLOAT and not a.is_ref()]
        self._want(node.inputs[:1], [sign * number for number in floats for sign in (1, -1)])

    def _want(self, values: Sequence[onnx_ir.Value | None], numbers: Iterable[float]) -> None:
        listed = list(numbers)
        self.wanted.update(dict.fromkeys(listed[: 4 * _MOST_CONSTANTS - len(self.wanted)]))
        for need in (need for value in values for need in self._sources(value, bounding=False)):
            need.wanted.update(dict.fromkeys(listed[: _MOST_CONSTANTS - len(need.wanted)]))

    def _sources(self, value: onnx_ir.Value | None, *, bounding: bool, casting: bool = True) -> Iterator[Needs]:
        """Yield what is needed of each graph input whose elements the value holds, through moves and conversions."""
        stack, visited = [value], set[onnx_ir.Value]()
        while stack:
            value = stack.pop()
            if value is None or value in visited:
                continue
            visited.add(value)
            if value in self._inputs:
                yield self.needs[value.name or ""]
            stack += self._outer.get(value, ())
            node = value.producer()
            if node is not None and node.domain in DEFAULT_DOMAINS and (casting or node.op_type not in CASTS):
                stack += _carried(node, bounding=bounding)


def _worth(node: onnx_ir.Node) -> Iterator[Bound]:
    """Return the inputs of the node that determine the size of its result, and useful values of each."""
    if node.domain not in DEFAULT_DOMAINS:
        return
    if node.op_type in _BOUND:
        yield _BOUND[node.op_type]
    size = traits_of("", node.op_type).size
    for place, slot in enumerate(size[1] if size is not None else ()):
        bounds = _WORTH[size[0]] if size is not None else ()
        yield (slot, *bounds[min(place, len(bounds) - 1)])


def _carried(node: onnx_ir.Node, *, bounding: bool) -> Sequence[onnx_ir.Value | None]:
    """Return the operands whose elements the results hold. bounding: unchanged, so that a bound of both is the same."""
    row = traits_of(node.domain, node.op_type)
    if row.moves is not None or row.conversion is Conversion.CAST:
        return row.moved(node.inputs)
    if row.ordered and not row.elementwise:
        return node.inputs[:1]
    picks = row.rounding is Rounding.NONE and row.answer is None
    if bounding or not (picks or row.reduces or row.conversion is Conversion.BITS or node.op_type == "CumSum"):
        return ()
    return node.inputs if row.on_bool else node.inputs[:1]


def _shape(value: onnx_ir.Value | None) -> Shape:
    """Return the declared shape of an operand, with the least possible size for each unknown one."""
    if value is None:
        return None
    tensor = constant_tensor(value)
    if tensor is not None:
        return tuple(tensor.shape.numpy())
    return None if value.shape is None or not value.shape.is_static() else value.shape.numpy()


def _known_array(value: onnx_ir.Value | None) -> np.ndarray[Any, Any] | None:
    """Return the array of a constant, also after conversions or reshapes; None for anything else or for large ones."""
    for _ in range(4):
        tensor = constant_tensor(value)
        if tensor is not None:
            is_small = tensor.size <= 4096
            numeric = is_small and element_type(tensor.dtype).kind in (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOATING)
            return tensor.numpy() if numeric else None
        node = None if value is None else value.producer()
        if node is None or node.op_type not in _SAME_NUMBERS:
            return None
        value = node.inputs[0]
    return None


def _numbers(array: np.ndarray[Any, Any]) -> list[float]:
    flat = array.reshape(-1)[:_MOST_CONSTANTS]
    return [number for number in flat.astype(np.float64).tolist() if not math.isnan(number)]
