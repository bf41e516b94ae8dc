"""The promotion rule at one operator, applied to arrays: the meaning of a mixed-type model, independent of the passes.

Operands that one type variable of the schema binds are cast to their common type. An unsupported type
becomes the type declared for the result, or the next that holds it, and the result is cast back if the kind of
number is unchanged and the model does not declare otherwise; arithmetic on bool is logic, and a Sum of integers is
computed by Add. It is written from the
schema alone and shares no code with inference, so that it can contradict it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.ir.constants import constant_tensor
from castsmith.ir.ops.schemas import DEFAULT_DOMAINS
from castsmith.ir.ops.table import operators
from castsmith.ir.text import located, site_of
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import PromotionError, present
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.promotion.scalars import common_type_of_constants
from castsmith.numerics.types import Kind, element_type, parse_type

Array = NDArray[Any]
Operands = Sequence[Array | None]

_LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(operators(lambda row: row.on_bool == "Or"), np.logical_or),
    **dict.fromkeys(operators(lambda row: row.on_bool == "And"), np.logical_and),
}


@dataclass(frozen=True)
class Promoted:
    """The operands that the operator gets; `back`: the type to which each output is cast, by type variable.

    Attributes:
        result: The result itself, if no operator of ONNX gives it.
    """

    operands: list[Array | None]
    back: Mapping[str, DataType]
    result: Array | None = None


def promote_operands(
    node: onnx_ir.Node, operands: Operands, schema: onnx.defs.OpSchema, rules: PromotionRules
) -> Promoted:
    """Return the promoted operands of one node. Raises PromotionError if the rule refuses."""
    converted, back = list(operands), dict[str, DataType]()
    groups = _groups(schema, len(converted))
    if node.op_type == "Pow" and node.domain in DEFAULT_DOMAINS and _meant_to_promote(node, converted, rules):
        groups = {"T": [0, 1]}
    for variable, indexes in groups.items():
        arrays = {index: array for index in indexes if (array := converted[index]) is not None}
        if not arrays:
            continue
        if len({array.dtype for array in arrays.values()}) > 1:
            constant = [constant_tensor(node.inputs[index]) is not None for index in arrays]
            try:
                arrays = dict(zip(arrays, promote(list(arrays.values()), rules, constant), strict=True))
            except PromotionError as refusal:
                mixed = [(node.inputs[index], dtype_of(array)) for index, array in arrays.items()]
                raise located(site_of(node), "operands", mixed, refusal) from None
        dtype = dtype_of(next(iter(arrays.values())))
        bound = any(formal.type_str == variable for formal in schema.outputs)
        declared = node.outputs[0].dtype if bound else None
        supported = _allowed(schema.domain, schema.name, schema.since_version, variable)
        stand_in = _stand_in(dtype, supported, declared)
        if stand_in not in (dtype, declared) and dtype is DataType.BOOL and node.op_type in _LOGIC:
            return Promoted(converted, {}, functools.reduce(_LOGIC[node.op_type], arrays.values()))
        if stand_in not in (dtype, declared) and element_type(dtype).kind is Kind.INTEGER and node.op_type == "Sum":
            return Promoted(converted, {}, functools.reduce(np.add, arrays.values()))
        if stand_in is not None and stand_in is not dtype:
            arrays = {index: cast(array, stand_in) for index, array in arrays.items()}
            if element_type(dtype).kind is element_type(stand_in).kind and declared != stand_in:
                back[variable] = dtype
        for index, array in arrays.items():
            converted[index] = array
    return Promoted(converted, back)


def promote(arrays: Sequence[Array], rules: PromotionRules, constant: Sequence[bool] | None = None) -> list[Array]:
    """Return the arrays in their common type; `constant` marks constants, for rules that look at their values."""
    operands = [
        (dtype_of(array), array.ndim, array if constant and constant[index] and array.ndim == 0 else None)
        for index, array in enumerate(arrays)
    ]
    common = common_type_of_constants(operands, rules)
    common = present(common, "the common type")  # undecided only if a rank is unknown
    return [cast(array, common) for array in arrays]


def dtype_of(array: Array) -> DataType:
    return DataType.STRING if array.dtype.kind in "OSU" else DataType.from_numpy(array.dtype)


def _groups(schema: onnx.defs.OpSchema, count: int) -> dict[str, list[int]]:
    """Return the inputs that each type, variable or fixed, of the schema binds."""
    groups: dict[str, list[int]] = {}
    for index in range(count):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if formal.is_homogeneous:
            groups.setdefault(formal.type_str, []).append(index)
    return groups


@functools.cache
def _allowed(domain: str, op_type: str, version: int, variable: str) -> frozenset[DataType]:
    """Return the types of a variable of an operator, cached for the nodes of loops."""
    schema = onnx.defs.get_schema(op_type, version, domain)
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    texts = constraints.get(variable, [variable])
    return frozenset(parse_type(text[7:-1]) for text in texts if text.startswith("tensor("))


def _stand_in(dtype: DataType, supported: Set[DataType], declared: DataType | None) -> DataType | None:
    """Return `dtype`, or a supported type that holds it: the declared one, or the first of lowest kind."""
    if dtype in supported or not supported:
        return dtype
    holding = [candidate for candidate in supported if embeds(dtype, candidate)]
    if declared in holding:
        return declared
    signed = dtype is DataType.BOOL  # what holds negative numbers is signed anyway
    rows = [(element_type(o).kind, element_type(o).bits, element_type(o).signed != signed, int(o)) for o in holding]
    return holding[rows.index(min(rows))] if holding else None


def _meant_to_promote(node: onnx_ir.Node, operands: Operands, rules: PromotionRules) -> bool:
    """True if a Pow is meant to promote: the model declares the promoted type, not that of the base."""
    base, exponent = operands
    declared = node.outputs[0].dtype
    if base is None or exponent is None or declared is None or declared in (DataType.UNDEFINED, dtype_of(base)):
        return False
    constant = [constant_tensor(value) is not None for value in node.inputs]
    try:
        return dtype_of(promote([base, exponent], replace(rules, promote_unsafe=True), constant)[0]) == declared
    except PromotionError:
        return False
