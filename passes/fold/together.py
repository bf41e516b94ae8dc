"""Casts of many small constants, computed at once: one array of all elements costs little more than one constant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.numerics.cast import Array
from castsmith.numerics.errors import CastsmithError
from castsmith.passes.fold.conversions import CastTo, Conversion
from castsmith.passes.fold.reading import Reader
from castsmith.passes.fold.values import Known

_SMALL = 1 << 12
"""Bytes up to which a constant is small."""

_Cast = tuple[CastTo, Known]


def casts_computed(nodes: Iterable[onnx_ir.Node], reader: Reader) -> dict[tuple[Conversion, Known], Array]:
    """Return what the Casts of small constants among the nodes give, by conversion and constant.

    A cast is left out if it is the only one of its kind, or if the standard does not fix some element of its kind.
    """
    found: dict[tuple[CastTo, DataType], dict[Known, None]] = defaultdict(dict)
    for node in nodes:
        if node.op_type == "Cast":
            made = _cast_of_small(node, reader)
            if made is not None:
                found[made[0], made[1].dtype][made[1]] = None
    computed: dict[tuple[Conversion, Known], Array] = {}
    for (conversion, _), knowns in found.items():
        if len(knowns) > 1:
            computed.update(_computed(conversion, list(knowns)))
    return computed


def _cast_of_small(node: onnx_ir.Node, reader: Reader) -> _Cast | None:
    """Return the cast and its constant; None if the constant is not small, or a node moves it first."""
    # Other values may become constant while nodes are folded, so nothing is asked about them yet.
    known = None if constant_tensor(node.inputs[0]) is None else reader.constants.of(node.inputs[0])
    if known is None or known.how is not None or not 0 < known.nbytes <= _SMALL or known.dtype == DataType.STRING:
        return None
    if known.tensor is None or isinstance(known.tensor, onnx_ir.ExternalTensor):
        return None
    readings = reader.read(node)
    if readings is None:
        return None
    conversion = readings[0][0]
    if not isinstance(conversion, CastTo) or conversion.to in (known.dtype, DataType.STRING):
        return None
    return conversion, known


def _computed(conversion: CastTo, knowns: list[Known]) -> dict[tuple[Conversion, Known], Array]:
    try:
        arrays = [known.tensor.numpy().reshape(-1) for known in knowns if known.tensor is not None]
        whole = np.concatenate(arrays)
        if conversion.finding([whole]) is not None:
            return {}
        result = conversion.compute([whole])
    except (CastsmithError, ValueError):  # each says so itself
        return {}
    made: dict[tuple[Conversion, Known], Array] = {}
    start = 0
    for known, array in zip(knowns, arrays, strict=True):
        made[conversion, known] = result[start : start + array.size].reshape(known.shape).copy()
        start += array.size
    return made
