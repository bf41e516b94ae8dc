"""The arguments of castsmith cast, trunc and promote."""

from __future__ import annotations

import re
from collections.abc import Sequence

from castsmith.cli.arguments import Commands, add_command, add_json, add_promotion, integer

_NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)


def add_to(commands: Commands) -> None:
    _add_cast(commands)
    _add_trunc(commands)
    _add_promote(commands)


def _add_cast(commands: Commands) -> None:
    parser = add_command(commands, "cast", "values:run_cast", "cast values as the ONNX standard defines it")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the source type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    parser.add_argument("--from", dest="source", metavar="TYPE", required=True, help="the type of the values")
    parser.add_argument("--to", metavar="TYPE", required=True, help="the type to cast to")
    parser.add_argument("--no-saturate", action="store_true", help="do not saturate, as the attribute saturate = 0")
    parser.add_argument(
        "--round-mode", metavar="MODE", help="rounding to float8e8m0: up (the default), down or nearest"
    )
    parser.add_argument(
        "--opset", metavar="N", type=integer(1), help="the opset whose Cast is computed (default: the newest)"
    )
    add_json(parser)


def _add_trunc(commands: Commands) -> None:
    parser = add_command(commands, "trunc", "values:run_trunc", "compute QONNX Trunc of values: drop their low bits")
    help_text = "a number (-1.5, 6e-8), inf, nan, or 0x and the code bits of the type"
    parser.add_argument("values", metavar="VALUE", nargs="+", help=help_text)
    parser.add_argument("--scale", metavar="X", default="1", help="the scale of the input (default: 1)")
    parser.add_argument("--zero-point", metavar="X", default="0", help="the zero point of the input (default: 0)")
    parser.add_argument("--in-bitwidth", metavar="N", type=integer(1), required=True, help="bits of the input")
    parser.add_argument("--out-bitwidth", metavar="N", type=integer(1), required=True, help="bits of the output")
    parser.add_argument("--out-scale", metavar="X", help="the scale of the output (version 2 only)")
    parser.add_argument(
        "--rounding-mode",
        metavar="MODE",
        default="FLOOR",
        help="ROUND, CEIL, FLOOR (the default), UP, DOWN, HALF_UP or HALF_DOWN",
    )
    parser.add_argument("--unsigned", action="store_true", help="version 2: clip to unsigned integers, as signed = 0")
    parser.add_argument("--narrow", action="store_true", help="version 2: clip to the narrow range, as narrow = 1")
    parser.add_argument(
        "--type", metavar="TYPE", default="float", help="type of the numbers: float (the default) or double"
    )
    add_json(parser)


def _add_promote(commands: Commands) -> None:
    parser = add_command(
        commands, "promote", "values:run_promote", "print the common type of operands of several types"
    )
    parser.add_argument("types", metavar="TYPE", nargs="+", help="an element type, such as float16, bf16 or i64")
    help_text = "indices of scalar operands, from 0 (used by --pytorch-scalar-promotion)"
    parser.add_argument("--scalar", metavar="INDEX", nargs="+", type=integer(0), default=[], help=help_text)
    add_promotion(parser)
    add_json(parser)


def spell_out(words: Sequence[str]) -> list[str]:
    """Return the arguments with a blank before negative values: argparse takes -inf and -1e5 for options otherwise."""
    if words[0] == "promote":
        return list(words)
    return [f" {word}" if _NEGATIVE.match(word) else word for word in words]


def given_texts(words: Sequence[str]) -> list[str]:
    """Return the values as given, without the blanks of `spell_out`."""
    return [word.removeprefix(" ") if _NEGATIVE.match(word[1:]) else word for word in words]
