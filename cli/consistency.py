"""Options that contradict each other, or that mean nothing without another: refused before any work.

`require_consistent` and `require_needed` ask the tables below about the options that were given (`given_options`), by
the names that they have in the parser.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from castsmith.numerics.errors import OptionError
from castsmith.passes.core.options import flag_of


class Pair(NamedTuple):
    """Two options, by their names in the parser, and the reason why they do not go together."""

    one: str
    other: str
    reason: str


_VERIFY = "it is an option of the comparison"
_LOWERING = "it applies only to unsupported types"
_DEVICE = "it applies only to types that the device does not support"
_UNSAFE = "it is the type of an unsafe promotion"

_RULES = {"u64_integer_promotion_target": (("promote_unsafe", "promotion"), _UNSAFE)}

NEEDS: Mapping[str, Mapping[str, tuple[Sequence[str], str]]] = {
    "optimize": {
        "engine": (("verify",), _VERIFY),
        "inputs": (("verify",), _VERIFY),
        "dim": (("verify",), _VERIFY),
        "strict_device": (("target",), _DEVICE),
        "interface": (("target",), _LOWERING),
        "storage": (("target",), _LOWERING),
        "emit_functions": (("target",), "it applies only to conversions that are lowered for a target"),
        "vendor": (("target",), "it applies only to operators that a target runs"),
        "narrow_interface": (("narrow",), "it applies only to the types to narrow"),
        "range": (("narrow",), "it shows which values fit a narrower type"),
        **_RULES,
    },
    "convert": {"dim": (("measure", "max_error"), "it is the size of generated inputs")},
    "fit": {
        "dim": (("max_error", "plan"), "it is the size of generated inputs"),
        "inputs": (("max_error", "plan"), "the error is measured on them"),
    },
    "check": {
        **_RULES,
        "strict_device": (("target",), _DEVICE),
        "write_baseline": (("baseline",), "it names the file to write"),
    },
    "verify": _RULES,
    "bounds": _RULES,
    "promote": {
        **_RULES,
        "scalar": (("pytorch_scalar_promotion", "promotion"), "no other rule distinguishes scalars"),
    },
    "trunc": {
        "unsigned": (("out_scale",), "only version 2 has it"),
        "narrow": (("out_scale",), "only version 2 has it"),
    },
}
"""By command and option: the options of which one has to be given too, and the reason."""

_TEXT = "the first is for text, and JSON always has everything"
_MANY = "the cluster decides how many models it processes at a time"
_ZERO = "with --exit-zero no finding fails the run"
_CONFIG = Pair("config", "no_config", "one names the settings file, and the other ignores settings")
_DRY = "a report is a file, and a dry run writes none (--json prints it)"
_LOUD = Pair("quiet", "verbose", "one prints less, and the other more")
_GIVEN = "the first generates inputs, and the second provides them"

EXCLUDES: Mapping[str, Sequence[Pair]] = {
    "optimize": (
        _CONFIG,
        _LOUD,
        Pair("repair_only", "passes", "the first already selects the passes"),
        Pair("repair_only", "until", "the first already selects the passes"),
        Pair("repair_only", "target", "lowering does more than repair"),
        Pair("diff", "json", _TEXT),
        Pair("explain", "json", _TEXT),
        Pair("jobs", "dask", _MANY),
        Pair("dry_run", "report", _DRY),
        Pair("dry_run", "certificate", "a dry run writes no model that it could be about"),
        Pair("dim", "inputs", "the arrays have their own sizes"),
    ),
    "convert": (
        _CONFIG,
        _LOUD,
        Pair("diff", "json", _TEXT),
        Pair("explain", "json", _TEXT),
        Pair("jobs", "dask", _MANY),
        Pair("dry_run", "report", _DRY),
        Pair("measure", "inputs", _GIVEN),
    ),
    "fit": (
        _CONFIG,
        _LOUD,
        Pair("exact", "max_error", "the first allows no error"),
        Pair("diff", "json", _TEXT),
        Pair("explain", "json", _TEXT),
        Pair("jobs", "dask", _MANY),
        Pair("dry_run", "report", _DRY),
        Pair("dim", "inputs", "the arrays have their own sizes"),
    ),
    "check": (
        _CONFIG,
        Pair("fail_on", "exit_zero", _ZERO),
        Pair("all", "json", _TEXT),
    ),
    "diff": (Pair("full", "json", _TEXT),),
    "verify": (
        Pair("sets", "inputs", _GIVEN),
        Pair("seed", "inputs", _GIVEN),
        Pair("dim", "inputs", "the arrays have their own sizes"),
    ),
    "bounds": (Pair("all", "json", _TEXT),),
}
"""By command: options of which one alone can be given."""

_OF_TEXT = {"diff": frozenset({"full"}), "check": frozenset({"all"})}
"""By command: options that other formats than text do not look at."""


def given_options(parser: argparse.ArgumentParser, words: Sequence[str]) -> frozenset[str]:
    """Return the names of the options that the words give, which have been parsed, abbreviated ones too."""
    every = parser._actions  # pyright: ignore[reportPrivateUsage]  # argparse has no public access
    actions = {flag: action for action in every for flag in action.option_strings}
    names = set[str]()
    for word in words[: words.index("--") if "--" in words else None]:
        if word.startswith("--"):
            flag = word.partition("=")[0]
            flags = [flag] if flag in actions else [option for option in actions if option.startswith(flag)]
        else:
            flags = _short_flags(word, actions)
        names.update(actions[flag].dest for flag in flags)
    return frozenset(names)


def _short_flags(word: str, actions: Mapping[str, argparse.Action]) -> Iterator[str]:
    """Yield the options of one word such as -qj2, up to the first that takes a value."""
    for letter in word[1:] if word.startswith("-") else "":
        flag = f"-{letter}"
        if flag not in actions:
            return
        yield flag
        if actions[flag].nargs != 0:
            return


def require_needed(arguments: argparse.Namespace) -> None:
    """Raise OptionError if a given option lacks another that it needs, which settings may give too."""
    for name, (needed, reason) in NEEDS.get(arguments.command, {}).items():
        if name in arguments.given and not arguments.given & {*needed}:
            raise OptionError(f"{flag_of(name)} needs {' or '.join(map(flag_of, needed))}: {reason}.")


def require_consistent(arguments: argparse.Namespace) -> None:
    """Raise OptionError if two of the options that the command line gives contradict each other."""
    options, command = arguments.given, arguments.command
    if getattr(arguments, "output", "") is None and not arguments.dry_run and not getattr(arguments, "plan", False):
        sources = arguments.input
        way_out = f"name the file to write, or give --dry-run (see castsmith {command} --help)"
        if len(sources) > 1 and sources[-1].endswith(".onnx") and not os.path.exists(sources[-1]):
            way_out = f"castsmith {command} {' '.join(sources[:-1])} -o {sources[-1]}"
        raise OptionError(f"-o OUT is missing: {way_out}.")
    for pair in EXCLUDES.get(command, ()):
        if {pair.one, pair.other} <= options:
            raise OptionError(f"{flag_of(pair.one)} and {flag_of(pair.other)} exclude each other: {pair.reason}.")
    shape = getattr(arguments, "format", None)
    if getattr(arguments, "json", False) and shape not in (None, "json"):
        raise OptionError(f"--json and --format {shape} exclude each other: give one of them.")
    for name in options & _OF_TEXT.get(command, frozenset()):
        if shape not in (None, "text"):
            raise OptionError(f"{flag_of(name)} and --format {shape} exclude each other: the first is for text.")
    repeated = set(arguments.keep) & set(arguments.force) if command == "convert" else ()
    if repeated:
        raise OptionError(f"--keep and --force both name {min(repeated)}: give it to one of them.")
