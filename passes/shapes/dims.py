"""Shapes of the outputs of nodes, with dimensions as symbols.

The rules here cover shapes that depend on the elements of an input, and computed dimensions; for other operators
onnx infers the shape, node by node, with symbols as names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.shape_inference
import onnx_ir

from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators
from castsmith.numerics.types import MOST_DIMENSIONS
from castsmith.passes.fold.movement import walked
from castsmith.passes.shapes.elements import Content, Dims, Operation, array_of
from castsmith.passes.shapes.symbols import UNKNOWN, Element, Poly, Unknown, low_of, product, quotient

_FIRST = operators(lambda row: row.keeps_shape)

BROADCAST = (operators(lambda row: row.elementwise) | {"Where"}) - _FIRST
"""Operators whose operands are broadcast."""

NUMPY_OPSET = 7
"""The opset from which operands of all elementwise operators are broadcast as in numpy."""

_SMALL = 64
"""Elements up to which a constant is passed to onnx: shapes, axes, paddings."""


def joined_dim(a: Element, b: Element) -> Element:
    """Return the dimension to which both broadcast."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    for one in (a, b):
        if isinstance(one, int):
            return one
    low, least = low_of(a), low_of(b)
    # Two dimensions above 1 must be equal.
    return a if low is not None and least is not None and min(low, least) > 1 else UNKNOWN


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Return the shape to which all broadcast."""
    rank = max(map(len, shapes), default=0)
    result: Dims = (1,) * rank
    for shape in shapes:
        padded: Dims = (*(1,) * (rank - len(shape)), *shape)
        result = tuple(joined_dim(a, b) for a, b in zip(result, padded, strict=True))
    return result


def reshaped(shape: Dims | None, wanted: Content, *, allow_zero: bool) -> Dims:
    """Return the shape of a Reshape: the number of elements is unchanged, or it fails."""
    targets: list[Element] = wanted.tolist()
    dims = [_target(target, _at(shape, index), allow_zero=allow_zero) for index, target in enumerate(targets)]
    missing = [index for index, dim in enumerate(dims) if isinstance(dim, Unknown)]
    if len(missing) == 1 and shape is not None:
        rest = product(dim for dim in dims if not isinstance(dim, Unknown))
        # With 0 elements the rest does not fix the dimension; a -1 fails there.
        if targets[missing[0]] == -1 or (low_of(rest) or 0) > 0:
            dims[missing[0]] = quotient(product(shape), rest)
    return tuple(dims)


def _at(shape: Dims | None, index: int) -> Element:
    return shape[index] if shape is not None and index < len(shape) else UNKNOWN


def _target(target: Element, own: Element, *, allow_zero: bool) -> Element:
    """Return the dimension for an element of a Reshape target; `own`: the input's dimension in that position."""
    low = low_of(target)
    if low is None or low < 0:
        return UNKNOWN
    if target == 0 and not allow_zero:
        return own
    # A symbol that is 0 means the dimension of the input, which must then be 0 too.
    as_own = isinstance(own, Poly) and isinstance(quotient(target, own), int)
    return target if allow_zero or low > 0 or as_own else UNKNOWN


def _reshape(node: Operation) -> Dims | None:
    if "shape" in node.node.attributes:
        ints = node.node.attributes["shape"].as_ints()
        return reshaped(node.shapes[0], array_of(ints, (len(ints),)), allow_zero=False)
    wanted = node.content(1)
    if wanted is not None and wanted.ndim == 1 and wanted.size <= MOST_DIMENSIONS:
        return reshaped(node.shapes[0], wanted, allow_zero=bool(node.integer("allowzero", 0)))
    return _ranked(node, 1)


def _expand(node: Operation) -> Dims | None:
    wanted, shape = node.content(1), node.shapes[0]
    if shape is None:
        return None
    if wanted is None or wanted.ndim != 1 or wanted.size > MOST_DIMENSIONS:
        unknown = _ranked(node, 1)
        return None if unknown is None else broadcast([shape, unknown])
    return broadcast([shape, tuple(_positive(each) for each in wanted.tolist())])


def _of_shape(node: Operation) -> Dims | None:
    wanted = node.content(0)
    if wanted is None or wanted.ndim != 1 or wanted.size > MOST_DIMENSIONS:
        return _ranked(node, 0)
    return tuple(map(_positive, wanted.tolist()))


def _tile(node: Operation) -> Dims | None:
    shape, repeats = node.shapes[0], node.content(1)
    if shape is None or repeats is None or repeats.shape != (len(shape),) or node.opset < 6:
        return None if shape is None or node.opset < 6 else (UNKNOWN,) * len(shape)
    return tuple(dim * _positive(times) for dim, times in zip(shape, repeats.tolist(), strict=True))


