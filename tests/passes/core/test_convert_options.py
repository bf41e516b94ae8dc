"""What the options of convert do not take is refused in one sentence that names the option, before a model is read."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from castsmith import CastsmithError, ConvertOptions, convert

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
