"""The doors of numerics."""

from __future__ import annotations

from tests.doors import check_doors


def test_every_name_that_a_door_offers_can_be_had() -> None:
    check_doors("numerics")