def _concat(node: Operation) -> Dims | None:
    shapes = [shape for shape in node.shapes if shape is not None]
    if len(shapes) < len(node.shapes) or len({len(shape) for shape in shapes}) != 1 or not shapes[0]:
        return None
    axis, rank = node.integer("axis", 1), len(shapes[0])
    if not -rank <= axis < rank:
        return None
    axis %= rank
    dims: list[Element] = []
    for index, each in enumerate(zip(*shapes, strict=True)):
        known = [dim for dim in each if isinstance(dim, int)]
        dims.append(sum(each[1:], each[0]) if index == axis else known[0] if known else each[0])
    return tuple(dims)


def _flatten(node: Operation) -> Dims | None:
    shape, axis = node.shapes[0], node.integer("axis", 1)
    if shape is None or not -len(shape) <= axis <= len(shape):
        return None
    axis = axis + len(shape) if axis < 0 else axis
    return product(shape[:axis]), product(shape[axis:])


def _slice(node: Operation) -> Dims | None:
    """Slice dimensions that are known; a slice from 0 to the end of a dimension, in its own symbol, keeps it."""
    shape = node.shapes[0]
    starts, ends = _part(node, "starts", 1), _part(node, "ends", 2)
    if shape is None or starts is None or ends is None:
        return None if shape is None else (UNKNOWN,) * len(shape)
    axes = node.parameter("axes", 3) if "axes" in node.node.attributes or node.has(3) else tuple(range(len(starts)))
    steps = node.integers(4) if node.has(4) else (1,) * len(starts)
    if axes is None or steps is None or not len(starts) == len(ends) == len(axes) == len(steps):
        return (UNKNOWN,) * len(shape)
    dims = list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if not -len(shape) <= axis < len(shape):
            return None
        dims[axis] = _taken(shape[axis], start, end, step)
    return tuple(dims)


def _taken(dim: Element, start: Element, end: Element, step: int) -> Element:
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int) and step:
        walk = walked(dim, start, end, step)
        return UNKNOWN if walk is None else walk[1]
    if step != 1 or start != 0:
        return UNKNOWN
    return dim if end == dim or (isinstance(end, int) and end >= _ALL) else UNKNOWN


_ALL = 2**31 - 1
"""The end of any dimension, as exporters write it."""


def _part(node: Operation, name: str, index: int) -> list[Element] | None:
    if name in node.node.attributes:
        return list(node.node.attributes[name].as_ints())
    content = node.content(index)
    return None if content is None or content.ndim != 1 else content.tolist()


def _range(node: Operation) -> Dims:
    found = [node.content(index) for index in range(3)]
    parts = [each.ravel()[0] for each in found if each is not None and each.size == 1]
    if len(parts) == 3 and parts[2] == 1:
        count = parts[1] - parts[0]
        if isinstance(count, int):
            return (max(count, 0),)
        return (count,) if isinstance(count, Poly) and (count.low or 0) >= 0 and count.low is not None else (UNKNOWN,)
    return (UNKNOWN,)


def _count(node: Operation, index: int) -> int | None:
    """Number of elements of an input that is a list."""
    shape = node.shapes[index] if index < len(node.shapes) else None
    return shape[0] if shape is not None and len(shape) == 1 and isinstance(shape[0], int) else None


def _ranked(node: Operation, index: int) -> Dims | None:
    """Return a shape of unknown dimensions, as many as an input lists."""
    rank = _count(node, index)
    return None if rank is None or rank > MOST_DIMENSIONS else (UNKNOWN,) * rank


def _positive(element: Element) -> Element:
    low = low_of(element)
    return element if low is not None and low >= 0 else UNKNOWN


_RULES: Mapping[str, Callable[[Operation], Dims | None]] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "ConstantOfShape": _of_shape,
    "Tile": _tile,
    "Concat": _concat,
    "Flatten": _flatten,
    "Slice": _slice,
}


class Names:
    """The names of dimensions for onnx, and their meaning in its answers."""

    def __init__(self) -> None:
        self._names: dict[Element, str] = {}
        self._dims: dict[str, Element] = {}

    def name(self, dim: Poly) -> str:
        """Return the name of a dimension that is not a number."""
        if dim not in self._names:
            self._names[dim] = f"d{len(self._names)}"
            self._dims[self._names[dim]] = dim
        return self._names[dim]

    def type_of(self, dtype: onnx_ir.DataType | None, shape: Dims | None) -> onnx.TypeProto:
        """Return the type in the form of onnx."""
        if shape is None:
            return onnx.helper.make_tensor_type_proto(int(dtype or 0), None)
        dims = [self.name(dim) if isinstance(dim, Poly) else dim if isinstance(dim, int) else None for dim in shape]
        return onnx.helper.make_tensor_type_proto(int(dtype or 0), dims)

    def dims(self, proto: onnx.TypeProto) -> Dims | None:
        """Return the shape that onnx infers; None if it is unknown, or the type is not a tensor's."""
        if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
            return None
        return tuple(self._dim(dim) for dim in proto.tensor_type.shape.dim)

    def _dim(self, dim: onnx.TensorShapeProto.Dimension) -> Element:
        if dim.HasField("dim_value"):
            return dim.dim_value if dim.dim_value >= 0 else UNKNOWN
        return self._dims.get(dim.dim_param, UNKNOWN)


