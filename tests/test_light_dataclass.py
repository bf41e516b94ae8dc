"""Light dataclasses behave as those of the standard library with the same fields and options."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import field
from itertools import product
from typing import Any

import pytest

from castsmith.light_dataclass import light_dataclass

_NAMES = ("frozen", "eq", "repr", "slots", "kw_only")
_OPTIONS = [dict(zip(_NAMES, each, strict=True)) for each in product((False, True), repeat=len(_NAMES))]


def _classes(make: Callable[[Any], Any]) -> list[Any]:
    class One:
        a: int

    class Many:
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list[int])
        d: int = field(default=4, compare=False, repr=False)
        e: int = field(default=5, init=False)

    class Checked:
        a: int = 1

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("negative")

    class Own:
        a: int
        b: int = 2

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    made = [make(each) for each in (One, Many, Checked, Own)]

    class More(made[1]):
        f: str = "f"

    return [*made, make(More)]


def _outcome(act: Callable[[], Any]) -> object:
    """Return the result of an action, or the kind of its error."""
    try:
        return act()
    except (AttributeError, TypeError, ValueError) as error:
        return type(error)


def _behaviour(cls: Any) -> list[object]:
    def made(a: int, **others: Any) -> Any:
        return cls(a=a, **others)

    def text(one: object) -> str:
        return re.sub("0x[0-9a-f]+", "0x", repr(one))

    def changed(name: str) -> object:
        one = made(1)
        setattr(one, name, 9)
        return getattr(one, name)

    return [
        _outcome(lambda: text(made(1))),
        *(_outcome(lambda words=words: text(cls(**words))) for words in ({}, {"a": -1}, {"a": 1, "z": 2})),
        *(_outcome(lambda b=b: made(1, b="x") == made(1, b=b)) for b in ("x", "y")),
        _outcome(lambda: made(1) == (1,)),
        _outcome(lambda: hash(made(1)) == hash(made(1))),
        _outcome(lambda: hash(made(1)) == hash(made(2))),
        *(_outcome(lambda name=name: changed(name)) for name in ("a", "unknown")[: 1 + hasattr(made(1), "__dict__")]),
        _outcome(lambda: delattr(made(1), "a")),
        _outcome(lambda: text(copy.copy(made(1)))),
        _outcome(lambda: text(dataclasses.replace(made(1), a=5))),
        _outcome(lambda: dataclasses.astuple(made(1))),
        [each.name for each in dataclasses.fields(cls)],
        [
            (each.name, each.kind, each.annotation, each.default is each.empty)
            for each in inspect.signature(cls).parameters.values()
        ],
        getattr(cls, "__match_args__", None),
        hasattr(made(1), "__dict__"),
    ]


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
def test_behaviour(options: dict[str, bool]) -> None:
    light = _classes(light_dataclass(**options))
    for ours, theirs in zip(light, _classes(dataclasses.dataclass(**options)), strict=True):
        assert _behaviour(ours) == _behaviour(theirs), ours


@light_dataclass(frozen=True, slots=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


def test_a_frozen_one_with_slots_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, (2,)))) == Kept(1, (2,))
