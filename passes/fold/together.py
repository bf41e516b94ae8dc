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
    together = Together()
    groups: dict[tuple[CastTo, DataType], dict[Known, None]] = defaultdict(dict)
    for node in nodes:
        constant = _small_constant(node, reader) if node.op_type == "Cast" and node.inputs else None
        readings = None if constant is None else reader.read(node)
        if constant is None or readings is None:
            continue
        conversion = readings[0][0]
        if isinstance(conversion, CastTo):
            together.readings[node] = readings
            if conversion.to not in (constant.dtype, DataType.STRING):
                groups[conversion, constant.dtype][constant] = None
    for (conversion, _), knowns in groups.items():
        if len(knowns) > 1:
            arrays = _computed(conversion, list(knowns))
            for constant, array in zip(knowns, arrays, strict=False):
                together.arrays[reader.constants.converted(conversion, (constant,), conversion.to, constant.shape)] = (
                    array
                )
    return together


def _small_constant(node: onnx_ir.Node, reader: Reader) -> Known | None:
    """Return the constant that a Cast converts; None if it is not small, or a node moves it first."""
    # Other values may become constant while nodes are folded, so nothing is asked about them yet.
    constant = None if constant_tensor(node.inputs[0]) is None else reader.constants.of(node.inputs[0])
    if (
        constant is None
        or constant.how is not None
        or not 0 < constant.nbytes <= _SMALL
        or constant.dtype == DataType.STRING
    ):
        return None
    return None if constant.tensor is None or isinstance(constant.tensor, onnx_ir.ExternalTensor) else constant


def _computed(conversion: CastTo, knowns: list[Known]) -> list[Array]:
    try:
        arrays = [constant.tensor.numpy().reshape(-1) for constant in knowns if constant.tensor is not None]
        whole = np.concatenate(arrays)
        if conversion.finding([whole]) is not None:
            return []
        result = conversion.compute([whole])
    except CastsmithError:  # each says so itself
        return []
    parts, start = list[Array](), 0
    for constant, array in zip(knowns, arrays, strict=True):
        parts.append(result[start : start + array.size].reshape(constant.shape).copy())
        start += array.size
    return parts
