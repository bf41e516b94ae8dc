"""The arguments of castsmith cast."""

from __future__ import annotations

import re
from collections.abc import Sequence

from castsmith.cli.arguments import Commands, add_command, add_json, integer

_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "cast", "values:run_cast", "cast values as the ONNX standard defines")
    parser.spell_out = spell_out_negative
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the source type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    help_text = "the type of the values (default: int64 if all are integers, otherwise double)"
    parser.add_argument("--from", dest="source", metavar="TYPE", help=help_text)
    parser.add_argument("--to", metavar="TYPE", required=True, help="the type to cast to")
    parser.add_argument("--no-saturate", action="store_true", help="do not saturate (the attribute saturate = 0)")
    parser.add_argument(
        "--round-mode", metavar="MODE", help="rounding to float8e8m0: up (the default), down or nearest"
    )
    parser.add_argument(
        "--opset", metavar="N", type=integer(1), help="use the Cast of this opset (default: the newest)"
    )
    add_json(parser)


def spell_out_negative(words: Sequence[str]) -> list[str]:
    """Return the arguments with a blank before negative values: argparse takes -inf and -1e5 for options otherwise."""
    return [f" {word}" if _NEGATIVE.match(word) else word for word in words]


def given_texts(words: Sequence[str]) -> list[str]:
    """Return the values as given, without the blanks of `spell_out_negative`."""
    return [word.removeprefix(" ") if _NEGATIVE.match(word[1:]) else word for word in words]
