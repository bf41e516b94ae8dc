"""What a comparison may take: seconds, turns of loops, elements of inputs and of results.

Adversarial numbers make adversarial shapes, which no machine holds, and loops that never end; both are refused before
memory or time is spent on them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir

from castsmith.ir.errors import ModelError
from castsmith.ir.evaluate.engines import EngineError
from castsmith.ir.evaluate.promotion import Array
from castsmith.ir.ops import Size, traits_of
from castsmith.numerics.types import element_type

SECONDS = 120.0
"""How long a comparison may take unless told otherwise; the set of inputs under way is finished."""

_STEPS_A_SECOND = 1000
_MOST_MADE = 1 << 22
_MOST_FED, _MOST_DIMENSIONS = 1 << 30, 64

Operands = Sequence[Array | None]


class LimitError(EngineError):
    """More time or memory than a comparison may take."""


@dataclass
class Budget:
    """The time that is left, and the nodes that loops and functions may still run on this set of inputs."""

    seconds: float = SECONDS
    started: float = field(default_factory=time.monotonic)
    steps: int = 0
    part: float = 1.0
    """What part of all steps the set of inputs under way may take."""

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.started)

    @property
    def spent(self) -> float:
        """The part of the time that has passed."""
        return 1 - self.left / self.seconds

    def turn(self, what: str, nodes: int) -> None:
        """Count a turn of a loop, or a call of a function, with so many nodes. Raises LimitError for too many."""
        self.steps += nodes + 1
        if self.steps > self.seconds * _STEPS_A_SECOND * self.part:
            raise LimitError(f"{what} does not end within {self.steps} steps on these inputs (more with --time).")


def require_feedable(values: Sequence[onnx_ir.Value], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ModelError, before memory is taken, for inputs that are too large to be made."""
    for value in values:
        shape = shapes.get(value.name or "", ())
        bits = 8 if value.dtype is None else max(8, element_type(value.dtype).bits)
        size = math.prod(shape) * bits // 8
        if len(shape) > _MOST_DIMENSIONS:
            raise ModelError(f"the input {value.name} has {len(shape)} dimensions, more than verify makes.")
        if size > _MOST_FED:
            text = ", ".join(map(str, shape))
            raise ModelError(
                f"the input {value.name} of shape [{text}] takes {size} bytes, more than the {_MOST_FED} that verify"
                " makes; give smaller sizes (--dim NAME=SIZE) or the inputs themselves (--inputs FILE.npz)."
            )


def refuse_huge(node: onnx_ir.Node, operands: Operands) -> None:
    """Raise EngineError where the node would make more elements than are worth comparing."""
    size = traits_of("", node.op_type).size
    if size is None:
        return
    with np.errstate(all="ignore"):
        elements = _ESTIMATES[size[0]](operands, *size[1])
    if not elements <= max(_MOST_MADE, 64 * sum(a.size for a in operands if a is not None)):  # NaN is refused, too
        raise LimitError(f"{node.op_type} asks for {elements:g} elements.")


def _operand(operands: Operands, index: int) -> Array:
    array = operands[index] if index < len(operands) else None
    return np.zeros(0) if array is None or array.dtype.kind not in "iuf" else array.astype(np.float64)


def _product(operands: Operands, *shapes: int) -> float:
    """The operands at `shapes` are the shape of the result."""
    return math.prod(float(np.prod(np.abs(_operand(operands, index)))) for index in shapes)


def _times(operands: Operands, index: int) -> float:
    """Operand `index` says how often, or to what scale, each element of the first is taken."""
    return _size(operands) * _product(operands, index)


def _size(operands: Operands) -> int:
    return 1 if operands[0] is None else operands[0].size


def _range(operands: Operands, *bounds: int) -> float:
    start, limit, delta = (_operand(operands, index).reshape(-1)[:1].sum() for index in bounds)
    return float(abs((limit - start) / delta))


def _pad(operands: Operands, padding: int) -> float:
    widest = float(np.abs(_operand(operands, padding)).sum())
    return math.prod(dim + widest for dim in (() if operands[0] is None else operands[0].shape))


def _resize(operands: Operands, scales: int, sizes: int) -> float:
    return max(_times(operands, scales), _product(operands, sizes) if _operand(operands, sizes).size else 0.0)


def _frames(operands: Operands, *step_and_length: int) -> float:
    """A step or frame of nothing has no end; ONNX Runtime 1.31 divides by it and takes the process along."""
    return _size(operands) if all((_operand(operands, index) > 0).all() for index in step_and_length) else math.inf


_ESTIMATES: Mapping[Size, Callable[..., float]] = {
    Size.SHAPE: _product,
    Size.TIMES: _times,
    Size.RANGE: _range,
    Size.PAD: _pad,
    Size.RESIZE: _resize,
    Size.FRAMES: _frames,
}
