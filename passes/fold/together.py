"""Casts of many small constants, computed at once: one array of all elements costs little more than one constant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.numerics.cast.codec import Array
from castsmith.numerics.errors import CastsmithError
from castsmith.passes.fold.conversions import CastTo, Reading
from castsmith.passes.fold.reading import Reader
from castsmith.passes.fold.values import Known

_SMALL = 1 << 12
"""Bytes up to which a constant is small."""


@dataclass
class Together:
    """The Casts of small constants, read and computed before any of them is folded.

    Attributes:
        readings: The conversion of each of these nodes.
        arrays: The results, by the constants that they will be.
    """

    readings: dict[onnx_ir.Node, tuple[Reading, ...]] = field(default_factory=dict[onnx_ir.Node, tuple[Reading, ...]])
    arrays: dict[Known, Array] = field(default_factory=dict[Known, Array])


def casts_computed(nodes: Iterable[onnx_ir.Node], reader: Reader) -> Together:
    """Return what the Casts of small constants among the nodes give.

    A result is left out if it is the only one of its kind, or if the standard does not fix some element of its kind.
    """
    made = Together()
    found: dict[tuple[CastTo, DataType], dict[Known, None]] = defaultdict(dict)
    for node in nodes:
        known = _small_constant(node, reader) if node.op_type == "Cast" else None
        readings = None if known is None else reader.read(node)
        if known is None or readings is None:
            continue
        conversion = readings[0][0]
        if isinstance(conversion, CastTo):
            made.readings[node] = readings
            if conversion.to not in (known.dtype, DataType.STRING):
                found[conversion, known.dtype][known] = None
    for (conversion, _), knowns in found.items():
        if len(knowns) > 1:
            arrays = _computed(conversion, list(knowns))
            for known, array in zip(knowns, arrays, strict=False):
                made.arrays[reader.constants.converted(conversion, (known,), conversion.to, known.shape)] = array
    return made


def _small_constant(node: onnx_ir.Node, reader: Reader) -> Known | None:
    """Return the constant that a Cast converts; None if it is not small, or a node moves it first."""
    # Other values may become constant while nodes are folded, so nothing is asked about them yet.
    known = None if constant_tensor(node.inputs[0]) is None else reader.constants.of(node.inputs[0])
    if known is None or known.how is not None or not 0 < known.nbytes <= _SMALL or known.dtype == DataType.STRING:
        return None
    return None if known.tensor is None or isinstance(known.tensor, onnx_ir.ExternalTensor) else known


def _computed(conversion: CastTo, knowns: list[Known]) -> list[Array]:
    try:
        arrays = [known.tensor.numpy().reshape(-1) for known in knowns if known.tensor is not None]
        whole = np.concatenate(arrays)
        if conversion.finding([whole]) is not None:
            return []
        result = conversion.compute([whole])
    except (CastsmithError, ValueError):  # each says so itself
        return []
    made, start = list[Array](), 0
    for known, array in zip(knowns, arrays, strict=True):
        made.append(result[start : start + array.size].reshape(known.shape).copy())
        start += array.size
    return made
