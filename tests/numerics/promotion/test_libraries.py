"""Each preset against the library it is named for, as `record_library_promotion.py` recorded it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_ir import DataType

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type, promote_types
from castsmith.numerics.promotion.rules import PRESETS, PromotionRules, as_rules
from castsmith.numerics.promotion.scalars import common_type_of_constants
from castsmith.numerics.types import ELEMENT_TYPES, Kind, element_type, parse_type, type_name
from tests.sampling import check_all

HERE = Path(__file__).parent
TENSORFLOW = PromotionRules.preset("tensorflow")
RULES = {
    "torch": PromotionRules.preset("torch"),
    "numpy": PromotionRules.preset("numpy"),
    "jax": PromotionRules.preset("jax"),
    "tensorflow": TENSORFLOW,
    "tensorflow_safe": replace(TENSORFLOW, promote_unsafe=False),
}
NUMBERS = {"True": True, "1": np.int64(1), "1.5": np.float64(1.5)}
OUR_NAMES = {
    "float4_e2m1fn": "float4e2m1",
    "float6_e2m3fn": "float6e2m3",
    "float6_e3m2fn": "float6e3m2",
    "float8_e8m0fnu": "float8e8m0",
}
DIFFERING = {
    ("tensorflow", "bool", "1.5"): "a weak float32, which integers of TensorFlow widen to float64 and bool does not",
    ("torch", "float8_e8m0fnu", "1.5"): "not a value of the type, so here it is an operand like others",
    ("jax", "float8_e8m0fnu", "1.5"): "likewise",
    ("tensorflow_safe", "*", "1.5"): "a weak number is not refused for its type alone",
}


def dtype_of(name: str) -> DataType:
    return parse_type(OUR_NAMES.get(name, name.replace("float8_", "float8")))


def recorded(library: str) -> Iterator[tuple[str, str, str, str]]:
    """Each recorded setting, left type, right type and answer."""
    _, *blocks = (HERE / f"{library}_promotion.txt").read_text().split("\n\n")
    for block in blocks:
        lines = block.splitlines()
        head = next(index for index, line in enumerate(lines) if line.startswith(" "))
        columns = lines[head].split()
        for lhs, *cells in map(str.split, lines[head + 1 :]):
            for rhs, cell in zip(columns, cells, strict=True):
                yield from ((setting, lhs, rhs, cell) for setting in lines[:head])


def our_answer(rules: PromotionRules, setting: str, lhs: str, rhs: str) -> str:
    left, right = setting.split()
    try:
        if right == "number":
            number = NUMBERS[rhs]
            weak = (DataType.from_numpy(np.asarray(number).dtype), 0, number)
            answer = common_type_of_constants(
                [(dtype_of(lhs), int(left), None), weak], replace(rules, weak_scalars=True)
            )
        else:
            answer = common_type([(dtype_of(lhs), int(left)), (dtype_of(rhs), int(right))], rules)
    except PromotionError:
        return "-"
    return "?" if answer is None else answer.name


@pytest.mark.parametrize("library", RULES)
def test_every_pair_agrees_with_the_library(library: str) -> None:
    answers = list(recorded(library))
    assert len(answers) == 25 * (4 * 25 + 2 * 3)
    known = {name for _, name, same, cell in answers if name == same == cell}
    differing = [
        (setting, lhs, rhs, ours, cell)
        for setting, lhs, rhs, cell in answers
        if lhs in known
        and (rhs in known or rhs in NUMBERS)
        and not {(library, lhs, rhs), (library, "*", rhs)} & DIFFERING.keys()
        if (ours := our_answer(RULES[library], setting, lhs, rhs)) != (cell if cell == "-" else dtype_of(cell).name)
    ]
    assert differing == []


@pytest.mark.parametrize("library", RULES)
def test_types_that_the_library_lacks_mix_with_nothing(library: str) -> None:
    known = {name for _, name, same, cell in recorded(library) if name == same == cell}
    names = {name for _, name, _, _ in recorded(library)}
    for lacking in names - known:
        for other in known:
            with pytest.raises(PromotionError):
                common_type([(dtype_of(lacking), 1), (dtype_of(other), 1)], RULES[library])


def test_openvino_is_the_document() -> None:
    assert PromotionRules.preset("openvino") == PromotionRules()
    with pytest.raises(
        PromotionError, match=r"unknown promotion preset .*; expected openvino, torch, numpy, jax, tensorflow"
    ):
        PromotionRules.preset("theano")
    assert all(PromotionRules.preset(name) is rules for name, rules in PRESETS.items())
    assert as_rules(None) == PromotionRules()
    assert as_rules("jax") is as_rules(PRESETS["jax"]) is PRESETS["jax"]


@pytest.mark.parametrize(
    ("preset", "types", "expected"),
    [
        ("numpy", "i8 u8 f16", DataType.FLOAT16),
        ("jax", "u64 i8 f16", DataType.FLOAT16),
        ("torch", "bf16 f16 i64", DataType.FLOAT),
        ("tensorflow", "u64 i8", DataType.DOUBLE),
    ],
)
def test_many_operands_have_the_least_type_above_all(preset: str, types: str, expected: DataType) -> None:
    assert common_type([(name, 1) for name in types.split()], PromotionRules.preset(preset)) is expected


def test_an_unknown_rank_matters_only_where_it_decides() -> None:
    torch = PromotionRules.preset("torch")
    assert common_type([("f32", 1), ("f16", None)], torch) is DataType.FLOAT
    assert common_type([("f16", 1), ("f32", None)], torch) is None
    assert common_type([("f16", None), ("i64", None)], torch) is DataType.FLOAT16
    # another operand of the type that is a scalar does not say what the one of unknown rank is
    assert common_type([("f16", 1), ("f32", None), ("f32", 0)], torch) is None
    assert common_type([("f16", 1), ("f32", 0), ("f32", 0)], torch) is DataType.FLOAT16
    assert common_type([("f16", 1), ("f32", None), ("f32", 2)], torch) is DataType.FLOAT
    assert common_type([("f16", 1), ("f32", None), ("f32", 0)], PromotionRules.preset("jax")) is DataType.FLOAT
    assert promote_types("f16", "f32", lhs_rank=None) is DataType.FLOAT
    rules = PromotionRules(promote_unsafe=True, pytorch_scalar_promotion=True)
    assert common_type([("f32", None), ("i64", 1)], rules) is DataType.FLOAT  # the only one of its kind


@pytest.mark.parametrize(
    ("strong", "rank", "weak", "value", "expected"),
    [
        ("f16", 1, "f64", 1.5, "f16"),
        ("f16", 0, "f64", 1.5, "f16"),
        ("f16", 0, "f64", 0.1, "f64"),
        ("i32", 1, "f64", 1.5, "f32"),
        ("i32", 1, "f64", 0.1, "f64"),
        ("i8", 1, "i64", 127, "i8"),
        ("i8", 0, "i64", 127, "i8"),
        ("i8", 1, "i64", 128, "i64"),
        ("u8", 1, "i64", -1, "i64"),
        ("bf16", 1, "f32", float("nan"), "bf16"),
        ("f16", 0, "f32", float("inf"), "f16"),
        ("f8e4m3fn", 0, "f32", 464.0, "-"),
        ("bool", 1, "i64", 7, "i64"),
        ("i8", 1, "bool", True, "i8"),
    ],
)
def test_a_number_widens_only_what_does_not_hold_it(
    strong: str, rank: int, weak: str, value: float, expected: str
) -> None:
    dtype = parse_type(weak)
    operands = [(parse_type(strong), rank, None), (dtype, 0, np.array(value, dtype.numpy()))]
    try:
        common = common_type_of_constants(operands, PromotionRules.preset("torch"))
    except PromotionError:
        assert expected == "-"
    else:
        assert common is parse_type(expected)


def refusal(name: str, lhs: DataType, rhs: DataType) -> PromotionError | None:
    try:
        common_type([(lhs, 1), (rhs, 1)], RULES.get(name, PromotionRules()))
    except PromotionError as error:
        return error
    return None


def require_what_a_refusal_names(name: str, lhs: DataType, rhs: DataType) -> None:
    error = refusal(name, lhs, rhs)
    if error is not None:
        assert (error.lhs, error.rhs) in ((lhs, rhs), (rhs, lhs))
        assert type_name(lhs) in str(error)
        assert type_name(rhs) in str(error)
        assert error.rule
        kinds = {element_type(lhs).kind, element_type(rhs).kind}
        assert (error.option is None) == (max(kinds) > Kind.FLOATING)
        assert error.option is None or f"`{error.option}" in str(error)


def test_a_refusal_names_both_types_and_the_option() -> None:
    pairs = ((lhs, rhs) for lhs in ELEMENT_TYPES for rhs in ELEMENT_TYPES if lhs != rhs)
    check_all(require_what_a_refusal_names, ((name, *pair) for pair in pairs for name in (*RULES, "openvino")))
