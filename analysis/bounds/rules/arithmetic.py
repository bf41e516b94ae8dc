"""Arithmetic of two and more operands, choices between operands, and casts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np
import onnx_ir
from onnx_ir import DataType

from castsmith.analysis.bounds.interval import (
    MINUS,
    NAN,
    NONE,
    PLUS,
    Bits,
    Interval,
    Shares,
    absolute,
    aligned,
    collapsed,
    hull,
    inherited,
    kept_shares,
    number,
    possible,
    products,
    square,
    together,
)
from castsmith.analysis.bounds.patterns import is_node, rest_of_sums, same
from castsmith.analysis.bounds.rounding import (
    Array,
    is_float,
    is_integer,
    largest,
    sum_error,
    unit_roundoff,
    vanished,
    widest,
    with_slack,
)
from castsmith.analysis.bounds.rules.functions import RULES as FUNCTIONS, negated
from castsmith.analysis.bounds.step import LENGTHS, LONGEST, Rule, Step, longest
from castsmith.numerics.types import element_type

_MOST_FOLLOWED = 4096
"""Elements of a Range that are followed one by one."""
_BYTE = 8


def add(step: Step, sign: int) -> Interval:
    """A + b or a - b; a difference of a value to itself is 0, or NaN of an infinity."""
    a, b = step.input(0), step.input(1)
    if sign < 0 and step.value(0) is step.value(1):
        nothing = np.zeros(a.low.shape)
        return step.picked(nothing, nothing, a, special=possible(nan=a.special != NONE))
    x, y = aligned(a, b if sign > 0 else negated(b))
    opposite = (x.plus & y.minus) | (x.minus & y.plus)
    special = possible(nan=x.nan | y.nan | opposite, plus=x.plus | y.plus, minus=x.minus | y.minus)
    with np.errstate(all="ignore"):
        low, high = x.low + y.low, x.high + y.high
        if sign < 0 and (rest := _rest_of_sums(step, b)) is not None:
            low, high = np.maximum(low, rest[0]), np.minimum(high, rest[1])
        return step.result(low, high, a, b, special=special)


def _rest_of_sums(step: Step, sums: Interval) -> tuple[float, float] | None:
    """Bounds of the last of cumulative sums less each of them: of decays, none of which is positive, neither is it.

    The bounds of the sums hold their roundings, of which the difference has two.
    """
    if (form := rest_of_sums(step.node, step.intervals)) is None:
        return None
    source = form[0].inputs[0]
    x = None if source is None else step.intervals.get(source)
    if x is None or not sums.finite:
        return None
    count, _ = longest(sums.dims or (), [form[1]])
    low, high = count * min(x.least, 0.0), count * max(x.greatest, 0.0)
    error = 2 * max(low - sums.least, sums.greatest - high, 0.0)
    return low - error, high + error


def special_products(x: Interval, y: Interval) -> Bits:
    """What products with infinities and NaN may be; those that overflow are seen by their ends."""
    return possible(
        nan=x.nan | y.nan | (x.infinite & y.zero) | (y.infinite & x.zero),
        plus=(x.plus & y.positive) | (x.minus & y.negative) | (y.plus & x.positive) | (y.minus & x.negative),
        minus=(x.plus & y.negative) | (x.minus & y.positive) | (y.plus & x.negative) | (y.minus & x.positive),
    )


def multiply(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    if same(step.value(0), step.value(1), step.intervals):
        special = possible(nan=a.nan, plus=a.infinite)
        return step.result(*square(a.low, a.high), a, special=special)
    x, y = aligned(a, b)
    shares = kept_shares(a, b) if b.least >= 0 and b.greatest <= 1 else None
    ends = products((x.low, x.high), (y.low, y.high))
    return step.result(*ends, a, b, special=special_products(x, y), shares=_rounded_shares(step, a, shares))


def _rounded_shares(step: Step, x: Interval, shares: Shares | None) -> Shares | None:
    """The parts of a whole after one more rounding of each."""
    dtype = step.dtypes[0]
    if shares is None or not is_float(dtype):
        return None
    count, assumes = longest(x.dims or (), [shares.axis])
    most = shares.most * (1 + 2 * unit_roundoff(dtype)) + vanished(count, dtype)
    return Shares(shares.axis, most, shares.assumes | assumes)


def quotients(x: Interval, y: Interval) -> tuple[Array, Array, Bits]:
    """Bounds of finite quotients of floating-point numbers, and what others may be.

    A divisor of 0 has either sign, and gives infinities.
    """
    spans = (y.low < 0) & (y.high > 0)
    low, high = np.where(y.low == 0, 0.0, y.low), np.where(y.high == 0, -0.0, y.high)
    with np.errstate(all="ignore"):
        corners = [end / by for end in (x.low, x.high) for by in (low, high)]
    corners = [np.where(np.isnan(corner), 0.0, corner) for corner in corners]
    least, most = np.minimum.reduce(corners), np.maximum.reduce(corners)
    both_signs = spans & ((x.low < 0) | (x.high > 0))
    least, most = np.where(both_signs, -np.inf, least), np.where(both_signs, np.inf, most)
    least, most = np.where(y.infinite, np.minimum(least, 0), least), np.where(y.infinite, np.maximum(most, 0), most)
    by_zero = y.zero & (x.positive | x.negative)
    special = possible(
        nan=x.nan | y.nan | (x.zero & y.zero) | (x.infinite & y.infinite),
        plus=by_zero | (x.plus & y.positive) | (x.minus & y.negative),
        minus=by_zero | (x.plus & y.negative) | (x.minus & y.positive),
    )
    return least, most, special


def divide(step: Step) -> Interval:
    a, b = step.input(0), step.input(1)
    if is_integer(step.dtypes[0]):
        return _integer_quotient(step, a, b)
    low, high, special = quotients(*aligned(a, b))
    return step.result(low, high, a, b, special=special)


def _reciprocal(step: Step) -> Interval:
    x = step.input(0)
    low, high, special = quotients(number(1.0, x.dtype), x)
    return step.result(*with_slack(low, high, step.dtypes[0]), x, special=special)


def _integer_quotient(step: Step, a: Interval, b: Interval) -> Interval:
    """The quotient rounded toward 0, or down; a division by 0 has no result."""
    x, y = aligned(a, b)
    if y.zero.any():
        return step.anything()
    corners = [np.trunc(end / by) for end in (x.low, x.high) for by in (y.low, y.high)]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    return step.result(low - 1, high + 1, a, b)


def _mod(step: Step) -> Interval:
    """The remainder, of the sign of the dividend for `fmod` and of the divisor otherwise; exact."""
    a, b = step.input(0), step.input(1)
    x, y = aligned(a, b)
    fmod, whole = step.int("fmod", 0), is_integer(step.dtypes[0])
    if (whole and y.zero.any()) or not (whole or fmod):
        return step.anything()
    most = np.where(y.infinite, np.inf, y.magnitude)
    if fmod:
        most = np.minimum(most, x.magnitude)
    negative, positive = (x.low < 0, x.high > 0) if fmod else (y.low < 0, y.high > 0)
    special = possible(nan=x.nan | y.nan | x.infinite | y.zero) if not whole else NONE
    ends = np.where(negative, -most, 0.0), np.where(positive, most, 0.0)
    return step.picked(*ends, a, b, special=special)


def _pow(step: Step) -> Interval:
    """A ** b: for a fixed integer exponent, or a base that is positive or, for a fixed exponent, not negative."""
    a, b = step.input(0), step.input(1)
    x, y = aligned(a, b)
    if b.least == b.greatest and b.finite:
        return _power(step, x, b.least)
    if not is_float(step.dtypes[0]) or a.least <= 0 or not (a.bounded and b.bounded and a.finite and b.finite):
        return step.anything()
    with np.errstate(over="ignore"):
        corners = [base**exponent for base in (x.low, x.high) for exponent in (y.low, y.high)]
    low, high = with_slack(np.minimum.reduce(corners), np.maximum.reduce(corners), step.dtypes[0])
    return step.result(np.maximum(low, 0.0), high, a, b)


def _power(step: Step, x: Interval, exponent: float) -> Interval:
    whole, dtype = exponent == round(exponent), step.dtypes[0]
    not_negative = x.least >= 0 and not x.minus.any()
    if not (whole or not_negative) or (not is_float(dtype) and (exponent < 0 or not whole)):
        return step.anything()
    odd = exponent % 2 == 1
    sizes = (x.low, x.high) if odd else absolute(x.low, x.high)
    with np.errstate(over="ignore"):
        low, high = (end ** abs(exponent) for end in sizes)
    special = possible(nan=x.nan, plus=x.plus | (x.minus & (not odd)), minus=x.minus & odd)
    if exponent < 0:
        low, high, special = quotients(number(1.0, dtype), Interval(low, high, special, x.dims, dtype))
    if is_float(dtype):
        low, high = with_slack(low, high, dtype)
    if (whole and not odd) or (not_negative and exponent > 0):
        low = np.maximum(low, 0.0)
    return step.result(low, high, x, step.input(1), special=special)


def _sum(step: Step) -> Interval:
    """Sum and Mean of any number of operands."""
    operands = aligned(*step.operands)
    count = len(operands)
    with np.errstate(all="ignore"):
        low, high = reduce(np.add, (x.low for x in operands)), reduce(np.add, (x.high for x in operands))
        size = reduce(np.add, (x.magnitude for x in operands))
    low, high, special = step.total(low, high, size, count, *operands)
    if step.node.op_type == "Mean":
        error = vanished(count, step.dtypes[0])
        low, high = low / count - error, high / count + error
    return step.result(low, high, *operands, special=special | special_sums(*(x.special for x in operands)))


def special_sums(*terms: Bits | np.uint8) -> Bits:
    """What sums with infinities and NaN may be: infinity and minus infinity add up to NaN."""
    bits: Bits = np.asarray(terms[0])
    for term in terms[1:]:
        opposite = ((bits & PLUS) * (term & MINUS)) | ((bits & MINUS) * (term & PLUS))
        bits = bits | term | np.where(opposite != 0, NAN, NONE)
    return bits


def special_totals(bits: Bits | np.uint8) -> Bits:
    """What sums of several elements may be, each of which may be what the bits say."""
    return special_sums(bits, bits)


def _extreme(step: Step) -> Interval:
    """Max and Min of any number of operands."""
    operands = aligned(*step.operands)
    extreme = reduce(greater if step.node.op_type == "Max" else lesser, operands)
    return step.picked(extreme.low, extreme.high, *operands, special=extreme.special)


def greater(x: Interval, y: Interval) -> Interval:
    """The greater of two elements, in the dimensions of the first. Some runtimes pass NaN over, others give it."""
    never = x.minus & y.minus
    low = np.where(never, np.minimum(x.low, y.low), np.maximum(x.reach[0], y.reach[0]))
    low = np.where(x.nan, np.minimum(low, y.low), low)
    low = np.where(y.nan, np.minimum(low, x.low), low)
    special = possible(x.nan | y.nan, x.plus | y.plus, never | (x.nan & y.minus) | (y.nan & x.minus))
    ends = together(low, np.maximum(x.high, y.high), special)
    return Interval(*ends, x.dims, x.dtype, **inherited(x, y))


def lesser(x: Interval, y: Interval) -> Interval:
    """The lesser of two elements."""
    return negated(greater(negated(x), negated(y)))


def _clip(step: Step) -> Interval:
    x = step.input(0)
    if step.opset < 11:
        ends = step.number("min", -np.inf), step.number("max", np.inf)
        least, most = (None if np.isinf(end) else number(end, x.dtype) for end in ends)
    else:
        least, most = step.optional(1), step.optional(2)
    limit = widest(x.dtype) if is_float(x.dtype) else 0.0
    clipped, bottom, top = x, number(-limit, x.dtype), number(limit, x.dtype)
    for end, pick, without in ((least, greater, bottom), (most, lesser, top)):
        if end is not None:
            clipped = pick(*aligned(clipped, collapsed(end, ())))
        elif clipped.infinite.any():  # some runtimes take the limit of the type, also for an infinity
            clipped = hull([clipped, pick(*aligned(clipped, without))])
    return step.picked(clipped.low, clipped.high, x, least, most, special=clipped.special)


def _cast(step: Step) -> Interval:
    x, to = step.input(0), step.dtypes[0]
    if not (is_float(x.dtype) or is_integer(x.dtype)):
        return step.anything()
    if is_integer(to):
        return _cast_to_integer(step, x, to)
    if not is_float(to) or to == DataType.FLOAT8E8M0:
        return step.anything()
    if largest(to) >= largest(DataType.FLOAT16):
        shares = _rounded_shares(step, x, x.shares)
        return step.result(x.low, x.high, x, special=x.special, shares=shares)
    most, wide = largest(to), x.size > largest(to) or not x.finite
    if wide and (not step.int("saturate", 1) or x.nan.any()):
        return step.anything()
    low, high = (np.clip(end, -most, most) for end in x.reach)
    return step.result(low, high, x, special=possible(nan=x.infinite))  # NaN for some types in some opsets


def _cast_to_integer(step: Step, x: Interval, to: DataType) -> Interval:
    """Toward 0; for types of less than a byte runtimes round otherwise, too. Beyond the type anything may come out."""
    narrow = element_type(to).bits < _BYTE
    low, high = (np.floor(x.low), np.ceil(x.high)) if narrow else (np.trunc(x.low), np.trunc(x.high))
    return step.picked(low, high, x) if x.finite else step.anything()


def _where(step: Step) -> Interval:
    condition, a, b = step.input(0), _bounded_by(step, 1, True), _bounded_by(step, 2, False)
    kept, other = (a, b) if _is_zero(b) else (b, a)
    shares = kept_shares(kept, other, condition) if _is_zero(other) else None
    _, x, y = aligned(condition, a, b)
    exact = condition.exact
    if exact is None:
        ends = np.minimum(x.low, y.low), np.maximum(x.high, y.high), x.special | y.special
    else:
        ends = tuple(np.where(exact != 0, *pair) for pair in ((x.low, y.low), (x.high, y.high), (x.special, y.special)))
    return step.picked(ends[0], ends[1], a, b, special=ends[2], shares=shares)


def _is_zero(x: Interval) -> bool:
    return x.least == x.greatest == 0 and x.finite


def _bounded_by(step: Step, index: int, holds: bool) -> Interval:
    """An operand of Where, bounded by the test that chooses it, as in `Where (Less (x, c), x, y)`.

    So is a function of what is tested: `Where (Greater (x, 20), x, Softplus (x))` never takes an overflow of Softplus.
    """
    x, value, condition = step.input(index), step.value(index), step.value(0)
    missing = is_node(condition, "IsNaN")
    if missing is not None and value is missing.inputs[0] and not holds:
        return replace(x, special=x.special & ~NAN)
    test = is_node(condition, "Less", "LessOrEqual") or is_node(condition, "Greater", "GreaterOrEqual")
    if test is None or value is None:
        return x
    if value in test.inputs[:2]:
        return _tested(step, test, value, x, holds)
    function = is_node(value, *FUNCTIONS)
    if function is None or len(function.inputs) != 1 or function.inputs[0] not in test.inputs[:2]:
        return x
    operand = function.inputs[0]
    before = None if operand is None else step.intervals.get(operand)
    if operand is None or before is None:
        return x
    bounded = _tested(step, test, operand, before, holds)
    return FUNCTIONS[function.op_type](replace(step, node=function, inputs=[bounded], dims=[x.dims], dtypes=[x.dtype]))


def _tested(step: Step, test: onnx_ir.Node, value: onnx_ir.Value, x: Interval, holds: bool) -> Interval:
    """The elements of a tested value for which the test holds, or does not."""
    if holds:
        x = replace(x, special=x.special & ~NAN)
    other = test.inputs[1] if test.inputs[0] is value else test.inputs[0]
    bound = None if other is None else step.intervals.get(other)
    if bound is None or bound.nan.any():
        return x
    if (test.op_type.startswith("Less") == (test.inputs[0] is value)) == holds:
        return x if bound.plus.any() else _below(x, bound.greatest)
    return x if bound.minus.any() else negated(_below(negated(x), -bound.least))


def _below(x: Interval, most: float) -> Interval:
    """The elements up to a number; one entry of ends at it where there are none."""
    return replace(x, low=np.minimum(x.low, most), high=np.minimum(x.high, most), special=x.special & ~PLUS)


def _range(step: Step) -> Interval:
    """Numbers between the first two operands; runtimes add up the third, with a rounding each."""
    start, limit, delta = (step.input(index) for index in range(3))
    if not (start.finite and limit.finite and delta.finite):
        return step.anything()
    exact = [operand.exact for operand in (start, limit, delta)]
    dtype, count, assumes = step.dtypes[0], None, inherited(start, limit)["assumes"]
    if all(operand is not None and operand.size == 1 for operand in exact):
        first, last, by = (float(operand.reshape(-1)[0]) for operand in exact if operand is not None)
        count = max(0, math.ceil((last - first) / by)) if by else 0
        if is_integer(dtype) and count <= _MOST_FOLLOWED:
            elements = first + by * np.arange(count, dtype=np.float64)
            return step.result(elements, elements, start, limit)
    low, high = min(start.least, limit.least), max(start.greatest, limit.greatest)
    if is_float(dtype):
        error = sum_error(LONGEST if count is None else count + 1, dtype) * max(abs(low), abs(high))
        low, high = low - error, high + error
        assumes = assumes if count is not None else assumes | {LENGTHS}
    return step.result(np.asarray([low]), np.asarray([high]), start, limit, assumes=assumes)


RULES: dict[str, Rule] = {
    "Add": lambda step: add(step, 1),
    "Sub": lambda step: add(step, -1),
    "Mul": multiply,
    "Div": divide,
    "Reciprocal": _reciprocal,
    "Mod": _mod,
    "Pow": _pow,
    "Sum": _sum,
    "Mean": _sum,
    "Max": _extreme,
    "Min": _extreme,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast,
    "Where": _where,
    "Range": _range,
}
