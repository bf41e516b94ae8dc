"""Limits of a comparison: seconds of the processor, iterations of loops, elements of inputs and of results.

Time is that of the processor, here and in the process of the engines, and small decisions depend on the number of
operators that ran: what a comparison finds is the same on a busy machine.
Adversarial numbers make adversarial shapes, which exceed any memory, and infinite loops; both are refused before
memory or time is spent on them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx_ir
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.table import operators, traits_of
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import MOST_DIMENSIONS, element_type
from castsmith.verification.evaluate.engines import LimitError, process, renamed
from castsmith.verification.evaluate.names import MEMORY
from castsmith.verification.evaluate.promotion import Array, dtype_of

SECONDS, _FEWEST_SECONDS = 120.0, 20.0
"""Default time limit of a comparison of large models, and of small ones."""

_RUNS_A_SECOND, _ELEMENTS_A_RUN = 1000, 10_000
"""Operators that run in a second, and elements that count as one more."""

_NODES_A_SECOND, _BYTES_A_SECOND = 10, 1 << 18
"""Nodes, and bytes of constants, for which a comparison gets another second: each runs on dozens of sets of inputs."""

_LONGEST_CALL = 10.0
"""Seconds that one operator may take, if a quarter of the limit is less."""

_SHORTEST_SEARCH = 1.0
"""Seconds in which the place of a known difference is looked for, also where the time is over."""

_MOST_MADE = 1 << 22
"""Elements that operands of any size may make: 16 MiB of float."""

Operands = Sequence[Array | None]


def _now() -> float:
    """Return the seconds of the processor that this thread and the process of the engines have taken."""
    return time.thread_time() + process().used


@dataclass
class Budget:
    """The remaining time, and the nodes that loops and functions may still run on this set of inputs.

    Attributes:
        seconds: The limit of processor time, of the thread that makes this and of the engines.
        runs: The operators that ran, large operands counted as more; the same on every machine.
        part: The fraction of all steps that the present set of inputs may take.
        memory: MiB that all may take, constants apart. Both models, their results and the process of the engine hold
            copies, so the values of a run may take a quarter of it, and the inputs or the operands of a node an eighth.
    """

    seconds: float = SECONDS
    started: float = field(default_factory=_now)
    steps: int = 0
    runs: float = 0.0
    part: float = 1.0
    memory: int = MEMORY

    @property
    def left(self) -> float:
        return self.seconds - (_now() - self.started)

    @property
    def tried(self) -> float:
        """The fraction of the work of this time that is done, by the operators that ran."""
        return self.runs / (self.seconds * _RUNS_A_SECOND)

    def note(self, operands: Operands) -> None:
        """Count an operator that runs."""
        self.runs += 1 + sum(array.size for array in operands if array is not None) / _ELEMENTS_A_RUN

    @property
    def call(self) -> float:
        """Time limit of one operator: a fraction of the total, so that other inputs are tried, too."""
        return max(0.1, min(self.left, max(_LONGEST_CALL, self.seconds / 4)))

    def has_time(self, part: float = 1.0) -> bool:
        """True while that part of the time is not over."""
        return self.left > self.seconds * (1 - part)

    def require_time(self, part: float = 1.0) -> None:
        """Raise LimitError if that part of the time is over."""
        if not self.has_time(part):
            raise LimitError(f"the time limit of {self.seconds:g} s is exceeded (`seconds=` allows more).")

    def require_memory(self, size: int) -> None:
        """Raise LimitError if the values of a run take more bytes than they may."""
        if size > self.memory << 18:
            raise LimitError(f"the values take more than a quarter of {self.memory} MiB (`memory=` allows more).")

    def extend(self) -> None:
        """Leave at least a second, to locate a known difference."""
        self.seconds += max(0.0, _SHORTEST_SEARCH - self.left)

    def turn(self, place: str, nodes: int) -> None:
        """Count an iteration of a loop, or a call of a function, with so many nodes. Raises LimitError for too many."""
        self.steps += nodes + 1
        if self.steps > max(self.seconds, SECONDS) * _RUNS_A_SECOND * self.part:
            raise LimitError(
                f"{place} does not end within {self.steps} steps on these inputs (`seconds=` allows more)."
            )


def seconds_for(models: Sequence[onnx_ir.Model]) -> float:
    """Return the time limit of a comparison of models of that size."""
    nodes = sum(1 for model in models for _ in all_nodes(model))
    size = sum(v.const_value.nbytes for m in models for v in m.graph.initializers.values() if v.const_value is not None)
    return min(SECONDS, _FEWEST_SECONDS + nodes / _NODES_A_SECOND + size / _BYTES_A_SECOND)


class FeedError(ModelError):
    """Inputs of a model cannot be made: the type, the shape or the size of one is unknown or unsupported."""


def require_feedable(values: Sequence[onnx_ir.Value], shapes: Mapping[str, tuple[int, ...]], memory: int) -> None:
    """Raise FeedError, before they are allocated, for inputs that take more than an eighth of that many MiB."""
    total, most = 0, memory << 17
    for value in values:
        shape = shapes.get(value.name or "", ())
        bits = 8 if value.dtype is None else max(8, element_type(value.dtype).bits)
        size = math.prod(max(dim, 1) for dim in shape) * bits // 8  # an array of no elements has a limit too
        if len(shape) > MOST_DIMENSIONS:
            raise FeedError(f"the input {value.name} has {len(shape)} dimensions, more than verify supports.")
        total += size
        if total > most:
            text, total_text = ", ".join(map(str, shape)), f", all inputs up to it {total}" if total > size else ""
            raise FeedError(
                f"the input {value.name} of shape [{text}] takes {size} bytes{total_text}, more than the limit {most};"
                " allow more (`memory=`, eight times as much), give smaller sizes (`dims=`) or the inputs (`inputs=`)."
            )


def refuse_huge_operands(node: onnx_ir.Node, operands: Operands, memory: int = MEMORY) -> None:
    """Raise LimitError if the node's operands exceed an eighth of that many MiB; constants have no limit."""
    pairs = zip(node.inputs, operands, strict=False)
    size = sum(array.nbytes for value, array in pairs if array is not None and constant_tensor(value) is None)
    if size > memory << 17:
        text = f"{node.op_type} gets {size} bytes, more than the limit {memory << 17}"
        raise LimitError(f"{text} (`memory=` allows more).")


