"""A user's promotion in a file: its rows decide, and an invalid file is an error of one sentence that names it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from castsmith.numerics.errors import PromotionError
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.libraries import LIBRARIES, library_of
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.promotion.scalars import common_type_of_constants
from castsmith.numerics.types import parse_type, type_name

ROWS = {"bool": ["int8"], "int8": ["i16"], "int16": ["f16"], "f16": ["float"], "float": []}
GOOD: dict[str, Any] = {
    "name": "acme",
    "promote_unsafe": True,
    "above": ROWS,
    "weak_float": "f16",
    "weak_integer": "i8",
}


def rules(folder: Path, **changes: object) -> PromotionRules:
    path = folder / "acme.json"
    path.write_text(json.dumps({key: value for key, value in {**GOOD, **changes}.items() if value is not None}))
    return PromotionRules.preset(str(path))


@pytest.mark.parametrize(
    ("operands", "common"),
    [("i8 i16", "int16"), ("b8 f16", "float16"), ("i16 i8 f16", "float16"), ("i16 f32", "float"), ("i8", "int8")],
)
def test_the_rows_decide(tmp_path: Path, operands: str, common: str) -> None:
    found = common_type([(name, 1) for name in operands.split()], rules(tmp_path))
    assert found is not None
    assert type_name(found) == common


def test_a_type_without_a_row_mixes_with_nothing(tmp_path: Path) -> None:
    with pytest.raises(PromotionError, match=r"acme\.json gives int8 and int64 no common type"):
        common_type([("i8", 1), ("i64", 1)], rules(tmp_path))


def test_without_promote_unsafe_an_unsafe_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromotionError, match="promote_unsafe"):
        common_type([("i16", 1), ("f16", 1)], rules(tmp_path, promote_unsafe=False))


def test_numbers_become_its_own_types(tmp_path: Path) -> None:
    i16, f64 = parse_type("i16"), parse_type("f64")
    chosen = rules(tmp_path, weak_scalars=True)
    assert common_type_of_constants([(i16, 1, None), (f64, 0, np.array(0.5))], chosen) == parse_type("f16")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_may_lean_on_a_library(tmp_path: Path, library: str) -> None:
    chosen = rules(tmp_path, above=None, library=library, pytorch_scalar_promotion=True)
    assert (chosen.library, chosen.pytorch_scalar_promotion) == (library, True)
    assert library_of(str(tmp_path / "acme.json")) == LIBRARIES[library]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"above": {"int8": ["int16"]}}, "i16, which is above i8, has no row"),
        ({"above": {"int8": ["int16"], "int16": ["int8"]}}, "is above itself, which is a cycle"),
        ({"above": {"int8": ["int8"]}}, "is above itself, which is a cycle"),
        ({"above": {"int9": []}}, "int9"),
        ({"above": {"int8": "int16"}}, "must be a list"),
        ({"above": []}, "must be an object"),
        ({"above": None}, "either 'above' or 'library'"),
        ({"library": "torch"}, "either 'above' or 'library'"),
        ({"name": None}, "'name' is missing"),
        ({"promote_unsafe": 1}, "'promote_unsafe' must be true or false"),
        ({"promote_unsafe": 1, "pytorch_scalar_promotion": 2}, "'promote_unsafe' must be true or false"),
        ({"promote_unsave": True}, "unknown field 'promote_unsave'"),
        ({"weak_float": "float99"}, "float99"),
    ],
    ids=str,
)
def test_a_file_that_describes_none(tmp_path: Path, changes: dict[str, object], text: str) -> None:
    with pytest.raises(PromotionError) as caught:
        rules(tmp_path, **changes)
    assert str(caught.value).startswith(f"{tmp_path / 'acme.json'} does not describe a promotion: ")
    assert text in str(caught.value)
    assert str(caught.value).count(".\n") == 0


def test_a_file_that_is_not_there_or_no_json(tmp_path: Path) -> None:
    with pytest.raises(PromotionError, match="No such file"):
        PromotionRules.preset(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(PromotionError, match="is not JSON"):
        PromotionRules.preset(str(tmp_path / "bad.json"))
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(PromotionError, match=r"list\.json does not describe a promotion: it is not an object\.$"):
        PromotionRules.preset(str(tmp_path / "list.json"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(PromotionError, match="UTF-8"):
        PromotionRules.preset(str(tmp_path / "binary.json"))


def test_a_file_needs_a_library_or_rows(tmp_path: Path) -> None:
    itself = str(tmp_path / "acme.json")
    with pytest.raises(PromotionError, match=r"unknown library '.*'; expected openvino, torch"):
        rules(tmp_path, above=None, library=itself)
    with pytest.raises(PromotionError, match="defines no rows"):
        library_of(itself)
    other = tmp_path / "other"
    other.mkdir()
    assert rules(other, above=None, library="openvino").library == "openvino"


def test_an_unknown_library_is_an_error() -> None:
    with pytest.raises(PromotionError, match="unknown promotion library 'other'"):
        common_type([("i8", 1), ("i16", 1)], PromotionRules(library="other"))


def test_what_a_file_leaves_out_and_states(tmp_path: Path) -> None:
    flags = ("promote_unsafe", "pytorch_scalar_promotion", "weak_scalars", "half_constants")
    bare = rules(tmp_path, promote_unsafe=None)
    assert bare == PromotionRules(library=str(tmp_path / "acme.json"))
    assert type_name(bare.u64_integer_promotion_target) == "float"
    assert type_name(rules(tmp_path, u64_integer_promotion_target="f16").u64_integer_promotion_target) == "float16"
    for stated in flags:
        chosen = rules(tmp_path, **{"promote_unsafe": None, stated: True})
        assert {name for name in flags if getattr(chosen, name)} == {stated}


def test_a_file_of_the_same_size_that_was_written_since_is_read_again(tmp_path: Path) -> None:
    for step, (target, other) in enumerate((("f16", "f64"), ("f64", "f16"))):
        path = tmp_path / "acme.json"
        rules(tmp_path, u64_integer_promotion_target=target, weak_float=other)
        os.utime(path, (step, step))
        assert PromotionRules.preset(str(path)).u64_integer_promotion_target is parse_type(target)
