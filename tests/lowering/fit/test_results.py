"""The result of `fit` has the records of all its steps."""

from __future__ import annotations

from tests.lowering.fit.test_run import fitted


def test_the_records_and_the_provenance_are_those_of_all_steps() -> None:
    result = fitted("double")
    assert {rewrite.pass_name for rewrite in result.rewrites} >= {"convert-precision"}
    assert result.summary().startswith("convert(to='float'")
