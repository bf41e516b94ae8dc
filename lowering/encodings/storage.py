"""Values of at most 8 bits stored as uint8 codes, and weights of 4 and 2 bits packed, which the graph unpacks.

Two or four codes are in each byte, the first in the lowest bits. With the bytes as a column, shifted by a row of 0, 4
or of 0, 2, 4, 6, and all but the low bits masked out, the codes are in order; if the target is not known to
shift bytes, each byte is looked up in a table of its codes.

    w_packed [n, 1]   0x21 0x43      BitShift by [0, 4]   0x21 0x02      BitwiseAnd 15   1 2     Reshape   1 2 3 4
                                                          0x43 0x04                      3 4
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.inference.containers import nestings
from castsmith.analysis.shapes.walk import Shapes
from castsmith.ir.codes import Rule
from castsmith.ir.io.stored import relabelled
from castsmith.ir.ops.schemas import op_key, with_formals
from castsmith.ir.ops.table import named_types
from castsmith.ir.ops.value_types import naming, nested_type, set_element_type
from castsmith.ir.records import Effect, Rewrite, Site
from castsmith.ir.text import value_item
from castsmith.ir.walks import all_nodes, all_tensors, all_values, imports_by_scope
from castsmith.lowering.builder import Builder, ConstantHome
from castsmith.numerics.symbols import name_of
from castsmith.numerics.types import element_type
from castsmith.passes.core.options import Storage

if TYPE_CHECKING:
    from castsmith.targets.target import Target


# Values of at most 8 bits stored as uint8 codes, a byte each, wherever a model declares or holds them.

Convert = Callable[[onnx_ir.TensorProtocol], onnx_ir.TensorProtocol]


def as_codes(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """Return the tensor's codes as uint8.

    Codes of 8-bit types are the same bytes, not copied, and stay in the file; narrower ones are unpacked, a byte each.
    """
    row = element_type(tensor.dtype)
    same = relabelled(tensor, DataType.UINT8) if row.bits == 8 else None
    if same is not None:
        return same
    codes = tensor.numpy().view(np.uint8)
    if row.bits < 8:
        codes = codes & np.uint8(2**row.bits - 1)
    return onnx_ir.Tensor(codes, DataType.UINT8, name=tensor.name, doc_string=tensor.doc_string)


def recorded_retyping(
    model: onnx_ir.Model,
    value: onnx_ir.Value,
    dtypes: Collection[DataType],
    to: DataType,
    convert: Convert,
    pass_name: str,
    rule: Rule,
    reason: str,
) -> list[Rewrite]:
    """Declare the value, a tensor or a sequence of tensors, to be of the type `to`; convert the tensor it may hold.

    Return a record if it belongs to the model's interface or is one of its weights.
    """
    before = value_item(value)
    interface = value.graph is model.graph and (value.is_graph_input() or value.is_graph_output())
    set_element_type(value, to)
    if value.const_value is not None and value.const_value.dtype in dtypes:
        value.const_value = convert(value.const_value)
    if not interface and not value.is_initializer():
        return []
    effect = Effect.INTERFACE if interface else Effect.BIT_EXACT
    site = Site(model.graph.name or "", value.name or "")
    return [Rewrite(pass_name, rule.code, site, before, value_item(value), reason, effect)]


def retyped_attributes(
    node: onnx_ir.Node,
    dtypes: Collection[DataType],
    to: DataType,
    convert: Convert,
) -> list[onnx_ir.Attr]:
    """Return the node's attributes with `to` where they name one of the types, and tensors of these types converted."""
    changed: list[onnx_ir.Attr] = []
    named = named_types(node)
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            changed.append(attribute)
        elif attribute.type == onnx_ir.AttributeType.TENSOR and attribute.as_tensor().dtype in dtypes:
            changed.append(onnx_ir.AttrTensor(name, convert(attribute.as_tensor())))
        elif named.get(name) in dtypes:
            changed.append(naming(attribute, to))
        else:
            changed.append(attribute)
    return changed


def mentioned_types(model: onnx_ir.Model) -> set[DataType]:
    """Return every element type that the model names, in values, tensors, and attributes such as Cast's `to`.

    A type that is not named in these cannot occur. UNDEFINED represents a type that is an argument of a function.
    """
    dtypes = {value.dtype for value in all_values(model) if value.dtype is not None}
    dtypes |= {tensor.dtype for tensor in all_tensors(model)}
    for node in all_nodes(model):
        dtypes |= {DataType.UNDEFINED if dtype is None else dtype for dtype in named_types(node).values()}
    return dtypes


