"""Names, values and nodes for random valid models: what can be read where, and constants of every type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx_ir
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.types import Kind, element_type

LENGTH = 3
_COMMON = "bool int8 uint8 int16 uint16 int32 int64 uint32 uint64 float16 float double string"
COMMON = tuple(DataType[name.upper()] for name in _COMMON.split())
SHAPES: dict[int, list[int]] = {0: [], 1: [LENGTH], 2: [2, LENGTH]}
_NAMES = [f"{letter}{digit}" for letter in "abk" for digit in ("", "0", "1", "_cast", "_float", "_float16", "_int64")]
"""Few names, so that scopes share them; among them some that a rewrite would give."""


@dataclass(frozen=True)
class Typed:
    """Kind of a value: `tensor`, `seq` or `opt`, of an element type and a rank."""

    dtype: DataType
    rank: int
    kind: str = "tensor"


@dataclass
class Scope:
    """The names that can be read in a graph, the nodes made so far, and all names that the graph or one around has."""

    values: dict[str, Typed]
    taken: set[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    functions: dict[str, tuple[list[Typed], Typed, bool]] = field(
        default_factory=dict[str, tuple[list[Typed], Typed, bool]]
    )
    depth: int = 2

    def inner(self) -> Scope:
        return Scope(dict(self.values), set(self.taken), [], self.functions, self.depth - 1)


class NothingFitsError(Exception):
    """No value, type or name of the wanted kind."""


@cache
def types_at(op_type: str, opset: int, index: int = 0, *, output: bool = False) -> frozenset[DataType]:
    """The element types that the operator takes, or gives, at the place; none where the opset lacks it."""
    try:
        schema = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:
        return frozenset()
    formals = schema.outputs if output else schema.inputs
    texts = formals[min(index, len(formals) - 1)].types
    found = (text.removeprefix("tensor(").removesuffix(")").upper() for text in texts if text.startswith("tensor("))
    return frozenset(DataType[name] for name in found)


@dataclass
class Values:
    """State that a builder of models needs in every scope."""

    random: Random
    opset: int
    palette: Sequence[DataType]
    initializers: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    imports: dict[str, int] = field(default_factory=dict[str, int])

    # Names and values

    def name(self, scope: Scope) -> str:
        free = [name for name in _NAMES if name not in scope.taken]
        name = self.random.choice(free) if free and self.random.random() < 0.7 else f"v{len(scope.taken)}"
        while name in scope.taken:
            name += "_"
        scope.taken.add(name)
        return name

    def pick(self, scope: Scope, accept: Callable[[Typed], bool]) -> str:
        found = [name for name, typed in scope.values.items() if accept(typed)]
        if not found:
            raise NothingFitsError
        return self.random.choice(found[-6:] if self.random.random() < 0.5 else found)

    def tensor_of(self, scope: Scope, types: frozenset[DataType] | set[DataType], rank: int | None = None) -> str:
        return self.pick(scope, lambda t: t.kind == "tensor" and t.dtype in types and rank in (None, t.rank))

    def cast_to(self, scope: Scope, dtype: DataType, rank: int) -> str:
        """A value of the type and rank: one that is there, else a cast of one, else a constant."""
        try:
            return self.tensor_of(scope, {dtype}, rank)
        except NothingFitsError:
            pass
        if dtype in types_at("Cast", self.opset, output=True):
            try:
                source = self.tensor_of(scope, types_at("Cast", self.opset), rank)
                return self.add(scope, "Cast", [source], Typed(dtype, rank), to=int(dtype))
            except NothingFitsError:
                pass
        return self.constant(scope, Typed(dtype, rank))

    def add(self, scope: Scope, op_type: str, inputs: list[str], typed: Typed, domain: str = "", **attributes: Any):
        output = self.name(scope)
        label = f"n_{output}" if self.random.random() < 0.6 else ""
        node = onnx.helper.make_node(op_type, inputs, [output], name=label, domain=domain, **attributes)
        scope.nodes.append(node)
        scope.values[output] = typed
        return output

    def array(self, typed: Typed) -> np.ndarray:
        shape = SHAPES[typed.rank]
        if typed.dtype is DataType.STRING:
            return np.resize(np.array(self.random.sample(["1", "0", "-2.5", "text", "INF"], 3), object), shape)
        count = int(np.prod(shape))
        pool = [0, 1, 2, 3, 100, 127] if self.random.random() < 0.5 else [0.5, -0.0, 1.0, 0.1, 3.3, 1e-9, 300.0, -7.0]
        row = element_type(typed.dtype)
        numbers = np.array([self.random.choice(pool) for _ in range(count)]).reshape(shape)
        if row.kind is Kind.COMPLEX:
            return numbers.astype(typed.dtype.numpy())
        if row.kind is Kind.INTEGER:
            numbers = np.clip(numbers.astype(np.int64), max(int(row.min), -128), min(int(row.max), 127))
        if typed.dtype is DataType.FLOAT8E8M0:
            numbers = 2.0 ** np.trunc(np.abs(numbers))
        return cast(numbers, typed.dtype)

    def proto(self, typed: Typed, name: str) -> onnx.TensorProto:
        array = self.array(typed)
        if typed.dtype is DataType.STRING:
            return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, array.shape, array.reshape(-1).tolist())
        return onnx_ir.to_proto(onnx_ir.tensor(array, dtype=typed.dtype, name=name))

    def constant(self, scope: Scope, typed: Typed) -> str:
        if typed.dtype not in types_at("Constant", self.opset, output=True):
            raise NothingFitsError
        return self.add(scope, "Constant", [], typed, value=self.proto(typed, "value"))

    def fixed(self, scope: Scope, values: list[int]) -> str:
        """A constant of int64, such as a shape."""
        return self.int64(scope, onnx.helper.make_tensor("value", onnx.TensorProto.INT64, [len(values)], values), -1)

    def index(self, scope: Scope, number: int) -> str:
        return self.int64(scope, onnx.helper.make_tensor("value", onnx.TensorProto.INT64, [], [number]), 0)

    def int64(self, scope: Scope, tensor: onnx.TensorProto, rank: int) -> str:
        if DataType.INT64 in types_at("Constant", self.opset, output=True):
            return self.add(scope, "Constant", [], Typed(DataType.INT64, rank), value=tensor)
        tensor.name = f"fixed{len(self.initializers)}"
        self.initializers.append(tensor)
        return tensor.name

    # Subgraphs

    def entering(self, inner: Scope, typed: Typed, outer: Scope) -> str:
        """The name of an input of a body, which may be one that the graph around has."""
        if outer.values and self.random.random() < 0.15:
            name = self.random.choice(list(outer.values))
            inner.values[name] = typed
            return name
        name = self.name(inner)
        inner.values[name] = typed
        return name

    def body(self, inner: Scope, label: str, inputs: list[tuple[str, Typed]], outputs: list[str]) -> onnx.GraphProto:
        infos = [self.info(name, typed, shaped=self.random.random() < 0.5) for name, typed in inputs]
        results = [self.info(name, inner.values[name], shaped=False) for name in outputs]
        return onnx.helper.make_graph(inner.nodes, label, infos, results)

    def info(self, name: str, typed: Typed, *, shaped: bool) -> onnx.ValueInfoProto:
        shape = SHAPES.get(typed.rank, [f"{name}_size"]) if shaped else None
        kind = onnx.helper.make_tensor_type_proto(int(typed.dtype), shape)
        if typed.kind == "seq":
            kind = onnx.helper.make_sequence_type_proto(kind)
        elif typed.kind == "opt":
            kind = onnx.helper.make_optional_type_proto(kind)
        return onnx.helper.make_value_info(name, kind)