def dims_of(node: Operation, imports: Mapping[str, int], names: Names) -> list[Dims | None]:
    """Return the shape of each output, UNKNOWN for an unknown dimension, None for an unknown rank."""
    op_type, nothing = node.node.op_type, [None] * len(node.node.outputs)
    if any(attribute.is_ref() for attribute in node.node.attributes.values()):
        return [*nothing]
    if node.node.domain in DEFAULT_DOMAINS:
        first = node.shapes[0] if node.shapes else None
        if op_type in _FIRST:
            return [first, *[first] * (len(node.node.outputs) - 1)]
        if op_type in BROADCAST:
            return [first if node.opset < NUMPY_OPSET else _joined(node)]
        if op_type in _RULES:
            return [_RULES[op_type](node)]
        if op_type == "Range":
            return [_range(node)]
    return _ask_onnx(node, imports, names) or [*nothing]


def _joined(node: Operation) -> Dims | None:
    shapes = [shape for shape, value in zip(node.shapes, node.node.inputs, strict=True) if value is not None]
    known = [shape for shape in shapes if shape is not None]
    return broadcast(known) if len(known) == len(shapes) else None


def _ask_onnx(node: Operation, imports: Mapping[str, int], names: Names) -> list[Dims | None] | None:
    try:
        return _inferred(node, imports, names)
    except _REFUSALS:
        return None


_REFUSALS = (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError)


def onnx_refuses_shapes(node: Operation, imports: Mapping[str, int], names: Names) -> bool:
    """True if the shape inference of onnx fails for the shapes of the inputs."""
    try:
        _inferred(node, imports, names)
    except _REFUSALS as error:
        return "[ShapeInferenceError]" in str(error)
    return False


def _inferred(node: Operation, imports: Mapping[str, int], names: Names) -> list[Dims | None] | None:
    domain = "" if node.node.domain in DEFAULT_DOMAINS else node.node.domain
    opset = imports.get(node.node.domain, imports.get(domain, node.opset if not domain else 0))
    if not opset or not onnx.defs.has(node.node.op_type, opset, domain) or _crashes_onnx(node.node):
        return None
    proto = onnx.NodeProto(op_type=node.node.op_type, domain=domain)
    proto.attribute.extend(onnx_ir.serde.serialize_attribute(attribute) for attribute in node.node.attributes.values())
    proto.input.extend("" if value is None else f"i{index}" for index, value in enumerate(node.node.inputs))
    proto.output.extend(f"o{index}" for index in range(len(node.node.outputs)))
    known, data = dict[str, onnx.TypeProto](), dict[str, onnx.TensorProto]()
    for index, value in enumerate(node.node.inputs):
        if value is None:
            continue
        known[f"i{index}"] = names.type_of(node.types[index], node.shapes[index])
        tensor = _shown(node, index)
        if tensor is not None:
            data[f"i{index}"] = tensor
    schema = onnx.defs.get_schema(node.node.op_type, opset, domain)
    answer = onnx.shape_inference.infer_node_outputs(schema, proto, known, data)
    return [names.dims(answer[name]) if name in answer else None for name in proto.output]


def _crashes_onnx(node: onnx_ir.Node) -> bool:
    """True for what ends the process of onnx 1.23: it takes sizes from these attributes unchecked."""
    if node.op_type == "Split":
        return node.attributes.get_int("num_outputs", len(node.outputs)) != len(node.outputs)
    return node.op_type == "GatherND" and (node.attributes.get_int("batch_dims", 0) or 0) < 0


def _shown(node: Operation, index: int) -> onnx.TensorProto | None:
    """Return a small constant of integers, or numbers, in the form of onnx."""
    content, dtype = node.content(index), node.types[index]
    if content is None or dtype is None or content.size > _SMALL:
        return None
    elements = content.ravel().tolist()
    if any(isinstance(each, Poly | Unknown) for each in elements):
        return None
    numbers = [float(each) if dtype in _FLOATS else int(each) for each in elements]
    if dtype not in (*_FLOATS, onnx_ir.DataType.INT64, onnx_ir.DataType.INT32):
        return None
    return onnx.helper.make_tensor(f"i{index}", int(dtype), content.shape, numbers)


_FLOATS = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.DOUBLE)
