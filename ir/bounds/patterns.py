"""Relations between values that intervals alone do not show: a vector over its own norm, exponentials over their sum.

Exporters write normalizations as chains of ReduceMean, Sub, Pow, Sqrt and Div, and softmax as Exp, ReduceSum and Div.
Each function here takes what makes a value and finds such a chain, by structure alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir

from castsmith.ir.bounds.interval import Interval
from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.table import traits_of
from castsmith.ir.ops.traits import Moves

_THROUGH = ("Identity", "Cast", "Expand")
_DEEPEST = 8


@dataclass(frozen=True)
class Root:
    """A value that is at least the norm of the rows of `source` along `axes`: their root mean square if `mean`.

    axes: None for all of them.
    """

    source: onnx_ir.Value
    axes: tuple[int, ...] | None
    mean: bool


def is_node(value: onnx_ir.Value | None, *op_types: str) -> onnx_ir.Node | None:
    """The node that makes the value, if it is of one of these operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.domain in ("", "ai.onnx") and node.op_type in op_types else None


def same(a: onnx_ir.Value | None, b: onnx_ir.Value | None, depth: int = 3) -> bool:
    """True if the two hold the same numbers, but for casts: one value, or computed alike, as exporters repeat nodes."""
    if a is None or b is None:
        return False
    a, b = _base(a), _base(b)
    if a is b:
        return True
    one, other = (None if each is None else each.producer() for each in (a, b))
    if one is None or other is None or depth == 0 or not _alike(one, other):
        return False
    return all(same(x, y, depth - 1) for x, y in zip(one.inputs, other.inputs, strict=True) if x is not y)


def _alike(a: onnx_ir.Node, b: onnx_ir.Node) -> bool:
    """True for nodes with one output of one operator that draws no numbers, with the same attributes and arity."""
    row = traits_of(a.domain, a.op_type)
    return (
        a.op_identifier() == b.op_identifier()
        and not row.random
        and row.moves is not Moves.FLOW
        and len(a.outputs) == len(b.outputs) == 1
        and len(a.inputs) == len(b.inputs)
        and {name: each.value for name, each in a.attributes.items()}
        == {name: each.value for name, each in b.attributes.items()}
    )


