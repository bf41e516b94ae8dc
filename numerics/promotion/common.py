"""The common element type of mixed operands: the rule of OpenVINO's ConvertPromoteTypes, for two operands or many.

What is promoted, in order:
1. The operands of the highest kind decide (boolean < integer < floating point); string and complex mix with nothing.
2. Under `pytorch_scalar_promotion` the rank-0 operands among them give way to the dimensioned ones.
3. The answer is the narrowest type of that kind which holds all that remain (`castsmith.numerics.embedding`). float16
   is taken before bfloat16, the choice that OpenVINO documents for its own tie (f8e4m3, f8e5m2). Where no integer type
   holds both uint64 and a signed type, it is `u64_integer_promotion_target`.

Without `promote_unsafe` the answer must be the type of an operand, and each operand must go to it by a step that the
operator calls safe; those steps are `_refusal` below. The factor 2 that a signed answer grants to an unsigned scalar
sits on the unexpected side; the running operator has it so, and so has this one. Where the operator has no rule for a
type (float8 fnuz, float8e8m0, float6, float4, int2, uint2), a safe step must moreover be exact.

With a `library` steps 2 and 3 are that library's own, by its table (`castsmith.numerics.promotion.libraries`).

The rule is not associative, so many operands are never folded pair by pair: {bfloat16, float8e4m3fn, float8e5m2} gives
bfloat16, which holds all three, although the last two alone give float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NoReturn

from onnx_ir import DataType

from castsmith.numerics.arguments import whole_number
from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.libraries import library_type
from castsmith.numerics.promotion.rules import PromotionRules, Rank
from castsmith.numerics.types import ELEMENT_TYPES, NUMERIC_TYPES, Kind, TypeLike, element_type, parse_type, type_name

Operand = tuple[TypeLike, Rank]

_OF_OPENVINO = frozenset(
    map(
        parse_type,
        [
            *("bool", "i4", "u4", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"),
            *("f8e4m3fn", "f8e5m2", "f16", "bf16", "f32", "f64"),
        ],
    )
)
"""The types for which the rules of OpenVINO say which promotions are safe."""


def promote_types(
    lhs: TypeLike,
    rhs: TypeLike,
    *,
    lhs_rank: Rank = 1,
    rhs_rank: Rank = 1,
    promote_unsafe: bool = False,
    pytorch_scalar_promotion: bool = False,
    u64_integer_promotion_target: TypeLike = DataType.FLOAT,
) -> DataType | None:
    """Return the type that ConvertPromoteTypes gives to both operands.

    Args:
        lhs: The first type, in any form that `parse_type` accepts.
        rhs: The second type.
        lhs_rank: The number of dimensions of the first operand, or None if unknown.
        rhs_rank: The number of dimensions of the second operand, or None if unknown.
        promote_unsafe: Allow promotions that can change a value.
        pytorch_scalar_promotion: Ignore a rank-0 operand beside a dimensioned one of the same kind.
        u64_integer_promotion_target: The common type of uint64 and a signed integer type.

    Returns:
        The common type; None if it depends on an unknown rank.

    Raises:
        PromotionError: The rules refuse the promotion.
        ElementTypeError: A type is not an ONNX element type.

    Source: OpenVINO's ConvertPromoteTypes-14 as it runs in release 2026.4.1.
    """
    rules = PromotionRules(promote_unsafe, pytorch_scalar_promotion, parse_type(u64_integer_promotion_target))
    return common_type([(lhs, lhs_rank), (rhs, rhs_rank)], rules)


def common_type(operands: Sequence[Operand], rules: PromotionRules | None = None) -> DataType | None:
    """Return the one type to which all operands are cast.

    It depends neither on the order of the operands nor on repetition; for two operands it equals `promote_types`.

    Args:
        operands: Pairs of element type and rank; a rank is None if unknown.
        rules: The promotion rules; the defaults of PromotionRules if None.

    Returns:
        The common type; None if it depends on an unknown rank.

    Raises:
        PromotionError: The rules refuse the promotion, or `operands` is empty.
        ElementTypeError: A type is unknown.
    """
    rules = rules or PromotionRules()
    ranks = _ranks_by_type(operands)
    types = list(ranks)
    if len(types) == 1:
        return types[0]
    _refuse_unordered_kinds(types)
    highest = max(element_type(dtype).kind for dtype in types)
    top = [dtype for dtype in types if element_type(dtype).kind is highest]
    if rules.library != "openvino":
        common = library_type(rules.library, ranks, scalars_give_way=rules.pytorch_scalar_promotion)
        return common if common is None or rules.promote_unsafe else _safe_type(types, top, common)
    if rules.pytorch_scalar_promotion and len(top) > 1:
        if any(None in ranks[dtype] and 1 not in ranks[dtype] for dtype in top):
            return None
        top = [dtype for dtype in top if ranks[dtype] != {0}] or top
    common = _narrowest_holding(top)
    if not rules.promote_unsafe:
        return _safe_type(types, top, common)
    return common or rules.u64_integer_promotion_target


def _ranks_by_type(operands: Sequence[Operand]) -> dict[DataType, set[Rank]]:
    ranks: dict[DataType, set[Rank]] = {}
    for dtype, rank in operands:
        ranks.setdefault(parse_type(dtype), set()).add(_scalar_or_not(rank))
    if not ranks:
        raise PromotionError("at least one operand is required.", rule="operands")
    return ranks


def _scalar_or_not(rank: Rank) -> Rank:
    """Return 0 for a scalar, 1 for any number of dimensions, None if unknown."""
    if rank is None:
        return None
    if whole_number("a rank", rank, "an integer or None") < 0:
        raise PromotionError(f"a rank must be at least 0, not {rank}.", rule="operands")
    return min(rank, 1)


def _narrowest_holding(types: Sequence[DataType]) -> DataType | None:
    """Return the narrowest type of their kind that holds all of `types`: float16 before bfloat16, signed if any is."""
    kind = element_type(types[0]).kind
    holding = [
        row
        for row in map(element_type, NUMERIC_TYPES)
        if row.kind is kind and all(embeds(dtype, row.dtype) for dtype in types)
    ]
    return min(holding, key=lambda row: (row.bits, -row.mantissa_bits)).dtype if holding else None


def _refuse_unordered_kinds(types: Sequence[DataType]) -> None:
    for dtype in types:
        if element_type(dtype).kind > Kind.FLOATING:
            other = next(other for other in types if other != dtype)
            text = f"{type_name(dtype)} with {type_name(other)} have no common type."
            raise PromotionError(text, lhs=dtype, rhs=other, rule="kind")


def _safe_type(types: Sequence[DataType], top: Sequence[DataType], common: DataType | None) -> DataType:
    if common is None or common not in top:
        _raise_unsafe(*_widened_pair(top, common), *_widening(common))
    for dtype in types:
        reason = _refusal(dtype, common)
        if reason:
            _raise_unsafe(dtype, common, *reason)
    return common


def _widened_pair(top: Sequence[DataType], common: DataType | None) -> tuple[DataType, DataType]:
    """Return two types which alone need `common`, so that the error names a cause; or the first and the last."""
    pairs = ((a, b) for a, b in combinations(top, 2) if _narrowest_holding([a, b]) == common)
    return next(pairs, (top[0], top[-1]))


def _widening(common: DataType | None) -> tuple[str, str]:
    if common is None:
        return "no-integer-type", "fits no integer type: a safe promotion keeps every integer value"
    return "widening", f"needs the wider {type_name(common)}: a safe promotion keeps to the type of an operand"


def _refusal(source: DataType, common: DataType) -> tuple[str, str] | None:
    """Return the rule and the reason why the step from `source` to `common` is unsafe, or None."""
    s, c = ELEMENT_TYPES[source], ELEMENT_TYPES[common]
    if s.kind is Kind.BOOLEAN:
        return None
    if s.kind < c.kind and c.bits < 2 * s.bits:
        return "precision", "could lose precision: a safe promotion to floating point needs twice the integer's bits"
    if s.kind == c.kind:  # of a scalar: the common type holds all others
        wide_enough = c.bits >= s.bits if s.signed == c.signed else c.signed and 2 * c.bits >= s.bits
        if not wide_enough:
            return "scalar", "could lose the scalar's value: a safe promotion needs a dimensioned type that is as wide"
    if not {source, common} <= _OF_OPENVINO and not embeds(source, common):
        return "exactness", f"could change a value: {type_name(common)} does not hold all of {type_name(source)}"
    return None


def _raise_unsafe(lhs: DataType, rhs: DataType, rule: str, reason: str) -> NoReturn:
    text = f"{type_name(lhs)} with {type_name(rhs)} {reason} (`promote_unsafe` allows it)."
    raise PromotionError(text, lhs=lhs, rhs=rhs, rule=rule, option="promote_unsafe")
