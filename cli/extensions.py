"""Extensions that other packages add, some of which may be unusable."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from castsmith.cli.messages import complain
from castsmith.numerics.extensions import ExtensionError


def usable(names: Iterable[str], load: Callable[[str], object]) -> tuple[list[str], bool]:
    """Return the names that `load` accepts, and True if all are accepted.

    An unusable extension is reported, and does not hide the others.
    """
    unique, good = list(dict.fromkeys(names)), list[str]()
    for name in unique:
        try:
            load(name)
            good.append(name)
        except ExtensionError as error:
            complain(str(error))
    return good, len(good) == len(unique)