@contextmanager
def inferred_declared(
    model: onnx_ir.Model,
    types: Mapping[onnx_ir.Value, DataType],
    *,
    shapes: Shapes | None = None,
    tensors: Iterable[onnx_ir.Value] = (),
) -> Generator[None]:
    """Within the block, declare the inferred type, and with `shapes` the shape, of each undeclared tensor.

    So the types of sequences and optional values.

    Encodings are written by the types that values declare. Values that the block does not retype are undeclared again
    after it, so that a pass without changes leaves the model unchanged.

    Args:
        tensors: Values that are tensors although no schema says so.
    """
    declared_types: dict[onnx_ir.Value, tuple[onnx_ir.TypeProtocol | None, onnx_ir.TypeProtocol]] = {}
    declared_shapes: dict[onnx_ir.Value, onnx_ir.Shape] = {}
    nested = nestings(model)
    for value in dict.fromkeys((*_tensors(model), *tensors, *nested)):
        dtype = types.get(value)
        if dtype is not None and value.dtype in (None, DataType.UNDEFINED):
            declared_types[value] = value.type, nested_type(nested.get(value, ()), dtype)
            value.type = declared_types[value][1]
        dims = None if shapes is None or value.shape is not None else shapes.shape(value)
        if dims is not None:
            names_or_numbers = [dim if isinstance(dim, int) else name_of(dim) for dim in dims]
            value.shape = declared_shapes[value] = onnx_ir.Shape(names_or_numbers)
    try:
        yield
    finally:
        for value, (before, declared) in declared_types.items():
            if value.type is declared:
                value.type = before
        for value, shape in declared_shapes.items():
            if value.shape is shape:
                value.shape = None


def _tensors(model: onnx_ir.Model) -> Iterator[onnx_ir.Value]:
    """Return the values that are tensors because their operators allow only tensors there."""
    imports = imports_by_scope(model)
    for node in all_nodes(model):
        key = None if node.graph is None else op_key(node, imports[node.graph])
        if key is not None:
            for value, formal in with_formals(node, key):
                if value is not None and formal is not None and formal.tensor:
                    yield value


PACKED: Storage = "packed"
_LEAST_SAVED = 1024
"""Size in bytes below which additional nodes are not worthwhile."""


def can_be_packed(value: onnx_ir.Value) -> bool:
    """True if packing saves a KiB: an initializer of 4 or 2 bits that is neither input nor output."""
    tensor = value.const_value
    if tensor is None or not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return False
    bits = element_type(tensor.dtype).bits
    return bits in (2, 4) and tensor.size - math.ceil(tensor.size * bits / 8) >= _LEAST_SAVED


def packed_tensor(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """Return the bytes of the tensor's file form as a column of uint8; an external tensor stays in its file."""
    count = math.ceil(tensor.size * element_type(tensor.dtype).bits / 8)
    packed = relabelled(tensor, DataType.UINT8, onnx_ir.Shape([count, 1]))
    if packed is not None:
        packed.name = f"{tensor.name}_packed"
        return packed
    content = tensor.numpy_packed() if isinstance(tensor, onnx_ir.PackedTensor) else None
    codes = np.frombuffer(tensor.tobytes(), np.uint8) if content is None else content.view(np.uint8)
    return onnx_ir.Tensor(
        codes.reshape(count, 1), DataType.UINT8, name=f"{tensor.name}_packed", doc_string=tensor.doc_string
    )


def unpacked(
    packed: onnx_ir.Value, dtype: DataType, shape: onnx_ir.Shape, target: Target, opset: int, home: ConstantHome
) -> tuple[list[onnx_ir.Node], onnx_ir.Value]:
    """Return the nodes that unpack the codes, a byte each and in `shape`, of the packed type of 4 or 2 bits."""
    build, bits = Builder(home), element_type(dtype).bits
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    if all(_shifts_bytes(target, op_type, opset) for op_type in ("BitShift", "BitwiseAnd")):
        rows = build.op("BitShift", packed, build.constant(shifts, "shifts"), direction="RIGHT")
        rows = build.op("BitwiseAnd", rows, 2**bits - 1)
    else:
        table = np.arange(256, dtype=np.uint8)[:, None] >> shifts & np.uint8(2**bits - 1)
        rows = build.op("Gather", build.constant(table, "codes_of_bytes"), build.cast(packed, DataType.INT32))
    count = math.prod(shape.numpy())
    if count % len(shifts):
        flat = build.op("Reshape", rows, build.constant(np.array([-1], np.int64), "flat"))
        ends = [build.constant(np.array([end], np.int64), "end") for end in (0, count)]
        rows = build.op("Slice", flat, *ends)
    codes = build.op("Reshape", rows, build.constant(np.array(shape.numpy(), np.int64), "shape"))
    codes.shape = shape.copy()
    for node in build.nodes[:-1]:
        node.outputs[0].shape = None
    return build.nodes, codes


def _shifts_bytes(target: Target, op_type: str, opset: int) -> bool:
    is_stated = "kernels" not in target.unknown and onnx.defs.has(op_type, opset, "")
    return is_stated and target.has_kernel(op_type, DataType.UINT8, opset)
