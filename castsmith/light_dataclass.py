"""Dataclasses that are quick to define.

`dataclasses.dataclass` compiles up to seven methods of each class while a module is imported, which takes longer than
the rest of most modules. Here the same class compiles its `__init__` with its first instance, and nothing else.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)


@overload
def light_dataclass(cls: _Class, /) -> _Class: ...
@overload
def light_dataclass(
    *, frozen: bool = False, eq: bool = True, repr: bool = True, slots: bool = False, kw_only: bool = False
) -> Callable[[_Class], _Class]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def light_dataclass(cls: Any = None, /, **options: bool) -> Any:
    """Make a class a dataclass, as `dataclasses.dataclass` with the same options does."""
    return partial(_defined, **options) if cls is None else _defined(cls)


def _defined(cls: Any, /, *, frozen: bool = False, eq: bool = True, repr: bool = True, **options: bool) -> Any:
    own: dict[str, Any] = {**vars(cls)}
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # otherwise the standard library finds the signature
    frozen_base = any(getattr(each, "__dataclass_params__", _Params).frozen for each in cls.__mro__[1:])
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=frozen_base, **options)(cls)
    cls.__dataclass_params__.frozen = frozen
    methods: dict[str, Any] = {"__init__": _first_init(cls), "__signature__": _Signature(cls)}
    if "__init__" in own:
        del methods["__signature__"]
    if repr:
        methods["__repr__"] = _repr
    if eq:
        compared = _compared(cls)
        methods["__eq__"] = _eq(compared)
        if "__hash__" not in own or ("__eq__" in own and own["__hash__"] is None):
            cls.__hash__ = _hash(compared) if frozen else None
    for name in methods.keys() - own.keys():
        setattr(cls, name, methods[name])
    if frozen:
        cls.__setattr__, cls.__delattr__ = _setattr, _delattr
        if "__slots__" in vars(cls):
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
    head, keywords, body = ["self"], ["*"], list[str]()
    for each in dataclasses.fields(cls):
        name = each.name
        known[f"_{name}_default"], known[f"_{name}_factory"] = each.default, each.default_factory
        given, value = name, name
        if each.default_factory is not missing:
            given = f"{name}=_missing"
            value = f"_{name}_factory() if {name} is _missing else {name}" if each.init else f"_{name}_factory()"
        elif each.default is not missing:
            given, value = f"{name}=_{name}_default", name if each.init else f"_{name}_default"
        if each.init:
            (keywords if each.kw_only else head).append(given)
        if each.init or given != name:
            body.append(store.format(name, value))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    made: dict[str, Any] = {}
    words = ", ".join(head + keywords * (len(keywords) > 1))
    exec(f"def __init__({words}):\n " + "\n ".join(body or ["pass"]), known, made)
    init = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


class _Signature:
    """The signature of a class, for `inspect.signature` and `help`, made when it is asked for."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, cls: type) -> inspect.Signature:
        if cls is not self._cls:
            raise AttributeError("__signature__")  # of a class derived from it, whose constructor may be another
        missing: Any = dataclasses.MISSING
        made = list[inspect.Parameter]()
        for each in sorted(dataclasses.fields(self._cls), key=lambda each: bool(each.kw_only)):
            required = each.default is missing and each.default_factory is missing
            default = inspect.Parameter.empty if required else ... if each.default is missing else each.default
            kind = inspect.Parameter.KEYWORD_ONLY if each.kw_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
            if each.init:
                made.append(inspect.Parameter(each.name, kind, default=default, annotation=each.type))
        return inspect.Signature(made, return_annotation=None)


def _compared(cls: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that gives what is compared of an instance."""
    names = [each.name for each in dataclasses.fields(cls) if each.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda thing: tuple(getattr(thing, name) for name in names)


def _eq(compared: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return compared(self) == compared(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _hash(compared: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    return lambda self: hash(compared(self))


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
