"""Listing what other packages add: one that cannot be used is complained of, and does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from castsmith.cli.outcome import complain


def usable(names: Iterable[str], load: Callable[[str], object]) -> tuple[list[str], bool]:
    """The names that `load` takes, and whether those are all."""
    from castsmith.numerics.extensions import ExtensionError

    given, good = list(dict.fromkeys(names)), list[str]()
    for name in given:
        try:
            load(name)
            good.append(name)
        except ExtensionError as error:
            complain(str(error))
    return good, len(good) == len(given)
