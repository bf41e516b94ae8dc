"""Models of operators with damage that a file may have: other operands, shapes, types, attributes and constants."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
from onnx import AttributeProto, TensorProto

from tests.analysis.bounds import operators
from tests.analysis.bounds.cases import FLOATS, Array

_INTEGERS: tuple[int, ...] = (-(2**63), -(2**31), -9, -2, -1, 0, 1, 2, 3, 9, 70, 2**31, 2**62, 2**63 - 1)
_FLOATS = (0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e38, 1e-45)
_TEXTS = (b"", b"x", b"linear", b"ij,jk->ik", b"...", b"->", b"i->ii")
_TYPES = (*FLOATS, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8, TensorProto.STRING)


def damaged(seed: int) -> tuple[onnx.ModelProto, dict[str, tuple[float, float]]]:
    """Return a damaged model of an operator that has a rule, and the ranges of its inputs."""
    rng = np.random.default_rng([seed, 33])
    domain, op_type, opset, dtype = _picked(rng, _every())
    case = operators.case_of(domain, op_type, opset, dtype, seed)
    model = case.model()
    for _ in range(int(rng.integers(1, 4))):
        damage = _DAMAGES[int(rng.integers(len(_DAMAGES)))]
        damage(model.graph, model.graph.node[int(rng.integers(len(model.graph.node)))], rng)
    return model, case.ranges if rng.random() < 0.8 else {}


@cache
def _every() -> list[tuple[str, str, int, int]]:
    return list(operators.every())


def _picked(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _other_operand(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    names = ["", *(value.name for value in (*graph.input, *graph.initializer))]
    names += [name for each in graph.node for name in each.output]
    if node.input:
        node.input[int(rng.integers(len(node.input)))] = _picked(rng, names)


def _fewer_operands(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    del graph, node.input[int(rng.integers(len(node.input) + 1)) :]


def _other_shape(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    """Of an input: none, or any, with symbolic dimensions and empty ones."""
    del node
    if graph.input:
        tensor = _picked(rng, graph.input).type.tensor_type
        shape = None if rng.random() < 0.2 else [_picked(rng, [None, 0, 1, 2, 4]) for _ in range(int(rng.integers(6)))]
        tensor.CopyFrom(onnx.helper.make_tensor_type_proto(tensor.elem_type, shape).tensor_type)


def _other_type(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    del node
    if graph.input:
        _picked(rng, graph.input).type.tensor_type.elem_type = _picked(rng, _TYPES)


def _other_attribute(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    del graph
    if not node.attribute:
        return
    attribute, count = _picked(rng, node.attribute), int(rng.integers(5))
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = _picked(rng, _INTEGERS)
        case AttributeProto.FLOAT:
            attribute.f = _picked(rng, _FLOATS)
        case AttributeProto.STRING:
            attribute.s = _picked(rng, _TEXTS)
        case AttributeProto.INTS:
            attribute.ints[:] = [_picked(rng, _INTEGERS) for _ in range(count)]
        case AttributeProto.FLOATS:
            attribute.floats[:] = [_picked(rng, _FLOATS) for _ in range(count)]
        case _:
            pass


def _other_constant(graph: onnx.GraphProto, node: onnx.NodeProto, rng: np.random.Generator) -> None:
    del node
    if not graph.initializer:
        return
    tensor = _picked(rng, graph.initializer)
    kind = onnx.numpy_helper.to_array(tensor).dtype
    shape = tuple(int(size) for size in rng.integers(0, 4, int(rng.integers(5))))
    with np.errstate(all="ignore"):
        numbers: Array = rng.choice(np.array(_INTEGERS if kind.kind in "iu" else _FLOATS), shape).astype(kind)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(numbers), tensor.name))


_DAMAGES = (
    _other_operand,
    _fewer_operands,
    _other_shape,
    _other_type,
    _other_attribute,
    _other_attribute,
    _other_constant,
    _other_constant,
)
