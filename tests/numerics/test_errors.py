"""Texts of errors, and files of settings that cannot be read."""

from __future__ import annotations

import pytest

from castsmith.numerics.errors import CastsmithError, InternalError, did_you_mean, present, printable, require


def test_a_condition_that_does_not_hold_is_an_internal_error() -> None:
    require(True, "nothing")
    with pytest.raises(InternalError, match="the plan has no root"):
        require(False, "the plan has no root")
    assert present(0, "the root") == 0
    with pytest.raises(InternalError, match="the root is missing"):
        present(None, "the root")
    assert not issubclass(InternalError, CastsmithError)


def test_the_most_similar_name_or_the_way_out() -> None:
    known = ["onnxruntime-cpu", "tensorrt-10"]
    assert did_you_mean("onnxruntime-cqu", known, "see the list") == "did you mean 'onnxruntime-cpu'?"
    assert did_you_mean("zzz", known, "see the list") == "see the list."


def test_control_characters_are_written_as_python_writes_them() -> None:
    for text, shown in (
        ("plain", "plain"), ("caf\u00e9 \\n", "caf\u00e9 \\n"), ("a\nb", "a\nb"), ("\x1b[31m", "\\x1b[31m"),
        ("caf\u00e9\t\\", "caf\u00e9\\t\\"), ("\r\n", "\\r\n"), ("\u202e", "\\u202e"), ("", ""),
    ):  # fmt: skip
        assert printable(text) == shown
