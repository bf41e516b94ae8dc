"""Hashes of whole domains, by two implementations that share no code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from onnx_ir import DataType

from tests.conformance.domains import Domain, domain_hash, domains
from tests.conformance.second import second_hash
from tests.sampling import complete_only, sampled

RECORD = Path(__file__).parents[2] / "docs" / "conformance" / "domains.json"
PUBLISHED: dict[str, str] = json.loads(RECORD.read_text())["sha256"]
OF_FLOAT = [domain for domain in domains() if domain.source is DataType.FLOAT]
OF_HALVES = [domain for domain in domains() if domain.source is not DataType.FLOAT]


def test_every_domain_is_published() -> None:
    assert list(PUBLISHED) == [domain.name() for domain in domains()]


def test_halves_have_the_published_hashes_in_both_implementations() -> None:
    for domain in sampled("domains of halves", OF_HALVES, len(OF_HALVES)):
        assert domain_hash(domain) == second_hash(domain) == PUBLISHED[domain.name()], domain.name()


@complete_only
@pytest.mark.parametrize(
    "domain", sampled("domains of 2**32 floats by a second implementation", OF_FLOAT[::7], 1), ids=Domain.name
)
def test_floats_have_the_published_hashes(domain: Domain) -> None:
    """Some, by the second implementation; `python -m tests.conformance.record domains` compares both in all."""
    assert second_hash(domain) == PUBLISHED[domain.name()]


def test_open_inputs_end_where_the_standard_says() -> None:
    ranges = Domain(DataType.FLOAT, DataType.INT8).open()
    assert ranges == [(0x43000000, 0x7FFFFFFF), (0xC3010000, 0xFFFFFFFF)]
    assert Domain(DataType.FLOAT, DataType.FLOAT8E4M3FN).open() == []
    assert Domain(DataType.FLOAT, DataType.FLOAT8E8M0).open()[-1] == (0x80000000, 0xFF800000)
