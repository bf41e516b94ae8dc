"""The mistakes that are planted, the record of what is reached, and the code put in place of a function's."""

from __future__ import annotations

import builtins
import weakref

import pytest

from castsmith.numerics.trunc import trunc
from tests.mutants.__main__ import PACKAGES, equivalents
from tests.mutants.judge import Patcher
from tests.mutants.operators import Place, places
from tests.mutants.reached import PROBE, sources, with_probes
from tests.sampling import check_all

SOURCE = b'''"""Text."""
from __future__ import annotations
import os
LIMIT = 1 << 10
def f(x: int, values: list[int], *, whole: bool = False) -> int:
    """Return something."""
    if x < 2 and not whole:
        raise ValueError(f"{x + 1}")
    for each in values:
        if each:
            continue
        x += -each
    values.sort(key=abs)
    return g(x if whole else LIMIT, [max(v, x) for v in values if v != 3], start=(x, 4))
def g(a: int, b: list[int], start: tuple[int, int]) -> int:
    return a + sum(b, start[0])
'''

EXPECTED = """
4 arithmetic: 1 << 10 -> (1 >> 10)
4 constant: 1 -> (2)
4 constant: 1 -> (0)
4 constant: 10 -> (11)
4 constant: 10 -> (9)
5 constant: False -> (True)
7 condition: x < 2 and not whole -> (not (x < 2 and (not whole)))
7 and, or: x < 2 and not whole -> (x < 2 or not whole)
7 operand dropped: x < 2 and not whole -> (not whole)
7 operand dropped: x < 2 and not whole -> (x < 2)
7 comparison: x < 2 -> (x <= 2)
7 constant: 2 -> (3)
7 constant: 2 -> (1)
7 sign or not dropped: not whole -> (whole)
8 statement removed: raise ValueError(f"{x + 1}") -> pass
10 condition: each -> (not each)
11 continue, break: continue -> break
12 statement removed: x += -each -> pass
12 sign or not dropped: -each -> (each)
13 statement removed: values.sort(key=abs) -> pass
13 keyword dropped: values.sort(key=abs) -> (values.sort())
14 argument returned: return g(ALL) -> return x if whole else LIMIT
14 arguments swapped: g(ALL) -> (g([max(v, x) for v in values if v != 3], x if whole else LIMIT, start=(x, 4)))
14 keyword dropped: g(ALL) -> (g(x if whole else LIMIT, [max(v, x) for v in values if v != 3]))
14 condition: x if whole else LIMIT -> (x if not whole else LIMIT)
14 filter dropped: [max(v, x) for v in values if v != 3] -> ([max(v, x) for v in values])
14 min, max, any, all: max -> (min)
14 comparison: v != 3 -> (v == 3)
14 constant: 3 -> (4)
14 constant: 3 -> (2)
14 element dropped: (x, 4) -> ((4,))
14 element dropped: (x, 4) -> ((x,))
14 constant: 4 -> (5)
14 constant: 4 -> (3)
16 arithmetic: a + sum(b, start[0]) -> (a - sum(b, start[0]))
16 arguments swapped: sum(b, start[0]) -> (sum(start[0], b))
16 constant: 0 -> (1)
16 constant: 0 -> (-1)
"""


def found() -> list[Place]:
    return places("m", SOURCE)


def test_the_mistakes_that_can_be_made() -> None:
    made = [place.mutant(SOURCE) for place in found()]
    inside = "x if whole else LIMIT, [max(v, x) for v in values if v != 3], start=(x, 4)"
    lines = [f"{each.line} {each.kind}: {each.text().replace(inside, 'ALL', 1)}" for each in made]
    assert lines == EXPECTED.strip().splitlines()
    for each in made:
        compile(each.applied(SOURCE), "m", "exec")


def test_a_probe_in_front_of_each_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: set[tuple[str, int]] = set()
    monkeypatch.setattr(builtins, PROBE, reached.add, raising=False)
    names: dict[str, object] = {}
    exec(with_probes("m", SOURCE, "m.py"), names)
    early = set(reached)
    function = names["f"]
    assert callable(function)
    with pytest.raises(ValueError, match="1"):
        function(0, [])
    late = reached - early
    of = {place.line: ("m", place.statement) for place in found()}
    assert of[4] in early
    assert of[5] in early
    assert {line for line, key in of.items() if key in late} == {7, 8}


def test_a_function_gets_the_code_of_a_mutant() -> None:
    module = trunc.__module__
    source = sources("numerics")[module].read_bytes()
    gone = weakref.proxy(set[int]())  # other tests leave such proxies
    patcher = Patcher()
    del gone
    before = {each: each.__code__ for functions in patcher.functions.values() for each in functions}
    condition = next(place for place in places(module, source) if place.kind == "condition")
    try:
        assert patcher.apply(condition.mutant(source))
        changed = [each.__module__ for each, code in before.items() if each.__code__ is not code]
    finally:
        for each, code in before.items():
            each.__code__ = code
    assert changed == [module]


def test_reasons_are_given_for_mistakes_that_can_be_made() -> None:
    paths = {name: path for package in PACKAGES for name, path in sources(package).items()}
    for (module, line, text), reason in equivalents().items():
        source = paths[module].read_bytes()
        made = [place.mutant(source) for place in places(module, source) if place.line in lines_of(source, line)]
        assert text in {mutant.text() for mutant in made}, (module, line)
        assert reason != ""


def lines_of(source: bytes, text: str) -> set[int]:
    return {number for number, line in enumerate(source.decode().splitlines(), start=1) if line.strip() == text}


def test_each_case_of_a_table_that_fails_is_named() -> None:
    def check(a: int, b: int) -> None:
        assert a < b

    check_all(check, [(1, 2), (2, 3)])
    with pytest.raises(pytest.fail.Exception, match=r"2 of 3 cases fail\n\(2, 1\): AssertionError.*\n\(3, 0\)"):
        check_all(check, [(2, 1), (1, 2), (3, 0)])
    with pytest.raises(AssertionError, match="no cases"):
        check_all(check, [])
