"""How each kind of statement of a target is read: every form, every default, both sides of every limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from onnx_ir import DataType

from castsmith.numerics.types import ELEMENT_TYPES
from castsmith.targets.statements import (
    QUANTIZATION_RULES,
    WrongCast,
    WrongFusion,
    entries_by,
    read_each,
    read_evidence,
    read_name_set,
    read_names,
    read_number,
    read_object,
    read_opsets,
    read_pairs,
    read_rows,
    read_rules,
    read_text,
    read_types,
    read_values,
    read_wrong_cast,
    read_wrong_fusion,
    stated_types,
)

_F, _H, _D, _F8 = DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE, DataType.FLOAT8E4M3FN
CAST = {"from": ["float"], "to": ["f8e4m3fn", "f16"], "wrong": "w", "evidence": "e"}
READ_CAST = WrongCast(frozenset({_F}), frozenset({_F8, _H}), "w", "e")
FUSION = {"types": ["f16"], "operators": ["Add", "Mul"], "how": "h"}
READ_FUSION = WrongFusion(frozenset({_H}), frozenset({"Add", "Mul"}), "h")

READ: list[tuple[Callable[[str, Any], object], object, object]] = [
    (read_text, 3, "3"),
    (read_types, ["f32", 10, _D], {_F, _H, _D}),
    (read_types, (), frozenset()),
    (read_names, ["b", "a", "b"], ("b", "a", "b")),
    (read_name_set, ["b", "a", "b"], {"a", "b"}),
    (read_object, {"a": 1}, {"a": 1}),
    (read_each(read_names), {"a": ["b"]}, {"a": ("b",)}),
    (read_number, 1, 1),
    (read_number, 2**31 - 1, 2**31 - 1),
    (read_number, None, None),
    (read_opsets, {"Add": 7, "Mul": None, 5: 1}, {"Add": 7, "Mul": 1, "5": 1}),
    (read_rows, {"f32": {"Add": 7, "Mul": None}, 10: {}}, {_F: {"Add": 7, "Mul": 1}, _H: {}}),
    (
        read_rows,
        [{"types": ["f32", "f16"], "operators": {"Add": 7}}, {"types": ["f16"], "operators": {"Add": 9, "Neg": 1}}],
        {_F: {"Add": 7}, _H: {"Add": 9, "Neg": 1}},
    ),
    (read_pairs, {"f32": ["f16", 11], "f64": ()}, {_F: {_H, _D}, _D: frozenset()}),
    (read_pairs, [{"from": ["f32", "f64"], "to": ["f16"]}], {_F: {_H}, _D: {_H}}),
    (read_wrong_cast, CAST, READ_CAST),
    (read_wrong_cast, READ_CAST, READ_CAST),
    (read_wrong_cast, {**CAST, "saturate": None, "before_opset": None}, READ_CAST),
    (read_wrong_cast, {**CAST, "saturate": False}, replace(READ_CAST, saturate=False)),
    (read_wrong_cast, {**CAST, "saturate": True}, replace(READ_CAST, saturate=True)),
    (read_wrong_cast, {**CAST, "before_opset": 23}, replace(READ_CAST, before_opset=23)),
    (read_wrong_cast, {**CAST, "disputed": True}, replace(READ_CAST, disputed=True)),
    (read_wrong_cast, {**CAST, "inherent": True}, replace(READ_CAST, inherent=True)),
    (entries_by(read_wrong_cast), [CAST, READ_CAST], (READ_CAST, READ_CAST)),
    (read_wrong_fusion, FUSION, READ_FUSION),
    (entries_by(read_wrong_fusion), [READ_FUSION, FUSION], (READ_FUSION, READ_FUSION)),
    (read_rules, dict.fromkeys(QUANTIZATION_RULES, 5), dict.fromkeys(QUANTIZATION_RULES, "5")),
    (read_evidence, "seen", {"": "seen"}),
    (read_evidence, "", {}),
    (read_evidence, {"types": "seen", "": 5}, {"types": "seen", "": "5"}),
    (read_values, ["up", 1], ("up", 1)),
]


@pytest.mark.parametrize(("read", "statement", "expected"), READ)
def test_what_is_read(read: Callable[[str, Any], object], statement: object, expected: object) -> None:
    assert read("key", statement) == expected


NO_OBJECT = "key must map names to what is stated of each, as an object of JSON does, not "
REFUSED: list[tuple[Callable[[str, Any], object], object, str]] = [
    (read_types, "f32", "a list of types is expected, not 'f32'"),
    (read_types, 1, "a list of types is expected, not 1"),
    (read_names, "Add", "key must be a list of names, not 'Add'"),
    (read_names, ["Add", 1], "key must be a list of names, not ['Add', 1]"),
    (read_object, ["Add"], f"{NO_OBJECT}['Add']"),
    (read_each(read_names), ["Add"], f"{NO_OBJECT}['Add']"),
    (read_each(read_names), {"a": "b"}, "key must be a list of names, not 'b'"),
    *((read_number, no, f"key must be an integer of at least 1, not {no!r}") for no in (0, -1, 2**31, True, 1.0, "1")),
    (read_opsets, {"Add": 0}, "the first opset of Add in key must be an integer of at least 1, not 0"),
    (read_opsets, ["Add"], "key must state the first opset of each operator, as {'Add': 7}, not ['Add']"),
    (read_rows, ["Add"], "key must be a list of objects, not ['Add']"),
    (read_rows, [{"types": [], "operators": {}}, 3],
     "key must be a list of objects, not [{'types': [], 'operators': {}}, 3]"),
    (read_pairs, "f32", "key must be a list of objects, not 'f32'"),
    (entries_by(read_wrong_cast), CAST, f"key must be a list of objects, not {CAST!r}"),
    (read_wrong_cast, {**CAST, "how": ""}, "unknown key 'how' of 'key'; expected from, to, wrong, evidence, saturate, "
     "before_opset, disputed, inherent"),
    (read_wrong_cast, {**CAST, "before_opset": 0}, "before_opset must be an integer of at least 1, not 0"),
    (read_wrong_fusion, {**FUSION, "wrong": ""}, "unknown key 'wrong' of 'key'; expected types, operators, how"),
    (read_wrong_fusion, {**FUSION, "operators": "Add"}, "operators must be a list of names, not 'Add'"),
    (read_rules, {"odd": ""}, f"unknown rule 'odd' of 'key'; expected {', '.join(QUANTIZATION_RULES)}"),
    (read_rules, ["odd"], f"{NO_OBJECT}['odd']"),
    (read_evidence, ["seen"], f"{NO_OBJECT}['seen']"),
    (read_values, "up", "key must be a list of values, not 'up'"),
    (read_values, [1.5], "key must be a list of values, not [1.5]"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "statement", "told"), REFUSED)
def test_what_is_refused(read: Callable[[str, Any], object], statement: object, told: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        read("key", statement)
    assert str(caught.value) == told


def test_types_from_which_lacks_subtracts() -> None:
    """Types that came after IR version 14 were never lacked: no file named them."""
    assert stated_types() == {dtype for dtype, row in ELEMENT_TYPES.items() if row.since.ir_version <= 14}
    assert DataType.FLOAT8E8M0 in stated_types()


COVERED: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    ({}, {"source": _H}, False),
    ({}, {"to": _D}, False),
    ({"saturate": True}, {}, True),
    ({"saturate": False}, {}, False),
    ({"saturate": True}, {"saturate": False}, False),
    ({"saturate": False}, {"saturate": False}, True),
    ({"before_opset": 22}, {}, True),
    ({"before_opset": 21}, {}, False),
]


@pytest.mark.parametrize(("entry", "asked", "covered"), COVERED)
def test_which_casts_an_entry_covers(entry: Mapping[str, Any], asked: Mapping[str, Any], covered: bool) -> None:
    cast: dict[str, Any] = {"source": _F, "to": _F8, "saturate": True, "opset": 21, **asked}
    assert replace(READ_CAST, **entry).covers(**cast) is covered
