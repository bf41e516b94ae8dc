"""Tables of cases fail where one of their cases does."""

from __future__ import annotations

import pytest

from tests.tables import check_all


def test_each_case_that_fails_is_named() -> None:
    def check(a: int, b: int) -> None:
        assert a < b

    check_all(check, [(1, 2), (2, 3)])
    with pytest.raises(pytest.fail.Exception, match=r"2 of 3 cases fail\n\(2, 1\): AssertionError.*\n\(3, 0\)"):
        check_all(check, [(2, 1), (1, 2), (3, 0)])
    with pytest.raises(AssertionError, match="no cases"):
        check_all(check, [])
