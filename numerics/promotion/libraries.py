"""The common types of PyTorch, NumPy, JAX and TensorFlow, as rows: the types directly above each type.

The common type of a set is the least type above all of it. If several are least, the one of the lowest kind counts
(int16 before float16 in NumPy); if several of one kind are least, or no type is, the library refuses, and so does
Castsmith. A type without a row has a common type only with itself. `float*` is the weakly typed float of JAX and
TensorFlow, below all floats: uint64 with int8 is `float*`, which float16 absorbs, and which means `star` if it is the
result.

Sources, all recorded by running them (tests/numerics/*_promotion.txt): torch.result_type 2.13, numpy.result_type 2.4,
jax.numpy.result_type 0.10 with 64-bit types enabled, tf.experimental.numpy 2.21 with dtype_conversion_mode "all".
NumPy itself lacks the types that ml_dtypes adds; the promotions that ml_dtypes registers do not form an order, so these
types are refused.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cache
from itertools import product
from typing import cast

from onnx_ir import DataType

from castsmith.numerics.errors import PromotionError, present
from castsmith.numerics.extensions import PROMOTIONS, extension
from castsmith.numerics.promotion.rules import Library, Rank, is_promotion_file, promotion_file
from castsmith.numerics.types import element_type, parse_type, type_name

STAR = "float*"


_INTEGERS = {
    "b8": "i8 u8",
    "i8": "i16",
    "u8": "i16 u16",
    "i16": "i32",
    "u16": "i32 u32",
    "i32": "i64",
    "u32": "i64 u64",
}
_FLOATS = {"f16": "f32", "bf16": "f32", "f32": "f64", "f64": ""}
_WEAK_FLOAT = {"i64": STAR, "u64": STAR}
_NARROW_FLOATS = "f4e2m1 f6e2m3 f6e3m2 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0"

LIBRARIES: dict[str, Library] = {
    "torch": Library(
        {
            "b8": "u8 i8",
            "u8": "i16",
            "i8": "i16",
            "i16": "i32",
            "i32": "i64",
            "i64": "f16 bf16",
            **dict.fromkeys(("u2", "u4", "u16", "u32", "u64"), "f16 bf16"),
            **_FLOATS,
        },
        star="f32",
        weak_integer="i64",
        weak_float="f32",
    ),
    "numpy": Library(
        {
            **_INTEGERS,
            "i8": "i16 f16",
            "u8": "i16 u16 f16",
            "i16": "i32 f32",
            "u16": "i32 u32 f32",
            "i64": "f64",
            "u64": "f64",
            "f16": "f32",
            "f32": "f64",
            "f64": "",
        },
        star="f64",
        weak_integer="i64",
        weak_float="f64",
    ),
    "jax": Library(
        {
            **_INTEGERS,
            "b8": "i2 u2 i4 u4 i8 u8",
            **dict.fromkeys(("i2", "u2", "i4", "u4"), ""),
            **_WEAK_FLOAT,
            STAR: f"{_NARROW_FLOATS} f16 bf16",
            **dict.fromkeys(_NARROW_FLOATS.split(), ""),
            **_FLOATS,
        },
        star="f64",
        weak_integer="i64",
        weak_float="f64",
    ),
    "tensorflow": Library(
        {**_INTEGERS, **_WEAK_FLOAT, STAR: "f16 bf16", **_FLOATS}, star="f64", weak_integer="i32", weak_float="f64"
    ),
}


def library_of(name: str) -> Library:
    """Return the library of that name, from a file at that path or from a package that declares it.

    Raises:
        PromotionError: The library is unknown.
    """
    if name in LIBRARIES:
        return LIBRARIES[name]
    if is_promotion_file(name):
        return _library_in(name)
    added = extension(PROMOTIONS, name, _fit)
    if added is None:
        names = ", ".join(("openvino", *LIBRARIES))
        raise PromotionError(f"unknown promotion library {name!r}; expected {names} or a file that ends in .json.")
    return added


def _library_in(path: str) -> Library:
    rules, library = promotion_file(path)
    if library is None and rules.library not in LIBRARIES:
        raise PromotionError(f"{path} defines no rows, and {rules.library!r} is not a library that does.")
    return library or LIBRARIES[rules.library]


def _fit(source: object) -> Library:
    if isinstance(source, str | os.PathLike):
        return _library_in(os.fspath(cast("str | os.PathLike[str]", source)))
    raise TypeError("it defines no rows")


def library_type(
    library: str, ranks: Mapping[DataType, Collection[Rank]], *, scalars_give_way: bool = False
) -> DataType | None:
    """Return the library's common type of operands by type and rank (0, 1 for more, None for unknown).

    Args:
        scalars_give_way: Apply PyTorch's rule: a rank-0 operand is ignored beside a dimensioned one of at least its
            kind.

    Returns:
        The common type; None if it depends on an unknown rank.

    Raises:
        PromotionError: The library has no common type for the operands.
    """
    unknown = [dtype for dtype in ranks if scalars_give_way and None in ranks[dtype] and 1 not in ranks[dtype]]
    answers: set[str | None] = set()
    for guess in product((0, 1), repeat=len(unknown)):
        ranks_by_type = {
            **{dtype: set(dimensions) for dtype, dimensions in ranks.items()},
            **dict(zip(unknown, ({g} for g in guess), strict=True)),
        }
        counted = _counted(ranks_by_type) if scalars_give_way else list(ranks_by_type)
        answers.add(_least(library, frozenset(dtype.short_name() for dtype in counted)))
    if answers == {None}:
        names = " and ".join(type_name(dtype) for dtype in ranks)
        first, *_, last = ranks
        text = f"{library} gives {names} no common type (`library=openvino` with `promote_unsafe` does)."
        raise PromotionError(text, lhs=first, rhs=last, rule=library, option="library")
    if len(answers) > 1:
        return None
    least = present(answers.pop(), "the common type of the library")
    return parse_type(library_of(library).star if least == STAR else least)


def _counted(ranks: Mapping[DataType, Collection[Rank]]) -> list[DataType]:
    """Return the types that count.

    A type with operands of rank 0 only is ignored beside a dimensioned one of at least its kind.
    """
    dimensioned = [element_type(dtype).kind for dtype, dimensions in ranks.items() if 1 in dimensions]
    top = max(dimensioned, default=None)
    return [
        dtype for dtype, dimensions in ranks.items() if top is None or 1 in dimensions or element_type(dtype).kind > top
    ]


Rows = tuple[tuple[str, str], ...]
"""The rows of a library: each type, and those directly above it."""


def _least(library: str, names: frozenset[str]) -> str | None:
    if len(names) == 1:
        return next(iter(names))
    return _least_of_rows(tuple(library_of(library).above.items()), names)


@cache
def _least_of_rows(rows: Rows, names: frozenset[str]) -> str | None:
    bounds = frozenset[str].intersection(*(_at_or_above(rows, name) for name in names))
    least = [a for a in bounds if not any(b != a and a in _at_or_above(rows, b) for b in bounds)]
    kinds = {name: element_type(parse_type("f32" if name == STAR else name)).kind for name in least}
    lowest = [name for name in least if kinds[name] == min(kinds.values())]
    return lowest[0] if len(lowest) == 1 else None


@cache
def _at_or_above(rows: Rows, name: str) -> frozenset[str]:
    above = dict(rows).get(name, "").split()
    return frozenset({name}).union(*(_at_or_above(rows, higher) for higher in above))
