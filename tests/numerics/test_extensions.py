"""Objects that installed packages add: found by group and name, converted, or refused in one sentence."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from castsmith.numerics.errors import ArgumentTypeError, PromotionError
from castsmith.numerics.extensions import ExtensionError, clause, extension, extensions
from castsmith.numerics.promotion.common import common_type
from castsmith.numerics.promotion.rules import PromotionRules
from castsmith.numerics.types import parse_type
from tests.packaging.installed import install

MODULE = """
from castsmith import PromotionRules
RULES = PromotionRules(promote_unsafe=True, library="jax")
FILE = {file!r}
NUMBER = 1
"""


def whole(thing: object) -> int:
    if not isinstance(thing, int):
        raise TypeError("it is not a number")
    return thing


def test_an_object_by_its_group_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"one": "added_here:NUMBER", "rules": "added_here:RULES", "none": "added_here:NONE", "gone": "not_here:X"}
    install(monkeypatch, tmp_path, "acme-tools", {"castsmith.numbers": points})
    (tmp_path / "added_here.py").write_text(MODULE.format(file=""))
    assert extension("castsmith.numbers", "one", whole) == 1
    assert extension("castsmith.numbers", "two", whole) is None
    assert extension("castsmith.others", "one", whole) is None
    assert [each.name for each in extensions("castsmith.numbers")] == ["gone", "none", "one", "rules"]
    assert {each.package for each in extensions("castsmith.numbers")} == {"acme-tools 1.0"}
    for name, said in {
        "rules": "it is not a number.",
        "none": "AttributeError: module 'added_here' has no attribute 'NONE'",
        "gone": "ModuleNotFoundError: No module named 'not_here'",
    }.items():
        with pytest.raises(ExtensionError) as caught:
            extension("castsmith.numbers", name, whole)
        assert f"the entry point {name} = " in str(caught.value)
        assert said in str(caught.value)
    install(monkeypatch, tmp_path / "second", "acme-more", {"castsmith.numbers": {"one": "added_here:NUMBER"}})
    with pytest.raises(ExtensionError, match=r"both add 'one' to castsmith\.numbers: uninstall one"):
        extension("castsmith.numbers", "one", whole)


def test_an_entry_point_of_a_package_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [importlib.metadata.EntryPoint("one", "json:loads", "castsmith.unnamed")]

    def entry_points(*, group: str) -> list[importlib.metadata.EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert [(each.name, each.package) for each in extensions("castsmith.unnamed")] == [("one", "(unnamed)")]


def test_the_first_line_of_a_foreign_error() -> None:
    assert clause(ValueError("too large.\nmore")) == "too large"
    assert clause(ArgumentTypeError("not a type?")) == "not a type"
    assert clause(KeyError("x")) == "KeyError: 'x'"
    assert clause(ValueError("")) == "ValueError: "


def test_promotions_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"ours": "added_rules:RULES", "rows": "added_rules:FILE", "number": "added_rules:NUMBER"}
    points |= {"leans": "added_rules:LEANS"}
    install(monkeypatch, tmp_path, "acme-rules", {"castsmith.promotions": points})
    rows = tmp_path / "rows.json"
    rows.write_text('{"name": "acme", "above": {"i8": ["f16"], "f16": []}, "promote_unsafe": true}')
    leaning = tmp_path / "leaning.json"
    leaning.write_text('{"name": "acme", "library": "jax", "weak_scalars": true}')
    (tmp_path / "added_rules.py").write_text(MODULE.format(file=str(rows)) + f"LEANS = {str(leaning)!r}\n")
    assert PromotionRules.preset("leans") == PromotionRules(library="jax", weak_scalars=True)  # its rows are of jax
    assert PromotionRules.preset("ours") == PromotionRules(promote_unsafe=True, library="jax")
    found = PromotionRules.preset("rows")
    assert (found.library, found.promote_unsafe) == ("rows", True)
    i8, f16 = parse_type("i8"), parse_type("f16")
    assert common_type([(i8, 1), (f16, 1)], found) is f16
    with pytest.raises(ExtensionError, match="it is neither PromotionRules nor the path of a file"):
        PromotionRules.preset("number")
    with pytest.raises(ExtensionError, match="it defines no rows"):
        common_type([(i8, 1), (f16, 1)], PromotionRules(library="ours"))
    with pytest.raises(PromotionError, match="unknown promotion preset 'tensorflw'; did you mean"):
        PromotionRules.preset("tensorflw")
