"""Texts of errors, and files of settings that cannot be read."""

from __future__ import annotations

import pytest

from castsmith.numerics.errors import CastsmithError, InternalError, did_you_mean, present, require


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
