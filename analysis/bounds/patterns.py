"""Relations between values that intervals alone do not show: a vector over its own norm, what is left of a sum.

Exporters write normalizations as chains of ReduceMean, Sub, Pow, Sqrt and Div.
Each function here takes what makes a value and finds such a chain, by structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import Interval
from castsmith.analysis.bounds.rounding import is_float, is_integer, unit_roundoff
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.attributes import int_of, ints_of
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Moves
from castsmith.numerics.exactness import is_exact

_DEEPEST = 8

Intervals = Mapping[onnx_ir.Value, Interval]
"""The intervals of all values before a node."""


@dataclass(frozen=True)
class Root:
    """A value that is at least the norm of the rows of `source` along `axes`: their root mean square if `mean`.

    axes: None for all of them.
    coarsest: The type with the largest roundings in which it was computed.
    """

    source: onnx_ir.Value
    axes: tuple[int, ...] | None
    mean: bool
    coarsest: DataType


def is_node(value: onnx_ir.Value | None, *op_types: str) -> onnx_ir.Node | None:
    """The node that makes the value, if it is of one of these operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.domain in DEFAULT_DOMAINS and node.op_type in op_types else None


def same(a: onnx_ir.Value | None, b: onnx_ir.Value | None, facts: Intervals, depth: int = 3) -> bool:
    """True if the two hold the same numbers: one value, or computed alike, as exporters repeat nodes.

    Casts that change no number make no difference.
    """
    if a is None or b is None:
        return False
    a, b = _base(a, facts), _base(b, facts)
    if a is b:
        return True
    one, other = (None if operand is None else operand.producer() for operand in (a, b))
    if one is None or other is None or depth == 0 or not _alike(one, other):
        return False
    return all(same(x, y, facts, depth - 1) for x, y in zip(one.inputs, other.inputs, strict=True) if x is not y)


def _alike(a: onnx_ir.Node, b: onnx_ir.Node) -> bool:
    """True for nodes with one output of one operator that draws no numbers, with the same attributes and arity."""
    row = traits_of(a.domain, a.op_type)
    return (
        a.op_identifier() == b.op_identifier()
        and not row.random
        and row.moves is not Moves.FLOW
        and len(a.outputs) == len(b.outputs) == 1
        and len(a.inputs) == len(b.inputs)
        and {name: attribute.value for name, attribute in a.attributes.items()}
        == {name: attribute.value for name, attribute in b.attributes.items()}
    )


def _base(value: onnx_ir.Value | None, facts: Intervals) -> onnx_ir.Value | None:
    """The value before casts that change no number."""
    for _ in range(_DEEPEST):
        node = is_node(value, "Identity", "Cast")
        if node is None or value is None or (node.op_type == "Cast" and not _is_exact_cast(node, facts)):
            return value
        value = node.inputs[0]
    return value


def _is_exact_cast(node: onnx_ir.Node, facts: Intervals) -> bool:
    types = [_type_of(value, facts) for value in (node.inputs[0], node.outputs[0])]
    return all(is_float(dtype) for dtype in types) and is_exact(*(dtype for dtype in types if dtype is not None))


def _type_of(value: onnx_ir.Value | None, facts: Intervals) -> DataType | None:
    interval = None if value is None else facts.get(value)
    if interval is not None:
        return interval.dtype
    return None if value is None else value.dtype


