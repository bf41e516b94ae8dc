"""Arguments that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, get_args

from castsmith.cli.deprecated import RETIRED
from castsmith.cli.exit_codes import meanings
from castsmith.cli.parser import Parser
from castsmith.numerics.errors import ElementTypeError
from castsmith.passes.core.options import Options, flag_of, option_info
from castsmith.verification.evaluate.names import EngineName

Commands = Any
"""The result of `add_subparsers`: argparse has no public name for it."""

_NO_COLOR = "print no colours (the same as setting NO_COLOR)"


def add_command(
    commands: Commands, name: str, run: str, summary: str, common: Sequence[str] = (), formats: Sequence[str] = ()
) -> Parser:
    """Return a parser for the command `name`, which `run` carries out; every command supports --json.

    Args:
        commands: The parsers of all commands.
        name: The name.
        run: The function that carries it out, as `module:function` in `castsmith.cli.commands`.
        summary: One phrase for the help.
        common: The options that --help shows; empty for all.
        formats: The formats beside text and JSON, which `format_of` chooses.
    """
    parser: Parser = commands.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
    parser.run = run
    parser.general.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS, help=_NO_COLOR)
    if formats:
        choices = ("text", "json", *formats)
        parser.add_argument("--format", choices=choices, help="output format (default: text)")
        parser.add_argument("--json", action="store_true", help="the same as --format json")
    else:
        parser.general.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.epilog = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in meanings(name).items()) + "."
    parser.common = common
    return parser


def integer(least: int) -> Callable[[str], int]:
    """Return an argparse type: an integer in ASCII digits, at least `least`, that fits in 64 bits."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or int(text) >= 2**63:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an integer")
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
        return int(text)

    return parse


def positive(text: str) -> float:
    """Return the number above 0. An argparse type."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number above 0")
    return number


def canonical_type(text: str) -> str:
    """Convert the name of an element type to its name in ONNX text; an unknown name is unchanged. An argparse type."""
    from castsmith.numerics.types import parse_type, type_name

    try:
        return type_name(parse_type(text))
    except ElementTypeError:
        return text


def add_options(parser: Any, names: Iterable[str]) -> None:
    """Add options of `castsmith.optimize`, made from the fields of `Options`; no help shows those that are retired.

    Args:
        parser: An argparse parser, or a group of one.
        names: The fields, in the order of the help.
    """
    for name in names:
        default, info = getattr(Options, name), option_info(Options, name)
        flag = flag_of(name)
        if default is True:
            parser.add_argument(flag.replace("--", "--no-"), action="store_true", help=f"do not {info.help}")
        elif default is False:
            parser.add_argument(flag, action="store_true", help=info.help)
        else:
            help_text = argparse.SUPPRESS if flag in RETIRED else info.help
            settings: dict[str, Any] = {"metavar": info.metavar, "help": help_text, "default": default}
            if info.choices:
                settings["choices"] = info.choices
            if isinstance(default, int):
                settings["type"] = integer(0)
            elif default is None or isinstance(default, str):
                settings |= {"type": text_value, "default": default or None}
            elif isinstance(default, tuple):
                settings |= {"type": canonical_type, "action": "append", "default": None}
            parser.add_argument(flag, **settings)


def given_options(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return the options that `add_options` parsed, by their names in `Options`."""
    options = {name: getattr(arguments, name, None) for name in names}
    options |= {name: False for name in names if getattr(arguments, f"no_{name}", False)}
    if (text := options.get("passes")) is not None:
        options["passes"] = split_passes(text)
    return {name: value for name, value in options.items() if value is not None}


def add_quiet(parser: Parser, result: str = "") -> None:
    """Add the option -q. result: What a command prints whose exit code says the same in short."""
    help_text = "print only errors, and what other options ask for"
    help_text = f"do not print {result}; the exit code is the result" if result else help_text
    parser.general.add_argument("-q", "--quiet", action="store_true", help=help_text)


def add_verbose(parser: Parser) -> None:
    """Add the option -v."""
    parser.general.add_argument("-v", "--verbose", action="store_true", help="print each step and its time on stderr")


def format_of(arguments: argparse.Namespace) -> str:
    """Return how the result is printed, as the options of `add_command` say."""
    return "json" if arguments.json else arguments.format or "text"


def text_value(text: str) -> str:
    """Return the text, which is not empty. An argparse type."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a value, not an empty one")
    return text


def add_settings(parser: Parser) -> None:
    """Add the options that say which file of settings is read."""
    help_text = "settings file (default: castsmith.toml or pyproject.toml, here or above)"
    parser.general.add_argument("--config", metavar="FILE.toml", type=text_value, help=help_text)
    parser.general.add_argument("--no-config", action="store_true", help="ignore settings files")


def add_jobs(parser: Any) -> None:
    """Add the option -j to a parser or a group of one."""
    parser.add_argument("-j", "--jobs", metavar="N", type=integer(1), help="process N models at a time")


def add_promotion(parser: argparse.ArgumentParser) -> None:
    """Add the options of ConvertPromoteTypes."""
    group = parser.add_argument_group("promotion of mixed operand types")
    group.add_argument(
        "--promotion",
        metavar="PRESET",
        type=text_value,
        help="rules of openvino (the default), torch, numpy, jax or tensorflow, half for mixed float16 models, or of a"
        " JSON file",
    )
    group.add_argument("--promote-unsafe", action="store_true", help="allow promotions that can lose precision")
    group.add_argument("--pytorch-scalar-promotion", action="store_true", help=argparse.SUPPRESS)
    group.add_argument("--u64-integer-promotion-target", metavar="TYPE", help=argparse.SUPPRESS)


_COMMA_OUTSIDE_BRACES = re.compile(r",(?![^{]*\})")


def split_passes(text: str) -> list[str]:
    """Split `a,b{x=1}` into `["a", "b{x=1}"]`; a comma within braces does not separate."""
    return [part.strip() for part in _COMMA_OUTSIDE_BRACES.split(text) if part.strip()]


def add_ranges(parser: Any) -> None:
    """Add the option that states the range of an input."""
    help_text = "range of an input, such as pixels=0:1"
    parser.add_argument("--range", metavar="NAME=LOW:HIGH", action="append", default=[], help=help_text)


def add_engine(parser: Any) -> None:
    """Add the option that chooses the engine to a parser or a group of one."""
    help_text = (
        "engine for everything except conversions: onnxruntime (default), openvino, or reference, which is slower"
    )
    parser.add_argument("--engine", choices=get_args(EngineName), default="onnxruntime", help=help_text)


def add_inputs(parser: Any) -> None:
    """Add the options that choose the inputs on which models are run."""
    parser.add_argument("--dim", metavar="NAME=SIZE", action="append", default=[], help="size of a symbolic dimension")
    parser.add_argument(
        "--shape",
        metavar="NAME=1x512",
        action="append",
        default=[],
        help="shape of an input, for dimensions without a name",
    )
    parser.add_argument(
        "--inputs",
        metavar="FILE.npz",
        help="use these inputs: `name`, or `set/name` for several sets; or a folder of such files",
    )
