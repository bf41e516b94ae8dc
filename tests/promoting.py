"""What promotion makes of the operands of one node, straight from the schema: the oracle's view, apart from the passes.

Operands that one type variable binds are cast to their common type. A type that the operator does not take becomes the
next that holds it, and the result goes back to the type where the kind of number stayed the same; arithmetic on bool is
logic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.defs
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.promotion.scalars import common_type_of_constants
from castsmith.numerics.types import element_type, parse_type

Array = NDArray[Any]
LOGIC = {"Add": np.logical_or, "Sum": np.logical_or, "Max": np.logical_or, "Mul": np.logical_and, "Min": np.logical_and}


def promote(arrays: list[Array], rules: PromotionRules, constant: list[bool] | None = None) -> list[Array]:
    operands = [
        (dtype_of(array), array.ndim, array if constant and constant[index] and array.ndim == 0 else None)
        for index, array in enumerate(arrays)
    ]
    common = common_type_of_constants(operands, rules)
    assert common is not None
    return [cast(array, common) for array in arrays]


def dtype_of(array: Array) -> DataType:
    return DataType.from_numpy(array.dtype)


def groups_of(schema: onnx.defs.OpSchema, count: int) -> dict[str, list[int]]:
    """The inputs that each type, variable or fixed, of the schema binds."""
    groups: dict[str, list[int]] = {}
    for index in range(count):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if formal.is_homogeneous:
            groups.setdefault(formal.type_str, []).append(index)
    return groups


def allowed_by(schema: onnx.defs.OpSchema, type_str: str) -> set[DataType]:
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    texts = constraints.get(type_str, [type_str])
    return {parse_type(text[7:-1]) for text in texts if text.startswith("tensor(")}


def legal_stand_in(dtype: DataType, allowed: set[DataType], declared: DataType | None) -> DataType | None:
    """`dtype`, or the type declared for the result, or the first type of the lowest kind and then the fewest bits, that
    is allowed and holds it."""
    if dtype in allowed or not allowed:
        return dtype
    holding = [other for other in allowed if embeds(dtype, other)]
    if declared in holding:
        return declared
    signed = element_type(dtype).signed or dtype is DataType.BOOL
    ranked = [(element_type(o).kind, element_type(o).bits, element_type(o).signed != signed, int(o)) for o in holding]
    return holding[ranked.index(min(ranked))] if holding else None


def goes_back(dtype: DataType, stand_in: DataType, declared: DataType | None) -> bool:
    return element_type(dtype).kind is element_type(stand_in).kind and declared != stand_in
