"""The ways in which a root of a region serves its users."""

from __future__ import annotations

from onnx_ir import DataType

from castsmith.passes.place.choices import Mode, choice_of


def test_choices_are_made_once() -> None:
    assert choice_of(DataType.FLOAT, Mode.KEEP) is choice_of(DataType.FLOAT, Mode.KEEP)
    assert choice_of(DataType.FLOAT, Mode.KEEP) is not choice_of(DataType.FLOAT, Mode.AFTER)
