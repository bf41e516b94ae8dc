"""Casts of constants that are computed at once."""

from __future__ import annotations

import pytest

from tests.passes.fold.test_run_scale import casts_of_one, work


def test_the_cast_of_a_shared_constant_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert work(casts_of_one, 50, monkeypatch)["cast"] == 1
