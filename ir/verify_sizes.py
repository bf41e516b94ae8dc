"""How many elements a node is going to make: adversarial numbers make adversarial shapes, which no machine holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir

from castsmith.ir.verify_engines import EngineError
from castsmith.ir.verify_promotion import Array

_MOST = 1 << 22

Operands = Sequence[Array | None]


def refuse_huge(node: onnx_ir.Node, operands: Operands) -> None:
    """Raise EngineError where the node would make more elements than are worth comparing."""
    estimate = _ESTIMATES.get(node.op_type)
    if estimate is None:
        return
    with np.errstate(all="ignore"):
        elements = estimate(operands)
    if not elements <= _MOST:  # NaN is refused, too
        raise EngineError(f"{node.op_type} asks for {elements:g} elements.")


def _operand(operands: Operands, index: int) -> Array:
    array = operands[index] if index < len(operands) else None
    return np.zeros(0) if array is None or array.dtype.kind not in "iuf" else array.astype(np.float64)


def _product(index: int) -> Callable[[Operands], float]:
    """Operand `index` is the shape of the result."""
    return lambda operands: float(np.prod(np.abs(_operand(operands, index))))


def _times(index: int) -> Callable[[Operands], float]:
    """Operand `index` says how often, or to what scale, each element of the first is taken."""
    return lambda operands: _size(operands) * float(np.prod(np.abs(_operand(operands, index))))


def _size(operands: Operands) -> int:
    return 1 if operands[0] is None else operands[0].size


def _range(operands: Operands) -> float:
    start, limit, delta = (_operand(operands, index).reshape(-1)[:1].sum() for index in range(3))
    return float(abs((limit - start) / delta))


def _pad(operands: Operands) -> float:
    widest = float(np.abs(_operand(operands, 1)).sum())
    return math.prod(dim + widest for dim in (() if operands[0] is None else operands[0].shape))


def _resize(operands: Operands) -> float:
    return max(_times(2)(operands), _product(3)(operands) if _operand(operands, 3).size else 0.0)


def _stft(operands: Operands) -> float:
    """A step or frame of nothing has no end; ONNX Runtime 1.31 divides by it and takes the process along."""
    return _size(operands) if all((_operand(operands, index) > 0).all() for index in (1, 3)) else math.inf


_ESTIMATES: dict[str, Callable[[Operands], float]] = {
    "Range": _range,
    "Pad": _pad,
    "Resize": _resize,
    "STFT": _stft,
    **dict.fromkeys(("ConstantOfShape", "BlackmanWindow", "HammingWindow", "HannWindow"), _product(0)),
    **dict.fromkeys(("Expand", "Reshape", "AffineGrid", "CenterCropPad", "Col2Im", "MaxUnpool"), _product(1)),
    **dict.fromkeys(("Tile", "OneHot", "Upsample", "DFT"), _times(1)),
    "MelWeightMatrix": lambda operands: _product(0)(operands) * _product(1)(operands),
}