def refuse_huge_results(
    node: onnx_ir.Node, operands: Operands, schema: onnx.defs.OpSchema, memory: int = MEMORY
) -> None:
    """Raise LimitError if the node's results would exceed an eighth of that many MiB, or many times its operands."""
    present = [array for array in operands if array is not None]
    widest = max((array.itemsize for array in present), default=1)
    elements, most = _largest_result(node, operands, schema), max(_MOST_MADE, 64 * sum(array.size for array in present))
    if elements > min(most, (memory << 17) // widest):
        raise LimitError(f"{node.op_type} would make {elements:g} elements, which exceeds the limit.")


_SIZED = operators(lambda row: row.size is not None or row.indices is not None) | {"MatMul", "Gemm", "Where"}
"""Operators whose result may be much larger than their operands; those on each element are looked at apart."""

_MOST_NUMBERS = 64
"""Elements of an operand that may be a shape."""


def _largest_result(node: onnx_ir.Node, operands: Operands, schema: onnx.defs.OpSchema) -> float:
    """Return the elements of the largest result, as onnx infers its shape; of RoiAlign those that it reads."""
    if node.op_type == "RoiAlign" and operands[1] is not None:
        return float(np.square(np.abs(operands[1]).max(initial=1.0)))
    row, shapes = traits_of("", node.op_type), [array.shape for array in operands if array is not None]
    if node.op_type not in _SIZED and not (row.elementwise and len(set(shapes)) > 1):
        return 0.0
    proto = renamed(node, operands)
    proto.output.extend(f"o{index}" for index in range(len(node.outputs)))
    arrays = {name: array for name, array in zip(proto.input, operands, strict=True) if array is not None}
    types = {name: onnx.helper.make_tensor_type_proto(int(dtype_of(a)), a.shape) for name, a in arrays.items()}
    small = {name: a for name, a in arrays.items() if a.size <= _MOST_NUMBERS and a.dtype.kind in "iuf"}
    data = {name: onnx.numpy_helper.from_array(array) for name, array in small.items()}
    try:
        inferred = infer_node_outputs(schema, proto, types, data)
    except (InferenceError, ValidationError, RuntimeError, ValueError):  # the engine says what is wrong
        return 0.0
    return max((_elements(inferred[name]) for name in proto.output if name in inferred), default=0.0)


def _elements(result: onnx.TypeProto) -> float:
    """Return the elements of a result; a size below 0 has overflowed."""
    sizes = [float(dim.dim_value) for dim in result.tensor_type.shape.dim]
    return math.inf if min(sizes, default=0.0) < 0 else math.prod(sizes)