def scalar(value: onnx_ir.Value | None) -> float | None:
    """The number in a constant of one element."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1 or tensor.dtype == DataType.STRING:
        return None
    return float(np.asarray(tensor.numpy()).astype(np.float64).reshape(-1)[0])


def root(value: onnx_ir.Value | None, facts: Intervals, depth: int = 0) -> Root | None:
    """The norm that the value is at least, if it is made as one."""
    if depth > _DEEPEST:
        return None
    form = None
    if node := _as_large(value):
        form = _at_least(node, facts, root, depth)
    elif (node := is_node(value, "Sqrt")) or ((node := is_node(value, "Pow")) and scalar(node.inputs[1]) == 0.5):
        form = _square(node.inputs[0], facts, depth + 1)
    elif node := is_node(value, "ReduceL2"):
        form = _reduced(node, node.inputs[0], facts, mean=False)
    return _coarser(form, value, facts)


def _square(value: onnx_ir.Value | None, facts: Intervals, depth: int) -> Root | None:
    """The norm whose square the value is at least."""
    if depth > _DEEPEST:
        return None
    form = None
    if node := _as_large(value):
        form = _at_least(node, facts, _square, depth)
    elif node := is_node(value, "ReduceSumSquare"):
        form = _reduced(node, node.inputs[0], facts, mean=False)
    elif node := is_node(value, "ReduceMean", "ReduceSum"):
        source = squared(node.inputs[0], facts)
        form = _coarser(_reduced(node, source, facts, mean=node.op_type == "ReduceMean"), node.inputs[0], facts)
    return _coarser(form, value, facts)


def _as_large(value: onnx_ir.Value | None) -> onnx_ir.Node | None:
    """The node that makes the value, if it is one that moves or casts a norm, or may make it greater."""
    return is_node(value, "Identity", "Cast", "Expand") or is_node(value, "Max", "Clip", "Add")


_Finder = Callable[["onnx_ir.Value | None", Intervals, int], Root | None]


def _at_least(node: onnx_ir.Node, facts: Intervals, find: _Finder, depth: int) -> Root | None:
    """A norm, or its square, that is moved, cast, or made greater: by a maximum, or a number that is not negative."""
    operands = list(node.inputs)
    if node.op_type == "Clip" and ("max" in node.attributes or (len(node.inputs) > 2 and node.inputs[2] is not None)):
        return None
    if node.op_type == "Add":
        pairs = ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0]))
        operands = [operand for operand, other in pairs if _is_not_negative(other, facts)]
    roots = (find(operand, facts, depth + 1) for operand in operands)
    return next((form for form in roots if form is not None), None)


def _is_not_negative(value: onnx_ir.Value | None, facts: Intervals) -> bool:
    interval = None if value is None else facts.get(value)
    return interval is not None and interval.least >= 0 and not interval.minus.any()


def _coarser(form: Root | None, value: onnx_ir.Value | None, facts: Intervals) -> Root | None:
    """The norm, with the type of one more value from which it is computed; None if that is not known."""
    dtype = _type_of(value, facts)
    if form is None or not is_float(dtype):
        return None
    return form if unit_roundoff(dtype) <= unit_roundoff(form.coarsest) else replace(form, coarsest=dtype)


def squared(value: onnx_ir.Value | None, facts: Intervals) -> onnx_ir.Value | None:
    """Return the value of which this one is the square, element by element; exact casts aside."""
    value = _base(value, facts)
    if (node := is_node(value, "Mul")) and same(node.inputs[0], node.inputs[1], facts):
        return node.inputs[0]
    if (node := is_node(value, "Pow")) and scalar(node.inputs[1]) == 2:
        return node.inputs[0]
    return None


def _reduced(node: onnx_ir.Node, source: onnx_ir.Value | None, facts: Intervals, *, mean: bool) -> Root | None:
    fixed = len(node.inputs) > 1 and node.inputs[1] is not None
    axes, dtype = reduced_axes(node), _type_of(source, facts)
    if source is None or dtype is None or not int_of(node, "keepdims", 1) or (fixed and axes is None):
        return None
    if not axes and int_of(node, "noop_with_empty_axes", 0):
        return None
    return Root(source, axes or None, mean, dtype)


def reduced_axes(node: onnx_ir.Node) -> tuple[int, ...] | None:
    """The axes that a reduction names; None where it names none, or they are not fixed."""
    axes = ints_of(node, "axes")
    if axes is not None:
        return tuple(axes)
    tensor = constant_tensor(node.inputs[1]) if len(node.inputs) > 1 else None
    return (
        None
        if tensor is None or not is_integer(tensor.dtype)
        else tuple(int(number) for number in np.asarray(tensor.numpy()).reshape(-1))
    )


def inverse_root(value: onnx_ir.Value | None, facts: Intervals, depth: int = 0) -> Root | None:
    """The norm whose reciprocal the value is at most."""
    if depth > _DEEPEST:
        return None
    bounded = None
    if node := is_node(value, "Identity", "Cast", "Expand"):
        bounded = inverse_root(node.inputs[0], facts, depth + 1)
    elif node := is_node(value, "Reciprocal"):
        bounded = root(node.inputs[0], facts)
    elif (node := is_node(value, "Div")) and scalar(node.inputs[0]) == 1:
        bounded = root(node.inputs[1], facts)
    elif (node := is_node(value, "Pow")) and scalar(node.inputs[1]) == -0.5:
        bounded = _square(node.inputs[0], facts, 0)
    return _coarser(bounded, value, facts)


def rest_of_sums(node: onnx_ir.Node, facts: Intervals) -> tuple[onnx_ir.Node, int] | None:
    """The CumSum of whose last sum along its axis a difference subtracts each sum: what is left is that behind it.

    The sums may be rounded by a Cast, once for both operands.
    """
    last, sums = is_node(_base(node.inputs[0], facts), "Slice"), _base(node.inputs[1], facts)
    if last is None or not same(last.inputs[0], sums, facts) or len(last.inputs) < 4:
        return None
    rounding = is_node(sums, "Cast")
    cumulative = is_node(sums if rounding is None else rounding.inputs[0], "CumSum")
    interval = None if cumulative is None else facts.get(cumulative.outputs[0])
    if cumulative is None or interval is None or interval.dims is None or int_of(cumulative, "reverse", 0):
        return None
    (start, _, axis, *steps), along = map(scalar, last.inputs[1:]), scalar(cumulative.inputs[1])
    if axis is None or along is None:
        return None
    ahead = not steps or (steps[0] or 0) > 0
    counted = int(along) % len(interval.dims)
    return (cumulative, counted) if start == -1 and ahead and axis % len(interval.dims) == counted else None


@dataclass(frozen=True)
class Standardized:
    """`x * s + (b - m * s)` with s the reciprocal norm of x - m times `scale`: (x - m) / norm * scale + b.

    products: `x * s` and `m * s`.
    """

    norm: Root
    x: onnx_ir.Value
    scale: onnx_ir.Value | None
    factor: onnx_ir.Value
    offset: onnx_ir.Value
    products: tuple[onnx_ir.Value, onnx_ir.Value]


def standardized(node: onnx_ir.Node, facts: Intervals) -> Standardized | None:
    """A normalization as TensorFlow writes it, which never computes x - m times the reciprocal."""
    for one, other in ((0, 1), (1, 0)):
        product, rest = is_node(node.inputs[one], "Mul"), is_node(node.inputs[other], "Sub")
        mean = None if rest is None else is_node(rest.inputs[1], "Mul")
        if product is None or rest is None or mean is None or rest.inputs[0] is None:
            continue
        shared = [value for value in product.inputs if value is not None and value in mean.inputs]
        for factor in shared:
            x, m = (_other(side, factor) for side in (product, mean))
            inverse = _scaled_inverse(factor, facts)
            if inverse is None or x is None or not _difference(inverse[0].source, x, m, facts):
                continue
            parts = product.outputs[0], mean.outputs[0]
            return Standardized(inverse[0], x, inverse[1], inverse[2], rest.inputs[0], parts)
    return None


def _other(node: onnx_ir.Node, value: onnx_ir.Value) -> onnx_ir.Value | None:
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


def _scaled_inverse(value: onnx_ir.Value, facts: Intervals) -> tuple[Root, onnx_ir.Value | None, onnx_ir.Value] | None:
    """The norm, the scale if there is one, and the reciprocal of the norm."""
    norm = inverse_root(value, facts)
    if norm is not None:
        return norm, None, value
    node = is_node(value, "Mul")
    if node is None:
        return None
    for one, other in ((0, 1), (1, 0)):
        inverse = node.inputs[one]
        norm = inverse_root(inverse, facts)
        if norm is not None and inverse is not None:
            return norm, node.inputs[other], inverse
    return None


def _difference(value: onnx_ir.Value, x: onnx_ir.Value, m: onnx_ir.Value | None, facts: Intervals) -> bool:
    node = is_node(_base(value, facts), "Sub")
    if node is None:
        return False
    return any(same(node.inputs[i], x, facts) and same(node.inputs[1 - i], m, facts) for i in (0, 1))
