"""Limits of a comparison: seconds of the processor, iterations of loops, elements of inputs and of results.

Time is that of the processor, here and in the process of the engines, and small decisions depend on the number of
operators that ran: what a comparison finds is the same on a busy machine.
Adversarial numbers make adversarial shapes, which exceed any memory, and infinite loops; both are refused before
memory or time is spent on them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir

from castsmith.ir.constants import constant_tensor
from castsmith.ir.errors import ModelError
from castsmith.ir.ops.table import operators, traits_of
from castsmith.ir.ops.traits import Size
from castsmith.ir.walks import all_nodes
from castsmith.numerics.types import MOST_DIMENSIONS, element_type
from castsmith.verification.evaluate.engines import LimitError, process
from castsmith.verification.evaluate.names import MEMORY
from castsmith.verification.evaluate.promotion import Array

SECONDS, _FEWEST_SECONDS = 120.0, 20.0
"""Default time limit of a comparison of large models, and of small ones."""

_RUNS_A_SECOND, _ELEMENTS_A_RUN = 1000, 10_000
"""Operators that run in a second, and elements that count as one more."""

_NODES_A_SECOND, _BYTES_A_SECOND = 10, 1 << 18
_LONGEST_CALL, _SHORTEST_SEARCH = 10.0, 1.0

_STEPS_A_SECOND = 1000
_MOST_MADE = 1 << 22

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

    def turn(self, what: str, nodes: int) -> None:
        """Count an iteration of a loop, or a call of a function, with so many nodes. Raises LimitError for too many."""
        self.steps += nodes + 1
        if self.steps > max(self.seconds, SECONDS) * _STEPS_A_SECOND * self.part:
            raise LimitError(f"{what} does not end within {self.steps} steps on these inputs (`seconds=` allows more).")


def seconds_for(models: Sequence[onnx_ir.Model]) -> float:
    """Return the time limit of a comparison of models of that size."""
    nodes = sum(1 for model in models for _ in all_nodes(model))
    size = sum(v.const_value.nbytes for m in models for v in m.graph.initializers.values() if v.const_value is not None)
    return min(SECONDS, _FEWEST_SECONDS + nodes / _NODES_A_SECOND + size / _BYTES_A_SECOND)


class FeedError(ModelError):
    """Inputs of a model cannot be made: the type, the shape or the size of one is unknown or unsupported."""


def require_feedable(values: Sequence[onnx_ir.Value], shapes: Mapping[str, tuple[int, ...]], memory: int) -> None:
    """Raise FeedError, before they are allocated, for inputs that take more than an eighth of that many MiB."""
    taken, most = 0, memory << 17
    for value in values:
        shape = shapes.get(value.name or "", ())
        bits = 8 if value.dtype is None else max(8, element_type(value.dtype).bits)
        size = math.prod(max(dim, 1) for dim in shape) * bits // 8  # an array of no elements has a limit too
        if len(shape) > MOST_DIMENSIONS:
            raise FeedError(f"the input {value.name} has {len(shape)} dimensions, more than verify supports.")
        taken += size
        if taken > most:
            text, whole = ", ".join(map(str, shape)), f", all inputs up to it {taken}" if taken > size else ""
            raise FeedError(
                f"the input {value.name} of shape [{text}] takes {size} bytes{whole}, more than the limit {most};"
                " allow more (`memory=`, eight times as much), give smaller sizes (`dims=`) or the inputs (`inputs=`)."
            )


def refuse_huge(node: onnx_ir.Node, operands: Operands, memory: int = MEMORY) -> None:
    """Raise LimitError if the node's operands or results exceed an eighth of that many MiB; constants have no limit."""
    computed = (a for v, a in zip(node.inputs, operands, strict=False) if a is not None and not _is_constant(v))
    taken = sum(array.nbytes for array in computed)
    most = memory << 17
    if taken > most:
        raise LimitError(f"{node.op_type} gets {taken} bytes, more than the limit {most} (`memory=` allows more).")
    size, by_shape = traits_of("", node.op_type).size, _BY_SHAPE.get(node.op_type)
    if size is None and by_shape is None:
        return
    with np.errstate(all="ignore"):
        elements = by_shape(operands) if by_shape is not None else _ESTIMATES[size[0]](operands, *size[1])  # type: ignore[index]
    widest = max((a.itemsize for a in operands if a is not None), default=1)
    made = min(max(_MOST_MADE, 64 * sum(a.size for a in operands if a is not None)), most // widest)
    if not elements <= made:  # NaN is refused, too
        raise LimitError(f"{node.op_type} would make {elements:g} elements, which exceeds the limit.")


def _is_constant(value: onnx_ir.Value | None) -> bool:
    return constant_tensor(value) is not None


def _operand(operands: Operands, index: int) -> Array:
    array = operands[index] if index < len(operands) else None
    return np.zeros(0) if array is None or array.dtype.kind not in "iuf" else array.astype(np.float64)


def _product(operands: Operands, *shapes: int) -> float:
    """Return the elements of a result whose shape is given by the operands at `shapes`."""
    return math.prod(float(np.prod(np.abs(_operand(operands, index)))) for index in shapes)


def _times(operands: Operands, index: int) -> float:
    """Return the elements if operand `index` is a repetition or scale of the first."""
    return _size(operands) * _product(operands, index)


def _size(operands: Operands) -> int:
    return 1 if operands[0] is None else operands[0].size


def _range(operands: Operands, *bounds: int) -> float:
    start, limit, delta = (_operand(operands, index).reshape(-1)[:1].sum() for index in bounds)
    return float(abs((limit - start) / delta))


def _pad(operands: Operands, padding: int) -> float:
    shape = () if operands[0] is None else operands[0].shape
    widths = np.abs(_operand(operands, padding).reshape(-1))
    axes = _operand(operands, 3) if len(operands) > 3 and operands[3] is not None else np.arange(len(shape))
    sizes = np.array(shape, np.float64)
    if len(widths) == 2 * axes.size:
        np.add.at(sizes, axes.astype(np.int64).reshape(-1) % max(len(shape), 1), widths.reshape(2, -1).sum(0))
    return float(sizes.prod())


def _resize(operands: Operands, scales: int, sizes: int) -> float:
    return max(_times(operands, scales), _product(operands, sizes) if _operand(operands, sizes).size else 0.0)


def _frames(operands: Operands, *step_and_length: int) -> float:
    """A step or frame of 0 does not end; ONNX Runtime 1.31 divides by it and crashes."""
    return _size(operands) if all((_operand(operands, index) > 0).all() for index in step_and_length) else math.inf


def _broadcast(operands: Operands) -> float:
    shapes = [operand.shape for operand in operands if operand is not None]
    ranks = max(map(len, shapes), default=0)
    return math.prod(float(max(shape[-at] for shape in shapes if len(shape) >= at)) for at in range(1, ranks + 1))


def _matrices(operands: Operands) -> float:
    left, right = (() if operand is None else operand.shape for operand in (*operands, None, None)[:2])
    return math.prod(map(float, left[:-1])) * math.prod(map(float, right[:-2])) * (right[-1:] or (1,))[0]


def _sampled(operands: Operands) -> float:
    """Return the elements that RoiAlign reads, which grow with the region."""
    return float(np.square(np.abs(_operand(operands, 1)).max(initial=1.0)))


_BY_SHAPE: Mapping[str, Callable[[Operands], float]] = {
    **dict.fromkeys(operators(lambda row: row.elementwise and row.conversion is None), _broadcast),
    "Where": _broadcast,
    "MatMul": _matrices,
    "RoiAlign": _sampled,
}
"""Operators whose operands' shapes, or numbers, determine how many elements they make or read."""

_ESTIMATES: Mapping[Size, Callable[..., float]] = {
    Size.SHAPE: _product,
    Size.TIMES: _times,
    Size.RANGE: _range,
    Size.PAD: _pad,
    Size.RESIZE: _resize,
    Size.FRAMES: _frames,
}
