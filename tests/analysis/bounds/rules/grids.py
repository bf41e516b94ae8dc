"""An oracle for the rules of operators: what the reference evaluator computes at points of the operands' intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.reference
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.analysis import FOREIGN, RULES
from castsmith.analysis.bounds.interval import ANYTHING, NONE, Dims, Interval, interval_of
from castsmith.analysis.bounds.reading import interval_of_tensor
from castsmith.analysis.bounds.step import Step
from castsmith.analysis.shapes.dims import Names

Array = np.ndarray[Any, Any]
Operand = Interval | Array | None
"""A box, a constant, or an operand that is left out."""


def box(
    low: Any, high: Any, dims: Dims | None = None, special: Any = NONE, dtype: DataType = DataType.DOUBLE, **facts: Any
) -> Interval:
    """An interval of a value with the shape of its bounds unless `dims` says otherwise."""
    ends = np.asarray(low, np.float64), np.asarray(high, np.float64)
    return interval_of(*ends, np.asarray(special), ends[0].shape if dims is None else dims, dtype, **facts)


def with_special(x: Interval, special: Any = ANYTHING, **facts: Any) -> Interval:
    """The same, of a value that may also be NaN or infinite."""
    return replace(x, special=np.full(x.low.shape, special), **facts)


def step_of(
    op_type: str,
    operands: Sequence[Operand],
    attribute_values: Mapping[str, Any] | None = None,
    *,
    domain: str = "",
    opset: int = 25,
    dims: Sequence[Dims | None] = (None,),
    dtypes: Sequence[DataType | None] | None = None,
) -> Step:
    """A node as its rule sees it."""
    values, intervals = list[onnx_ir.Value | None](), list[Interval | None]()
    for index, operand in enumerate(operands):
        if isinstance(operand, np.ndarray):
            tensor = onnx_ir.tensor(operand)
            values.append(onnx_ir.Value(name=f"c{index}", const_value=tensor))
            intervals.append(interval_of_tensor(tensor))
        else:
            values.append(None if operand is None else onnx_ir.Value(name=f"x{index}"))
            intervals.append(operand)
    attributes = [
        onnx_ir.from_proto(onnx.helper.make_attribute(name, value)) for name, value in (attribute_values or {}).items()
    ]
    node = onnx_ir.Node(domain, op_type, values, attributes, num_outputs=len(dims))
    operands_by_value = {v: x for v, x in zip(values, intervals, strict=True) if v is not None and x is not None}
    step = Step(node, intervals, opset, dims, dtypes or [DataType.DOUBLE] * len(dims), operands_by_value)
    return step.with_dims({domain: opset}, Names())


def ruled(step: Step) -> list[Interval]:
    """The results of a node by its rule."""
    node = step.node
    results = (FOREIGN[node.domain, node.op_type] if node.domain else RULES[node.op_type])(step)
    return [results] if isinstance(results, Interval) else list(results)


def check_tight(ends: tuple[float, float], true: tuple[float, float], margin: float = 1e-4) -> None:
    """Fail if a true result is outside of the ends, however little, or if they are farther away than the margin."""
    (low, high), (least, most) = ends, true
    assert low <= least
    assert most <= high
    assert low >= least - margin * max(1, abs(least))
    assert high <= most + margin * max(1, abs(most))


class Reference:
    """One node in the reference evaluator."""

    def __init__(self, step: Step) -> None:
        node = step.node
        names = ["" if value is None else value.name or "" for value in node.inputs]
        results = [f"y{index}" for index in range(len(node.outputs))]
        proto = onnx.helper.make_node(node.op_type, names, results, domain=node.domain)
        proto.attribute.extend(onnx_ir.to_proto(attribute) for attribute in node.attributes.values())
        inputs, outputs = ([onnx.ValueInfoProto(name=name) for name in part if name] for part in (names, results))
        opsets = [onnx.helper.make_opsetid(node.domain, step.opset)]
        model = onnx.helper.make_model(onnx.helper.make_graph([proto], "g", inputs, outputs), opset_imports=opsets)
        self.names = names
        self.session: Any = onnx.reference.ReferenceEvaluator(model)

    def __call__(self, *arrays: Array | None) -> list[Array]:
        feeds = {name: array for name, array in zip(self.names, arrays, strict=True) if array is not None}
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            return [np.asarray(array) for array in self.session.run(None, feeds)]
