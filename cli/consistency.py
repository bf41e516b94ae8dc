"""Options that contradict each other, or that mean nothing without another: refused before any work.

The tables name options as the parser does. They hold for every command that has the options, unless they name commands.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from castsmith.numerics.errors import OptionError
from castsmith.passes.core.options import flag_of


class Pair(NamedTuple):
    """Two options, the reason why they do not go together, and the commands of which this is true; () for all."""

    one: str
    other: str
    reason: str
    commands: tuple[str, ...] = ()


_VERIFY = (("verify",), "it is an option of the comparison")
_LOWERING = (("target",), "it applies only to unsupported types")
_SIZES = "it is the size of generated inputs"
_VERSION_2 = (("out_scale",), "only version 2 has it")

NEEDS: Mapping[str, tuple[Sequence[str], str]] = {
    "optimize engine": _VERIFY,
    "optimize inputs": _VERIFY,
    "optimize dim": _VERIFY,
    "optimize range": (("narrow",), "it shows which values fit a narrower type"),
    "convert dim": (("measure", "max_error"), _SIZES),
    "fit dim": (("max_error", "plan"), _SIZES),
    "fit inputs": (("max_error", "plan"), "the error is measured on them"),
    "trunc unsigned": _VERSION_2,
    "trunc narrow": _VERSION_2,
    "strict_device": (("target",), "it applies only to types that the device does not support"),
    "interface": _LOWERING,
    "storage": _LOWERING,
    "emit_functions": (("target",), "it applies only to conversions that are lowered for a target"),
    "vendor": (("target",), "it applies only to operators that a target runs"),
    "narrow_interface": (("narrow",), "it applies only to the types to narrow"),
    "u64_integer_promotion_target": (("promote_unsafe", "promotion"), "it is the type of an unsafe promotion"),
    "scalar": (("pytorch_scalar_promotion", "promotion"), "no other rule distinguishes scalars"),
    "write_baseline": (("baseline",), "it names the file to write"),
}
"""By option, or command and option: the options of which one has to be given too, and the reason."""

_TEXT = "the first is for text, and JSON always has everything"
_GIVEN = "the first generates inputs, and the second provides them"

EXCLUDES = (
    Pair("config", "no_config", "one names the settings file, and the other ignores settings"),
    Pair("quiet", "verbose", "one prints less, and the other more"),
    Pair("repair_only", "passes", "the first already selects the passes"),
    Pair("repair_only", "until", "the first already selects the passes"),
    Pair("repair_only", "target", "lowering does more than repair"),
    Pair("exact", "max_error", "the first allows no error"),
    Pair("diff", "json", _TEXT),
    Pair("explain", "json", _TEXT),
    Pair("full", "json", _TEXT),
    Pair("all", "json", _TEXT, ("check", "bounds")),
    Pair("jobs", "dask", "the cluster decides how many models it processes at a time"),
    Pair("dry_run", "report", "a report is a file, and a dry run writes none (--json prints it)"),
    Pair("dry_run", "certificate", "a dry run writes no model that it could be about"),
    Pair("fail_on", "exit_zero", "with --exit-zero no finding fails the run"),
    Pair("dim", "inputs", "the arrays have their own sizes"),
    Pair("measure", "inputs", _GIVEN),
    Pair("sets", "inputs", _GIVEN),
    Pair("seed", "inputs", _GIVEN),
)
"""Options of which one alone can be given."""

_OF_TEXT = {"diff": frozenset({"full"}), "check": frozenset({"all"})}
"""By command: options that other formats than text do not look at."""


def require_needed(arguments: argparse.Namespace) -> None:
    """Raise OptionError if a given option lacks another that it needs, which settings may give too."""
    for name in sorted(arguments.given):
        needed, reason = NEEDS.get(f"{arguments.command} {name}") or NEEDS.get(name) or ((), "")
        if needed and not arguments.given & {*needed}:
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
    for pair in EXCLUDES:
        if {pair.one, pair.other} <= options and (command in pair.commands or not pair.commands):
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
