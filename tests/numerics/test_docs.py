"""docs/numerics.md is what the code says."""

from __future__ import annotations

from docs import generate_numerics


def test_the_page_is_up_to_date() -> None:
    assert generate_numerics.PAGE.read_text() == generate_numerics.page(), "run python -m docs.generate_numerics"
