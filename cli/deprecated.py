"""Commands and options that have another name now: the former one still works, and says so on stderr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castsmith.cli.messages import remark

MOVED: Mapping[str, tuple[str, ...]] = {name: ("dev", name) for name in ("trunc", "promote", "conformance")}
"""Commands by their former name, with the words that stand for them now."""

_WRITING = {"--reference-data": "--link-data"}
RENAMED: Mapping[str, Mapping[str, str]] = {
    "bounds": {"--html": "--report"},
    "fit": _WRITING,
    "optimize": _WRITING,
    "convert": {**_WRITING, "--lower": "--force"},
    "verify": {"--accept": "--allow-type-change", "--time": "--time-limit"},
}
"""Options by command and former name, with their name now."""

RETIRED = frozenset(("--max-total-growth", "--fold-as", "--pytorch-scalar-promotion", "--u64-integer-promotion-target"))
"""Options that no help shows: `castsmith.optimize` has them, and the last two may stand in a file of --promotion."""


def renamed(command: str, words: Sequence[str], *, quiet: bool) -> list[str]:
    """Return the words with options under their names of now; say so for each that has another, unless quiet."""
    end = words.index("--") if "--" in words else len(words)
    return [*(_renamed(command, word, quiet) for word in words[:end]), *words[end:]]


def _renamed(command: str, word: str, quiet: bool) -> str:
    name, equals, value = word.partition("=")
    new = RENAMED.get(command, {}).get(name)
    if new is None:
        return word
    remark(f"{name} is now {new}.", quiet=quiet)
    return f"{new}{equals}{value}"
