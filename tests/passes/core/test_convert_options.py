"""What the options of convert do not take is refused in one sentence that names the option, before a model is read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from castsmith import CastsmithError, ConvertOptions, OptionError, convert
from tests.sampling import check_all

WRONG: dict[str, list[Any]] = {
    "to": ["int8", "no type"],
    "target": [1, ["cpu"]],
    "keep_io_types": [1.5, b"x", [1], {"x": 1}],
    "keep": [1, None, b"x", [1], {"x": 1}],
    "lower": [1, None, b"x", [1], {"x": 1}],
    "ranges": [1, "x", [("x", 0, 1)], {1: (0, 1)}, {"x": 1}, {"x": "ab"}, {"x": (0,)}, {"x": (1, 0)}],
    "inputs": [1, True, convert],
    "max_error": ["0.1", [0.1], 0, -1.0, float("nan"), float("inf")],
    "measure": ["yes", 2, None],
    "weights_only": ["yes", 2, None],
    "rescale": ["yes", 2, None],
    "dims": [1, "N=1", [("N", 1)]],
    "io": [1, True, b"keep"],
    "provenance": ["yes", 2, None],
    "in_place": ["yes", 2, None],
    "progress": [1, "print"],
}


def test_each_option_is_given_wrong_values() -> None:
    assert set(WRONG) == {each.name for each in dataclasses.fields(ConvertOptions)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_value_is_refused(name: str, value: Any) -> None:
    options: dict[str, Any] = {"to": "float16", name: value}
    with pytest.raises(CastsmithError) as raised:
        convert("no such file.onnx", **options)
    text = str(raised.value)
    assert "no such file" not in text
    assert name in text or name == "to" or (name == "ranges" and "range" in text)
    assert text.endswith((".", "?"))
    assert "\n" not in text


def test_the_range_of_a_value_may_be_any_two_numbers() -> None:
    assert ConvertOptions(to="half", ranges={"x": (0, True)}).ranges == {"x": (0.0, 1.0)}


KEPT: list[tuple[str, Any, Any]] = [
    ("keep_io_types", None, None),
    ("keep_io_types", True, True),
    ("keep_io_types", False, False),
    ("keep_io_types", "x", "x"),
    ("keep_io_types", ["x", "y"], ("x", "y")),
    ("keep", "Add", "Add"),
    ("keep", ["Add", "Mul"], ("Add", "Mul")),
    ("lower", iter(["Exp"]), ("Exp",)),
    ("ranges", None, {}),
    ("ranges", {"x": [0, 0]}, {"x": (0.0, 0.0)}),
    ("inputs", None, None),
    ("inputs", "made-up", "made-up"),
    ("inputs", Path("in.npz"), Path("in.npz")),
    ("inputs", {"x": 1}, {"x": 1}),
    ("inputs", [], []),
    ("max_error", None, None),
    ("max_error", 1, 1.0),
    ("io", None, None),
    ("io", "convert", "convert"),
]


def require_kept(name: str, value: Any, kept: Any) -> None:
    options: dict[str, Any] = {"to": "float16", name: value}
    assert getattr(ConvertOptions(**options), name) == kept


def test_other_values_are_kept() -> None:
    check_all(require_kept, KEPT)


BOTH = "`io` and `keep_io_types` both say which inputs and outputs keep their types: pass one of them."
ALONE = "`weights_only` changes weights alone: pass it without `{}`."
TOGETHER: list[tuple[dict[str, Any], str]] = [
    ({"io": "keep", "keep_io_types": True}, BOTH),
    ({"io": "convert", "keep_io_types": False}, BOTH),
    ({"weights_only": True}, ""),
    ({"weights_only": True, "io": "keep"}, ""),
    ({"weights_only": True, "io": "convert"}, ALONE.format("io")),
    ({"weights_only": True, "io": "x"}, ALONE.format("io")),
    ({"weights_only": True, "keep_io_types": True}, ""),
    ({"weights_only": True, "keep_io_types": False}, ALONE.format("keep_io_types")),
    ({"weights_only": True, "keep_io_types": "x"}, ALONE.format("keep_io_types")),
    ({"weights_only": True, "lower": "Exp"}, ALONE.format("lower")),
    ({"weights_only": True, "lower": "Exp", "io": "convert"}, ALONE.format("lower")),
    ({"weights_only": True, "keep": "Exp"}, ""),
    ({"lower": "Exp", "io": "convert"}, ""),
]


def require_said(options: dict[str, Any], text: str) -> None:
    if not text:
        ConvertOptions(to="float16", **options)
        return
    with pytest.raises(OptionError) as raised:
        ConvertOptions(to="float16", **options)
    assert str(raised.value) == text


def test_options_that_exclude_each_other() -> None:
    check_all(require_said, TOGETHER)
