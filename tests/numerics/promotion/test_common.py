"""The rule of promotion: a golden table that a person reads, many operands, refusals, and its laws."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from onnx_ir import DataType

from castsmith.numerics.embedding import embeds
from castsmith.numerics.errors import ElementTypeError, PromotionError
from castsmith.numerics.promotion.common import Operand, common_type, promote_types
from castsmith.numerics.promotion.rules import PromotionRules, Rank
from castsmith.numerics.types import ELEMENT_TYPES, Kind, parse_type

GOLDEN = Path(__file__).with_name("promotion_golden.txt")
UNSAFE = PromotionRules(promote_unsafe=True)
SETTINGS = {
    "safe": PromotionRules(),
    "unsafe": UNSAFE,
    "safe, left operand a scalar, pytorch_scalar_promotion": PromotionRules(pytorch_scalar_promotion=True),
}


def answer(operands: list[Operand], rules: PromotionRules) -> str:
    """The short name of the common type, `-` for a refusal, `?` where a rank leaves it open."""
    try:
        common = common_type(operands, rules)
    except PromotionError:
        return "-"
    return "?" if common is None else common.short_name()


def golden_table(rules: PromotionRules, lhs_rank: Rank) -> str:
    width = max(len(dtype.short_name()) for dtype in ELEMENT_TYPES) + 1

    def line(head: str, cells: list[str]) -> str:
        return "".join(f"{cell:{width}}" for cell in [head, *cells]).rstrip()

    rows = [line("", [dtype.short_name() for dtype in ELEMENT_TYPES])]
    rows += [
        line(lhs.short_name(), [answer([(lhs, lhs_rank), (rhs, 1)], rules) for rhs in ELEMENT_TYPES])
        for lhs in ELEMENT_TYPES
    ]
    return "\n".join(rows)


def golden_text() -> str:
    parts = ["The common type of a row's type with a column's type; `-` is a refusal."]
    for title, rules in SETTINGS.items():
        parts += [title, golden_table(rules, 0 if rules.pytorch_scalar_promotion else 1)]
    return "\n\n".join(parts) + "\n"


def test_the_whole_rule_is_the_table_that_was_read() -> None:
    assert golden_text() == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("i32 i64", "i64"),
        ("i64 bf16 f16", "f32"),
        ("bf16 f8e4m3fn f8e5m2", "bf16"),
        ("u64 i8 f16", "f16"),
        ("b8 u8 i8", "i16"),
        ("u8 i8 i16", "i16"),
        ("u64 i8", "f32"),
        ("f8e8m0 f16", "f32"),
        ("f8e8m0 f8e4m3fn", "bf16"),
        ("f8e4m3fnuz f8e5m2fnuz", "f16"),
        ("f6e2m3 f6e3m2", "f8e4m3fn"),
        ("f8e4m3fnuz f4e2m1", "f16"),
        ("i2 u2", "i4"),
        ("string string", "string"),
        ("f64", "f64"),
    ],
)
def test_many_operands_have_one_common_type_in_any_order(names: str, expected: str) -> None:
    for order in itertools.permutations(names.split()):
        common = common_type([(name, 1) for name in order], UNSAFE)
        assert common is not None
        assert common is parse_type(expected)


def test_safe_widening_needs_one_operand_to_have_the_wide_type() -> None:
    assert common_type([("i8", 1), ("u8", 1), ("i16", 1)]) is DataType.INT16
    with pytest.raises(PromotionError, match="int8 with uint8 needs the wider int16"):
        common_type([("i8", 1), ("u8", 1)])


@pytest.mark.parametrize(
    ("lhs", "rhs", "rule", "text"),
    [
        ("i64", "f32", "precision", "int64 with float could lose precision: a safe promotion to floating point needs "),
        ("i8", "u8", "widening", "int8 with uint8 needs the wider int16: a safe promotion keeps to the type of an op"),
        ("f16", "bf16", "widening", "float16 with bfloat16 needs the wider float: "),
        ("u64", "i8", "no-integer-type", "uint64 with int8 fits no integer type: "),
        ("i4", "f8e8m0", "exactness", "int4 with float8e8m0 could change a value: "),
    ],
)
def test_a_refusal_names_the_types_the_rule_and_the_option(lhs: str, rhs: str, rule: str, text: str) -> None:
    with pytest.raises(PromotionError) as caught:
        promote_types(lhs, rhs)
    assert str(caught.value).startswith(text)
    assert str(caught.value).endswith(" (`promote_unsafe` allows it).")
    assert caught.value.rule == rule
    assert caught.value.option == "promote_unsafe"
    assert {caught.value.lhs, caught.value.rhs} <= set(ELEMENT_TYPES)


def test_a_scalar_that_may_not_fit_is_refused_by_its_own_rule() -> None:
    assert promote_types("u16", "i8", lhs_rank=0, pytorch_scalar_promotion=True) is DataType.INT8
    with pytest.raises(PromotionError) as caught:
        promote_types("i16", "i8", lhs_rank=0, pytorch_scalar_promotion=True)
    assert caught.value.rule == "scalar"


@pytest.mark.parametrize("other", ["f32", "bool", "complex64", "i4"])
def test_no_option_mixes_text_or_complex_numbers_with_anything(other: str) -> None:
    with pytest.raises(PromotionError) as caught:
        common_type([("string", 1), (other, 1)], UNSAFE)
    assert caught.value.option is None
    assert "string" in str(caught.value)


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(ElementTypeError, match="float12"):
        promote_types("float12", "f32")
    with pytest.raises(PromotionError, match="at least one operand"):
        common_type([])


operands = st.lists(st.tuples(st.sampled_from(list(ELEMENT_TYPES)), st.sampled_from([0, 1, 4, None])), min_size=1)
rule_settings = st.builds(
    PromotionRules, st.booleans(), st.booleans(), st.sampled_from([DataType.FLOAT, DataType.INT64])
)


@settings(deadline=None)
@given(operands, rule_settings, st.randoms(use_true_random=False))
def test_order_and_repetition_never_matter(mixed: list[Operand], rules: PromotionRules, random: Random) -> None:
    shuffled = list(mixed)
    random.shuffle(shuffled)
    assert answer(mixed, rules) == answer(shuffled, rules) == answer(mixed + shuffled, rules)


@settings(deadline=None)
@given(operands)
def test_without_integers_into_floats_the_common_type_holds_every_operand(mixed: list[Operand]) -> None:
    kinds = {ELEMENT_TYPES[parse_type(dtype)].kind for dtype, _ in mixed}
    if len(kinds) == 1 and answer(mixed, UNSAFE) != "-":
        common = common_type(mixed, UNSAFE)
        assert common is not None
        if ELEMENT_TYPES[common].kind in kinds or Kind.INTEGER not in kinds:
            assert all(embeds(parse_type(dtype), common) for dtype, _ in mixed)


@settings(deadline=None)
@given(operands)
def test_whatever_is_safe_is_the_same_unsafe(mixed: list[Operand]) -> None:
    safe = answer(mixed, PromotionRules())
    assert safe in ("-", answer(mixed, UNSAFE))


UNKNOWN_RANKS: list[tuple[list[tuple[str, int | None]], DataType | None]] = [
    ([("float", None), ("double", 1)], None),
    ([("float", 1), ("double", None)], None),
    ([("float", None), ("float", 1), ("double", 0)], DataType.FLOAT),
    ([("float", 0), ("double", 0)], DataType.DOUBLE),
    ([("float", 2), ("double", 0)], DataType.FLOAT),
    ([("int32", None), ("double", 0)], DataType.DOUBLE),
]


def test_what_depends_on_an_unknown_rank() -> None:
    for operands, expected in UNKNOWN_RANKS:
        assert common_type(operands, PromotionRules(True, pytorch_scalar_promotion=True)) == expected, operands
    for unsafe in (True, False):
        rules = PromotionRules(unsafe, pytorch_scalar_promotion=True, library="torch")
        assert common_type([("float", 1), ("double", None)], rules) is None
        assert common_type([("float", None), ("double", 1)], rules) is DataType.DOUBLE


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (["string", "float"], "string with float have no common type."),
        (["float", "string"], "string with float have no common type."),
        (["int8", "uint8", "uint16"], "int8 with uint16 needs the wider int32"),
        (["uint8", "uint16", "int8"], "uint16 with int8 needs the wider int32"),
        (["int8", "uint64", "int16"], "int8 with uint64 fits no integer type"),
        (["bool", "string"], "string with bool have no common type."),
    ],
)
def test_an_error_names_the_types_that_cause_it(types: list[str], told: str) -> None:
    with pytest.raises(PromotionError, match=re.escape(told)):
        common_type([(name, 1) for name in types])
