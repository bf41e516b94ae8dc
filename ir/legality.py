"""What to do with a type that an operator does not take at the model's opset.

The rule: the narrowest type that the operator takes and that holds every value of the type. Where that is a type of
the same kind the result goes back to the type, since wider arithmetic followed by Cast is arithmetic in the type itself
(modulo 2**bits for integers; one rounding for floats). Where the kind changes (Softmax of int32, Sub of bool) the
result stays as wide as it was computed. Where the model declares the result to have a type that will do, that is it.

Addition and its like on bool have a meaning in PyTorch, NumPy and JAX, all the same: `Add` is `Or`, `Mul` is `And`.
"""

from __future__ import annotations

from functools import cache

import onnx.defs
from onnx_ir import DataType

from castsmith.ir.schemas import DEFAULT_DOMAINS, OpKey, TypeGroup, op_formals, type_groups
from castsmith.numerics.embedding import embeds
from castsmith.numerics.types import Kind, element_type, type_name

BOOLEAN_ARITHMETIC = {"Add": "Or", "Sum": "Or", "Max": "Or", "Mul": "And", "Min": "And"}

_BROADCASTING_SINCE = 7


def boolean_operator(key: OpKey, dtype: DataType) -> str | None:
    """The logical operator that the arithmetic operator is on bool, or None."""
    domain, op_type, opset = key
    if dtype is not DataType.BOOL or domain not in DEFAULT_DOMAINS or opset < _BROADCASTING_SINCE:
        return None
    return BOOLEAN_ARITHMETIC.get(op_type)


@cache
def wider_type(dtype: DataType, allowed: frozenset[DataType]) -> DataType | None:
    """The type of `allowed` that holds `dtype`: of the lowest kind, then the narrowest, then of the same signedness."""
    source = element_type(dtype)
    signed = source.signed or source.kind is Kind.BOOLEAN
    rows = [element_type(candidate) for candidate in allowed if embeds(dtype, candidate)]
    rows.sort(key=lambda row: (row.kind, row.bits, row.signed != signed, -row.mantissa_bits))
    return rows[0].dtype if rows else None


def returns_to(ruled: DataType, wider: DataType) -> bool:
    """Whether a result computed in `wider` because the operator takes no `ruled` goes back to `ruled`."""
    return element_type(ruled).kind is element_type(wider).kind


def not_taken(key: OpKey, group: TypeGroup, dtype: DataType, *, common: bool) -> str:
    """Why there is no type to use, with the opset that would allow it."""
    later = _first_opset_taking(key, group.indexes[0], dtype)
    domain, op_type, opset = key
    imported = f"opset {opset}" if domain in DEFAULT_DOMAINS else f"version {opset} of {domain}"
    what = f"{type_name(dtype)}, their common type," if common else type_name(dtype)
    way_out = f"opset {later} allows it" if later else "no opset does"
    return f"{op_type} of {imported} takes neither {what} nor a type that holds it ({way_out})."


@cache
def _first_opset_taking(key: OpKey, index: int, dtype: DataType) -> int | None:
    domain, op_type, opset = key
    domain = "" if domain in DEFAULT_DOMAINS else domain
    for since in _versions(domain, op_type):
        if since <= opset or op_formals(domain, op_type, since) is None:
            continue
        groups = type_groups((domain, op_type, since), (True,) * (index + 1))
        if any(index in group.indexes and dtype in group.allowed for group in groups):
            return since
    return None


@cache
def _versions(domain: str, op_type: str) -> tuple[int, ...]:
    schemas = onnx.defs.get_all_schemas_with_history()
    return tuple(sorted(s.since_version for s in schemas if (s.domain, s.name) == (domain, op_type)))
