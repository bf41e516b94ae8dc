"""Classes of fields that are quick to define.

`dataclasses.dataclass` compiles up to six methods of each class when a module is imported, which takes as long as the
rest of most modules. `light_dataclass` makes a dataclass too, with the same behaviour, but compiles `__init__` with the
first instance, and nothing else. Public classes are made by `dataclasses`, which tools for documentation know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

_Class = TypeVar("_Class", bound=type)


@dataclass_transform(field_specifiers=(dataclasses.field,))
def light_dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[_Class], _Class]:
    """Make a class a dataclass, as `dataclasses.dataclass` with the same options does."""
    return lambda cls: _define(cls, frozen=frozen, eq=eq, slots=slots)


def _define(cls: Any, *, frozen: bool, eq: bool, slots: bool) -> Any:
    own: set[str] = {*vars(cls)}  # pyright: ignore[reportUnknownArgumentType]
    own_hash = "__hash__" in own and not ("__eq__" in own and cls.__hash__ is None)
    frozen_base = any(getattr(base, "__dataclass_params__", _Params).frozen for base in cls.__mro__[1:])
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen_base, slots=slots)(cls)
    cls.__dataclass_params__.frozen = frozen
    if "__init__" not in own:
        cls.__init__ = _first_init(cls)
    if "__repr__" not in own:
        cls.__repr__ = _repr
    if eq and "__eq__" not in own:
        cls.__eq__ = _eq(_compared(cls))
    if eq and not own_hash:
        cls.__hash__ = _hash(_compared(cls)) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _setattr, _delattr
    if frozen and slots:
        cls.__getstate__, cls.__setstate__ = _getstate, _setstate
    return cls


class _Params:
    """The options of a class that is not a dataclass."""

    frozen = False


def _first_init(cls: Any) -> Callable[..., None]:
    """Return an `__init__` that compiles the right one when it is called first."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if cls.__init__ is __init__:
            cls.__init__ = _compiled_init(cls)
        cls.__init__(self, *args, **kwargs)

    return __init__


def _compiled_init(cls: Any) -> Callable[..., None]:
    """Compile the `__init__` of a dataclass, which stores its arguments even if the class is frozen."""
    missing: Any = dataclasses.MISSING
    known: dict[str, Any] = {"_missing": missing, "_set": object.__setattr__}
    store = "_set(self, {0!r}, {1})" if cls.__dataclass_params__.frozen else "self.{0} = {1}"
    head, body = ["self"], list[str]()
    for each in dataclasses.fields(cls):
        name = each.name
        known[f"_{name}_default"], known[f"_{name}_factory"] = each.default, each.default_factory
        optional = each.default is not missing or each.default_factory is not missing
        if each.init:
            default = f"=_{name}_default" if each.default is not missing else "=_missing" if optional else ""
            head.append(f"{name}{default}")
        value = f"_{name}_factory() if {name} is _missing else {name}" if each.init else f"_{name}_factory()"
        if each.default_factory is not missing:
            body.append(store.format(name, value))
        elif each.init or each.default is not missing:
            body.append(store.format(name, name if each.init else f"_{name}_default"))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    made: dict[str, Any] = {}
    exec(f"def __init__({', '.join(head)}):\n " + "\n ".join(body or ["pass"]), known, made)
    init = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _compared(cls: Any) -> Callable[[Any], Any]:
    """Return a function that gives what is compared of an instance."""
    names = [each.name for each in dataclasses.fields(cls) if each.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda thing: tuple(getattr(thing, name) for name in names)


def _eq(compared: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _hash(compared: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(compared(self))

    return __hash__


@recursive_repr("...")
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _setattr(_self: Any, name: str, _value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
