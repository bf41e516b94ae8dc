"""Casts that change no value, and chains of two casts that are equal to one direct cast.

Cast a->b then b->c equals Cast a->c, with the attributes of the second, if for every value x of a, with y = x in b:
  - the standard fixes x->b, so that the intermediate value is neither undefined nor disputed;
  - y->c and x->c have the same status in the standard;
  - where it fixes them they give the same bits, except the payload of a NaN, to which ONNX gives no meaning;
  - where it does not, y and x are the same number, so that the remaining cast has the same operand.
If b is c the second cast does nothing, and x->b may have any status as long as x->c is the same.

No list is written by hand. An intermediate type that holds the source decides immediately (`is_exact`) if Cast has one
rule for both; everything else is computed by the one definition of Cast on the critical values
(`castsmith.numerics.critical`). The well-known condition on precisions, p_b >= 2*p_c + 2, is not sufficient here: it
makes rounding twice harmless for a sum or product of two numbers of c, not for any number. float64->float32->float16
meets it, and takes 1 + 2**-11 + 2**-40 to 1 although the direct cast gives 1 + 2**-10. Holding the source is not always
sufficient either: float8e5m2->float16->float8e5m2 saturates an infinity, which a cast from float8e5m2 to itself keeps.

Of the 2940 chains over bool, the integers of 8 to 64 bits, float16 to double, float8e4m3fn and float8e5m2 in which no
type follows itself, 973 collapse if both casts saturate. Weaker conditions admit more chains, each with a change:
1007 if a value may be undefined in both ways by different casts (float16->int32->int64 of an infinity), 1216 if the
result of an undefined value may become any value.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx_ir import DataType

from castsmith.numerics.cast.codec import Array, code_dtype
from castsmith.numerics.cast.convert import cast
from castsmith.numerics.cast.settings import NEWEST_OPSET, policy_for, require_settings, require_type
from castsmith.numerics.critical import critical_values
from castsmith.numerics.embedding import embeds
from castsmith.numerics.status import cast_status
from castsmith.numerics.types import ElementType, Kind, TypeLike, element_type, parse_type


class Reason(enum.Enum):
    """Reason why a chain of casts equals the direct cast, or does not."""

    IDENTITY = "one of the two casts changes nothing"
    EMBEDDING = "the intermediate type holds every value of the source"
    WRAPPING = "integers wrap alike: the last type is no wider than the intermediate one"
    TRUTH = "only zero becomes zero in the intermediate type"
    ROUNDING = "the first rounding never changes the outcome of the second"
    TEXT = "a cast to or from text is not followed through a chain"
    OPEN = "the standard does not define the first cast for this value"
    STANDING = "the standard defines only one of the chain and the direct cast for this value"
    LEFT_OPEN = "the standard does not define the last cast for this value, and the first changes it"
    VALUE = "this value gives different bits"


@dataclass(frozen=True, slots=True)
class Collapse:
    """Verdict on a chain of casts: equal to the direct cast or not, and why.

    Attributes:
        witness: A value of the source that refutes the equality, or None.
    """

    collapses: bool
    reason: Reason
    witness: int | float | bool | None = None

    def __bool__(self) -> bool:
        return self.collapses


def is_exact(a: TypeLike, b: TypeLike) -> bool:
    """True if every value of `a`, -0, infinity and NaN included, is unchanged by Cast to `b`.

    Args:
        a: The source type.
        b: The target type.

    Raises:
        ElementTypeError: A type is unknown.
    """
    return embeds(parse_type(a), parse_type(b))


def chain_collapses(
    a: TypeLike,
    b: TypeLike,
    c: TypeLike,
    *,
    first_saturate: bool = True,
    second_saturate: bool = True,
    first_round_mode: str = "up",
    second_round_mode: str = "up",
    opset: int = NEWEST_OPSET,
    undefined_free: bool = False,
) -> Collapse:
    """Decide whether Cast a->b->c equals Cast a->c, with the attributes of the second, for every value of `a`.

    Args:
        a: The source type.
        b: The intermediate type.
        c: The final type.
        first_saturate: The attribute `saturate` of the first cast.
        second_saturate: The attribute `saturate` of the second cast.
        first_round_mode: The attribute `round_mode` of the first cast.
        second_round_mode: The attribute `round_mode` of the second cast.
        opset: The opset whose Cast is meant.
        undefined_free: Consider only values for which the standard fixes the chain; the result for other values may
            change.

    Returns:
        The verdict with its reason and, if it is negative, a witness.

    Raises:
        ElementTypeError: Cast does not support a type at `opset`.
        CastError: Cast does not have these settings.
    """
    first = _Settings(first_saturate, first_round_mode, opset)
    second = _Settings(second_saturate, second_round_mode, opset)
    types = parse_type(a), parse_type(b), parse_type(c)
    for dtype, round_mode in zip(types, (first_round_mode, first_round_mode, second_round_mode), strict=True):
        require_settings(round_mode, opset)
        require_type(dtype, opset)
    return _decide(*types, first, second, undefined_free)


def witness(a: TypeLike, b: TypeLike, c: TypeLike, **settings: Any) -> int | float | bool | None:
    """Return a value of `a` for which Cast a->b->c differs from Cast a->c, or None; arguments of `chain_collapses`."""
    return chain_collapses(a, b, c, **settings).witness


@dataclass(frozen=True, slots=True)
class _Settings:
    saturate: bool
    round_mode: str
    opset: int

    def cast(self, array: Array, to: DataType) -> tuple[Array, Array]:
        """Return the cast of `array`, and the status of each element in the standard."""
        status = cast_status(array, to, saturate=self.saturate, round_mode=self.round_mode, opset=self.opset)
        return cast(array, to, saturate=self.saturate, round_mode=self.round_mode, opset=self.opset), status

    def policy(self, to: DataType) -> object:
        return policy_for(to, saturate=self.saturate, round_mode=self.round_mode, opset=self.opset)


@lru_cache(maxsize=4096)
def _decide(a: DataType, b: DataType, c: DataType, first: _Settings, second: _Settings, free: bool) -> Collapse:
    rows = element_type(a), element_type(b), element_type(c)
    if a == b or (b == c and first.policy(c) == second.policy(c)):
        return Collapse(True, Reason.IDENTITY)
    if max(row.kind for row in rows) > Kind.FLOATING:
        return Collapse(False, Reason.TEXT)
    if embeds(a, b) and _same_rule(*rows):
        return Collapse(True, Reason.EMBEDDING)
    x = critical_values(a, b, c)
    y, first_status = first.cast(x, b)
    if b != c and first_status.any() and not free:
        return _refused(Reason.OPEN, x, first_status != 0)
    z, status = second.cast(y, c)
    direct, direct_status = second.cast(x, c)
    if b == c:
        status = first_status
    if free:
        counts = (first_status == 0) & (status == 0)
        standing, other = counts & (direct_status != 0), counts & ~_same_bits(z, direct, rows[2])
        status = np.zeros_like(status)
    else:
        standing, other = status != direct_status, ~_same_bits(z, direct, rows[2])
    checks = (
        (Reason.STANDING, standing),
        (Reason.VALUE, other),
        (Reason.LEFT_OPEN, _changed_where_open(status, x, y) if b != c else np.zeros(x.shape, np.bool_)),
    )
    for reason, failing in checks:
        if failing.any():
            return _refused(reason, x, failing)
    return Collapse(True, _why(*rows))


def _same_rule(a: ElementType, b: ElementType, c: ElementType) -> bool:
    """True if Cast converts to `c` from `a` and from `b` by one rule, so that equal values have equal results.

    Integers wrap into an integer type where floating-point numbers are undefined, and a cast of a type of 8 bits to
    itself keeps an infinity which a saturating cast from another type turns into the maximum.
    """
    alike = c.kind is not Kind.INTEGER or (a.kind is Kind.FLOATING) == (b.kind is Kind.FLOATING)
    return alike and (a.dtype != c.dtype or c.bits > 8)


def _refused(reason: Reason, values: Array, failing: NDArray[np.bool_]) -> Collapse:
    return Collapse(False, reason, values[int(failing.argmax())].item())


def _why(a: ElementType, b: ElementType, c: ElementType) -> Reason:
    if embeds(a.dtype, b.dtype):
        return Reason.EMBEDDING
    if c.kind is Kind.BOOLEAN:
        return Reason.TRUTH
    return Reason.WRAPPING if max(a.kind, b.kind, c.kind) is Kind.INTEGER else Reason.ROUNDING


def _same_bits(lhs: Array, rhs: Array, row: ElementType) -> NDArray[np.bool_]:
    codes = code_dtype(row)
    same = lhs.view(codes) == rhs.view(codes)
    if not row.has_nan:
        return same
    left, right = _numbers(lhs), _numbers(rhs)
    return same | (np.isnan(left) & np.isnan(right) & (np.signbit(left) == np.signbit(right)))


def _changed_where_open(status: Array, x: Array, y: Array) -> NDArray[np.bool_]:
    changed = status != 0
    left, right = _numbers(x[changed]), _numbers(y[changed])
    changed[changed] = (left != right) & ((left == left) | (right == right))
    return changed


def _numbers(array: Array) -> Array:
    """Return float64, or Python integers if float64 would round; comparing the two is exact."""
    wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8
    with np.errstate(all="ignore"):
        return array.astype(object) if wide else array.astype(np.float64)
