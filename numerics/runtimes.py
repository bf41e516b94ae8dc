"""Cast as a named runtime computes it, wrong or not: for folding what the standard leaves open as that runtime would.

    onnxruntime    the CPU kernel of ONNX Runtime 1.31, one Cast at a time, on x86-64
    reference      the reference evaluator of onnx 1.23, on numpy 2 and ml_dtypes 0.6

`castsmith.numerics.differences` lists how each departs from the schema. What a runtime computes one way in the body of
a vectorised loop and another way in its tail has no reproducible value and is refused: a floating-point number out of
range of an integer of 8 bits or more. The sign and payload of a NaN depend on the lane too; here a NaN is a NaN, with
the bits that `cast` gives it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from onnx_ir import DataType

from castsmith.numerics.cast import check_cast
from castsmith.numerics.codec import Array
from castsmith.numerics.definedness import Definedness
from castsmith.numerics.elements import elements_of
from castsmith.numerics.errors import CastError
from castsmith.numerics.opsets import NEWEST_OPSET
from castsmith.numerics.runtime_onnxruntime import cast_as_onnxruntime
from castsmith.numerics.runtime_reference import cast_as_reference
from castsmith.numerics.status import status_reason
from castsmith.numerics.types import Kind, TypeLike, element_type, type_name

_Runtime = Callable[[Array, DataType, DataType, bool, str], Array]

_RUNTIMES: dict[str, _Runtime] = {"onnxruntime": cast_as_onnxruntime, "reference": cast_as_reference}

RUNTIMES = tuple(_RUNTIMES)
"""The runtimes whose Cast can be reproduced."""


def cast_as(
    array: npt.ArrayLike,
    to: TypeLike,
    runtime: str,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int = NEWEST_OPSET,
) -> Array:
    """`array` in the element type `to`, as the Cast of `runtime` computes it; otherwise as `cast`.

    Raises CastError for an unknown runtime, and, naming the first element, for a cast that the runtime does not have or
    whose result there is not reproducible.
    """
    if runtime not in _RUNTIMES:
        raise CastError(f"{runtime!r} is not one of the runtimes known here: {', '.join(RUNTIMES)}.")
    elements, source = elements_of(array)
    target = check_cast(source, to, round_mode=round_mode, opset=opset)
    elements = elements.astype(elements.dtype.newbyteorder("="), order="C")
    if source is target:
        return elements
    from_row, to_row = element_type(source), element_type(target)
    if from_row.kind is Kind.FLOATING and to_row.kind is Kind.INTEGER and to_row.bits >= 8:
        found = status_reason(elements, target, opset=opset)
        if found is not None and found.standing is Definedness.UNDEFINED:
            raise CastError(
                f"What {runtime} makes of {found.value} at {list(found.index)} in {type_name(target)} is not "
                f"reproducible: {found.reason}."
            )
    with np.errstate(all="ignore"):
        return _RUNTIMES[runtime](elements, source, target, saturate, round_mode)
