"""What to do with a type that an operator does not take at the model's opset.

The rule: the narrowest type that the operator takes and that holds every value of the type. Where that is a type of
the same kind the result goes back to the type, since wider arithmetic followed by Cast is arithmetic in the type itself
(modulo 2**bits for integers; one rounding for floats). Where the kind changes (Softmax of int32, Sub of bool) the
result stays as wide as it was computed. Where the model declares the result to have a type that will do, that is it.

Addition and its like on bool have a meaning in PyTorch, NumPy and JAX, all the same: `Add` is `Or`, `Mul` is `And`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import onnx.defs
import onnx_ir
from onnx_ir import DataType

from castsmith.ir.ops import restriction
from castsmith.ir.schemas import DEFAULT_DOMAINS, OpKey, TypeGroup, actual_inputs, actual_outputs
from castsmith.numerics.embedding import embeds
from castsmith.numerics.opsets import FIRST_OPSET
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


def not_taken(key: OpKey, group: TypeGroup, dtype: DataType, node: onnx_ir.Node, *, common: bool) -> str:
    """Why there is no type to use, with the opset that would allow it."""
    index = group.indexes[0]
    what = f"{type_name(dtype)}, their common type," if common else type_name(dtype)
    later = _first_opset(key, lambda found: _takes(found, index, dtype) and _unrestricted(node, found, dtype))
    row = restriction(node, key[2]) if index == 0 else None
    because = "" if row is None else f": {row.because}"
    return f"{_operator(key)} takes neither {what} nor a type that holds it{because} ({_way_out(later)})."


def not_cast(types: Iterable[DataType], opset: int) -> str | None:
    """Why Cast does not take these types, with the opset that would allow it; None where it takes them."""
    first = {dtype: FIRST_OPSET.get(dtype) for dtype in types}
    lacking = [dtype for dtype, since in first.items() if since is None or since > opset]
    if not lacking:
        return None
    names = " and ".join(type_name(dtype) for dtype in lacking)
    needed = [since for dtype in lacking if (since := first[dtype]) is not None]
    return f"Cast of opset {opset} takes no {names} ({_way_out(max(needed) if len(needed) == len(lacking) else None)})."


def not_passed_on(key: OpKey, dtype: DataType) -> str:
    """Why control flow cannot hand on a value of the type, with the opset that would allow it."""
    way_out = _way_out(_first_opset(key, lambda found: _gives(found, dtype)))
    return f"{_operator(key)} passes no {type_name(dtype)} on ({way_out})."


def _operator(key: OpKey) -> str:
    domain, op_type, opset = key
    return f"{op_type} of " + (f"opset {opset}" if domain in DEFAULT_DOMAINS else f"version {opset} of {domain}")


def _way_out(opset: int | None) -> str:
    return f"opset {opset} allows it" if opset else "no opset does"


def _first_opset(key: OpKey, allows: Callable[[OpKey], bool]) -> int | None:
    domain, op_type, opset = key
    domain = "" if domain in DEFAULT_DOMAINS else domain
    return next(
        (since for since in _versions(domain, op_type) if since > opset and allows((domain, op_type, since))), None
    )


def _unrestricted(node: onnx_ir.Node, key: OpKey, dtype: DataType) -> bool:
    row = restriction(node, key[2])
    return row is None or dtype in row.allowed


def _takes(key: OpKey, index: int, dtype: DataType) -> bool:
    formal = actual_inputs(key, index + 1)[index]
    return formal is not None and dtype in formal.allowed


def _gives(key: OpKey, dtype: DataType) -> bool:
    return any(formal is not None and dtype in formal.allowed for formal in actual_outputs(key, 1))


@cache
def _versions(domain: str, op_type: str) -> tuple[int, ...]:
    schemas = onnx.defs.get_all_schemas_with_history()
    return tuple(sorted(s.since_version for s in schemas if (s.domain, s.name) == (domain, op_type)))
