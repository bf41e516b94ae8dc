"""Extensions by other packages: objects that they declare as entry points, as any Python package can.

    [project.entry-points."castsmith.targets"]
    acme-npu = "castsmith_acme:TARGET"

Entry points are searched only for a name that Castsmith does not define itself, and an object is imported only when it
is used: searching the installed packages takes milliseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from castsmith.numerics.errors import CastsmithError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

TARGETS, PROMOTIONS = "castsmith.targets", "castsmith.promotions"
PASSES, LOWERINGS = "castsmith.passes", "castsmith.lowerings"

Thing = TypeVar("Thing")


class ExtensionError(CastsmithError):
    """An installed package adds an unusable object; the message names the package and the entry point."""


@dataclass(frozen=True)
class Extension:
    """One entry point, and the package that declares it, with its version."""

    entry: EntryPoint
    package: str

    @property
    def name(self) -> str:
        return self.entry.name

    def __str__(self) -> str:
        return f"the entry point {self.name} = {self.entry.value} of {self.entry.group} in the package {self.package}"


def extensions(group: str) -> tuple[Extension, ...]:
    """Return the objects that installed packages add to the group, by name."""
    return _found(group, tuple(sys.path))


def extension(group: str, name: str, fit: Callable[[object], Thing]) -> Thing | None:
    """Return the object that a package adds to the group under that name, converted by `fit`, or None.

    Args:
        fit: Checks and converts the object; raises TypeError or ValueError, whose message is a clause with the reason.

    Raises:
        ExtensionError: Two packages add the name, the object cannot be imported, or `fit` refuses it.
    """
    candidates = [extension for extension in extensions(group) if extension.name == name]
    if len(candidates) > 1:
        packages = " and ".join(candidate.package for candidate in candidates)
        raise ExtensionError(f"{packages} both add {name!r} to {group}: uninstall one of them.")
    return loaded(candidates[0], fit) if candidates else None


def loaded(added: Extension, fit: Callable[[object], Thing]) -> Thing:
    """Return the object of the entry point, converted by `fit`."""
    try:
        return fit(added.entry.load())
    except Exception as error:  # importing a foreign module can raise anything
        raise ExtensionError(f"{added} cannot be used: {clause(error)}.") from error


def clause(error: Exception) -> str:
    """Return the first line of a foreign error, with its kind if that adds information."""
    text = str(error).strip().partition("\n")[0].rstrip(".?")
    return (
        text
        if text and isinstance(error, TypeError | ValueError | CastsmithError)
        else f"{type(error).__name__}: {text}"
    )


@cache
def _found(group: str, path: tuple[str, ...]) -> tuple[Extension, ...]:
    from importlib.metadata import entry_points

    del path  # another path has other packages
    named = [
        Extension(entry, f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "(unnamed)")
        for entry in entry_points(group=group)
    ]
    return tuple(sorted(named, key=lambda entry: entry.name))