def _base(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    for _ in range(_DEEPEST):
        node = is_node(value, "Identity", "Cast")
        if node is None:
            return value
        value = node.inputs[0]
    return value


def scalar(value: onnx_ir.Value | None) -> float | None:
    """The number in a constant of one element."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1:
        return None
    return float(np.asarray(tensor.numpy()).astype(np.float64).reshape(-1)[0])


def root(value: onnx_ir.Value | None, known: Mapping[onnx_ir.Value, Interval], depth: int = 0) -> Root | None:
    """The norm that the value is at least, if it is made as one."""
    if depth > _DEEPEST:
        return None
    if node := is_node(value, *_THROUGH):
        return root(node.inputs[0], known, depth + 1)
    if node := is_node(value, "Sqrt"):
        return _square(node.inputs[0], known, depth + 1)
    if (node := is_node(value, "Pow")) and scalar(node.inputs[1]) == 0.5:
        return _square(node.inputs[0], known, depth + 1)
    if node := is_node(value, "ReduceL2"):
        return _reduced(node, node.inputs[0], mean=False)
    if node := is_node(value, "Max"):
        found = (root(each, known, depth + 1) for each in node.inputs)
        return next((each for each in found if each is not None), None)
    if node := is_node(value, "Clip"):
        return root(node.inputs[0], known, depth + 1) if _no_ceiling(node) else None
    if node := is_node(value, "Add"):
        return _beside(node, known, root, depth)
    return None


def _no_ceiling(node: onnx_ir.Node) -> bool:
    return "max" not in node.attributes and (len(node.inputs) < 3 or node.inputs[2] is None)


_Find = Callable[["onnx_ir.Value | None", Mapping[onnx_ir.Value, Interval], int], Root | None]


def _beside(node: onnx_ir.Node, known: Mapping[onnx_ir.Value, Interval], find: _Find, depth: int) -> Root | None:
    """A norm, or its square, to which a value that is not negative is added."""
    for one, other in ((0, 1), (1, 0)):
        added = node.inputs[other]
        if added is not None and added in known and known[added].least >= 0 and not known[added].nan:
            found = find(node.inputs[one], known, depth + 1)
            if found is not None:
                return found
    return None


def _square(value: onnx_ir.Value | None, known: Mapping[onnx_ir.Value, Interval], depth: int) -> Root | None:
    """The norm whose square the value is at least."""
    if depth > _DEEPEST:
        return None
    if node := is_node(value, *_THROUGH):
        return _square(node.inputs[0], known, depth + 1)
    if node := is_node(value, "Add"):
        return _beside(node, known, _square, depth)
    if node := is_node(value, "Max"):
        found = (_square(each, known, depth + 1) for each in node.inputs)
        return next((each for each in found if each is not None), None)
    if node := is_node(value, "Clip"):
        return _square(node.inputs[0], known, depth + 1) if _no_ceiling(node) else None
    if node := is_node(value, "ReduceSumSquare"):
        return _reduced(node, node.inputs[0], mean=False)
    if node := is_node(value, "ReduceMean", "ReduceSum"):
        source = squared(node.inputs[0])
        return None if source is None else _reduced(node, source, mean=node.op_type == "ReduceMean")
    return None


def squared(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """Return the value of which this one is the square, element by element."""
    for _ in range(_DEEPEST):
        node = is_node(value, "Cast", "Identity")
        if node is None:
            break
        value = node.inputs[0]
    if (node := is_node(value, "Mul")) and same(node.inputs[0], node.inputs[1]):
        return node.inputs[0]
    if (node := is_node(value, "Pow")) and scalar(node.inputs[1]) == 2:
        return node.inputs[0]
    return None


def _reduced(node: onnx_ir.Node, source: onnx_ir.Value | None, *, mean: bool) -> Root | None:
    given = len(node.inputs) > 1 and node.inputs[1] is not None
    axes = reduced_axes(node)
    if source is None or not node.attributes.get_int("keepdims", 1) or (given and axes is None):
        return None
    return None if axes is None and node.attributes.get_int("noop_with_empty_axes", 0) else Root(source, axes, mean)


def reduced_axes(node: onnx_ir.Node) -> tuple[int, ...] | None:
    """The axes that a reduction names; None where it names none, or they are not fixed."""
    attribute = node.attributes.get("axes")
    if attribute is not None:
        return tuple(int(each) for each in attribute.as_ints())
    tensor = constant_tensor(node.inputs[1]) if len(node.inputs) > 1 else None
    return None if tensor is None else tuple(int(each) for each in np.asarray(tensor.numpy()).reshape(-1))


def inverse_root(value: onnx_ir.Value | None, known: Mapping[onnx_ir.Value, Interval]) -> Root | None:
    """The norm whose reciprocal the value is at most."""
    for _ in range(_DEEPEST):
        node = is_node(value, *_THROUGH)
        if node is None:
            break
        value = node.inputs[0]
    if node := is_node(value, "Reciprocal"):
        return root(node.inputs[0], known)
    if (node := is_node(value, "Div")) and scalar(node.inputs[0]) == 1:
        return root(node.inputs[1], known)
    if (node := is_node(value, "Pow")) and scalar(node.inputs[1]) == -0.5:
        return _square(node.inputs[0], known, 0)
    return None


def exponentials_over_sum(node: onnx_ir.Node) -> int | None:
    """The axis along which a quotient divides exponentials by their sum; None if it does not."""
    total = is_node(_base(node.inputs[1]), "ReduceSum")
    if total is None or not total.attributes.get_int("keepdims", 1) or not same(total.inputs[0], node.inputs[0]):
        return None
    axes = reduced_axes(total)
    if axes is None or len(axes) != 1 or is_node(_base(node.inputs[0]), "Exp") is None:
        return None
    return axes[0]


def shifted_by_maximum(value: onnx_ir.Value | None) -> bool:
    """True for exponentials of a difference to the maximum, of which one is 1."""
    exponential = is_node(_base(value), "Exp")
    difference = None if exponential is None else is_node(_base(exponential.inputs[0]), "Sub")
    greatest = None if difference is None else is_node(_base(difference.inputs[1]), "ReduceMax")
    return difference is not None and greatest is not None and same(greatest.inputs[0], difference.inputs[0])


@dataclass(frozen=True)
class Standardized:
    """`x * s + (b - m * s)` with s the reciprocal norm of x - m times `scale`: (x - m) / norm * scale + b."""

    norm: Root
    x: onnx_ir.Value
    scale: onnx_ir.Value | None
    offset: onnx_ir.Value
    products: tuple[onnx_ir.Value, onnx_ir.Value]


def standardized(node: onnx_ir.Node, known: Mapping[onnx_ir.Value, Interval]) -> Standardized | None:
    """A normalization as TensorFlow writes it, which never computes x - m times the reciprocal."""
    for one, other in ((0, 1), (1, 0)):
        product, rest = is_node(node.inputs[one], "Mul"), is_node(node.inputs[other], "Sub")
        mean = None if rest is None else is_node(rest.inputs[1], "Mul")
        if product is None or rest is None or mean is None or rest.inputs[0] is None:
            continue
        shared = [value for value in product.inputs if value is not None and value in mean.inputs]
        for factor in shared:
            x, m = (_other(each, factor) for each in (product, mean))
            found = _scaled_inverse(factor, known)
            if found is None or x is None or m is None or not _difference(found[0].source, x, m):
                continue
            assert product.outputs[0] is not None
            return Standardized(found[0], x, found[1], rest.inputs[0], (product.outputs[0], mean.outputs[0]))
    return None


def _other(node: onnx_ir.Node, value: onnx_ir.Value) -> onnx_ir.Value | None:
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


def _scaled_inverse(
    value: onnx_ir.Value, known: Mapping[onnx_ir.Value, Interval]
) -> tuple[Root, onnx_ir.Value | None] | None:
    norm = inverse_root(value, known)
    if norm is not None:
        return norm, None
    node = is_node(value, "Mul")
    if node is None:
        return None
    for one, other in ((0, 1), (1, 0)):
        norm = inverse_root(node.inputs[one], known)
        if norm is not None:
            return norm, node.inputs[other]
    return None


def _difference(value: onnx_ir.Value, x: onnx_ir.Value, m: onnx_ir.Value) -> bool:
    node = is_node(_base(value), "Sub")
    if node is None:
        return False
    return any(same(node.inputs[i], x) and same(node.inputs[1 - i], m) for i in (0, 1))
